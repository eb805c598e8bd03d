"""What the rules need to know of aggregates, from the table of facts."""

from __future__ import annotations

from sqlglot import exp

from ..compiler.aggregates import FUNCTIONS
from ..compiler.algebra import Measure, col


def leaves_out_nulls(measure: Measure) -> bool:
    """Whether the bag of its arguments that are not NULL decides the aggregate."""
    known = FUNCTIONS.get(measure.function)
    return known is not None and known.ignores_nulls and known.deterministic


def null_on_empty(measure: Measure) -> bool:
    return measure.function in FUNCTIONS and FUNCTIONS[measure.function].null_on_empty


def zero_on_empty(measure: Measure) -> bool:
    """Whether the aggregate is a count: 0 of no rows, a whole number."""
    known = FUNCTIONS.get(measure.function)
    return known is not None and not known.null_on_empty and known.gives(["int"]) == "bigint"


def or_zero(name: str) -> exp.Expr:
    """COALESCE(name, 0)."""
    return exp.Coalesce(this=col(name), expressions=[exp.Literal.number(0)])
