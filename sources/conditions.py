"""Conditions on one table that a core evaluates by itself, in Python, as Spark would: three-valued, strings by code
point. What is not listed here stays above the core, where Spark evaluates it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from sqlglot import exp

from .bag import Row

Evaluated = Callable[[Row], Any]
COMPARISONS: dict[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.EQ: operator.eq,
    exp.NEQ: operator.ne,
    exp.LT: operator.lt,
    exp.LTE: operator.le,
    exp.GT: operator.gt,
    exp.GTE: operator.ge,
}


def condition(filters: tuple[exp.Expr, ...], columns: tuple[str, ...]) -> Callable[[Row], bool]:
    """Whether all of the conditions are true of a row; `compiler.cores` lets no others through."""
    tests = [_compiled(each, columns) for each in filters]
    return lambda row: all(test(row) is True for test in tests)


def _compiled(expression: exp.Expr, columns: tuple[str, ...]) -> Evaluated:
    match expression:
        case exp.Paren(this=inner):
            return _compiled(inner, columns)
        case exp.Column():
            return operator.itemgetter(columns.index(expression.name))
        case exp.Literal():
            value = expression.name if expression.is_string else _number(expression.name)
            return lambda _: value
        case exp.Neg(this=exp.Literal() as literal):
            negative = -_number(literal.name)
            return lambda _: negative
        case exp.Not(this=inner):
            test = _compiled(inner, columns)
            return lambda row: None if (found := test(row)) is None else not found
        case exp.And(this=a, expression=b):
            first, second = _compiled(a, columns), _compiled(b, columns)
            return lambda row: _and(first(row), second(row))
        case exp.Or(this=a, expression=b):
            first, second = _compiled(a, columns), _compiled(b, columns)
            return lambda row: _or(first(row), second(row))
        case exp.Is(this=a, expression=exp.Null()):
            value_of = _compiled(a, columns)
            return lambda row: value_of(row) is None
        case exp.In(this=a, expressions=listed) if listed:
            return _any_of([_compiled(exp.EQ(this=a.copy(), expression=each.copy()), columns) for each in listed])
        case exp.Between(this=a):
            low, high = expression.args["low"], expression.args["high"]
            lower = exp.GTE(this=a.copy(), expression=low.copy())
            upper = exp.LTE(this=a.copy(), expression=high.copy())
            return _compiled(exp.And(this=lower, expression=upper), columns)
        case exp.Binary(this=a, expression=b) if type(expression) in COMPARISONS:
            compare = COMPARISONS[type(expression)]
            left, right = _compiled(a, columns), _compiled(b, columns)
            return lambda row: _compared(compare, left(row), right(row))
    raise NotImplementedError(expression.sql("spark"))


def _number(text: str) -> int | Decimal:
    return int(text) if text.isdigit() else Decimal(text)


def _compared(compare: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    return None if left is None or right is None else compare(left, right)


def _and(first: Any, second: Any) -> Any:
    return False if first is False or second is False else None if first is None or second is None else True


def _or(first: Any, second: Any) -> Any:
    return True if first is True or second is True else None if first is None or second is None else False


def _any_of(tests: list[Evaluated]) -> Evaluated:
    def evaluate(row: Row) -> Any:
        found: Any = False
        for test in tests:
            found = _or(found, test(row))
        return found

    return evaluate
