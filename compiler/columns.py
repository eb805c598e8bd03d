"""The columns of relations: names, types and nullability, as Spark derives them."""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from .aggregates import aggregate_type
from .algebra import (
    Cell,
    Column,
    ExceptAll,
    Expand,
    GPivot,
    GroupBy,
    GUnpivot,
    IntersectAll,
    Item,
    Join,
    JoinKind,
    Limit,
    Project,
    Rel,
    Scan,
    Select,
    UnionAll,
    Values,
    Window,
)
from .remembered import remembered
from .types import common_type
from .typing import type_of, window_type


@remembered
def schema(rel: Rel) -> tuple[Column, ...]:
    """The columns of a relation."""
    match rel:
        case Scan(_, columns) | Values(columns, _):
            return columns
        case Select(input, _) | Limit(input, _):
            return schema(input)
        case Project(input, items):
            return _projected(items, schema(input))
        case Expand(input, projections):
            columns = schema(input)
            return _unified(tuple(_projected(items, columns) for items in projections))
        case Join(left, right, _, kind):
            if kind in (JoinKind.SEMI, JoinKind.ANTI):
                return schema(left)
            left_columns = _nullable(schema(left)) if kind is JoinKind.FULL else schema(left)
            return left_columns + (schema(right) if kind is JoinKind.INNER else _nullable(schema(right)))
        case GroupBy(input, grouped, measures):
            by_name = {column.name: column for column in schema(input)}
            made = [by_name[name] for name in grouped]
            for measure in measures:
                kind_of = aggregate_type(measure.function, *(type_of(a, by_name) for a in measure.arguments))
                made.append(Column(measure.name, kind_of.type, kind_of.nullable))
            return tuple(made)
        case GPivot(input, _, cells):
            by_name = {column.name: column for column in schema(input)}
            spread = tuple(Column(cell.name, by_name[cell.measure].type) for cell in cells)
            return tuple(by_name[name] for name in rel.keys) + spread
        case GUnpivot(input):
            return _gathered(rel, {column.name: column for column in schema(input)})
        case Window(input, items):
            by_name = {column.name: column for column in schema(input)}
            kinds = [
                (i.name, window_type(i.expression, by_name)) for i in items if isinstance(i.expression, exp.Window)
            ]
            return schema(input) + tuple(Column(name, kind.type, kind.nullable) for name, kind in kinds)
        case UnionAll(branches):
            return _unified(tuple(schema(branch) for branch in branches))
        case ExceptAll(left, _):
            return schema(left)
        case IntersectAll(left, right):
            sides = zip(schema(left), schema(right), strict=True)
            return tuple(Column(a.name, a.type, a.nullable and b.nullable) for a, b in sides)
        case _:
            assert_never(rel)


def _projected(items: tuple[Item, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    by_name = {column.name: column for column in columns}
    typed = [(item.name, type_of(item.expression, by_name)) for item in items]
    return tuple(Column(name, kind.type, kind.nullable) for name, kind in typed)


def _unified(schemas: tuple[tuple[Column, ...], ...]) -> tuple[Column, ...]:
    """The columns of relations that are put one below the other; their types agree, but for NULLs without a type."""
    unified = []
    for columns in zip(*schemas, strict=True):
        kind = next((column.type for column in columns if column.type != "void"), "void")
        unified.append(Column(columns[0].name, kind, any(column.nullable for column in columns)))
    return tuple(unified)


def _gathered(rel: GUnpivot, by_name: dict[str, Column]) -> tuple[Column, ...]:
    names = []
    for place, name in enumerate(rel.by):
        kinds = [type_of(group[0].values[place], {}) for group in rel.groups]
        names.append(Column(name, _common([kind.type for kind in kinds]), any(kind.nullable for kind in kinds)))
    values = []
    for measure in rel.measures:
        held = [_cell_of(group, measure) for group in rel.groups]
        kinds_held = [by_name[cell.name] for cell in held if cell is not None]
        # Of several measures one may be NULL; a single one is there, or its row is not.
        alone = len(rel.measures) == 1 and not rel.include_nulls
        nullable = not alone and (None in held or any(column.nullable for column in kinds_held))
        values.append(Column(measure, _common([column.type for column in kinds_held]), nullable))
    return tuple(by_name[name] for name in rel.keys) + tuple(names) + tuple(values)


def _cell_of(group: tuple[Cell, ...], measure: str) -> Cell | None:
    return next((cell for cell in group if cell.measure == measure), None)


def _common(types: list[str]) -> str:
    result = "void"
    for kind in types:
        result = common_type(result, kind) or result
    return result


def _nullable(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(Column(column.name, column.type) for column in columns)
