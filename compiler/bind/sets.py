"""UNION, EXCEPT and INTERSECT: columns match by position, with the names of the left side and wide enough types.

Without ALL, EXCEPT and INTERSECT are an anti and a semi join of the left side's distinct rows, NULLs taken as equal.
"""

from __future__ import annotations

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import ExceptAll, GroupBy, IntersectAll, Item, Join, JoinKind, Rel, UnionAll, col
from ..properties import schema
from ..prune import project
from ..types import common_type
from .correlation import Around
from .scope import Binder, Bound, Environment, distinct_names


def bind_set_operation(binder: Binder, node: exp.SetOperation, environment: Environment) -> Bound:
    """The rows of both sides of a set operation, taken together."""
    left, right = binder.query(node.this, environment), binder.query(node.expression, environment)
    for side in (left, right):
        if side.correlation.columns and isinstance(binder.outer, Around) and binder.outer.domain is None:
            raise binder.outer.needs_domain()
    if node.args.get("by_name"):
        right = _by_name(binder, node, left, right)
    if len(left.outputs) != len(right.outputs):
        message = f"the sides have {len(left.outputs)} and {len(right.outputs)} columns"
        raise binder.fail("DF0203", message, node.expression)
    sides = _alike(binder, node, left, right)
    return Bound(_combined(node, *sides), left.outputs, left.correlation)


def distinct(rel: Rel) -> Rel:
    return GroupBy(rel, rel.names, ())


def _by_name(binder: Binder, node: exp.SetOperation, left: Bound, right: Bound) -> Bound:
    places = {output.name.casefold(): at for at, output in enumerate(right.outputs)}
    wanted = [output.name.casefold() for output in left.outputs]
    if sorted(places) != sorted(wanted) or len(places) != len(right.outputs):
        raise binder.fail("DF0203", "BY NAME: the sides have different columns", node.expression)
    order = [places[name] for name in wanted] + list(range(len(right.outputs), len(right.rel.names)))
    items = tuple(Item(right.rel.names[at], col(right.rel.names[at])) for at in order)
    outputs = tuple(right.outputs[places[name]] for name in wanted)
    return Bound(project(right.rel, items), outputs, right.correlation)


def _alike(binder: Binder, node: exp.SetOperation, left: Bound, right: Bound) -> tuple[Rel, Rel]:
    """Both sides with the same names and types."""
    names = left.rel.names
    types = []
    for a, b in zip(schema(left.rel), schema(right.rel), strict=True):
        kind = common_type(a.type, b.type)
        if kind is None:
            raise binder.fail("DF0303", f"{a.name}: {a.type} and {b.type} have no common type", node.expression)
        types.append(kind)
    made = []
    for side in (left.rel, right.rel):
        items = []
        for name, column, kind in zip(names, schema(side), types, strict=True):
            value: exp.Expr = col(column.name)
            if column.type != kind:
                value = scalars.canonical(exp.cast(value, kind, dialect=scalars.DIALECT))
            items.append(Item(name, value))
        made.append(project(side, tuple(items)))
    return made[0], made[1]


def _combined(node: exp.SetOperation, left: Rel, right: Rel) -> Rel:
    once = bool(node.args.get("distinct"))
    match node:
        case exp.Union():
            branches = (*_branches(left), *_branches(right))
            return distinct(UnionAll(branches)) if once else UnionAll(branches)
        case exp.Except() if not once:
            return ExceptAll(left, right)
        case exp.Intersect() if not once:
            return IntersectAll(left, right)
    renamed = distinct_names((*left.names, *(f"right_{name}" for name in left.names)))[len(left.names) :]
    other = project(right, tuple(Item(new, col(old)) for new, old in zip(renamed, right.names, strict=True)))
    pairs = zip(left.names, renamed, strict=True)
    same = tuple(exp.NullSafeEQ(this=col(a), expression=col(b)) for a, b in pairs)
    kind = JoinKind.ANTI if isinstance(node, exp.Except) else JoinKind.SEMI
    return Join(distinct(left), other, scalars.canonical(scalars.conjunction(same)), kind)


def _branches(rel: Rel) -> tuple[Rel, ...]:
    return rel.branches if isinstance(rel, UnionAll) else (rel,)
