"""A query block: FROM, WHERE, GROUP BY, SELECT in that order."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ..algebra import Item, Project, Select
from .expressions import aggregates, condition, refuse_queries, scalar
from .grouping import bind_groups
from .relations import bind_from, named_query
from .scope import Binder, Bound, Environment, Output, Source, distinct_names
from .selection import Selected, expand_stars

_ALLOWED_PARTS = {"expressions", "from_", "joins", "where", "group", "with_", "kind", "operation_modifiers", "hint"}
_PART_NAMES = {
    "having": "HAVING",
    "qualify": "QUALIFY",
    "distinct": "SELECT DISTINCT",
    "limit": "LIMIT",
    "offset": "OFFSET",
    "order": "ORDER BY",
    "laterals": "LATERAL VIEW",
    "windows": "WINDOW",
    "sample": "TABLESAMPLE",
}


def bind_query(binder: Binder, query: exp.Expr, environment: Environment) -> Bound:
    """The relation of a query and its columns as the user calls them."""
    if isinstance(query, exp.Subquery) and not query.args.get("joins"):
        return bind_query(binder, query.this, environment)
    if not isinstance(query, exp.Select):
        raise binder.unsupported(type(query).__name__.upper(), query)
    for part, value in query.args.items():
        if value and part not in _ALLOWED_PARTS:
            node = value[0] if isinstance(value, list) else value
            construct = _PART_NAMES.get(part, part.rstrip("_").upper())
            raise binder.unsupported(construct, node if isinstance(node, exp.Expr) else query)
    environment = _with_ctes(binder, query, environment)
    from_ = query.args.get("from_")
    if from_ is None:
        raise binder.unsupported("a query without FROM", query)
    source = bind_from(binder, from_.this, query.args.get("joins") or [], environment)
    if where := query.args.get("where"):
        source = replace(source, rel=Select(source.rel, condition(binder, where.this, source)))
    return _select(binder, query, source)


def _select(binder: Binder, query: exp.Select, source: Source) -> Bound:
    selected = expand_stars(binder, query.expressions, source.scope)
    for item in selected:
        refuse_queries(binder, item.expression)
    group = query.args.get("group")
    if group or any(aggregates(item.expression) for item in selected):
        return bind_groups(binder, source, selected, group)
    return projected(source, selected, [scalar(binder, item.expression, source) for item in selected])


def projected(source: Source, selected: list[Selected], bound: list[exp.Expr]) -> Bound:
    names = distinct_names(item.name for item in selected)
    items = tuple(Item(name, expression) for name, expression in zip(names, bound, strict=True))
    return Bound(Project(source.rel, items), tuple(Output(item.name, item.node) for item in selected))


def _with_ctes(binder: Binder, query: exp.Select, environment: Environment) -> Environment:
    with_ = query.args.get("with_")
    if with_ is None:
        return environment
    if with_.args.get("recursive"):
        raise binder.unsupported("WITH RECURSIVE", with_.expressions[0])
    extended = dict(environment)
    for cte in with_.expressions:
        extended[cte.alias.casefold()] = named_query(binder, cte.this, extended, cte.args["alias"].columns)
    return extended
