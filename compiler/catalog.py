"""What is known of the input: tables with their constraints, dimensions, sources, views.

Constraints are trusted, as Spark's and Databricks' are; `deltafold verify` checks what follows from them.
Names are looked up without regard to case, as Spark does, and keep the spelling of their declaration.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from sqlglot import exp

from .algebra import Column
from .source import Span


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Every row with no NULL among `columns` has exactly one partner in `table`."""

    columns: tuple[str, ...]
    table: str
    referenced: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What is declared of a table's changes: ALTER TABLE t SET CHANGES (…)."""

    insert_only: bool = False
    new_values_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Generated:
    """A column that is computed from others of its row: GENERATED ALWAYS AS (…)."""

    column: str
    expression: exp.Expr


@dataclass(frozen=True, slots=True)
class Statistics:
    """What is declared of a table's size: ALTER TABLE t SET STATISTICS (…)."""

    rows: int | None = None
    changes: int | None = None  # changed rows in a batch
    distinct: tuple[tuple[str, int], ...] = ()  # how many values a column has


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    columns: tuple[Column, ...]
    span: Span = field(compare=False)
    keys: tuple[tuple[str, ...], ...] = ()  # the primary key first, then UNIQUE ones
    foreign_keys: tuple[ForeignKey, ...] = ()
    checks: tuple[exp.Expr, ...] = ()  # bound; true or unknown in every row
    changes: Changes = Changes()
    generated: tuple[Generated, ...] = ()
    statistics: Statistics = Statistics()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> Column | None:
        return find_name(name, self.columns)


@dataclass(frozen=True, slots=True)
class Level:
    """A level of a dimension: the columns of `table` that identify it."""

    name: str
    table: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dimension:
    """CREATE DIMENSION: each level of a hierarchy determines the next one, child first."""

    name: str
    levels: tuple[Level, ...]
    hierarchies: tuple[tuple[str, tuple[str, ...]], ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Source:
    """CREATE SOURCE: tables that live in a database which changes on its own."""

    name: str
    type: str
    options: tuple[tuple[str, str], ...]
    tables: tuple[str, ...]
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Catalog:
    tables: tuple[Table, ...] = ()
    dimensions: tuple[Dimension, ...] = ()
    sources: tuple[Source, ...] = ()

    def table(self, name: str) -> Table | None:
        return find_name(name, self.tables)


class _HasName(Protocol):
    @property
    def name(self) -> str: ...


_Named = TypeVar("_Named", bound=_HasName)


def find_name(name: str, among: Iterable[_Named]) -> _Named | None:
    """The one with this name, without regard to case."""
    folded = name.casefold()
    return next((thing for thing in among if thing.name.casefold() == folded), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A remedy for a name that is not known: the nearest ones, or all of them where they are few."""
    by_folded = {k.casefold(): k for k in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=2)
    if close:
        return "did you mean " + " or ".join(by_folded[c] for c in close) + "?"
    listed = ", ".join(list(by_folded.values())[:12])
    return f"there is: {listed}" if listed else ""
