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
from .algebra import Column, GroupBy, Join, JoinKind, Project, Rel, Scan, Select, UnionAll
from .catalog import Catalog
from .typing import aggregate_type, type_of

Key = frozenset[str]


def schema(rel: Rel) -> tuple[Column, ...]:
    """The columns of a relation."""
    match rel:
        case Scan(_, columns):
            return columns
        case Select(input, _):
            return schema(input)
        case Project(input, items):
            by_name = {column.name: column for column in schema(input)}
            typed = [(item.name, type_of(item.expression, by_name)) for item in items]
            return tuple(Column(name, kind.type, kind.nullable) for name, kind in typed)
        case Join(left, right, _, kind):
            if kind in (JoinKind.SEMI, JoinKind.ANTI):
                return schema(left)
            left_columns = _nullable(schema(left)) if kind is JoinKind.FULL else schema(left)
            return left_columns + (schema(right) if kind is JoinKind.INNER else _nullable(schema(right)))
        case GroupBy(input, grouped, measures):
            by_name = {column.name: column for column in schema(input)}
            made = [by_name[name] for name in grouped]
            for measure in measures:
                argument = None if measure.argument is None else type_of(measure.argument, by_name)
                kind_of = aggregate_type(measure.function, argument)
                made.append(Column(measure.name, kind_of.type, kind_of.nullable))
            return tuple(made)
        case UnionAll(branches):
            side_by_side = zip(*(schema(branch) for branch in branches), strict=True)
            return tuple(Column(c[0].name, c[0].type, any(other.nullable for other in c)) for c in side_by_side)
        case _:
            assert_never(rel)


def _nullable(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    return tuple(Column(column.name, column.type) for column in columns)


def keys(rel: Rel, catalog: Catalog) -> tuple[Key, ...]:
    """The candidate keys that are known, none containing another."""
    match rel:
        case Scan(ref, columns):
            table = catalog.table(ref.name)
            required = {column.name for column in columns if not column.nullable}
            return _minimal([frozenset(key) for key in table.keys if set(key) <= required]) if table else ()
        case Select(input, _):
            return keys(input, catalog)
        case Project(input, items):
            kept = {item.expression.name: item.name for item in items if isinstance(item.expression, exp.Column)}
            found = [key for key in keys(input, catalog) if key <= set(kept)]
            return _minimal([frozenset(kept[name] for name in key) for key in found])
        case GroupBy(_, grouped, _):
            return (frozenset(grouped),)
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
