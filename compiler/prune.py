"""Projections: merged with those below them, and rid of columns that nothing above them reads."""

from __future__ import annotations

from . import scalar
from .algebra import Expand, GroupBy, Item, Join, Limit, Project, Rel, Select, UnionAll, Window, col, with_inputs


def project(rel: Rel, items: tuple[Item, ...]) -> Rel:
    """A projection, merged with the one below it; none where it would change nothing."""
    if isinstance(rel, Project):
        below = {item.name: item.expression for item in rel.items}
        items = tuple(Item(i.name, scalar.canonical(scalar.substitute(i.expression, below))) for i in items)
        return Project(rel.input, items)
    if tuple(item.name for item in items) == rel.names and all(i.expression == col(i.name) for i in items):
        return rel
    return Project(rel, items)


def prune(rel: Rel, needed: frozenset[str] | None = None) -> Rel:
    """Drops the columns of inner projections that nothing above them reads."""
    wanted = frozenset(rel.names) if needed is None else needed
    match rel:
        case Project(input, items):
            kept = tuple(item for item in items if item.name in wanted) or items[:1]
            made = project(prune(input, _reads(kept)), kept)
            unchanged = isinstance(made, Project) and made.input is input and len(kept) == len(items)
            return rel if unchanged else made
        case Expand(input, branches):
            chosen = tuple(tuple(item for item in branch if item.name in wanted) or branch[:1] for branch in branches)
            return Expand(prune(input, _reads(tuple(item for branch in chosen for item in branch))), chosen)
        case Select(input, condition):
            return with_inputs(rel, (prune(input, wanted | scalar.columns_of(condition)),))
        case Limit(input, order):
            ordered = (scalar.columns_of(key.expression) for key in order)
            return with_inputs(rel, (prune(input, wanted.union(*ordered)),))
        case Window(input, items):
            used = tuple(item for item in items if item.name in wanted)
            if not used:
                return prune(input, wanted)
            return Window(prune(input, (wanted | _reads(used)) & set(input.names)), used)
        case Join(left, right, condition):
            reads = wanted | scalar.columns_of(condition)
            return with_inputs(rel, tuple(prune(side, reads & set(side.names)) for side in (left, right)))
        case GroupBy(input, keys, measures):
            arguments = (scalar.columns_of(argument) for m in measures for argument in m.arguments)
            return with_inputs(rel, (prune(input, frozenset(keys).union(*arguments)),))
        case UnionAll(branches) if all(isinstance(branch, Project) for branch in branches):
            return UnionAll(tuple(prune(branch, wanted) for branch in branches))
    return with_inputs(rel, tuple(prune(child) for child in rel.inputs))


def _reads(items: tuple[Item, ...]) -> frozenset[str]:
    return frozenset[str]().union(*(scalar.columns_of(item.expression) for item in items))
