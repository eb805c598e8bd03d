"""Whether one condition of a WHERE follows from another: the same text, or comparisons of one attribute with constants.

Sound for rows on which the stronger condition is true; what is not understood does not follow.

| stronger | weaker | follows when |
|---|---|---|
| a = c, a IN (…) | a IN (…), a = c | its values are among the others |
| a = c, a IN (…), a < c … | a < c, a >= c … | every number that it lets pass, the other one does |
| any of these | a IS NOT NULL | always: a comparison with NULL is not true |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from .. import scalar

_OPERATORS: dict[type[exp.Expr], str] = {exp.EQ: "=", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
_MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`attribute operator values`: several values for IN, none for IS NOT NULL."""

    attribute: str
    operator: str
    values: frozenset[str]


def comparison(condition: exp.Expr) -> Comparison | None:
    match condition:
        case exp.Paren(this=inner):
            return comparison(inner)
        case exp.Not(this=exp.Is(this=exp.Column() as column, expression=exp.Null())):
            return Comparison(column.name, "is not null", frozenset())
        case exp.In(this=exp.Column() as column, expressions=values) if values and all(map(_is_constant, values)):
            return Comparison(column.name, "=", frozenset(scalar.text(value) for value in values))
        case exp.Binary(this=exp.Column() as column, expression=value) if _is_constant(value):
            operator = _OPERATORS.get(type(condition))
            return Comparison(column.name, operator, frozenset((scalar.text(value),))) if operator else None
        case exp.Binary(this=value, expression=exp.Column() as column) if _is_constant(value):
            operator = _OPERATORS.get(type(condition))
            text = frozenset((scalar.text(value),))
            return Comparison(column.name, _MIRRORED[operator], text) if operator else None
    return None


def _is_constant(expression: exp.Expr) -> bool:
    return not isinstance(expression, exp.Null) and expression.find(exp.Column, exp.Null, exp.Func) is None


def follows(weaker: Comparison | None, given: Iterable[Comparison | None]) -> bool:
    """Whether the weaker comparison is true wherever all of the given ones are."""
    return weaker is not None and any(c is not None and _follows(weaker, c) for c in given)


def _follows(weaker: Comparison, stronger: Comparison) -> bool:
    if weaker.attribute != stronger.attribute or stronger.operator == "is not null":
        return False
    if weaker.operator == "is not null":
        return True
    if weaker.operator == "=":
        return stronger.operator == "=" and stronger.values <= weaker.values
    bound = _number(next(iter(weaker.values)))
    values = [_number(value) for value in stronger.values]
    if bound is None or any(value is None for value in values):
        return False
    return all(_passes(weaker.operator, bound, stronger.operator, value) for value in values if value is not None)


def _passes(weaker: str, bound: Decimal, stronger: str, value: Decimal) -> bool:
    """Whether every x with `x stronger value` has `x weaker bound`."""
    if stronger == "=":
        return {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[weaker]
    if weaker[0] != stronger[0]:
        return False
    tight = value == bound and (stronger == weaker or weaker.endswith("="))
    return tight or (value < bound if weaker[0] == "<" else value > bound)


def _number(text: str) -> Decimal | None:
    try:
        return Decimal(text)
    except InvalidOperation:
        return None
