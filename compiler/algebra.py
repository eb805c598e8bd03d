"""The bag algebra that views, deltas and rewrites are written in.

Relations are bags of rows with named columns. Column names are unique within a relation, compared exactly
(the binder has already resolved SQL's case-insensitive names to one spelling). Scalar expressions are sqlglot's,
in the Spark dialect; a column reference in one is unqualified, quoted, and names a column of the input.

| operator | gives |
|---|---|
| Scan r            | a named relation: a table, `old(t)`, `new(t)`, `changes(t)`, `stored(v)`, `sd(v)`, a step |
| Values            | constant rows |
| Select c          | the rows for which c is true (not false, not unknown) |
| Project {n := e}  | one row for each input row |
| Expand {…} {…}    | for each input row, one row of each projection: grouping sets are GroupBy over Expand |
| Join c            | inner, left, full, semi, anti; c over the columns of both sides |
| GroupBy k {n := f}| one row a group, NULL a group of its own; without k, one row even of no rows |
| GPivot b {n := m @ (v)}   | one row a key, the key being what is neither b nor m; n holds m of the row where b is v |
| GUnpivot b {n := m @ (v)} | the other way: for each v a row with b = v and m = n; none where all m are NULL |
| Window {n := e}   | the input rows, each with values over its partition |
| Limit             | the first rows in an order |
| UnionAll          | all rows of all inputs, columns matched by position |
| ExceptAll, IntersectAll | the difference and the smaller of the two numbers of copies of each row |

The rest of SQL is written with these: DISTINCT is a GroupBy without measures, EXCEPT and INTERSECT are anti and semi
joins of a DISTINCT on null-safe equality, NOT IN an anti join on `(a = b) IS NOT FALSE`, a right join a left join.

GPivot has the meaning of SQL's PIVOT: a key none of whose rows has a listed value still gives a row. The paper's
GPIVOT, which drops such keys, is GPivot over Select. Key and b together are a key of the input, so no two rows
contend for a cell; without key columns there is one row, even of no rows. [gpivot-2005, section 3]

A *signed* relation has a column `__sign`, 1 for a row that is there (or comes), -1 for one that goes; it stands
for the bag in which the signs of equal rows are added up. Delta expressions are built of signed relations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    NEW = "new"  # after the batch
    SIGNED = "signed"  # after the batch, as old and changes together: signed
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
    """`name := function(arguments)`, one aggregate of a GroupBy; `count` without argument is COUNT(*)."""

    name: str
    function: str
    arguments: tuple[exp.Expr, ...] = ()
    distinct: bool = False

    @property
    def argument(self) -> exp.Expr | None:
        """The first argument: for most functions the only one."""
        return self.arguments[0] if self.arguments else None


@dataclass(frozen=True, slots=True)
class Cell:
    """`name := measure @ (values)`: the column `name` holds `measure` of the row whose pivot columns are `values`."""

    name: str
    measure: str
    values: tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class SortKey:
    expression: exp.Expr
    descending: bool
    nulls_first: bool


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
class Values:
    """Constant rows; without columns, as many empty rows."""

    schema: tuple[Column, ...]
    rows: tuple[tuple[exp.Expr, ...], ...]

    def __post_init__(self) -> None:
        _require_unique(self.names, self)
        if any(len(row) != len(self.schema) for row in self.rows):
            raise ValueError("Values: a row does not fit the columns")

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


@dataclass(frozen=True, slots=True)
class Expand:
    input: Rel
    branches: tuple[tuple[Item, ...], ...]

    def __post_init__(self) -> None:
        if not self.branches:
            raise ValueError("Expand needs a projection")
        _require_unique(self.names, self)
        for branch in self.branches:
            if tuple(item.name for item in branch) != self.names:
                raise ValueError("Expand: its projections have different columns")

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(item.name for item in self.branches[0])

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
class GPivot:
    input: Rel
    by: tuple[str, ...]
    cells: tuple[Cell, ...]

    def __post_init__(self) -> None:
        _require_cells(self.by, self.cells, self)
        if set(self.by) & {cell.measure for cell in self.cells}:
            raise ValueError("GPivot: a column is both pivoted by and a measure")
        missing = (set(self.by) | {cell.measure for cell in self.cells}) - set(self.input.names)
        if missing:
            raise ValueError(f"GPivot: its input has no column {', '.join(sorted(missing))}")
        _require_unique(self.names, self)

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns of the input that the cells hold, in the order of the cells."""
        return tuple(dict.fromkeys(cell.measure for cell in self.cells))

    @property
    def keys(self) -> tuple[str, ...]:
        spread = {*self.by, *self.measures}
        return tuple(name for name in self.input.names if name not in spread)

    @property
    def names(self) -> tuple[str, ...]:
        return self.keys + tuple(cell.name for cell in self.cells)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class GUnpivot:
    """For each input row and each of the cells' value lists one row; a measure without a cell there is NULL."""

    input: Rel
    by: tuple[str, ...]
    cells: tuple[Cell, ...]
    include_nulls: bool = False

    def __post_init__(self) -> None:
        _require_cells(self.by, self.cells, self)
        missing = {cell.name for cell in self.cells} - set(self.input.names)
        if missing:
            raise ValueError(f"GUnpivot: its input has no column {', '.join(sorted(missing))}")
        _require_unique(self.names, self)

    @property
    def measures(self) -> tuple[str, ...]:
        """The columns that the cells are gathered in, in the order of the cells."""
        return tuple(dict.fromkeys(cell.measure for cell in self.cells))

    @property
    def groups(self) -> tuple[tuple[Cell, ...], ...]:
        """The cells of each output row, in the order in which their values first appear."""
        groups: dict[tuple[exp.Expr, ...], list[Cell]] = {}
        for cell in self.cells:
            groups.setdefault(cell.values, []).append(cell)
        return tuple(tuple(cells) for cells in groups.values())

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that are carried along."""
        gathered = {cell.name for cell in self.cells}
        return tuple(name for name in self.input.names if name not in gathered)

    @property
    def names(self) -> tuple[str, ...]:
        return self.keys + self.by + self.measures

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)


def _require_cells(by: tuple[str, ...], cells: tuple[Cell, ...], rel: object) -> None:
    kind = type(rel).__name__
    if not by or not cells:
        raise ValueError(f"{kind} needs a column to pivot by and a cell")
    for cell in cells:
        if len(cell.values) != len(by):
            raise ValueError(f"{kind}: cell {cell.name} has {len(cell.values)} values for {len(by)} columns")
    places = [(cell.measure, cell.values) for cell in cells]
    if len(set(places)) != len(places):
        raise ValueError(f"{kind}: two cells hold the same measure at the same values")


@dataclass(frozen=True, slots=True)
class Window:
    """The columns of the input and new ones; each expression is a call with OVER, all of the same PARTITION BY."""

    input: Rel
    items: tuple[Item, ...]

    def __post_init__(self) -> None:
        _require_unique(self.names, self)
        partitions = {tuple(_partition_of(item)) for item in self.items}
        if len(partitions) != 1:
            raise ValueError("Window: its calls do not share one PARTITION BY of columns")

    @property
    def partition(self) -> tuple[str, ...]:
        return tuple(_partition_of(self.items[0]))

    @property
    def names(self) -> tuple[str, ...]:
        return self.input.names + tuple(item.name for item in self.items)

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)


def _partition_of(item: Item) -> list[str]:
    if not isinstance(item.expression, exp.Window):
        raise ValueError(f"Window: {item.name} is not a call with OVER")
    columns = item.expression.args.get("partition_by") or []
    if not all(isinstance(column, exp.Column) for column in columns):
        raise ValueError(f"Window: {item.name} is not partitioned by columns")
    return [column.name for column in columns]


@dataclass(frozen=True, slots=True)
class Limit:
    """`count` rows after the first `offset` ones in an order; all of them without a count."""

    input: Rel
    order: tuple[SortKey, ...]
    count: int | None
    offset: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        return self.input.names

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.input,)


@dataclass(frozen=True, slots=True)
class UnionAll:
    branches: tuple[Rel, ...]

    def __post_init__(self) -> None:
        if not self.branches:
            raise ValueError("UnionAll needs a branch")
        _require_same_columns(self.branches, self)

    @property
    def names(self) -> tuple[str, ...]:
        return self.branches[0].names

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return self.branches


@dataclass(frozen=True, slots=True)
class ExceptAll:
    """Each row as often as the left side has it more often than the right one: monus."""

    left: Rel
    right: Rel

    def __post_init__(self) -> None:
        _require_same_columns(self.inputs, self)

    @property
    def names(self) -> tuple[str, ...]:
        return self.left.names

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)


@dataclass(frozen=True, slots=True)
class IntersectAll:
    """Each row as often as both sides have it."""

    left: Rel
    right: Rel

    def __post_init__(self) -> None:
        _require_same_columns(self.inputs, self)

    @property
    def names(self) -> tuple[str, ...]:
        return self.left.names

    @property
    def inputs(self) -> tuple[Rel, ...]:
        return (self.left, self.right)


Rel = (
    Scan
    | Values
    | Select
    | Project
    | Expand
    | Join
    | GroupBy
    | GPivot
    | GUnpivot
    | Window
    | Limit
    | UnionAll
    | ExceptAll
    | IntersectAll
)


def _require_unique(names: tuple[str, ...], rel: object) -> None:
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{type(rel).__name__}: column named twice: {', '.join(twice)}")


def _require_same_columns(inputs: tuple[Rel, ...], rel: object) -> None:
    for other in inputs[1:]:
        if other.names != inputs[0].names:
            raise ValueError(f"{type(rel).__name__} of different columns: {inputs[0].names} and {other.names}")


def col(name: str) -> exp.Column:
    """A reference to a column of the input."""
    return exp.Column(this=exp.Identifier(this=name, quoted=True))


def scans(rel: Rel) -> tuple[Scan, ...]:
    """The named relations that are read, left to right."""
    if isinstance(rel, Scan):
        return (rel,)
    return tuple(leaf for child in rel.inputs for leaf in scans(child))


def with_inputs(rel: Rel, inputs: tuple[Rel, ...]) -> Rel:
    """The same operator over other inputs; the same object over the same ones."""
    if all(new is old for new, old in zip(inputs, rel.inputs, strict=True)):
        return rel
    match rel:
        case Scan() | Values():
            return rel
        case Join() | ExceptAll() | IntersectAll():
            return replace(rel, left=inputs[0], right=inputs[1])
        case UnionAll():
            return UnionAll(inputs)
        case _:
            return replace(rel, input=inputs[0])
