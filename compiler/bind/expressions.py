"""Scalar expressions and conditions over rows: names become columns, subqueries and window functions new columns."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from .. import scalar as scalars
from ..aggregates import is_aggregate as is_aggregate_call
from ..typing import NotDeterministic, UnknownType, type_of
from .rows import Rows
from .scope import Binder, Source
from .subqueries import exists_value, in_value, scalar_value
from .windows import window_value

_UNREAD = (exp.Literal, exp.Null, exp.Boolean, exp.DataType, exp.Identifier, exp.Var, exp.Interval)


def bind(rows: Rows, expression: exp.Expr, *, filters: bool = False) -> exp.Expr:
    """An expression over the rows. `filters`: it keeps rows, so that NULL and FALSE mean the same."""
    bound = scalars.canonical(_bound(rows, expression, filters))
    check_type(rows, bound, expression)
    return bound


def condition(rows: Rows, expression: exp.Expr) -> exp.Expr:
    """A condition that keeps rows."""
    bound = bind(rows, expression, filters=True)
    kind = type_of(bound, rows.columns).type
    if kind not in ("boolean", "void"):
        raise rows.binder.fail("DF0307", f"a condition is true or false, this is {kind.upper()}", expression)
    return bound


def scalar(binder: Binder, expression: exp.Expr, source: Source) -> exp.Expr:
    """An expression over a source, to which nothing can be joined."""
    _refuse_growth(binder, expression)
    return bind(Rows(binder, {}, source), expression)


def join_condition(binder: Binder, expression: exp.Expr, source: Source) -> exp.Expr:
    """A condition over a source, to which nothing can be joined."""
    _refuse_growth(binder, expression)
    return condition(Rows(binder, {}, source), expression)


def _refuse_growth(binder: Binder, expression: exp.Expr) -> None:
    for node in expression.find_all(exp.Query, exp.Exists, exp.Window):
        raise binder.unsupported(f"{'a window function' if isinstance(node, exp.Window) else 'a subquery'} here", node)


def check_type(rows: Rows, bound: exp.Expr, place: exp.Expr) -> None:
    try:
        type_of(bound, rows.columns)
    except NotDeterministic as error:
        remedy = "a view's rows may depend on its tables only"
        raise rows.binder.fail("DF0302", str(error), place, remedy) from None
    except UnknownType as error:
        raise rows.binder.fail("DF0303", str(error), place) from None


def _bound(rows: Rows, node: exp.Expr, filters: bool) -> exp.Expr:
    replaced = rows.replaced(node)
    if replaced is not None:
        return replaced
    match node:
        case exp.Column():
            return rows.column(node)
        case exp.Star() | exp.Placeholder() | exp.Parameter():
            raise rows.binder.unsupported(f"{'*' if isinstance(node, exp.Star) else 'a parameter'} here", node)
        case exp.Subquery() | exp.Select():
            return scalar_value(rows, node)
        case exp.Exists(this=query):
            return exists_value(rows, query)
        case exp.In(this=left) if node.args.get("query"):
            parts = left.expressions if isinstance(left, exp.Tuple) else [left]
            return in_value(rows, node, [bind(rows, part) for part in parts], filters)
        case exp.Any() | exp.All() | exp.Query():
            raise rows.binder.unsupported("a subquery here", node)
        case exp.Window():
            return window_value(rows, node, _children(rows, node, False))
        case _ if is_aggregate(node):
            raise rows.binder.fail("DF0304", "an aggregate cannot stand here", node)
    return _children(rows, node, filters and isinstance(node, exp.And | exp.Or | exp.Paren))


def _children(rows: Rows, node: exp.Expr, filters: bool) -> exp.Expr:
    copy = node.copy()
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expr):
            copy.set(key, _child(rows, node, value, filters))
        elif isinstance(value, list):
            copy.set(key, [_child(rows, node, v, filters) if isinstance(v, exp.Expr) else v for v in value])
    return copy


def _child(rows: Rows, parent: exp.Expr, node: exp.Expr, filters: bool) -> exp.Expr:
    if isinstance(node, _UNREAD):
        replaced = rows.replaced(node) if isinstance(node, exp.Literal) else None
        return node.copy() if replaced is None else replaced
    if _is_called(parent, node) or (isinstance(node, exp.Star) and isinstance(parent, exp.Count)):
        return node.copy() if isinstance(node, exp.Star) else _children(rows, node, False)
    return _bound(rows, node, filters)


def _is_called(parent: exp.Expr, node: exp.Expr) -> bool:
    """Whether a node is the function that a window calls: it is no aggregate of the query block."""
    wrappers = exp.IgnoreNulls | exp.RespectNulls | exp.Filter
    called = isinstance(parent, wrappers) and isinstance(parent.parent, exp.Window | wrappers)
    return (called or isinstance(parent, exp.Window)) and node is parent.this


def is_aggregate(node: exp.Expr) -> bool:
    """Whether a node is a call over the rows of a group; grouping() is one in so far as it is of a group too."""
    return isinstance(node, exp.Grouping | exp.GroupingId) or is_aggregate_call(node)


def aggregates(node: exp.Expr) -> Iterator[exp.Expr]:
    """The aggregate calls of a query block in an expression: not those of subqueries, nor what a window calls."""
    if isinstance(node, exp.Query):
        return
    if is_aggregate(node):
        yield node
        return
    for child in node.iter_expressions():
        yield from _of_call(child) if _is_called(node, child) else aggregates(child)


def _of_call(node: exp.Expr) -> Iterator[exp.Expr]:
    for child in node.iter_expressions():
        yield from _of_call(child) if _is_called(node, child) else aggregates(child)


def has_window(node: exp.Expr) -> bool:
    """Whether an expression calls a window function of its own query block."""
    if isinstance(node, exp.Query):
        return False
    return isinstance(node, exp.Window) or any(has_window(child) for child in node.iter_expressions())
