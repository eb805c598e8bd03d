"""WHERE: conjuncts one by one, subqueries in them as semi and anti joins where they can be.

NOT is pushed inwards to the subqueries below it, and what all branches of an OR have in common is taken out of it:
both hold in three-valued logic, and give joins where there would be none.
"""

from __future__ import annotations

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import JoinKind
from ..source import Diagnostic, InputError
from .correlation import Around
from .expressions import aggregates, bind, condition, has_window
from .rows import Rows
from .scope import collecting
from .subqueries import keep_where_exists, keep_where_in


def keep_where(rows: Rows, expression: exp.Expr) -> None:
    """Keeps the rows for which a WHERE or HAVING condition is true."""
    errors: list[Diagnostic] = []
    parts = [part for whole in scalars.conjuncts(_inwards(expression)) for part in scalars.conjuncts(_factored(whole))]
    for part in sorted(parts, key=lambda part: part.find(exp.Query) is not None):
        with collecting(errors):
            _keep(rows, part)
    if errors:
        raise InputError(errors)


def _keep(rows: Rows, part: exp.Expr) -> None:
    inner = part.unnest()
    if has_window(inner):
        raise rows.binder.fail("DF0304", "a window function cannot stand in a condition", inner, "use QUALIFY")
    match inner:
        case exp.Exists(this=query):
            keep_where_exists(rows, query, JoinKind.SEMI)
        case exp.Not(this=exp.Exists(this=query)):
            keep_where_exists(rows, query, JoinKind.ANTI)
        case exp.In() if inner.args.get("query"):
            keep_where_in(rows, inner, _left(rows, inner), JoinKind.SEMI)
        case exp.Not(this=exp.In() as listed) if listed.args.get("query"):
            keep_where_in(rows, listed, _left(rows, listed), JoinKind.ANTI)
        case _:
            around = rows.binder.outer
            pulled_up = isinstance(around, Around) and inner.find(exp.Query) is None and rows.pulls_up
            if isinstance(around, Around):
                around.pulled_up = pulled_up
            try:
                bound = condition(rows, inner)
            finally:
                if isinstance(around, Around):
                    around.pulled_up = False
            rows.keep(bound)


def _left(rows: Rows, node: exp.In) -> list[exp.Expr]:
    for aggregate in aggregates(node.this):
        if rows.replaced(aggregate) is None:
            raise rows.binder.fail("DF0304", "an aggregate cannot stand in a condition", aggregate)
    parts = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    return [bind(rows, part) for part in parts]


def _inwards(node: exp.Expr) -> exp.Expr:
    """NOT of AND and OR with subqueries below, as OR and AND of NOTs."""
    if node.find(exp.Query) is None:
        return node
    match node:
        case exp.Paren(this=inner) if isinstance(inner, exp.And | exp.Or | exp.Not | exp.Paren):
            return exp.Paren(this=_inwards(inner))
        case exp.And(this=left, expression=right):
            return exp.And(this=_inwards(left), expression=_inwards(right))
        case exp.Or(this=left, expression=right):
            return exp.Or(this=_inwards(left), expression=_inwards(right))
        case exp.Not(this=inner):
            match inner.unnest():
                case exp.And(this=left, expression=right):
                    return exp.Paren(this=exp.Or(this=_negated(left), expression=_negated(right)))
                case exp.Or(this=left, expression=right):
                    return exp.And(this=_negated(left), expression=_negated(right))
                case exp.Not(this=twice):
                    return _inwards(twice.unnest())
                case exp.Exists() | exp.In() as predicate:
                    return exp.Not(this=predicate)
    return node


def _negated(node: exp.Expr) -> exp.Expr:
    inner = node.unnest()
    plain = inner if isinstance(inner, exp.Exists | exp.In | exp.And | exp.Or | exp.Not) else exp.Paren(this=inner)
    return _inwards(exp.Not(this=plain))


def _factored(node: exp.Expr) -> exp.Expr:
    """(a AND b) OR (a AND c) as a AND (b OR c)."""
    if not isinstance(node.unnest(), exp.Or):
        return node
    branches = [scalars.conjuncts(branch.unnest()) for branch in _disjuncts(node)]
    shared = [part for part in branches[0] if all(part in other for other in branches[1:])]
    if not shared:
        return node
    rests = [tuple(part for part in branch if part not in shared) for branch in branches]
    if not all(rests):
        return scalars.conjunction(tuple(shared))
    alternatives = scalars.conjunction(rests[0])
    for rest in rests[1:]:
        alternatives = exp.Or(this=alternatives, expression=scalars.conjunction(rest))
    return scalars.conjunction((*shared, alternatives))


def _disjuncts(node: exp.Expr) -> list[exp.Expr]:
    inner = node.unnest()
    if isinstance(inner, exp.Or):
        return _disjuncts(inner.this) + _disjuncts(inner.expression)
    return [inner]
