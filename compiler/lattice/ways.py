"""How a stored part of a view is had from one row of its parent, stored or summary-delta.

| part | way | value of a row |
|---|---|---|
| f(e), which the parent has | taken | that part |
| f(e), e over what the parent gives | scaled | e * count for sums; the count where e is not NULL; e for extremes |
| f(CASE WHEN c THEN x ELSE y END), c over what the parent gives | by case | CASE WHEN c THEN f(x) ELSE f(y) END |
| any other | taken | the part is added to the parent |

The third row is what takes a crosstab, or an aggregate with FILTER, from the plain summary table: each of the parent's
groups is either wholly in the cell or not in it at all, so that SUM(x) serves all cells. A case without ELSE adds
nothing to a count, and NULL to a sum or an extreme. Sound for extremes if the values of all branches have one type,
because a coercion may change the order; for sums if they are exact numbers, or of one type. Extremes of a scaled
branch would be told by the count and not by what came and went: such a part is added to the parent as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from ..aggregates import aggregate_type
from ..algebra import Column
from ..summary import Part
from ..types import decimal_of, is_numeric
from ..typing import type_of
from .cubes import Cube, CubePart, Term, term

EXTREMES = ("min", "max")
_EXACT_DIGITS = 38 - 20 - 1  # of a decimal that a bigint multiplies


@dataclass(frozen=True, slots=True)
class Taken:
    """The parent's part of this text."""

    text: str


@dataclass(frozen=True, slots=True)
class Scaled:
    """From an argument that is constant in each of the parent's groups, and the group's count."""

    argument: Term


@dataclass(frozen=True, slots=True)
class ByCase:
    """From the first branch whose condition, constant in each of the parent's groups, is true."""

    cases: tuple[tuple[Term, Way | None], ...]
    otherwise: Way | None


Way = Taken | Scaled | ByCase


@dataclass(frozen=True, slots=True)
class Found:
    """A way, what the parent must give for it, and the parts that must be added to the parent."""

    way: Way
    given: tuple[Term, ...] = ()
    added: tuple[CubePart, ...] = ()


def taken(way: Way | None) -> tuple[str, ...]:
    """The texts of the parent's parts that a way takes."""
    match way:
        case Taken(text):
            return (text,)
        case ByCase(cases, otherwise):
            return tuple(dict.fromkeys(text for one in (*(w for _, w in cases), otherwise) for text in taken(one)))
    return ()


def way_of(part: CubePart, parent: Cube, gives: Callable[[Term], bool], columns: Mapping[str, Column]) -> Found:
    """How the part is had from the parent; there always is a way, since the part can be added."""
    if part.text in parent.parts or part.argument is None:
        return Found(Taken(part.text))
    if _scales(part, columns) and gives(part.argument):
        return Found(Scaled(part.argument), given=(part.argument,))
    return _by_case(part, parent, gives, columns) or _added(part, parent, columns)


def _added(part: CubePart, parent: Cube, columns: Mapping[str, Column]) -> Found:
    if part.count_text in parent.parts:
        return Found(Taken(part.text), added=(part,))
    assert part.argument is not None
    return Found(Taken(part.text), added=(part, _part("count", part.argument.expression, columns)))


def _scales(part: CubePart, columns: Mapping[str, Column]) -> bool:
    """A sum becomes SUM(argument * count): only for numbers, and for decimals only if the product keeps all digits."""
    if part.part.function != "sum":
        return True
    assert part.argument is not None
    kind = type_of(part.argument.expression, columns).type
    digits = decimal_of(kind) if kind.startswith("decimal") else None
    return is_numeric(kind) and (digits is None or digits[0] <= _EXACT_DIGITS)


def _by_case(
    part: CubePart, parent: Cube, gives: Callable[[Term], bool], columns: Mapping[str, Column]
) -> Found | None:
    assert part.argument is not None
    case = part.argument.expression
    if not isinstance(case, exp.Case) or not _coerces_soundly(part, case, columns):
        return None
    conditions = [term(_condition(case, branch)) for branch in case.args["ifs"]]
    if not all(gives(condition) for condition in conditions):
        return None
    given, added = list(conditions), list[CubePart]()
    ways: list[Way | None] = []
    for value in (*(branch.args["true"] for branch in case.args["ifs"]), case.args.get("default")):
        if value is None or isinstance(value, exp.Null):
            ways.append(None)
            continue
        found = way_of(_part(part.part.function, value, columns), parent, gives, columns)
        if part.part.function in EXTREMES and _is_scaled(found.way):
            return None
        ways.append(found.way)
        given += found.given
        added += found.added
    way = ByCase(tuple(zip(conditions, ways, strict=False)), ways[-1])
    return Found(way, tuple(given), tuple(added))


def _condition(case: exp.Case, branch: exp.If) -> exp.Expr:
    condition: exp.Expr = branch.this
    if case.this is None:
        return condition
    return exp.EQ(this=case.this.copy(), expression=condition.copy())


def _is_scaled(way: Way | None) -> bool:
    match way:
        case Scaled():
            return True
        case ByCase(cases, otherwise):
            return any(_is_scaled(one) for one in (*(w for _, w in cases), otherwise))
    return False


def _coerces_soundly(part: CubePart, case: exp.Case, columns: Mapping[str, Column]) -> bool:
    if part.part.function == "count":
        return True
    values = [*(branch.args["true"] for branch in case.args["ifs"]), case.args.get("default")]
    kinds = {type_of(value, columns).type for value in values if value is not None and not isinstance(value, exp.Null)}
    exact = part.part.function == "sum" and all(is_numeric(kind) and kind not in ("float", "double") for kind in kinds)
    return exact or len(kinds) == 1


def _part(function: str, argument: exp.Expr, columns: Mapping[str, Column]) -> CubePart:
    """A part that no view has yet; COUNT of what is never NULL is COUNT(*)."""
    kind = type_of(argument, columns)
    made = Part("", function, None, "", kind.nullable, aggregate_type(function, kind).type)  # type: ignore[arg-type]
    return CubePart(made, None if function == "count" and not kind.nullable else term(argument))
