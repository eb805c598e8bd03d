"""Siblings: relations written as separate subqueries that are the same rows seen twice.

`fuse` finds a relation of which both are projections. It goes down both sides at once: equal scans fuse; so do
selections by the same condition, groupings by the same columns, pivots by the same columns with the same key, joins on
the same condition. Their measures and cells are put together. That two pivots fuse is the paper's multicolumn pivot;
since every key gives a row here, they need not even list the same values. [gpivot-2005, eq. 5]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Cell, GPivot, GroupBy, Item, Join, JoinKind, Measure, Project, Rel, Scan, Select, col
from .engine import Outcome, Refused
from .facts import Facts
from .shapes import apart, columns, fresh, over, source_of, substituted


@dataclass(frozen=True, slots=True)
class Fused:
    """One relation, and the columns of two others as expressions over it."""

    rel: Rel
    left: Mapping[str, exp.Expr]
    right: Mapping[str, exp.Expr]


def fuse(left: Rel, right: Rel) -> Fused | None:
    """A relation of which both are projections, row by row; None where none is found."""
    if left == right:
        same = {name: col(name) for name in left.names}
        return Fused(left, same, same)
    match left, right:
        case Project(), _:
            below = fuse(left.input, right)
            return below and Fused(below.rel, _over(left.items, below.left), below.right)
        case _, Project():
            below = fuse(left, right.input)
            return below and Fused(below.rel, below.left, _over(right.items, below.right))
        case Scan(), Scan() if left.ref == right.ref:
            names = {column.name: column for column in (*left.schema, *right.schema)}
            merged = replace(left, schema=tuple(names.values()))
            return Fused(merged, {n: col(n) for n in left.names}, {n: col(n) for n in right.names})
        case Select(), Select():
            below = fuse(left.input, right.input)
            if below and _same(left.condition, below.left, right.condition, below.right):
                condition = substituted(left.condition, below.left)
                return Fused(Select(below.rel, condition), below.left, below.right)
        case Join(), Join() if left.kind == right.kind:
            return _fuse_joins(left, right)
        case GroupBy(), GroupBy():
            return _fuse_groups(left, right)
        case GPivot(), GPivot():
            return _fuse_pivots(left, right)
    return None


def _over(items: tuple[Item, ...], below: Mapping[str, exp.Expr]) -> dict[str, exp.Expr]:
    return {item.name: substituted(item.expression, below) for item in items}


def _same(a: exp.Expr, left: Mapping[str, exp.Expr], b: exp.Expr, right: Mapping[str, exp.Expr]) -> bool:
    return substituted(a, left) == substituted(b, right)


def _fuse_joins(left: Join, right: Join) -> Fused | None:
    first, second = fuse(left.left, right.left), fuse(left.right, right.right)
    if first is None or second is None:
        return None
    moved, new = apart(second.rel, first.rel.names)
    renamed = {name: col(to) for name, to in new.items()}
    ours = {**first.left, **{n: scalar.substitute(e, renamed) for n, e in second.left.items()}}
    theirs = {**first.right, **{n: scalar.substitute(e, renamed) for n, e in second.right.items()}}
    if not _same(left.condition, ours, right.condition, theirs):
        return None
    condition = substituted(left.condition, ours)
    rel = Join(first.rel, moved, condition, left.kind)
    return Fused(rel, {n: ours[n] for n in left.names}, {n: theirs[n] for n in right.names})


def _fuse_groups(left: GroupBy, right: GroupBy) -> Fused | None:
    below = fuse(left.input, right.input)
    if below is None:
        return None
    ours = {key: source_of(below.left[key]) for key in left.keys}
    theirs = {key: source_of(below.right[key]) for key in right.keys}
    if None in {*ours.values(), *theirs.values()} or set(ours.values()) != set(theirs.values()):
        return None
    keys = tuple(dict.fromkeys(name for name in ours.values() if name is not None))
    measures: dict[Measure, str] = {}

    def column(measure: Measure, visible: Mapping[str, exp.Expr]) -> exp.Expr:
        arguments = tuple(substituted(a, visible) for a in measure.arguments)
        made = Measure("", measure.function, arguments, measure.distinct)
        if made not in measures:
            measures[made] = fresh(measure.name, {*keys, *measures.values()})
        return col(measures[made])

    seen_left: dict[str, exp.Expr] = {key: col(name or "") for key, name in ours.items()}
    seen_left |= {m.name: column(m, below.left) for m in left.measures}
    seen_right: dict[str, exp.Expr] = {key: col(name or "") for key, name in theirs.items()}
    seen_right |= {m.name: column(m, below.right) for m in right.measures}
    rel = GroupBy(below.rel, keys, tuple(replace(m, name=name) for m, name in measures.items()))
    return Fused(rel, seen_left, seen_right)


def _fuse_pivots(left: GPivot, right: GPivot) -> Fused | None:
    below = fuse(left.input, right.input)
    if below is None:
        return None
    sources_left = {name: source_of(below.left[name]) for name in left.input.names}
    sources_right = {name: source_of(below.right[name]) for name in right.input.names}
    if None in {*sources_left.values(), *sources_right.values()}:
        return None
    by = tuple(sources_left[name] or "" for name in left.by)
    keys = {sources_left[name] for name in left.keys}
    if by != tuple(sources_right[name] or "" for name in right.by):
        return None
    if keys != {sources_right[name] for name in right.keys} or len(keys) != len(left.keys):
        return None
    cells: dict[Cell, str] = {}

    def column(cell: Cell, sources: Mapping[str, str | None]) -> exp.Expr:
        place = Cell("", sources[cell.measure] or "", cell.values)
        if place not in cells:
            cells[place] = fresh(cell.name, {name or "" for name in keys} | set(cells.values()))
        return col(cells[place])

    seen_left: dict[str, exp.Expr] = {key: col(sources_left[key] or "") for key in left.keys}
    seen_left |= {cell.name: column(cell, sources_left) for cell in left.cells}
    seen_right: dict[str, exp.Expr] = {key: col(sources_right[key] or "") for key in right.keys}
    seen_right |= {cell.name: column(cell, sources_right) for cell in right.cells}
    made = tuple(replace(place, name=name) for place, name in cells.items())
    needed = {*by, *keys, *(cell.measure for cell in made)}
    if {cell.measure for cell in made} & {*by, *keys}:
        return None
    input = over(below.rel, (), columns(name for name in below.rel.names if name in needed))
    return Fused(GPivot(input, by, made), seen_left, seen_right)


def join_siblings(rel: Rel, facts: Facts) -> Outcome:
    """Two views of the same rows, joined on their key, are one view of them.

    Before:
        Join [region = r AND store = s]
          GPivot [month] { jan := qty @ ('jan') }
            Project { region, store, month, qty }
              Scan priced_sales
          Project { r := region, s := store, jan_price := jan, feb_price := feb }
            GPivot [month] { jan := price @ ('jan'), feb := price @ ('feb') }
              Project { region, store, month, price }
                Scan priced_sales
    After:
        Project { region, store, jan, r := region, s := store, jan_price := jan_2, feb_price := feb }
          GPivot [month] { jan := qty @ ('jan'), jan_2 := price @ ('jan'), feb := price @ ('feb') }
            Scan priced_sales

    Sound because each row meets itself and no other one. Provided
    1. the join equates the columns of a key, each with itself,
    2. it equates them null-safely, or none of them can be NULL: a plain equality drops NULL,
    3. it is not a semi or anti join, and has no other condition unless it is inner.
    [gpivot-2005, eq. 5, for pivots]
    """
    match rel:
        case Join(left=left, right=right, condition=condition, kind=kind) if _looks_like_siblings(left, right):
            fused = fuse(left, right)
            if fused is None:
                return None
            if kind in (JoinKind.SEMI, JoinKind.ANTI):
                return Refused(f"a {kind} join keeps one side only")
            visible = {**fused.left, **fused.right}
            not_null = facts.properties(fused.rel).not_null
            equated, rest = set(), []
            for part in scalar.conjuncts(condition):
                name = _with_itself(part, left, visible)
                if name is None:
                    rest.append(substituted(part, visible))
                    continue
                if name not in not_null and isinstance(part, exp.EQ):
                    return Refused(f"{name} may be NULL, and the join drops NULLs: write <=> instead of =")
                equated.add(name)
            if not facts.has_key_within(fused.rel, equated):
                return Refused("the join does not equate the columns of a key of the rows that both sides show")
            if [part for part in rest if part != scalar.TRUE] and kind is not JoinKind.INNER:
                return Refused(f"a {kind} join with a further condition fills up rows")
            return over(fused.rel, tuple(rest), tuple(Item(name, visible[name]) for name in rel.names))
    return None


def _with_itself(part: exp.Expr, left: Rel, visible: Mapping[str, exp.Expr]) -> str | None:
    """The column of the fused relation that the condition equates with itself across the join."""
    match part:
        case (
            exp.EQ(this=exp.Column() as a, expression=exp.Column() as b)
            | exp.NullSafeEQ(this=exp.Column() as a, expression=exp.Column() as b)
        ):
            across = (a.name in left.names) != (b.name in left.names)
            return source_of(visible[a.name]) if across and visible[a.name] == visible[b.name] else None
    return None


def _looks_like_siblings(left: Rel, right: Rel) -> bool:
    """A cheap look before `fuse`: both sides end, below their projections, in the same operator on one relation."""
    return _outline(left) == _outline(right)


def _outline(rel: Rel) -> tuple[object, ...]:
    while isinstance(rel, Project):
        rel = rel.input
    if isinstance(rel, Scan):
        return (rel.ref,)
    return (type(rel), *(_outline(child) for child in rel.inputs))
