"""What a condition that is true says of columns: which are not NULL, and which determine others.

An expression is *strict* in a column if it is NULL whenever the column is: comparisons and arithmetic are strict in
both sides, CASE, COALESCE, IS NULL and <=> are not. A condition keeps a row only if it is true, not unknown; so it
needs the columns in which it is strict, those of both sides of an AND, and those that both sides of an OR need.

An equality fixes a column only where comparing does not convert it: `'01' = 1` is true. Floating point columns fix no
computed values, since 0.0 and -0.0 are equal and their texts are not.
"""

from __future__ import annotations

from sqlglot import exp

from . import scalar
from .algebra import Column
from .dependencies import Dependencies, Dependency
from .types import common_type, is_decimal, is_integral
from .typing import type_of

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


def equalities(condition: exp.Expr, columns: tuple[Column, ...]) -> Dependencies:
    """What a condition that is true says of the columns: constants, and columns that agree."""
    by_name = {column.name: column for column in columns}
    found: list[Dependency] = []
    for part in scalar.conjuncts(condition):
        match part:
            case exp.EQ(this=left, expression=right) | exp.NullSafeEQ(this=left, expression=right):
                for value, other in ((left, right), (right, left)):
                    if isinstance(value, exp.Column) and _agrees(value, other, by_name):
                        found.append(Dependency(scalar.columns_of(other), frozenset([value.name])))
            case exp.Is(this=exp.Column() as value, expression=exp.Null()):
                found.append(Dependency(frozenset(), frozenset([value.name])))
    return tuple(found)


def _agrees(value: exp.Column, other: exp.Expr, by_name: dict[str, Column]) -> bool:
    """Whether equality with `other` fixes the column: it is compared in its own type, or in a wider exact one."""
    if value.name not in by_name or not scalar.columns_of(other) <= set(by_name):
        return False
    if not isinstance(other, exp.Column) and floats(other, by_name):
        return False
    mine, theirs = by_name[value.name].type, type_of(other, by_name).type
    common = common_type(mine, theirs)
    return mine == theirs or (common == mine != "string") or (is_integral(mine) and _whole(common))


def _whole(kind: str | None) -> bool:
    """Whether integers of any width keep their values in this type."""
    return kind is not None and (is_integral(kind) or (is_decimal(kind) and kind.endswith(",0)")))


def floats(expression: exp.Expr, by_name: dict[str, Column]) -> bool:
    return any(by_name[name].type in ("float", "double") for name in scalar.columns_of(expression))
