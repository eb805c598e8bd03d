"""Properties (interim)."""

from __future__ import annotations

from typing import assert_never

from .algebra import Column, GroupBy, Join, JoinKind, Project, Rel, Scan, Select, UnionAll
from .catalog import Catalog
from .typing import aggregate_type, type_of


def schema(rel: Rel) -> tuple[Column, ...]:
    match rel:
        case Scan(_, columns):
            return columns
        case Select(input, _):
            return schema(input)
        case Project(input, items):
            by_name = {c.name: c for c in schema(input)}
            out = []
            for item in items:
                t = type_of(item.expression, by_name)
                out.append(Column(item.name, t.type, t.nullable))
            return tuple(out)
        case Join(left, right, _, kind):
            a, b = schema(left), schema(right)
            if kind in (JoinKind.SEMI, JoinKind.ANTI):
                return a
            if kind in (JoinKind.LEFT, JoinKind.FULL):
                b = tuple(Column(c.name, c.type, True) for c in b)
            if kind is JoinKind.FULL:
                a = tuple(Column(c.name, c.type, True) for c in a)
            return a + b
        case GroupBy(input, keys_, measures):
            by_name = {c.name: c for c in schema(input)}
            out = [by_name[k] for k in keys_]
            for m in measures:
                t = aggregate_type(m.function, None if m.argument is None else type_of(m.argument, by_name))
                out.append(Column(m.name, t.type, t.nullable))
            return tuple(out)
        case UnionAll(branches):
            every = [schema(b) for b in branches]
            return tuple(Column(cs[0].name, cs[0].type, any(c.nullable for c in cs)) for cs in zip(*every, strict=True))
        case _:
            assert_never(rel)


def keys(rel: Rel, catalog: Catalog) -> tuple[frozenset[str], ...]:
    return ()
