"""A query block: FROM, WHERE, GROUP BY, HAVING, SELECT, QUALIFY, DISTINCT, ORDER BY and LIMIT, in that order."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import Item, Project, Rel, Select, SortKey, col
from ..source import Diagnostic, InputError
from .conditions import keep_where
from .correlation import Around, join_domain
from .expressions import aggregates, bind, condition, has_window
from .grouping import Groups, group_keys, make_groups
from .ordering import limited, limits, sort_key
from .relations import bind_from, bind_values, named_query
from .rows import Rows
from .scope import Binder, Bound, Correlation, Environment, Output, collecting, distinct_names
from .selection import Selected, select_list, with_aliases
from .sets import bind_set_operation, distinct
from .windows import with_named_windows

_KNOWN_PARTS = {
    *("expressions", "from_", "joins", "where", "group", "having", "qualify", "windows", "distinct", "with_", "kind"),
    *("order", "sort", "cluster", "distribute", "limit", "offset", "operation_modifiers", "hint"),
}
_PART_NAMES = {"laterals": "LATERAL VIEW", "sample": "TABLESAMPLE"}


def bind_query(binder: Binder, query: exp.Expr, environment: Environment) -> Bound:
    """The relation of a query and its columns as the user calls them."""
    match query:
        case exp.Subquery():
            inner = bind_query(binder, query.this, _with_ctes(binder, query, environment))
            return _ordered(binder, query, inner)
        case exp.SetOperation():
            bound = bind_set_operation(binder, query, _with_ctes(binder, query, environment))
            return _ordered(binder, query, bound)
        case exp.Values():
            return bind_values(binder, query)
        case exp.Select():
            return _bind_select(binder, query, _with_ctes(binder, query, environment))
    raise binder.unsupported(type(query).__name__.upper(), query)


def _with_ctes(binder: Binder, query: exp.Expr, environment: Environment) -> Environment:
    with_ = query.args.get("with_")
    if with_ is None:
        return environment
    if with_.args.get("recursive"):
        raise binder.unsupported("WITH RECURSIVE", with_.expressions[0])
    extended = dict(environment)
    for cte in with_.expressions:
        extended[cte.alias.casefold()] = named_query(binder, cte.this, extended, cte.args["alias"].columns)
    return extended


def _bind_select(binder: Binder, query: exp.Select, environment: Environment) -> Bound:
    for part, value in query.args.items():
        if value and part not in _KNOWN_PARTS:
            node = value[0] if isinstance(value, list) else value
            construct = _PART_NAMES.get(part, part.rstrip("_").upper())
            raise binder.unsupported(construct, node if isinstance(node, exp.Expr) else query)
    if isinstance(query.args.get("distinct"), exp.Distinct) and query.args["distinct"].args.get("on"):
        raise binder.unsupported("DISTINCT ON", query)
    query = with_named_windows(binder, query)
    rows = Rows(binder, environment, bind_from(binder, query, environment))
    join_domain(rows)
    rows.pulls_up = not _looks_across_rows(query)
    errors: list[Diagnostic] = []
    if where := query.args.get("where"):
        with collecting(errors):
            keep_where(rows, where.this)
    selected = []
    with collecting(errors):
        selected = select_list(binder, query.expressions, rows.scope)
    if errors:
        raise InputError(errors)
    return _select(rows, query, selected)


def _looks_across_rows(query: exp.Select) -> bool:
    """Whether the block looks across its rows, so that conditions cannot be taken out of it."""
    parts = [*query.expressions, *(query.args[p] for p in ("order", "qualify") if query.args.get(p))]
    return any(query.args.get(part) for part in ("limit", "offset")) or any(has_window(part) for part in parts)


def _select(rows: Rows, query: exp.Select, selected: list[Selected]) -> Bound:
    """From GROUP BY on."""
    binder = rows.binder
    aliases = {item.name.casefold(): item.expression for item in reversed(selected) if isinstance(item.node, exp.Alias)}
    outputs = {item.name.casefold(): item.expression for item in reversed(selected)}
    having, qualify = query.args.get("having"), query.args.get("qualify")
    order = [] if limits(binder, query) == (None, 0) else _order(query, selected, outputs)
    group = query.args.get("group")
    written = [item.expression for item in selected] + [clause.this for clause in (having, qualify) if clause]
    groups = None
    if (
        group
        or having
        or any(next(aggregates(part), None) is not None for part in (*written, *(o.this for o in order)))
    ):
        keys, sets = group_keys(rows, selected, group)
        key_texts = {scalars.text(key.expression) for key in keys}

        def not_a_key(column: exp.Column) -> bool:
            found = binder.find(column.this, rows.scope)
            return found is None or scalars.text(col(found.column)) not in key_texts

        having_part = with_aliases(having.this, aliases, not_a_key) if having else None
        qualify_part = with_aliases(qualify.this, aliases, not_a_key) if qualify else None
        named = [(item.expression, item.name) for item in selected]
        named += [(part, "") for part in (having_part, qualify_part) if part is not None]
        groups = make_groups(rows, keys, sets, named + [(ordered.this, "") for ordered in order])
        if having_part is not None:
            keep_where(groups, having_part)
        rows = groups
    else:
        missing = lambda column: binder.find(column.this, rows.scope) is None  # noqa: E731
        qualify_part = with_aliases(qualify.this, aliases, missing) if qualify else None
    bound: list[exp.Expr] = []
    errors: list[Diagnostic] = []
    for item in selected:
        with collecting(errors):
            bound.append(bind(rows, item.expression))
    if qualify_part is not None and not errors:
        with collecting(errors):
            kept = condition(rows, qualify_part)  # which puts its window below what it selects from
            rows.rel = Select(rows.rel, kept)
    if errors:
        raise InputError(errors)
    return _projected(rows, query, selected, bound, order)


def _order(query: exp.Expr, selected: list[Selected], outputs: dict[str, exp.Expr]) -> list[exp.Expr]:
    """ORDER BY with the select list's names and numbers replaced by what they stand for."""
    clause = query.args.get("order")
    made = []
    for ordered in clause.expressions if clause else []:
        node = ordered.this
        if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(selected):
            node = selected[int(node.name) - 1].expression
        else:
            node = with_aliases(node, outputs, lambda column: True)
        copy = ordered.copy()
        copy.set("this", node)
        made.append(copy)
    return made


def _projected(
    rows: Rows, query: exp.Select, selected: list[Selected], bound: list[exp.Expr], order: list[exp.Expr]
) -> Bound:
    """The columns of the select list, with the distinct ones and the limit applied where they belong."""
    binder = rows.binder
    names = distinct_names(item.name or "column" for item in selected)
    items = [Item(name, expression) for name, expression in zip(names, bound, strict=True)]
    correlation = _correlation(rows)
    hidden = distinct_names((*names, *correlation.columns))[len(names) :]
    items += [Item(new, col(old)) for new, old in zip(hidden, correlation.columns, strict=True)]
    renamed = dict(zip(correlation.columns, hidden, strict=True))
    conditions = tuple(scalars.rename(part, renamed) for part in correlation.conditions)
    correlation = Correlation(tuple(hidden), conditions)
    outputs = tuple(Output(item.name, item.node) for item in selected)
    domain = tuple(renamed[name] for name in rows.domain)
    if query.args.get("distinct"):
        rel: Rel = distinct(Project(rows.rel, tuple(items)))
        places = {scalars.text(item.expression): item.name for item in items}
        keys = []
        for ordered in order:
            text = scalars.text(bind(rows, ordered.this.unnest()))
            if text not in places:
                raise binder.fail("DF0306", "ORDER BY of a DISTINCT query is by its columns", ordered)
            keys.append(sort_key(ordered, col(places[text])))
        return Bound(limited(binder, rel, keys, query, domain), outputs, correlation)
    sorted_by = [sort_key(ordered, bind(rows, ordered.this)) for ordered in order]
    rel = Project(limited(binder, rows.rel, sorted_by, query, rows.domain), tuple(items))
    return Bound(rel, outputs, correlation, _on_no_rows(rows, query, bound, correlation))


def _correlation(rows: Rows) -> Correlation:
    around = rows.binder.outer
    if rows.domain and isinstance(around, Around):
        return around.domain_correlation()
    if isinstance(rows, Groups):
        return rows.correlation
    names = dict.fromkeys(n for part in rows.correlated for n in sorted(scalars.columns_of(part) - set(rows.outside)))
    return Correlation(tuple(names), tuple(rows.correlated))


def _on_no_rows(
    rows: Rows, query: exp.Select, bound: list[exp.Expr], correlation: Correlation
) -> tuple[exp.Expr, ...] | None:
    if not isinstance(rows, Groups) or query.args.get("group"):
        return None
    cut = any(query.args.get(part) for part in ("having", "qualify", "limit", "offset"))
    empty = None if cut else rows.on_no_rows(bound)
    if empty is None and correlation.columns:
        raise rows.binder.unsupported("this correlated aggregate", query)
    return empty


def _ordered(binder: Binder, query: exp.Expr, bound: Bound) -> Bound:
    """ORDER BY and LIMIT of a set operation or of a query in parentheses: by its columns."""
    if limits(binder, query) == (None, 0):
        return bound
    names = {output.name.casefold(): name for output, name in zip(bound.outputs, bound.rel.names, strict=False)}
    order: list[SortKey] = []
    for ordered in query.args["order"].expressions if query.args.get("order") else []:
        node = ordered.this
        if isinstance(node, exp.Literal) and node.name.isdigit() and 1 <= int(node.name) <= len(bound.outputs):
            order.append(sort_key(ordered, col(bound.rel.names[int(node.name) - 1])))
            continue
        expression = node.transform(lambda n: _output(binder, n, names) if isinstance(n, exp.Column) else n)
        order.append(sort_key(ordered, scalars.canonical(expression)))
    domain = bound.correlation.columns if isinstance(binder.outer, Around) and binder.outer.domain else ()
    return replace(bound, rel=limited(binder, bound.rel, order, query, domain), on_no_rows=None)


def _output(binder: Binder, node: exp.Column, names: dict[str, str]) -> exp.Expr:
    name = names.get(node.name.casefold())
    if name is None:
        raise binder.fail("DF0209", f"there is no column {node.name} in the query's columns", node)
    return col(name)
