"""Which columns cannot be NULL where a condition is true.

An expression is *strict* in a column if it is NULL whenever the column is: comparisons and arithmetic are strict in
both sides, CASE, COALESCE, IS NULL and <=> are not. A condition keeps a row only if it is true, not unknown; so it
needs the columns in which it is strict, those of both sides of an AND, and those that both sides of an OR need.
"""

from __future__ import annotations

from sqlglot import exp

_STRICT = (
    *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.Paren, exp.Not, exp.DPipe, exp.Like),
    *(exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Cast, exp.Upper, exp.Lower, exp.Abs),
)


def strict_in(expression: exp.Expr) -> frozenset[str]:
    """The columns whose NULL makes the expression NULL."""
    match expression:
        case exp.Column():
            return frozenset([expression.name])
        case exp.Between(this=value) | exp.In(this=value):
            return strict_in(value)
        case exp.And() | exp.Or():
            return strict_in(expression.this) & strict_in(expression.expression)
    if isinstance(expression, _STRICT):
        parts = [expression.args.get("this"), expression.args.get("expression")]
        return frozenset().union(*(strict_in(part) for part in parts if isinstance(part, exp.Expr)))
    return frozenset()


def needed_by(condition: exp.Expr) -> frozenset[str]:
    """The columns that are not NULL in any row for which the condition is true."""
    match condition:
        case exp.And(this=left, expression=right):
            return needed_by(left) | needed_by(right)
        case exp.Or(this=left, expression=right):
            return needed_by(left) & needed_by(right)
        case exp.Paren(this=inner):
            return needed_by(inner)
        case exp.Not(this=exp.Is(this=value, expression=exp.Null())):
            return strict_in(value)
        case (
            exp.NullSafeEQ(this=value, expression=exp.Literal()) | exp.NullSafeEQ(this=exp.Literal(), expression=value)
        ):
            return strict_in(value)
        case exp.Between(this=value, args={"low": exp.Expr() as low, "high": exp.Expr() as high}):
            return strict_in(value) | strict_in(low) | strict_in(high)
    return strict_in(condition)
