"""The top of a view: Select and Project above an operator, as one projection and one condition over it."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from . import scalar
from .algebra import Item, Project, Rel, Select, col


@dataclass(frozen=True, slots=True)
class Top:
    items: tuple[Item, ...]  # the public columns, over the columns of `below`
    condition: exp.Expr | None  # over the columns of `below`
    below: Rel


def peel(rel: Rel) -> Top:
    """Takes off what treats each row by itself."""
    match rel:
        case Project(input, items):
            top = peel(input)
            return Top(tuple(Item(i.name, _over(i.expression, top.items)) for i in items), top.condition, top.below)
        case Select(input, condition):
            top = peel(input)
            both = tuple(c for c in (top.condition, _over(condition, top.items)) if c is not None)
            return Top(top.items, scalar.canonical(scalar.conjunction(both)), top.below)
    return Top(tuple(Item(name, col(name)) for name in rel.names), None, rel)


def _over(expression: exp.Expr, items: tuple[Item, ...]) -> exp.Expr:
    return scalar.canonical(scalar.substitute(expression, {item.name: item.expression for item in items}))
