"""Subqueries in expressions. In WHERE, EXISTS and IN become semi and anti joins; elsewhere, and where they stand
under OR, a left join gives a column that says whether there was a match. A scalar subquery is a left join too.

IN is three-valued: no match is FALSE, but NULL if a NULL was compared with anything. So NOT IN is an anti join on
`(a = b) IS NOT FALSE`, and where the value itself is wanted, the rows and the NULLs of the subquery are counted.
A scalar subquery that may have two rows is an aggregate that raises an error if it has, as Spark does.
"""

from __future__ import annotations

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import GroupBy, Item, Join, JoinKind, Measure, Project, Rel, col
from ..properties import keys, schema
from ..types import common_type
from ..typing import type_of
from .correlation import Subquery, bind_subquery
from .rows import Rows
from .scope import fresh


def keep_where_exists(rows: Rows, query: exp.Expr, kind: JoinKind) -> None:
    """WHERE EXISTS and NOT EXISTS."""
    sub = bind_subquery(rows, query)
    if sub.on_no_rows is not None:  # an aggregate without GROUP BY always has a row
        if kind is JoinKind.ANTI:
            rows.keep(exp.false())
        return
    rows.attach(Join(rows.rel, sub.rel, sub.condition, kind))


def keep_where_in(rows: Rows, node: exp.In, left: list[exp.Expr], kind: JoinKind) -> None:
    """WHERE IN and NOT IN."""
    sub = bind_subquery(rows, node.args["query"])
    if sub.on_no_rows is not None and sub.correlated:
        equal = scalars.canonical(in_value(rows, node, left, False))
        rows.keep(equal if kind is JoinKind.SEMI else exp.Not(this=exp.Paren(this=equal)))
        return
    equal = _equals(rows, node, left, sub)
    if kind is JoinKind.ANTI and not _never_null(equal, rows, sub):
        equal = exp.Not(this=exp.Is(this=exp.Paren(this=equal), expression=exp.false()))
    parts = (*scalars.conjuncts(sub.condition), equal) if sub.correlated else (equal,)
    rows.attach(Join(rows.rel, sub.rel, scalars.canonical(scalars.conjunction(parts)), kind))


def exists_value(rows: Rows, query: exp.Expr) -> exp.Expr:
    sub = bind_subquery(rows, query, by_equality=True)
    if sub.on_no_rows is not None:
        return exp.true()
    if not sub.correlated:
        name = fresh("matches", set(rows.rel.names) | set(sub.rel.names))
        rows.attach(Join(rows.rel, GroupBy(sub.rel, (), (Measure(name, "count"),)), scalars.TRUE.copy()))
        return exp.Paren(this=exp.GT(this=col(name), expression=exp.Literal.number(0)))
    return exp.Paren(this=_is_not_null(_match(rows, sub.rel, sub.keys, sub.condition)))


def in_value(rows: Rows, node: exp.In, left: list[exp.Expr], filters: bool) -> exp.Expr:
    sub = bind_subquery(rows, node.args["query"], by_equality=True)
    if sub.on_no_rows is not None and sub.correlated:
        value = _scalar(rows, node, sub)
        return exp.Paren(this=exp.EQ(this=left[0].copy(), expression=value))
    equal = _equals(rows, node, left, sub)
    certain = _never_null(equal, rows, sub)
    parts = (*scalars.conjuncts(sub.condition), equal) if sub.correlated else (equal,)
    match = _match(rows, sub.rel, (*sub.keys, *sub.outputs), scalars.canonical(scalars.conjunction(parts)))
    if filters or certain:
        return exp.Paren(this=_is_not_null(match))
    if len(left) > 1:
        raise rows.binder.unsupported("IN of several columns here", node)
    counted = bind_subquery(rows, node.args["query"], by_equality=True)
    total, present = (fresh(name, set(rows.rel.names) | set(counted.rel.names)) for name in ("listed", "not_null"))
    measures = (Measure(total, "count"), Measure(present, "count", (col(counted.outputs[0]),)))
    counts = GroupBy(counted.rel, counted.keys, measures)
    rows.attach(Join(rows.rel, counts, counted.condition, JoinKind.LEFT if counted.correlated else JoinKind.INNER))
    return exp.Paren(
        this=exp.Case()
        .when(_is_not_null(match), exp.true())
        .when(
            exp.EQ(this=exp.func("COALESCE", col(total), exp.Literal.number(0)), expression=exp.Literal.number(0)),
            exp.false(),
        )
        .when(_any_null(left[0], exp.LT(this=col(present), expression=col(total))), exp.Null())
        .else_(exp.false())
    )


def scalar_value(rows: Rows, query: exp.Expr) -> exp.Expr:
    sub = bind_subquery(rows, query, by_equality=True)
    if len(sub.outputs) != 1:
        message = f"a subquery in an expression has one column, this one has {len(sub.outputs)}"
        raise rows.binder.fail("DF0203", message, query)
    return _scalar(rows, query, sub)


def _scalar(rows: Rows, node: exp.Expr, sub: Subquery) -> exp.Expr:
    value = sub.outputs[0]
    if sub.on_no_rows is not None:
        if not sub.correlated:
            rows.attach(Join(rows.rel, sub.rel, scalars.TRUE.copy()))
            return col(value)
        if sub.on_no_rows[0] == exp.Null():
            rows.attach(Join(rows.rel, sub.rel, sub.condition, JoinKind.LEFT))
            return col(value)
        there = fresh("matched", set(rows.rel.names) | set(sub.rel.names))
        rel = Project(sub.rel, (*(Item(n, col(n)) for n in sub.rel.names), Item(there, exp.true())))
        rows.attach(Join(rows.rel, rel, sub.condition, JoinKind.LEFT))
        case = exp.Case().when(_is_not_null(there), col(value)).else_(sub.on_no_rows[0].copy())
        return exp.Paren(this=case)
    if any(key <= set(sub.keys) for key in keys(sub.rel, rows.binder.catalog)):
        rows.attach(Join(rows.rel, sub.rel, sub.condition, JoinKind.LEFT))
        return col(value)
    number = fresh("found", set(rows.rel.names) | set(sub.rel.names))
    measures = (Measure(value, "max", (col(value),)), Measure(number, "count"))
    only = GroupBy(sub.rel, sub.keys, measures)
    rows.attach(Join(rows.rel, only, sub.condition, JoinKind.LEFT if sub.correlated else JoinKind.INNER))
    error = exp.func("raise_error", exp.Literal.string("a scalar subquery gives more than one row"))
    several = exp.GT(this=col(number), expression=exp.Literal.number(1))
    return exp.Paren(this=exp.Case().when(several, error).else_(col(value)))


def _match(rows: Rows, rel: Rel, names: tuple[str, ...], condition: exp.Expr) -> str:
    """Joins the distinct rows of a relation; the column that is not NULL where there is a match."""
    matched = fresh("matched", set(rows.rel.names) | set(rel.names))
    distinct = GroupBy(Project(rel, tuple(Item(name, col(name)) for name in names)), names, ())
    flagged = Project(distinct, (*(Item(name, col(name)) for name in names), Item(matched, exp.true())))
    rows.attach(Join(rows.rel, flagged, condition, JoinKind.LEFT))
    return matched


def _equals(rows: Rows, node: exp.In, left: list[exp.Expr], sub: Subquery) -> exp.Expr:
    if len(left) != len(sub.outputs):
        message = f"{len(left)} values are looked for among {len(sub.outputs)} columns"
        raise rows.binder.fail("DF0203", message, node)
    types = {column.name: column.type for column in schema(sub.rel)}
    parts = []
    for part, name in zip(left, sub.outputs, strict=True):
        kind = type_of(part, rows.columns).type
        if common_type(kind, types[name]) is None:
            raise rows.binder.fail("DF0303", f"{kind} and {types[name]} have no common type", node)
        parts.append(exp.EQ(this=_operand(part), expression=col(name)))
    return scalars.conjunction(tuple(parts))


def _operand(expression: exp.Expr) -> exp.Expr:
    simple = isinstance(expression, exp.Column | exp.Literal | exp.Paren | exp.Func)
    return expression.copy() if simple else exp.Paren(this=expression.copy())


def _never_null(equal: exp.Expr, rows: Rows, sub: Subquery) -> bool:
    inside = {column.name: column for column in schema(sub.rel)}
    return not type_of(equal, {**rows.columns, **inside}).nullable


def _is_not_null(name: str) -> exp.Expr:
    return exp.Not(this=exp.Is(this=col(name), expression=exp.Null()))


def _any_null(expression: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    return exp.Or(this=exp.Is(this=_operand(expression), expression=exp.Null()), expression=otherwise)
