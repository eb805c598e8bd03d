"""GUNPIVOT up through select, project, join and group by. [gpivot-2005, section 5.3]

In each output row the name columns are known constants and the value columns are columns of the input, so a condition
on them is a condition at each value list; cells for which it does not hold become NULL, and their rows vanish.

Departures from the paper. Dropping a value column may drop rows, those whose other values are all NULL: refused, unless
another one is never NULL. A join on name columns needs no higher-order language: the names are known constants.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ..compiler import scalar
from ..compiler.aggregates import FUNCTIONS
from ..compiler.algebra import Cell, GroupBy, GUnpivot, Item, Join, JoinKind, Measure, Project, Rel, Select, col
from .aggregation import or_zero
from .engine import Outcome, Refused
from .facts import Facts
from .nulls import always_true, never_true
from .presence import at
from .shapes import all_of, case, columns, disjunction, fresh, keep, none_null, over, select, source_of

_AGAIN = {"sum": "sum", "count": "sum", "min": "min", "max": "max"}  # what puts parts together


def pull_gunpivot_through_select(rel: Rel, facts: Facts) -> Outcome:
    """Select before unpivoting: rows by carried columns, cells by name and value columns.

    Before:
        Select [region = 'north' AND qty > 1 AND month = 'jan']
          GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan wide
    After:
        Project { id, region, month, qty }
          GUnpivot [month] { jan := qty @ ('jan') }
            Project { id, region, feb, jan := CASE WHEN jan > 1 THEN jan END }
              Select [region = 'north']
                Scan wide

    Sound because a row comes of cells that are not all NULL, and the condition there is one on those cells. Provided
    1. the unpivot leaves out NULLs, unless the condition reads carried columns only,
    2. each value column has a cell for which the condition can hold.
    [gpivot-2005, eq. 13]
    """
    match rel:
        case Select(input=GUnpivot() as unpivot, condition=condition):
            parts = scalar.conjuncts(condition)
            carried = tuple(part for part in parts if scalar.columns_of(part) <= set(unpivot.keys))
            rest = tuple(part for part in parts if part not in carried)
            if not rest:
                return replace(unpivot, input=select(unpivot.input, carried))
            if unpivot.include_nulls:
                return Refused("the unpivot keeps NULLs: a row that is not selected cannot be told by them")
            made = _where(unpivot, all_of(rest), select(unpivot.input, carried))
            if made is None:
                return Refused("a value column has no cell for which the condition can hold")
            return over(made, (), columns(rel.names))
    return None


def _where(unpivot: GUnpivot, condition: exp.Expr, input: Rel) -> GUnpivot | None:
    """The unpivot of those cells for which the condition holds."""
    items: dict[str, exp.Expr] = {}
    cells: list[Cell] = []
    for group in unpivot.groups:
        here = at(unpivot, group[0].values, condition)
        if never_true(here, frozenset()):
            continue
        for cell in group:
            name = cell.name
            value = col(name) if always_true(here, frozenset()) else case(here, col(name))
            if items.get(name, value) != value:  # a column gathered twice, under two conditions
                name = fresh(name, {*input.names, *items})
            items[name] = value
            cells.append(replace(cell, name=name))
    if not cells:
        return None
    kept = columns(name for name in input.names if name not in items)
    below = over(input, (), kept + tuple(Item(name, value) for name, value in items.items()))
    gone = {cell.name for cell in unpivot.cells} - {cell.name for cell in cells}
    made = keep(below, set(below.names) - gone) if {*unpivot.by, *unpivot.measures} & gone else below
    return GUnpivot(made, unpivot.by, tuple(cells)) if set(unpivot.measures) == {c.measure for c in cells} else None


def pull_gunpivot_through_project(rel: Rel, facts: Facts) -> Outcome:
    """Drop columns before unpivoting.

    Before:
        Project { id, month, price }
          GUnpivot [month] {
              jan_qty := qty @ ('jan'),
              jan_price := price @ ('jan'),
              feb_qty := qty @ ('feb'),
              feb_price := price @ ('feb')
            }
            Project { id, region, jan_qty, feb_qty, jan_price := id, feb_price := id + 1 }
              Scan grid
    After:
        GUnpivot [month] { jan_price := price @ ('jan'), feb_price := price @ ('feb') }
          Project { id, jan_price := id, feb_price := id + 1 }
            Scan grid

    Sound because the rows of the unpivot depend on its value columns only. Provided the projection
    1. computes nothing and renames nothing,
    2. keeps a cell of each value list, 3. and one that is never NULL where it drops another, unless NULLs are kept,
    4. keeps name columns that tell the value lists apart.
    [gpivot-2005, section 5.3.2]
    """
    match rel:
        case Project(input=GUnpivot(input=input) as unpivot, items=items):
            if any(item.expression != col(item.name) for item in items):
                return Refused("the projection computes or renames columns")
            left = {item.name for item in items}
            dropped = set(unpivot.names) - left
            if not dropped:
                return None
            by = tuple(name for name in unpivot.by if name in left)
            values = tuple(cell for cell in unpivot.cells if cell.measure in left)
            if {cell.values for cell in values} != {cell.values for cell in unpivot.cells}:
                return Refused("a value list has no cell in the value columns that are left")
            if dropped & set(unpivot.measures) and not (unpivot.include_nulls or _never_all_null(unpivot, left, facts)):
                return Refused("rows that have a value in a dropped column only would be lost")
            kept = [unpivot.by.index(name) for name in by]
            cells = tuple(replace(c, values=tuple(c.values[place] for place in kept)) for c in values)
            if not by or len({(c.measure, c.values) for c in cells}) != len(cells):
                return Refused("the name columns that are left do not tell the value lists apart")
            gone = (dropped & set(unpivot.keys)) | ({c.name for c in unpivot.cells} - {c.name for c in cells})
            made = GUnpivot(keep(input, set(input.names) - gone), by, cells, unpivot.include_nulls)
            return over(made, (), items)
    return None


def _never_all_null(unpivot: GUnpivot, left: set[str], facts: Facts) -> bool:
    """Whether at each value list a column that is left cannot be NULL."""
    nullable = {column.name for column in facts.schema(unpivot.input) if column.nullable}
    return all(any(c.measure in left and c.name not in nullable for c in group) for group in unpivot.groups)


def pull_gunpivot_through_join(rel: Rel, facts: Facts) -> Outcome:
    """Join before unpivoting; with a condition on names and values, wherever one of the value lists joins.

    Before:
        Join [qty = size]
          GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan wide
          Scan regions
    After:
        Project { id, region, month, qty, name, country, size }
          GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Project {
                id,
                region,
                name,
                country,
                size,
                jan := CASE WHEN jan = size THEN jan END,
                feb := CASE WHEN feb = size THEN feb END
              }
              Join [jan = size OR feb = size]
                Scan wide
                Scan regions

    Sound because each output row meets the rows that its own cells join. Provided
    1. the join is inner, or reads carried columns only and keeps no rows of the other side,
    2. the unpivot leaves out NULLs, unless the condition reads carried columns only,
    3. each value column has a cell for which the condition can hold.
    [gpivot-2005, eq. 14]
    """
    match rel:
        case Join(left=left, right=right, condition=condition, kind=kind):
            on_left = isinstance(left, GUnpivot)
            unpivot, other = (left, right) if on_left else (right, left)
            if not isinstance(unpivot, GUnpivot):
                return None
            made = {*unpivot.by, *unpivot.measures}
            parts = scalar.conjuncts(condition)
            rest = tuple(part for part in parts if scalar.columns_of(part) & made)
            if kind is not JoinKind.INNER and (rest or kind is JoinKind.FULL or not on_left):
                return Refused(f"a {kind} join fills up or keeps rows as a whole")
            if rest and unpivot.include_nulls:
                return Refused("the unpivot keeps NULLs: a row that does not join cannot be told by them")
            inner, new = _apart(unpivot, (*other.names, *made) if kind is JoinKind.INNER else other.names)
            renamed = {name: col(to) for name, to in new.items()}
            on_keys = tuple(scalar.substitute(part, renamed) for part in parts if part not in rest)
            on_cells = scalar.substitute(all_of(rest), renamed)
            places = [at(inner, group[0].values, on_cells) for group in inner.groups]
            holds = [place for place in places if not never_true(place, frozenset())]
            joins = all_of((*on_keys, *((disjunction(holds),) if rest else ())))
            sides = (inner.input, other) if on_left else (other, inner.input)
            joined = Join(*sides, joins, kind)
            gathered = _where(inner, on_cells, joined) if rest else replace(inner, input=joined)
            if gathered is None:
                return Refused("a value column has no cell for which the condition can hold")
            return over(gathered, (), tuple(Item(name, renamed.get(name, col(name))) for name in rel.names))
    return None


def _apart(unpivot: GUnpivot, taken: tuple[str, ...]) -> tuple[GUnpivot, dict[str, str]]:
    """The unpivot over an input none of whose columns clashes; and the new names of its carried columns."""
    clash = {name for name in unpivot.input.names if name in taken}
    new = {
        n: fresh(n, {*taken, *unpivot.input.names, *unpivot.names}) if n in clash else n for n in unpivot.input.names
    }
    input = over(unpivot.input, (), tuple(Item(new[name], col(name)) for name in unpivot.input.names))
    cells = tuple(replace(cell, name=new[cell.name]) for cell in unpivot.cells)
    return replace(unpivot, input=input, cells=cells), {key: new[key] for key in unpivot.keys}


def pull_gunpivot_through_groupby(rel: Rel, facts: Facts) -> Outcome:
    """Aggregate the cells first, unpivot the totals, and add those up.

    Before:
        GroupBy [region] { total := sum(qty), n := count(*) }
          GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan wide
    After:
        Project { region, total, n := COALESCE(n, 0) }
          GroupBy [region] { total := sum(total), n := sum(n) }
            GUnpivot [month] {
                total_at_1 := total @ ('jan'),
                n_at_1 := n @ ('jan'),
                total_at_2 := total @ ('feb'),
                n_at_2 := n @ ('feb')
              }
              Project {
                  region,
                  total_at_1,
                  n_at_1 := NULLIF(n_at_1, 0),
                  total_at_2,
                  n_at_2 := NULLIF(n_at_2, 0)
                }
                GroupBy [region] {
                    total_at_1 := sum(jan),
                    n_at_1 := count(CASE WHEN NOT jan IS NULL THEN 1 END),
                    total_at_2 := sum(feb),
                    n_at_2 := count(CASE WHEN NOT feb IS NULL THEN 1 END)
                  }
                  Scan wide

    Sound because sums add up, and so do counts; extremes are the extremes of extremes. A count of 0 is made NULL
    between: else a group without rows would appear. Provided
    1. the unpivot leaves out NULLs,   2. no value column is grouped by,
    3. each aggregate is a sum, a count or an extreme, not of distinct values,   4. of a value column, or of all rows,
    5. each value column is aggregated, or all rows are counted: else a group with other values only would be lost.
    [gpivot-2005, eq. 15]
    """
    match rel:
        case GroupBy(input=GUnpivot(input=input) as unpivot, keys=keys, measures=measures):
            if unpivot.include_nulls:
                return Refused("the unpivot keeps NULLs: groups of nothing else would be lost")
            if set(keys) & set(unpivot.measures):
                return Refused("it groups by a value column: equal values in several columns cannot be grouped below")
            for measure in measures:
                if measure.function not in _AGAIN or (measure.distinct and not FUNCTIONS[measure.function].idempotent):
                    return Refused(f"{measure.name} does not follow from totals of the columns")
                if measure.arguments and source_of(measure.arguments[0]) not in unpivot.measures:
                    return Refused(f"{measure.name} does not aggregate a value column")
            seen = {source_of(m.arguments[0]) for m in measures if m.arguments}
            if not seen >= set(unpivot.measures) and all(m.arguments for m in measures):
                return Refused("a group that has values in other columns only would be lost")
            carried = tuple(key for key in keys if key in unpivot.keys)
            lower, between, cells = _totals(unpivot, carried, measures)
            middle = over(GroupBy(input, carried, lower), (), columns(carried) + between)
            outer = tuple(Measure(m.name, _AGAIN[m.function], (col(m.name),)) for m in measures)
            upper = GroupBy(GUnpivot(middle, unpivot.by, cells), keys, outer)
            types, found = facts.columns(rel), facts.columns(upper)
            items = list(columns(keys))
            for measure in measures:
                value = or_zero(measure.name) if measure.function == "count" else col(measure.name)
                if types[measure.name].type != found[measure.name].type:
                    value = scalar.canonical(exp.cast(value, types[measure.name].type, dialect="spark"))
                items.append(Item(measure.name, value))
            return over(upper, (), tuple(items))
    return None


def _totals(
    unpivot: GUnpivot, carried: tuple[str, ...], measures: tuple[Measure, ...]
) -> tuple[tuple[Measure, ...], tuple[Item, ...], tuple[Cell, ...]]:
    """The aggregates of each value list's columns, what is unpivoted of them, and its cells."""
    lower: list[Measure] = []
    between: list[Item] = []
    cells: list[Cell] = []
    for number, group in enumerate(unpivot.groups):
        held = {cell.measure: cell.name for cell in group}
        for measure in measures:
            source = source_of(measure.arguments[0]) if measure.arguments else None
            if source is not None and source not in held:
                continue
            there = case(disjunction(none_null(held.values())), exp.Literal.number(1))
            argument = there if source is None else col(held[source])
            name = fresh(f"{measure.name}_at_{number + 1}", {*carried, *(m.name for m in lower)})
            lower.append(Measure(name, measure.function, (argument,)))
            zero = exp.Nullif(this=col(name), expression=exp.Literal.number(0))
            between.append(Item(name, zero if measure.function == "count" else col(name)))
            cells.append(Cell(name, measure.name, group[0].values))
    return tuple(lower), tuple(between), tuple(cells)
