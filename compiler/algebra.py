"""The bag algebra that views, deltas and rewrites are written in.

Relations are bags of rows with named columns. Column names are unique within a relation, compared exactly
(the binder has already resolved SQL's case-insensitive names to one spelling). Scalar expressions are sqlglot's,
in the Spark dialect; a column reference in one is unqualified, quoted, and names a column of the input.

| operator | gives |
|---|---|
| Scan r            | a named relation: a table, `old(t)`, `new(t)`, `changes(t)`, `stored(v)`, `sd(v)`, a step |
| Select c          | the rows for which c is true (not false, not unknown) |
| Project {n := e}  | one row for each input row |
| Join c            | inner, left, full, semi, anti; c over the columns of both sides |
| GroupBy k {n := f}| one row a group, NULL a group of its own; without k, one row even of no rows |
| UnionAll          | all rows of all inputs, columns matched by name |

A *signed* relation has a column `__sign`, 1 for a row that is there (or comes), -1 for one that goes; it stands
for the bag in which the signs of equal rows are added up. Delta expressions are built of signed relations.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

SIGN = "__sign"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation: `type` is Spark's name of it, lower case, as in `decimal(10,2)`."""

    name: str
    type: str
    nullable: bool = True


class State(StrEnum):
    """Which rows of a relation are meant. The value is how the notation spells it."""

    CURRENT = ""  # as in the author's SQL
    OLD = "old"  # before the batch
    CHANGES = "changes"  # what the batch changes: signed
    NEW = "new"  # after the batch: old and changes together, signed
    STORED = "stored"  # a stored view before the batch, hidden columns included
    DELTA = "sd"  # a view's summary-delta
    STEP = "step"  # an earlier step of the same plan


@dataclass(frozen=True, slots=True)
class Ref:
    """A named relation in one of its states."""

    name: str
    state: State = State.CURRENT


@dataclass(frozen=True, slots=True)
class Item:
    """`name := expression`, one column of a projection."""

    name: str
    expression: exp.Expr


@dataclass(frozen=True, slots=True)
class Measure:
    """`name := function(argument)`, one aggregate of a GroupBy; `count` without argument is COUNT(*)."""

    name: str
    function: str
    argument: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Scan:
    ref: Ref
    schema: tuple[Column, ...]

    def __post_init__(self) -> None:
        _require_unique(self.names, self)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.schema)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Select:
    input: Rel
    condition: exp.Expr

    @property
    def names(self) -> tuple[str, ...]:
        return self.input.names

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class Project:
    input: Rel
    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        _require_unique(self.names, self)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.items)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    FULL = "full"
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True, slots=True)
class Join:
    """Rows of both sides side by side where the condition is true; semi and anti keep the left side's columns."""

    left: Rel
    right: Rel
    condition: exp.Expr
    kind: JoinKind = JoinKind.INNER

    def __post_init__(self) -> None:
        _require_unique(self.left.names + self.right.names, self)

    @property
    def names(self) -> tuple[str, ...]:
        if self.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return self.left.names
        return self.left.names + self.right.names

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class GroupBy:
    input: Rel
    keys: tuple[str, ...]
    measures: tuple[Measure, ...]

    def __post_init__(self) -> None:
        _require_unique(self.names, self)

    @property
    def names(self) -> tuple[str, ...]:
        return self.keys + tuple(measure.name for measure in self.measures)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class UnionAll:
    branches: tuple[Rel, ...]

    def __post_init__(self) -> None:
        if not self.branches:
            raise ValueError("UnionAll needs a branch")
        for branch in self.branches:
            if branch.names != self.names:
                raise ValueError(f"UnionAll of different columns: {self.names} and {branch.names}")

    @property
    def names(self) -> tuple[str, ...]:
        return self.branches[0].names

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return self.branches


Rel = Scan | Select | Project | Join | GroupBy | UnionAll


def _require_unique(names: tuple[str, ...], rel: object) -> None:
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{type(rel).__name__}: column named twice: {', '.join(twice)}")


def col(name: str) -> exp.Column:
    """A reference to a column of the input."""
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def scans(rel: Rel) -> tuple[Scan, ...]:
    """The leaves, left to right."""
    if isinstance(rel, Scan):
        return (rel,)
    return tuple(leaf for child in rel.inputs for leaf in scans(child))
