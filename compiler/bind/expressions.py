"""Scalar expressions and conditions over the rows of a source."""

from __future__ import annotations

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import col
from ..properties import schema
from ..typing import NotDeterministic, UnknownType, type_of
from .scope import Binder, Source

_QUERIES = (exp.Subquery, exp.Exists, exp.Select, exp.Window)


def scalar(binder: Binder, expression: exp.Expr, source: Source) -> exp.Expr:
    """Binds names and checks that the expression is one whose type and determinism are known."""
    for node in expression.find_all(*_QUERIES, exp.Star, exp.Placeholder):
        raise binder.unsupported(f"{_construct(node)} here", node)

    def bind(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            if node.args.get("db"):
                raise binder.fail("DF0205", "a column's name has at most two parts", node)
            return col(binder.visible(node.this, source.scope, node.table).column)
        return node

    bound = scalars.canonical(expression.transform(bind))
    try:
        type_of(bound, {column.name: column for column in schema(source.rel)})
    except NotDeterministic as error:
        raise binder.fail("DF0302", str(error), expression, "a view's rows may depend on its tables only") from None
    except UnknownType as error:
        raise binder.fail("DF0303", str(error), expression) from None
    return bound


def condition(binder: Binder, expression: exp.Expr, source: Source) -> exp.Expr:
    for aggregate in aggregates(expression):
        raise binder.fail("DF0304", "an aggregate cannot stand in a condition", aggregate)
    bound = scalar(binder, expression, source)
    kind = type_of(bound, {column.name: column for column in schema(source.rel)}).type
    if kind not in ("boolean", "void"):
        raise binder.fail("DF0307", f"a condition is true or false, this is {kind.upper()}", expression)
    return bound


def refuse_queries(binder: Binder, expression: exp.Expr) -> None:
    """Aggregates within a subquery or a window are not aggregates of this query."""
    for node in expression.find_all(*_QUERIES):
        raise binder.unsupported(f"{_construct(node)} here", node)


def is_aggregate(node: exp.Expr) -> bool:
    return isinstance(node, exp.AggFunc | exp.Filter | exp.WithinGroup)


def aggregates(expression: exp.Expr) -> list[exp.Expr]:
    return [node for node in expression.walk() if is_aggregate(node)]


def _construct(node: exp.Expr) -> str:
    match node:
        case exp.Window():
            return "a window function"
        case exp.Star():
            return "*"
        case exp.Placeholder():
            return "a parameter"
    return "a subquery"
