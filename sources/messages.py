"""What a view site and its sources tell each other. One code handles them, over a simulated network or a real one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..compiler.joingraph import Node
from .bag import Bag, Row


@dataclass(frozen=True)
class Change:
    """What a transaction did to one table: its rows that come and go, in the order of `columns`."""

    relation_version: int  # of the base relation, after it
    columns: tuple[str, ...]
    rows: Mapping[Row, int]


@dataclass(frozen=True)
class Update:
    """Source to view site: a transaction has committed."""

    source: str
    version: int  # of the data source, after it
    changes: Mapping[str, Change]  # by table


@dataclass(frozen=True)
class Ask:
    """One node of a sub-query: its rows whose `columns` are among `keys`, or join rows of `parent`.

    `since` is the base relation version that the answer is needed at. What was deleted of the parent after that still
    counts as its rows: it is put back when the answer is compensated, and then its partners are needed.
    """

    node: Node
    columns: tuple[str, ...]
    since: int
    keys: frozenset[Row] = frozenset()
    parent: str | None = None
    parent_columns: tuple[str, ...] = ()


@dataclass(frozen=True)
class Query:
    """View site to source: a sub-query. Asked again under the same number, it is the same sub-query."""

    number: int
    source: str
    asks: tuple[Ask, ...]


@dataclass(frozen=True)
class Answer:
    """Source to view site: the rows of each node asked for, with the version of each table they were read at."""

    number: int
    source: str
    versions: Mapping[str, int]  # queried version numbers, by table
    rows: Mapping[str, Bag]  # by node


@dataclass(frozen=True)
class ReadLog:
    """View site to source: send all updates after this data source version again."""

    source: str
    after: int


@dataclass(frozen=True)
class Apply:
    """View site to the stored core: the change to make, and the versions that it then reflects."""

    rows: Mapping[Row, int]
    versions: Mapping[str, int]  # data source version, by source
    refreshed: Mapping[str, int]  # base relation version, by node


Incoming = Update | Answer
Outgoing = Query | ReadLog | Apply
