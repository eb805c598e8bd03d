"""Bags of rows: a row and how often it is there. A negative count stands for rows that go."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

Row = tuple[Any, ...]
Bag = dict[Row, int]


def bag(rows: Iterable[Row]) -> Bag:
    """Each of the rows once more."""
    made: Bag = {}
    for row in rows:
        made[row] = made.get(row, 0) + 1
    return made


def add(into: Bag, other: Mapping[Row, int], times: int = 1) -> Bag:
    """Changes `into` by the other bag, and gives it back. Rows that cancel out are gone."""
    for row, count in other.items():
        left = into.get(row, 0) + times * count
        if left:
            into[row] = left
        else:
            into.pop(row, None)
    return into


def total(bags: Iterable[Mapping[Row, int]]) -> Bag:
    made: Bag = {}
    for each in bags:
        add(made, each)
    return made


def project(rows: Mapping[Row, int], positions: tuple[int, ...]) -> Bag:
    made: Bag = {}
    for row, count in rows.items():
        short = tuple(row[i] for i in positions)
        made[short] = made.get(short, 0) + count
    return {row: count for row, count in made.items() if count}


def where(rows: Mapping[Row, int], test: Callable[[Row], bool]) -> Bag:
    return {row: count for row, count in rows.items() if test(row)}


def keys_of(rows: Iterable[Row], positions: tuple[int, ...]) -> frozenset[Row]:
    """The distinct values at these positions; a NULL among them joins nothing."""
    found = {tuple(row[i] for i in positions) for row in rows}
    return frozenset(key for key in found if None not in key)
