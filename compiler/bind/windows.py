"""Window functions: each call becomes a column of a Window over the rows; calls of one PARTITION BY share it."""

from __future__ import annotations

from sqlglot import exp

from .. import scalar as scalars
from ..aggregates import FUNCTIONS, call_of
from ..algebra import Item, Window, col
from ..typing import NotDeterministic, UnknownType, window_type
from .rows import Rows
from .scope import Binder, fresh


def window_value(rows: Rows, node: exp.Window, bound: exp.Expr) -> exp.Expr:
    """The column that holds a window function, given the call with its parts bound."""
    partition = [*rows.domain, *(part for part in bound.args.get("partition_by") or [])]
    names = [part if isinstance(part, str) else rows.add("partition", scalars.canonical(part)) for part in partition]
    bound.set("partition_by", [col(name) for name in dict.fromkeys(names)])
    if isinstance(bound.this, exp.Filter):
        bound.set("this", _filtered(rows, node, bound.this))
    call = scalars.canonical(bound)
    if not isinstance(call, exp.Window):
        raise rows.binder.unsupported("this window function", node)
    text = scalars.text(call)
    if text not in rows.added:
        _check(rows, node, call)
        name = fresh(_hint(call), set(rows.rel.names))
        item = Item(name, call)
        match rows.rel:
            case Window(input, items) as below if below.partition == tuple(dict.fromkeys(names)) and scalars.columns_of(
                call
            ) <= set(input.names):
                rows.rel = Window(input, (*items, item))
            case _:
                rows.rel = Window(rows.rel, (item,))
        rows.added[text] = name
    return col(rows.added[text])


def _filtered(rows: Rows, node: exp.Window, call: exp.Filter) -> exp.Expr:
    """FILTER as CASE, where a NULL argument is passed over."""
    aggregate = call_of(call.this)
    if aggregate is None or not FUNCTIONS[aggregate.function].ignores_nulls or len(aggregate.arguments) > 1:
        raise rows.binder.unsupported("FILTER with this window function", node)
    argument = aggregate.arguments[0] if aggregate.arguments else exp.Literal.number(1)
    kept: exp.Expr = call.this.copy()
    kept.set("this", exp.Case().when(call.expression.this.copy(), argument.copy()))
    return kept


def _check(rows: Rows, node: exp.Window, call: exp.Window) -> None:
    try:
        window_type(call, rows.columns)
    except NotDeterministic as error:
        raise rows.binder.fail("DF0302", str(error), node, "a view's rows may depend on its tables only") from None
    except (UnknownType, ValueError) as error:
        raise rows.binder.fail("DF0303", str(error), node) from None


def _hint(call: exp.Window) -> str:
    function = call.this
    while isinstance(function, exp.IgnoreNulls | exp.RespectNulls):
        function = function.this
    return f"{function.key}_over"


def with_named_windows(binder: Binder, query: exp.Select) -> exp.Select:
    """The query with the windows of its WINDOW clause written out where they are used."""
    if not query.args.get("windows"):
        return query
    definitions = {w.name.casefold(): w for w in query.args.get("windows") or []}

    def expand(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Query):
            return node
        if isinstance(node, exp.Window) and node.args.get("alias"):
            definition = definitions.get(node.args["alias"].name.casefold())
            if definition is None:
                raise binder.fail("DF0209", f"there is no window {node.args['alias'].name}", node)
            base = expand(definition.copy())
            merged = node.copy()
            merged.set("alias", None)
            for part in ("partition_by", "order", "spec"):
                if not merged.args.get(part) and base.args.get(part):
                    merged.set(part, base.args[part])
            node = merged
        copy = node.copy()
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expr):
                copy.set(key, expand(value))
            elif isinstance(value, list):
                copy.set(key, [expand(v) if isinstance(v, exp.Expr) else v for v in value])
        return copy

    written = query.copy()
    written.set("windows", None)
    for part in ("expressions", "qualify", "order"):
        value = query.args.get(part)
        if isinstance(value, list):
            written.set(part, [expand(v) for v in value])
        elif value is not None:
            written.set(part, expand(value))
    return written
