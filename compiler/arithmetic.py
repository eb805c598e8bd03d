"""Types of numbers: literals, and arithmetic as Spark 4 types it with ANSI mode on.

| operation | of decimals (p1,s1), (p2,s2) |
|---|---|
| + -  | (max(p1-s1, p2-s2) + max(s1, s2) + 1, max(s1, s2)) |
| *    | (p1 + p2 + 1, s1 + s2) |
| /    | (p1 - s1 + s2 + max(6, s1 + p2 + 1), max(6, s1 + p2 + 1)) |
| %    | (min(p1-s1, p2-s2) + max(s1, s2), max(s1, s2)) |

An integer among decimals is a decimal of as many digits as its type may have, a literal of as many as it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from sqlglot import exp

from .scalar import text
from .types import (
    MIN_ADJUSTED_SCALE,
    ScalarType,
    UnknownType,
    adjusted,
    common_type,
    decimal_of,
    is_decimal,
    is_integral,
)


def unify(node: exp.Expr, types: Sequence[str]) -> str:
    result = "void"
    for type_ in types:
        wider = common_type(result, type_)
        if wider is None:
            raise UnknownType(node, f"{text(node)}: {result} and {type_} have no common type")
        result = wider
    return result


def number_type(node: exp.Expr, digits: str) -> str:
    if "e" in digits.lower():
        return "double"
    number = Decimal(digits)
    if "." not in digits:
        for type_, bits in (("int", 31), ("bigint", 63)):
            if -(2**bits) <= int(number) < 2**bits:
                return type_
    return f"decimal({','.join(map(str, literal_decimal(number)))})"


def literal_decimal(number: Decimal) -> tuple[int, int]:
    _, digits, exponent = number.as_tuple()
    scale = -exponent if isinstance(exponent, int) else 0
    significant = len("".join(map(str, digits)).lstrip("0")) or 1
    return max(significant, scale), scale


def integer_of(node: exp.Expr) -> int | None:
    """The value of an integer literal."""
    match node:
        case exp.Literal(is_string=False, this=digits) if digits.isdigit():
            return int(digits)
        case exp.Neg(this=inner):
            value = integer_of(inner)
            return None if value is None else -value
        case exp.Paren(this=inner):
            return integer_of(inner)
    return None


def arithmetic_type(node: exp.Expr, arguments: Sequence[ScalarType], operator: str) -> str:
    left, right = (argument.type for argument in arguments)
    if any(type_.startswith(("date", "timestamp", "interval")) for type_ in (left, right)):
        return _time_arithmetic(node, left, right, operator)
    # a string becomes what it is reckoned with; NULL too
    if left in ("string", "void") or right in ("string", "void"):
        both = {left, right}
        if both <= {"string", "void"}:
            left = right = "double"
        else:
            left = right = unify(node, [left, right])
    if is_decimal(left) or is_decimal(right):
        parts = node.args.get("this"), node.args.get("expression")
        if isinstance(node, exp.Anonymous):
            parts = (node.expressions[0], node.expressions[1])
        exact = [_as_decimal(part, type_) for part, type_ in zip(parts, (left, right), strict=True)]
        if exact[0] and exact[1]:
            return _decimal_arithmetic(exact[0], exact[1], operator)
        return "double"
    if operator == "/":
        return "double"
    result = common_type(left, right)
    if result is None:
        raise UnknownType(node, f"{text(node)}: {left} and {right} do not go together")
    return result


def _time_arithmetic(node: exp.Expr, left: str, right: str, operator: str) -> str:
    """Dates, times and intervals: moved by one another, subtracted, multiplied by numbers."""
    intervals = [type_ for type_ in (left, right) if type_.startswith("interval")]
    times = [type_ for type_ in (left, right) if type_.startswith(("date", "timestamp"))]
    if times and intervals:
        days = not any(unit in intervals[0] for unit in ("hour", "minute", "second"))
        return times[0] if times[0] != "date" or days else "timestamp"
    if len(times) == 2 and operator == "-":
        return "interval day" if left == right == "date" else "interval day to second"
    if times == ["date"] and operator in "+-":
        return "date"
    if intervals and not times:
        if len(set(intervals)) == 1 and len(intervals) == 2 and operator in "+-":
            return left
        months = "month" in intervals[0] or "year" in intervals[0]
        return "interval year to month" if months else "interval day to second"
    raise UnknownType(node, f"{text(node)}: {left} and {right} do not go together")


def interval_type(node: exp.Interval) -> str:
    """The type of an interval literal: that of its unit, a week being seven days."""
    unit = node.args.get("unit")
    if isinstance(unit, exp.IntervalSpan):
        return f"interval {unit.this.name.lower()} to {unit.expression.name.lower()}"
    name = unit.name.lower().rstrip("s") if isinstance(unit, exp.Expr) else ""
    return f"interval {'day' if name == 'week' else name}"


def _as_decimal(node: object, type_: str) -> tuple[int, int] | None:
    if isinstance(node, exp.Expr) and is_integral(type_):
        value = integer_of(node)
        if value is not None:
            return literal_decimal(Decimal(value))
    return decimal_of(type_)


def _decimal_arithmetic(left: tuple[int, int], right: tuple[int, int], operator: str) -> str:
    (p1, s1), (p2, s2) = left, right
    scale = max(s1, s2)
    match operator:
        case "*":
            return adjusted(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(MIN_ADJUSTED_SCALE, s1 + p2 + 1)
            return adjusted(p1 - s1 + s2 + scale, scale)
        case "%":
            return adjusted(min(p1 - s1, p2 - s2) + scale, scale)
    return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)
