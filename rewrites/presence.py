"""Conditions on rows before a pivot, as conditions on cells after it.

At each value list, the columns pivoted by are constants and the measures are cells. That a condition holds there must
mean that the row was there: a missing row leaves NULLs in its cells, as a row of NULLs does. So the condition must
either reject NULLs, or some measure that can never be NULL tells the two apart.
"""

from __future__ import annotations

from itertools import product

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import GPivot, GUnpivot
from .facts import Facts
from .nulls import always_true, never_true
from .shapes import Values, all_of, at_values, cells_at, none_null, substituted, value_lists


def at(rel: GPivot | GUnpivot, values: Values, condition: exp.Expr) -> exp.Expr:
    """A condition on names and measures, as one on the cells at these values; what always holds there is left out."""
    here = substituted(condition, at_values(rel, values))
    parts = scalar.conjuncts(here)
    left = tuple(part for part in parts if not always_true(part, frozenset()))
    return here if len(left) == len(parts) else all_of(left)


def condition_at(pivot: GPivot, values: Values, condition: exp.Expr, facts: Facts) -> exp.Expr | None:
    """True exactly where the row with these values is there and satisfies the condition; None if it cannot be told."""
    here = at(pivot, values, condition)
    cells = cells_at(pivot, values)
    if never_true(here, cells):
        return here
    required = {column.name for column in facts.schema(pivot.input) if not column.nullable}
    tell = [c.name for c in pivot.cells if c.name in cells and c.measure in required]
    return all_of((here, *none_null(tell[:1]))) if tell else None


def has_cells_for(pivot: GPivot, condition: exp.Expr) -> bool:
    """Whether each measure that the condition reads has a cell at each value list."""
    read = scalar.columns_of(condition) & set(pivot.measures)
    there = {(cell.measure, cell.values) for cell in pivot.cells}
    return all((measure, values) in there for measure in read for values in value_lists(pivot))


def keeps_listed_only(pivot: GPivot, condition: exp.Expr) -> bool:
    """Whether the condition is true only in rows whose values are listed."""
    found = _value_lists(condition, pivot.by)
    return found is not None and found <= set(value_lists(pivot))


def _value_lists(condition: exp.Expr, by: tuple[str, ...]) -> set[Values] | None:
    """Value lists outside of which the condition does not hold; None if there are none that are known."""
    allowed: dict[str, list[exp.Expr]] = {}
    for part in scalar.conjuncts(condition):
        match part:
            case exp.Paren(this=exp.Or() as either) | (exp.Or() as either):
                sides = [_value_lists(side, by) for side in (either.this, either.expression)]
                if sides[0] is not None and sides[1] is not None:
                    return sides[0] | sides[1]
            case exp.EQ(this=a, expression=b) | exp.NullSafeEQ(this=a, expression=b):
                for column, value in ((a, b), (b, a)):
                    if isinstance(column, exp.Column) and isinstance(value, exp.Literal):
                        allowed[column.name] = [value]
            case exp.In(this=exp.Column() as column, expressions=values) if values:
                if all(isinstance(value, exp.Literal) for value in values):
                    allowed[column.name] = values
    if not set(by) <= set(allowed):
        return None
    return set(product(*(allowed[name] for name in by)))
