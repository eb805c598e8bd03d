"""Names of types, as Spark spells them, and how they combine.

A type is Spark's name of it, lower case, as in `decimal(10,2)`; `void` is the type of NULL. Past 38 digits a decimal's
scale is cut first, down to 6, then the integral part. An integer among decimals is a decimal of as many digits as its
type may have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from .scalar import DIALECT


@dataclass(frozen=True, slots=True)
class ScalarType:
    type: str
    nullable: bool


class UnknownType(Exception):
    """The expression's type cannot be derived; `node` is the part that is not understood."""

    def __init__(self, node: exp.Expr, message: str) -> None:
        self.node = node
        self.message = message
        super().__init__(message)


class NotDeterministic(Exception):
    """The expression may give another value each time; `node` is the part that does."""

    def __init__(self, node: exp.Expr, message: str) -> None:
        self.node = node
        self.message = message
        super().__init__(message)


MAX_PRECISION = 38
MIN_ADJUSTED_SCALE = 6
_INTEGRAL_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_NUMERIC_ORDER = ("tinyint", "smallint", "int", "bigint", "decimal", "float", "double")
DECIMAL = re.compile(r"decimal\((\d+),(-?\d+)\)\Z")
DATETIME_ORDER = ("date", "timestamp_ntz", "timestamp")
_SPARK_NAMES = {
    "integer": "int",
    "long": "bigint",
    "short": "smallint",
    "byte": "tinyint",
    "real": "float",
    "text": "string",
    "timestamp_ltz": "timestamp",
    "null": "void",
}


def decimal_of(type_: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type, or of the decimal that an integer type fits in; otherwise None."""
    if match := DECIMAL.match(type_):
        return int(match[1]), int(match[2])
    digits = _INTEGRAL_DIGITS.get(type_)
    return (digits, 0) if digits else None


def is_integral(type_: str) -> bool:
    return type_ in _INTEGRAL_DIGITS


def is_decimal(type_: str) -> bool:
    return type_.startswith("decimal(")


def is_numeric(type_: str) -> bool:
    return _family(type_) in _NUMERIC_ORDER


def _family(type_: str) -> str:
    return type_.partition("(")[0]


def decimal(precision: int, scale: int) -> str:
    """A decimal cut at 38 digits and a scale of 38."""
    return f"decimal({min(precision, MAX_PRECISION)},{min(scale, MAX_PRECISION)})"


def adjusted(precision: int, scale: int) -> str:
    """A decimal result of arithmetic: past 38 digits the fraction gives way, down to six digits."""
    if precision <= MAX_PRECISION:
        return f"decimal({precision},{scale})"
    kept = max(MAX_PRECISION - (precision - scale), min(scale, MIN_ADJUSTED_SCALE))
    return f"decimal({MAX_PRECISION},{kept})"


def wider_decimal(left: tuple[int, int], right: tuple[int, int]) -> str:
    """The decimal that holds both; past 38 digits the integral part is kept."""
    scale = max(left[1], right[1])
    integral = max(left[0] - left[1], right[0] - right[1])
    if integral + scale <= MAX_PRECISION:
        return f"decimal({integral + scale},{scale})"
    return f"decimal({MAX_PRECISION},{max(0, MAX_PRECISION - integral)})"


@lru_cache(maxsize=4096)
def type_name(data_type: exp.DataType) -> str:
    """Spark's name of a type as sqlglot parses it. CHAR and VARCHAR are strings to an expression."""
    name = data_type.sql(dialect=DIALECT).lower()
    name = re.sub(r"\s*([(),<>:])\s*", r"\1", name)
    family = _family(name)
    if family in ("varchar", "char"):
        return "string"
    if family in ("decimal", "dec", "numeric"):
        given = re.findall(r"\d+", name)
        precision = given[0] if given else "10"
        return f"decimal({precision},{given[1] if len(given) > 1 else '0'})"
    return _SPARK_NAMES.get(name, name)


def common_type(left: str, right: str) -> str | None:
    """The type in which values of both are compared or chosen among; None where Spark has none."""
    if left == right or right == "void":
        return left
    if left == "void":
        return right
    if is_numeric(left) and is_numeric(right):
        return _common_numeric(left, right)
    if left in DATETIME_ORDER and right in DATETIME_ORDER:
        return max(left, right, key=DATETIME_ORDER.index)
    elements = element_of(left), element_of(right)
    if elements[0] is not None and elements[1] is not None:
        element = common_type(elements[0], elements[1])
        return None if element is None else f"array<{element}>"
    for string, other in ((left, right), (right, left)):
        if string == "string" and not other.startswith(("array<", "map<", "struct<")):
            if is_integral(other):
                return "bigint"
            return "double" if is_numeric(other) else other
    return None


def _common_numeric(left: str, right: str) -> str:
    if is_integral(left) and is_integral(right):
        return max(left, right, key=_NUMERIC_ORDER.index)
    if is_decimal(left) or is_decimal(right):
        exact_left, exact_right = decimal_of(left), decimal_of(right)
        if exact_left and exact_right:
            return wider_decimal(exact_left, exact_right)
    return "double"


def _split(inner: str) -> list[str]:
    """The parts between the commas that no bracket encloses."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(inner):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append(inner[start:at])
            start = at + 1
    return [*parts, inner[start:]]


def element_of(type_: str) -> str | None:
    """The type of an array's elements."""
    return type_[len("array<") : -1] if type_.startswith("array<") else None


def map_of(type_: str) -> tuple[str, str] | None:
    """The types of a map's keys and values."""
    if not type_.startswith("map<"):
        return None
    key, value = _split(type_[len("map<") : -1])
    return key, value


def fields_of(type_: str) -> dict[str, str] | None:
    """The types of a struct's fields, by name."""
    if not type_.startswith("struct<"):
        return None
    fields = (part.partition(":") for part in _split(type_[len("struct<") : -1]))
    return {name: kind for name, _, kind in fields}
