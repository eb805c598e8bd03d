"""The part of a relation that a change affects: a semi-join with affected keys, moved down to the tables.

`restrict` keeps the rows of a relation whose columns are, NULL equal to NULL, those of a row of `affected`. The
semi-join goes as far down as its columns are carried along unchanged:

| operator | goes below it |
|---|---|
| Select, UnionAll, ExceptAll, IntersectAll | always: a row stays or goes by its own columns |
| Project           | for columns that are columns below |
| inner Join        | to each side for its columns, and across an equality to the other side |
| left, semi, anti  | to the left side, and across an equality to the right one |
| GroupBy, GPivot, Window | for grouping, key, partitioning columns: whole groups stay or go |
| GUnpivot          | for columns that are carried along |
| Expand, Limit, full Join | never |

Where only a part of the columns goes down, the rows that are kept are too many; the whole semi-join then stays above
as well. [maintenance-expressions-1996, section 4.3]
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from . import scalar
from .algebra import (
    ExceptAll,
    GPivot,
    GroupBy,
    GUnpivot,
    IntersectAll,
    Item,
    Join,
    JoinKind,
    Project,
    Rel,
    Select,
    UnionAll,
    Window,
    col,
    with_inputs,
)

On = tuple[tuple[str, str], ...]  # a column of the relation, the column of the affected keys that it is compared with
PREFIX = "__affected_"
ANY = "__any"


def affected_names(names: Iterable[str]) -> On:
    """The columns of affected keys for columns of a relation."""
    return tuple((name, PREFIX + name) for name in names)


def keys_of(rel: Rel, on: On) -> Rel:
    """The affected keys themselves, each once; without columns, one row if there is any change."""
    if not on:
        return GroupBy(Project(rel, (Item(ANY, exp.Literal.number(1)),)), (ANY,), ())
    columns = dict(on)  # one may be compared with several
    items = tuple(Item(key, col(name)) for name, key in columns.items())
    return GroupBy(Project(rel, items), tuple(columns.values()), ())


def semi_join(rel: Rel, on: On, affected: Rel) -> Rel:
    """The rows with affected keys; without columns, all rows if anything is affected."""
    return Join(rel, affected, null_safe(on), JoinKind.SEMI)


def null_safe(on: On) -> exp.Expr:
    return scalar.conjunction(tuple(exp.NullSafeEQ(this=col(a), expression=col(b)) for a, b in on))


def restrict(rel: Rel, on: On, affected: Rel) -> Rel:
    """The rows of `rel` with affected keys, the semi-join as low as it goes."""
    if not on:
        return semi_join(rel, on, affected)
    below = _below(rel, on)
    inputs = [restrict(r, o, affected) if o else r for r, o in zip(rel.inputs, below, strict=True)]
    rest = with_inputs(rel, tuple(inputs))
    return rest if below and _is_whole(rel, on, below) else semi_join(rest, on, affected)


def _below(rel: Rel, on: On) -> list[On]:
    """What of the semi-join can be done in each input."""
    match rel:
        case Select():
            return [on]
        case UnionAll() | ExceptAll() | IntersectAll():
            return [on for _ in rel.inputs]
        case Project(_, items):
            plain = {item.name: item.expression.name for item in items if isinstance(item.expression, exp.Column)}
            return [tuple((plain[name], key) for name, key in on if name in plain)]
        case GroupBy(_, keys, _):
            return [_among(on, keys)]
        case GPivot() | GUnpivot():
            return [_among(on, rel.keys)]
        case Window():
            return [_among(on, rel.partition)]
        case Join(left, right, condition, kind) if kind is not JoinKind.FULL:
            on_left = _among(on, left.names)
            on_right = _among(on, right.names) if kind is JoinKind.INNER else ()
            pairs = equated(condition, left, right)
            across = tuple((b, key) for a, b in pairs for name, key in on_left if name == a)
            back = tuple((a, key) for a, b in pairs for name, key in on_right if name == b)
            return [_distinct((*on_left, *back)), _distinct((*on_right, *across))]
    return [() for _ in rel.inputs]


def _is_whole(rel: Rel, on: On, below: list[On]) -> bool:
    """Whether no semi-join is left to do above."""
    if isinstance(rel, Join):
        return any(set(on) <= set(done) for done in below)
    return all(len(done) == len(on) for done in below)


def _among(on: On, names: tuple[str, ...]) -> On:
    return tuple((name, key) for name, key in on if name in names)


def _distinct(on: On) -> On:
    return tuple(dict.fromkeys(on))


def equated(condition: exp.Expr, left: Rel, right: Rel) -> tuple[tuple[str, str], ...]:
    """The pairs of columns, one of each side, that the condition makes equal."""
    pairs = []
    for part in scalar.conjuncts(condition):
        match part:
            case (
                exp.EQ(this=exp.Column() as a, expression=exp.Column() as b)
                | exp.NullSafeEQ(this=exp.Column() as a, expression=exp.Column() as b)
            ):
                if a.name in left.names and b.name in right.names:
                    pairs.append((a.name, b.name))
                elif b.name in left.names and a.name in right.names:
                    pairs.append((b.name, a.name))
    return tuple(pairs)
