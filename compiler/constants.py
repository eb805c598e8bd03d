"""Constant expressions: their value, as Spark computes it, as a literal of a type, and as text.

Only what a list of values may sensibly hold is folded: literals, signs, sums and products of exact numbers, strings put
together, casts. The rest is `NotConstant`, never a guess.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

from sqlglot import exp

from . import scalar
from .types import decimal_of, is_decimal, is_integral, type_name
from .typing import NotDeterministic, UnknownType, type_of

Value = None | bool | int | Decimal | float | str | dt.date | dt.datetime
_BITS = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


class NotConstant(Exception):
    """The expression's value is not known, or is none of the type that is wanted."""


@dataclass(frozen=True, slots=True)
class Constant:
    value: Value
    type: str


def fold(expression: exp.Expr) -> Constant:
    """The value of an expression without columns."""
    match expression:
        case exp.Paren(this=inner):
            return fold(inner)
        case exp.Null():
            return Constant(None, "void")
        case exp.Boolean(this=truth):
            return Constant(bool(truth), "boolean")
        case exp.Literal(is_string=True):
            return Constant(expression.name, "string")
        case exp.Cast() | exp.TryCast():
            return cast(fold(expression.this), type_name(expression.to))
    type_ = _type(expression)
    match expression:
        case exp.Literal():
            return cast(Constant(Decimal(expression.name), "decimal"), type_)
        case exp.Neg(this=inner):
            value = fold(inner).value
            if value is None or isinstance(value, int | Decimal | float):
                return Constant(None if value is None else -value, type_)
        case exp.Concat() | exp.DPipe():
            parts = [fold(part) for part in _parts(expression)]
            if any(part.value is None for part in parts):
                return Constant(None, "string")
            return Constant("".join(shown(part) for part in parts), "string")
        case exp.Upper(this=inner) | exp.Lower(this=inner):
            value = fold(inner).value
            if isinstance(value, str) and value.isascii():
                return Constant(value.upper() if isinstance(expression, exp.Upper) else value.lower(), "string")
        case exp.Add(this=a, expression=b) | exp.Sub(this=a, expression=b) | exp.Mul(this=a, expression=b):
            return _arithmetic(expression, fold(a).value, fold(b).value, type_)
    raise NotConstant(f"{scalar.text(expression)} is not a constant that is understood")


def _type(expression: exp.Expr) -> str:
    try:
        return type_of(expression, {}).type
    except (UnknownType, NotDeterministic) as error:
        raise NotConstant(error.message) from None


def _parts(expression: exp.Expr) -> list[exp.Expr]:
    return expression.expressions or [expression.this, expression.args["expression"]]


def _arithmetic(operator: exp.Expr, left: Value, right: Value, type_: str) -> Constant:
    if left is None or right is None:
        return Constant(None, type_)
    if isinstance(left, int | Decimal) and isinstance(right, int | Decimal):
        match operator:
            case exp.Add():
                return cast(Constant(left + right, "decimal"), type_)
            case exp.Sub():
                return cast(Constant(left - right, "decimal"), type_)
            case exp.Mul():
                return cast(Constant(left * right, "decimal"), type_)
    raise NotConstant(f"{scalar.text(operator)} is not a constant that is understood")


def cast(constant: Constant, type_: str) -> Constant:
    """The constant in another type; a value that the type cannot hold is an error, as in Spark."""
    if constant.value is None or constant.type == type_:
        return Constant(constant.value, type_)
    try:
        return Constant(_converted(constant, type_), type_)
    except (ValueError, InvalidOperation, OverflowError):
        raise NotConstant(f"{shown(constant)} is not a value of type {type_.upper()}") from None


def _converted(constant: Constant, type_: str) -> Value:
    value = constant.value
    if type_ == "string":
        return shown(constant)
    if is_integral(type_) and isinstance(value, bool | int | Decimal | float | str):
        number = int(value.strip()) if isinstance(value, str) else int(value)
        if not -(2 ** _BITS[type_]) <= number < 2 ** _BITS[type_]:
            raise OverflowError
        return number
    exact = decimal_of(type_)
    if is_decimal(type_) and exact and isinstance(value, int | Decimal | str):
        decimal = Decimal(value).quantize(Decimal(1).scaleb(-exact[1]), rounding=ROUND_HALF_UP)
        if len(decimal.as_tuple().digits) > exact[0]:
            raise OverflowError
        return decimal
    if type_ in ("double", "float") and isinstance(value, int | Decimal | float | str):
        return float(value)
    if type_ == "boolean" and isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if type_ == "date" and isinstance(value, str):
        return dt.date.fromisoformat(value.strip())
    if type_ == "date" and isinstance(value, dt.datetime):
        return value.date()
    if type_.startswith("timestamp") and isinstance(value, str):
        return dt.datetime.fromisoformat(value.strip())
    raise ValueError


def shown(constant: Constant) -> str:
    """The value cast to a string."""
    match constant.value:
        case None:
            return "null"
        case bool(value):
            return str(value).lower()
        case Decimal() as number:
            return format(number, "f")
        case float(number):
            if number != 0 and not 1e-3 <= abs(number) < 1e7:
                raise NotConstant(f"{number} has no text that is known")
            return repr(number)
        case dt.datetime() as moment:
            return moment.isoformat(sep=" ").rstrip("0") if moment.microsecond else moment.isoformat(sep=" ")
        case value:
            return str(value)


def literal(constant: Constant) -> exp.Expr:
    """The constant as an expression of its type."""
    match constant.value:
        case None:
            return exp.Null()
        case bool(truth):
            return exp.Boolean(this=truth)
        case str(text):
            return exp.Literal.string(text)
        case int() | Decimal():
            digits = shown(constant)
            made = exp.Literal.number(digits.removeprefix("-"))
            return exp.Neg(this=made) if digits.startswith("-") else made
        case float(number):
            text = repr(number)
        case _:
            text = shown(constant)
    return scalar.canonical(exp.cast(exp.Literal.string(text), constant.type, dialect=scalar.DIALECT))
