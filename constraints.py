"""Declared constraints, which the compiler trusts, checked: NOT NULL, keys, foreign keys; in memory and on Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .compiler.catalog import Catalog, ForeignKey, Table
from .compiler.scalar import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Row = tuple[Any, ...]
SHOWN = 3  # rows named of each broken constraint


def broken(catalog: Catalog, database: dict[str, list[Row]]) -> list[str]:
    """What is broken in these rows, a line each."""
    found = []
    for table in catalog.tables:
        rows = database.get(table.name, [])
        for column, place in zip(table.columns, range(len(table.columns)), strict=True):
            if not column.nullable:
                found += _said(table, f"{column.name} is NOT NULL", [row for row in rows if row[place] is None])
        for key in table.keys:
            counts = Counter(value for value in _values(table, key, rows) if None not in value)
            found += _said(table, _unique(key), [value for value, count in counts.items() if count > 1])
        for foreign_key in table.foreign_keys:
            other = catalog.table(foreign_key.table)
            assert other is not None
            there = set(_values(other, foreign_key.referenced, database.get(other.name, [])))
            values = _values(table, foreign_key.columns, rows)
            lonely = [value for value in values if None not in value and value not in there]
            found += _said(table, _references(foreign_key), lonely)
    return found


def broken_on_spark(catalog: Catalog, tables: dict[str, DataFrame]) -> list[str]:
    """What is broken in these tables, a line each."""
    found = []
    for name, frame in tables.items():
        table = catalog.table(name)
        assert table is not None
        for column in table.columns:
            if not column.nullable:
                found += _taken(table, f"{column.name} is NOT NULL", frame.where(f"{quote(column.name)} IS NULL"))
        for key in table.keys:
            columns = [quote(column) for column in key]
            counted = frame.where(_all_there(key)).groupBy(*columns).count()
            found += _taken(table, _unique(key), counted.where("`count` > 1").select(*columns))
        for foreign_key in table.foreign_keys:
            other = tables.get(foreign_key.table)
            if other is not None:
                found += _taken(table, _references(foreign_key), _lonely(frame, other, foreign_key))
    return found


def _lonely(frame: DataFrame, other: DataFrame, foreign_key: ForeignKey) -> DataFrame:
    """The values of a foreign key that have no partner."""
    names = [quote(column) for column in foreign_key.columns]
    values = frame.where(_all_there(foreign_key.columns)).select(*names).distinct()
    there = other.select(*(quote(column) for column in foreign_key.referenced)).toDF(*foreign_key.columns)
    return values.join(there, list(foreign_key.columns), "left_anti")


def _all_there(columns: Iterable[str]) -> str:
    return " AND ".join(f"{quote(column)} IS NOT NULL" for column in columns)


def _values(table: Table, columns: tuple[str, ...], rows: list[Row]) -> list[Row]:
    places = [table.names.index(name) for name in columns]
    return [tuple(row[place] for place in places) for row in rows]


def _unique(key: tuple[str, ...]) -> str:
    return f"({', '.join(key)}) is a key"


def _references(foreign_key: ForeignKey) -> str:
    referenced = f"{foreign_key.table} ({', '.join(foreign_key.referenced)})"
    return f"({', '.join(foreign_key.columns)}) references {referenced}"


def _taken(table: Table, constraint: str, wrong: DataFrame) -> list[str]:
    return _said(table, constraint, [tuple(row) for row in wrong.limit(SHOWN + 1).collect()])


def _said(table: Table, constraint: str, wrong: list[Row]) -> list[str]:
    if not wrong:
        return []
    rows = ", ".join("(" + ", ".join("NULL" if v is None else str(v) for v in row) + ")" for row in wrong[:SHOWN])
    return [f"{table.name}: {constraint}, but not for {rows}{' and more' if len(wrong) > SHOWN else ''}"]
