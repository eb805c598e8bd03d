"""Verification of plans: what every relation must be, checked after each stage that makes one."""

from __future__ import annotations

from sqlglot import exp

from . import scalar
from .algebra import GroupBy, Join, Project, Rel, Select, UnionAll
from .properties import schema
from .source import CompilerBug
from .typing import type_of


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
        case Join(left, right, condition, _):
            _reads(condition, left.names + right.names, "Join")
        case GroupBy(input, keys, measures):
            for name in keys:
                if name not in input.names:
                    raise CompilerBug(f"GroupBy by {name}, which its input lacks")
            for measure in measures:
                if measure.argument is not None:
                    _reads(measure.argument, input.names, f"GroupBy {measure.name}")
        case UnionAll(branches):
            types = {tuple(column.type for column in schema(branch)) for branch in branches}
            if len(types) > 1:
                raise CompilerBug(f"UnionAll of different types: {sorted(types)}")


def _reads(expression: exp.Expr, names: tuple[str, ...], where: str) -> None:
    missing = sorted(scalar.columns_of(expression) - set(names))
    if missing:
        raise CompilerBug(f"{where} reads {', '.join(missing)}, which its input lacks")


def _condition(condition: exp.Expr, input: Rel) -> None:
    _reads(condition, input.names, "Select")
    kind = type_of(condition, {column.name: column for column in schema(input)}).type
    if kind not in ("boolean", "void"):
        raise CompilerBug(f"Select by a condition of type {kind}")
