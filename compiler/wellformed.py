"""Verification of plans: what every relation must be, checked after each stage that makes one."""

from __future__ import annotations

from sqlglot import exp

from . import scalar
from .algebra import ExceptAll, Expand, GroupBy, IntersectAll, Join, Limit, Project, Rel, Select, UnionAll, Window
from .properties import schema
from .remembered import remembered
from .source import CompilerBug
from .typing import type_of


@remembered
def check(rel: Rel) -> None:
    """Every expression reads columns that its input has, every condition is boolean, branches of a union agree."""
    for child in rel.inputs:
        check(child)
    match rel:
        case Select(input, condition):
            _condition(condition, input)
        case Project(input, items):
            for item in items:
                _reads(item.expression, input.names, f"Project {item.name}")
        case Expand(input, branches):
            for item in (item for branch in branches for item in branch):
                _reads(item.expression, input.names, f"Expand {item.name}")
        case Window(input, items):
            for item in items:
                _reads(item.expression, input.names, f"Window {item.name}")
        case Limit(input, order, _, _):
            for key in order:
                _reads(key.expression, input.names, "Limit")
        case Join(left, right, condition, _):
            _reads(condition, left.names + right.names, "Join")
        case GroupBy(input, keys, measures):
            for name in keys:
                if name not in input.names:
                    raise CompilerBug(f"GroupBy by {name}, which its input lacks")
            for measure in measures:
                for argument in measure.arguments:
                    _reads(argument, input.names, f"GroupBy {measure.name}")
        case UnionAll() | ExceptAll() | IntersectAll():
            types = {tuple(column.type for column in schema(branch)) for branch in rel.inputs}
            if len(types) > 1:
                raise CompilerBug(f"{type(rel).__name__} of different types: {sorted(types)}")


def _reads(expression: exp.Expr, names: tuple[str, ...], where: str) -> None:
    missing = sorted(scalar.columns_of(expression) - set(names))
    if missing:
        raise CompilerBug(f"{where} reads {', '.join(missing)}, which its input lacks")


def _condition(condition: exp.Expr, input: Rel) -> None:
    _reads(condition, input.names, "Select")
    kind = type_of(condition, {column.name: column for column in schema(input)}).type
    if kind not in ("boolean", "void"):
        raise CompilerBug(f"Select by a condition of type {kind}")
