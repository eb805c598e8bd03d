"""Crosstabs written by hand are pivots, and selections that a pivot makes needless."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Cell, GPivot, GroupBy, Item, Measure, Rel, Select, col
from ..compiler.types import is_integral
from ..compiler.typing import type_of
from .aggregation import leaves_out_nulls, null_on_empty, or_zero, zero_on_empty
from .engine import Outcome, Refused
from .facts import Facts
from .nulls import always_true, never_true
from .shapes import Values, columns, fresh, over, value_lists


@dataclass(frozen=True, slots=True)
class _Spread:
    """An aggregate of CASE WHEN by = values THEN argument [ELSE 0] END."""

    measure: Measure
    by: tuple[str, ...]
    values: Values
    argument: exp.Expr
    or_zero: bool


def recognise_crosstab(rel: Rel, facts: Facts) -> Outcome:
    """Aggregates of CASE by the values of a column are a pivot of an aggregate by that column.

    Before:
        GroupBy [region] {
            jan := sum(CASE WHEN month = 'jan' THEN qty END),
            n := count(CASE WHEN month = 'feb' THEN qty END)
          }
          Scan sales
    After:
        Project { region, jan, n := COALESCE(n, 0) }
          GPivot [month] { jan := sum_qty @ ('jan'), n := count_qty @ ('feb') }
            GroupBy [region, month] { sum_qty := sum(qty), count_qty := count(qty) }
              Scan sales

    Sound because the CASE is NULL in rows of other values, and aggregates leave NULLs out. Provided
    1. every aggregate is of this form, by the same columns,
    2. which are not grouped by,
    3. and are compared with values of their own type,
    4. each aggregate is known to leave out NULLs, and is NULL or 0 of no rows (0 is put back above),
    5. with ELSE 0: it is a sum of what is never NULL, in groups that have a row.
    """
    match rel:
        case GroupBy(input=input, keys=keys, measures=measures) if any(_spread(m) for m in measures):
            spread = [found for found in map(_spread, measures) if found is not None]
            if len(spread) != len(measures) or len({frozenset(s.by) for s in spread}) != 1:
                return Refused("not all aggregates are spread by the values of the same columns")
            by = spread[0].by
            if set(by) & set(keys):
                return Refused("it groups by the column whose values are spread")
            types = facts.columns(input)
            inner: dict[Measure, str] = {}
            cells: dict[Cell, str] = {}
            above = list(columns(keys))
            for one in spread:
                values = tuple(one.values[one.by.index(name)] for name in by)
                if not all(_comparable(types[b].type, v) for b, v in zip(by, values, strict=True)):
                    return Refused(f"{one.measure.name}: a column is compared with a value of another type")
                if not leaves_out_nulls(one.measure):
                    return Refused(f"{one.measure.function} is not known to leave out NULLs")
                if not (null_on_empty(one.measure) or zero_on_empty(one.measure)):
                    return Refused(f"{one.measure.function} of no rows is neither NULL nor 0")
                if one.or_zero and not _sum_of_something(one, bool(keys), type_of(one.argument, types).nullable):
                    return Refused(f"{one.measure.name}: its ELSE 0 tells rows of other values from NULLs")
                made = Measure("", one.measure.function, (one.argument,), one.measure.distinct)
                if made not in inner:
                    hint = one.argument.name if isinstance(one.argument, exp.Column) else one.measure.name
                    inner[made] = fresh(f"{made.function}_{hint}", {*keys, *by, *inner.values()})
                place = Cell("", inner[made], values)
                cells.setdefault(place, fresh(one.measure.name, {*keys, *cells.values()}))
                plain = null_on_empty(one.measure) and not one.or_zero
                above.append(Item(one.measure.name, col(cells[place]) if plain else or_zero(cells[place])))
            lower = tuple(Measure(name, m.function, m.arguments, m.distinct) for m, name in inner.items())
            spread_cells = tuple(Cell(name, place.measure, place.values) for place, name in cells.items())
            return over(GPivot(GroupBy(input, (*keys, *by), lower), by, spread_cells), (), tuple(above))
    return None


def _sum_of_something(one: _Spread, has_keys: bool, nullable: bool) -> bool:
    return one.measure.function == "sum" and not one.measure.distinct and has_keys and not nullable


def _spread(measure: Measure) -> _Spread | None:
    match measure.arguments:
        case (exp.Case(this=None) as case,) if len(case.args["ifs"]) == 1:
            branch, default = case.args["ifs"][0], case.args.get("default")
            or_zero = default == exp.Literal.number(0)
            if default is not None and not isinstance(default, exp.Null) and not or_zero:
                return None
            places = [_place(part) for part in scalar.conjuncts(branch.this)]
            known = [place for place in places if place is not None]
            names = tuple(name for name, _ in known)
            if len(known) != len(places) or len(set(names)) != len(names):
                return None
            return _Spread(measure, names, tuple(value for _, value in known), branch.args["true"], or_zero)
    return None


def _place(part: exp.Expr) -> tuple[str, exp.Expr] | None:
    """`column = literal` as a column and a value."""
    match part:
        case exp.EQ(this=a, expression=b) | exp.NullSafeEQ(this=a, expression=b):
            for column, value in ((a, b), (b, a)):
                if isinstance(column, exp.Column) and _is_constant(value):
                    return column.name, value
        case exp.Paren(this=inner):
            return _place(inner)
        case exp.In(this=exp.Column() as column, expressions=[value]) if _is_constant(value):
            return column.name, value
    return None


def _is_constant(value: exp.Expr) -> bool:
    """A literal that is not NULL: `= NULL` is never true, while a pivot's NULL is."""
    match value:
        case exp.Literal() | exp.Boolean():
            return True
        case exp.Neg(this=exp.Literal()):
            return True
        case exp.Cast(this=exp.Literal()):
            return True
    return False


def _comparable(column: str, value: exp.Expr) -> bool:
    kind = type_of(value, {}).type
    return kind == column or (is_integral(kind) and is_integral(column))


def drop_select_below_gpivot(rel: Rel, facts: Facts) -> Outcome:
    """A selection of the values that a pivot lists is needless where keys without them are dropped above.

    Before:
        Select [jan > 1]
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Select [month IN ('jan', 'feb')]
              Scan sales
    After:
        Select [jan > 1]
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan sales

    Sound because rows of other values fill no cell: they only add keys whose cells are all NULL. Provided
    1. the condition below reads nothing but the columns pivoted by,
    2. it is true for each listed value,
    3. the one above is not true where all cells are NULL,
    4. no two rows contend for a cell without the condition.
    """
    match rel:
        case Select(input=GPivot(input=Select(input=input, condition=below)) as pivot, condition=above):
            if not scalar.columns_of(below) <= set(pivot.by):
                return Refused("the condition below the pivot reads other columns than those pivoted by")
            if not all(_holds_at(pivot, values, below) for values in value_lists(pivot)):
                return Refused("the condition below the pivot leaves out rows of a listed value")
            if not never_true(above, frozenset(cell.name for cell in pivot.cells)):
                return Refused("the condition above the pivot may hold where all cells are NULL")
            if not facts.has_key_within(input, (*pivot.keys, *pivot.by)):
                return Refused("without the condition below, rows may contend for a cell")
            return Select(GPivot(input, pivot.by, pivot.cells), above)
    return None


def _holds_at(pivot: GPivot, values: Values, condition: exp.Expr) -> bool:
    at = scalar.substitute(condition, dict(zip(pivot.by, values, strict=True)))
    return always_true(at, frozenset())
