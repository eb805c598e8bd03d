"""Properties of relations: columns with types and nullability, candidate keys.

A *key* is a set of columns on which no two rows of the bag agree, NULLs compared as equal. A declared key counts only
where its columns are NOT NULL, since SQL's UNIQUE lets NULLs repeat. Keys pass through Select and through Project
where all of their columns stay; GroupBy's columns are a key; two keys side by side are a key of an inner join, and
the left key alone is one where the right side is joined on all of a key of its own. [armstrong-1974]
"""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from . import scalar
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
from .catalog import Catalog
from .types import common_type
from .typing import type_of, window_type

Key = frozenset[str]


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


def keys(rel: Rel, catalog: Catalog) -> tuple[Key, ...]:
    """The candidate keys that are known, none containing another."""
    match rel:
        case Scan(ref, columns):
            table = catalog.table(ref.name)
            required = {column.name for column in columns if not column.nullable}
            return _minimal([frozenset(key) for key in table.keys if set(key) <= required]) if table else ()
        case Select(input, _) | Limit(input, _) | Window(input, _):
            return keys(input, catalog)
        case Values(_, rows):
            return (frozenset(),) if len(rows) <= 1 else ()
        case Project(input, items):
            kept = {item.expression.name: item.name for item in items if isinstance(item.expression, exp.Column)}
            found = [key for key in keys(input, catalog) if key <= set(kept)]
            return _minimal([frozenset(kept[name] for name in key) for key in found])
        case GroupBy(_, grouped, _):
            return (frozenset(grouped),)
        case GPivot():
            return (frozenset(rel.keys),)
        case GUnpivot(input, by, _):
            return tuple(key | set(by) for key in keys(input, catalog) if key <= set(rel.keys))
        case ExceptAll(left, _):
            return keys(left, catalog)
        case IntersectAll(left, right):
            return _minimal([*keys(left, catalog), *keys(right, catalog)])
        case Join(left, right, condition, JoinKind.INNER | JoinKind.LEFT as kind):
            left_keys, right_keys = keys(left, catalog), keys(right, catalog)
            found = [a | b for a in left_keys for b in right_keys]
            if any(key <= _equated(condition, right) for key in right_keys):
                found += left_keys
            if kind is JoinKind.INNER and any(key <= _equated(condition, left) for key in left_keys):
                found += right_keys
            return _minimal(found)
        case Join(left, _, _, JoinKind.SEMI | JoinKind.ANTI):
            return keys(left, catalog)
    return ()


def _equated(condition: exp.Expr, side: Rel) -> Key:
    """The columns of one side that the condition equates with columns of the other."""
    found = set()
    for part in scalar.conjuncts(condition):
        match part:
            case exp.EQ(this=exp.Column() as a, expression=exp.Column() as b):
                if (a.name in side.names) != (b.name in side.names):
                    found.add(a.name if a.name in side.names else b.name)
    return frozenset(found)


def _minimal(found: list[Key]) -> tuple[Key, ...]:
    distinct = list(dict.fromkeys(found))
    return tuple(key for key in distinct if not any(other < key for other in distinct))
