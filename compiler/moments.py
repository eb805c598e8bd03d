"""Parts of aggregates that need more than their argument: what is stored, and how the value follows from it.

For a call f(x) or f(x, y), a part is a distributive aggregate of an expression over x and y, and the value a scalar
expression over the parts. Functions of two arguments see only rows where neither is NULL.

| function | parts | value |
|---|---|---|
| count_if | number of true | itself |
| bool_and, bool_or | number of values, of false or true ones | none false, some true |
| var_*, stddev_* | n, Σx, Σx² | (nΣx² - (Σx)²) / n², or / n(n-1) |
| covar_*, corr, regr_* | n, Σx, Σy, Σxy, Σx², Σy² | (nΣxy - ΣxΣy) / n², … |

Small integers and decimals are summed exactly, as decimals; other numbers as DOUBLE, where the difference of two large
sums may cancel digits that Spark, which reckons around the mean, keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from sqlglot import exp

from . import scalar
from .aggregates import PartFunction
from .types import decimal_of, is_decimal, is_integral


@dataclass(frozen=True, slots=True)
class Part:
    name: str  # as the value calls it
    function: PartFunction
    argument: exp.Expr


@dataclass(frozen=True, slots=True)
class Algebra:
    parts: tuple[Part, ...]
    value: exp.Expr


_ONE = {"n": "count(x)", "s": "sum(x)", "q": "sum(x * x)"}
_PAIRS = {
    "n": "count(x)",
    "sx": "sum(x)",
    "sy": "sum(y)",
    "sxy": "sum(x * y)",
    "sxx": "sum(x * x)",
    "syy": "sum(y * y)",
}
_SQUARES = "GREATEST(CAST(n * q - s * s AS DOUBLE), CAST(0 AS DOUBLE))"
_XX = "GREATEST(CAST(n * sxx - sx * sx AS DOUBLE), CAST(0 AS DOUBLE))"
_YY = "GREATEST(CAST(n * syy - sy * sy AS DOUBLE), CAST(0 AS DOUBLE))"
_XY = "CAST(n * sxy - sx * sy AS DOUBLE)"

# In regr_* the first argument, x here, depends on the second, y here.
_VALUES: dict[str, tuple[dict[str, str], str]] = {
    "count_if": ({"t": "count(CASE WHEN x THEN 1 END)"}, "t"),
    "bool_and": ({"n": "count(x)", "f": "count(CASE WHEN NOT x THEN 1 END)"}, "CASE WHEN n > 0 THEN f = 0 END"),
    "bool_or": ({"n": "count(x)", "t": "count(CASE WHEN x THEN 1 END)"}, "CASE WHEN n > 0 THEN t > 0 END"),
    "var_pop": (_ONE, f"CASE WHEN n > 0 THEN {_SQUARES} / n / n END"),
    "var_samp": (_ONE, f"CASE WHEN n > 1 THEN {_SQUARES} / n / (n - 1) END"),
    "stddev_pop": (_ONE, f"CASE WHEN n > 0 THEN SQRT({_SQUARES} / n / n) END"),
    "stddev_samp": (_ONE, f"CASE WHEN n > 1 THEN SQRT({_SQUARES} / n / (n - 1)) END"),
    "covar_pop": (_PAIRS, f"CASE WHEN n > 0 THEN {_XY} / n / n END"),
    "covar_samp": (_PAIRS, f"CASE WHEN n > 1 THEN {_XY} / n / (n - 1) END"),
    "corr": (_PAIRS, f"CASE WHEN {_XX} > 0 AND {_YY} > 0 THEN {_XY} / SQRT({_XX}) / SQRT({_YY}) END"),
    "regr_count": (_PAIRS, "n"),
    "regr_sxx": (_PAIRS, f"CASE WHEN n > 0 THEN {_YY} / n END"),
    "regr_syy": (_PAIRS, f"CASE WHEN n > 0 THEN {_XX} / n END"),
    "regr_sxy": (_PAIRS, f"CASE WHEN n > 0 THEN {_XY} / n END"),
    "regr_slope": (_PAIRS, f"CASE WHEN {_YY} > 0 THEN {_XY} / {_YY} END"),
    "regr_intercept": (
        _PAIRS,
        f"CASE WHEN {_YY} > 0 THEN (CAST(sx AS DOUBLE) - {_XY} / {_YY} * CAST(sy AS DOUBLE)) / n END",
    ),
    "regr_r2": (
        _PAIRS,
        f"CASE WHEN {_YY} > 0 THEN CASE WHEN {_XX} > 0 THEN {_XY} / {_XX} * {_XY} / {_YY}"
        " ELSE CAST(1 AS DOUBLE) END END",
    ),
}


def algebra_of(function: str, arguments: Sequence[exp.Expr], types: Sequence[str]) -> Algebra | None:
    """The parts and the value of an aggregate call over arguments of these types; None where it has none here."""
    if function not in _VALUES:
        return None
    parts, value = _VALUES[function]
    numbers = [
        argument if type_ == "boolean" else _number(argument, type_)
        for argument, type_ in zip(arguments, types, strict=True)
    ]
    given = dict(zip("xy", numbers, strict=False))
    if len(arguments) == 2:
        given = {"x": _where(arguments[1], given["x"]), "y": _where(arguments[0], given["y"])}
    used = scalar.columns_of(_parsed(value))
    return Algebra(
        tuple(_part(name, call, given) for name, call in parts.items() if name in used), _parsed(value).copy()
    )


def _part(name: str, call: str, given: dict[str, exp.Expr]) -> Part:
    parsed = _parsed(call)
    function: PartFunction = "count" if isinstance(parsed, exp.Count) else "sum"
    return Part(name, function, scalar.canonical(scalar.substitute(parsed.this, given)))


@lru_cache
def _parsed(sql: str) -> exp.Expr:
    return scalar.canonical(scalar.parse(sql))


def _where(other: exp.Expr, argument: exp.Expr) -> exp.Expr:
    """The argument of a pair, NULL where the other one is."""
    there = exp.Not(this=exp.Is(this=exp.Paren(this=other.copy()), expression=exp.Null()))
    return exp.Case(ifs=[exp.If(this=there, true=argument.copy())])


def _number(argument: exp.Expr, type_: str) -> exp.Expr:
    exact = decimal_of(type_)
    if is_integral(type_) and type_ != "bigint" and exact:
        return exp.cast(argument.copy(), f"DECIMAL({exact[0]}, 0)", dialect=scalar.DIALECT)
    if is_decimal(type_) and exact and exact[0] <= 13 and exact[1] <= 3:
        return argument
    return exp.cast(argument.copy(), "DOUBLE", dialect=scalar.DIALECT)
