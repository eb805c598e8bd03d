"""GPIVOT down through select, project, join, group by and unpivot: pivot first, where that is cheaper to evaluate.

Departures from the paper. That a key of the original stays is decided by the condition at its cells, not by cells that
are all NULL, which a row of NULLs has as well. A condition on columns pivoted by needs no higher-order language: the
values are known constants. [gpivot-2005, section 5.2]
"""

from __future__ import annotations

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Cell, GPivot, GroupBy, Item, Join, JoinKind, Measure, Project, Rel, Select, col
from .aggregation import leaves_out_nulls, null_on_empty
from .engine import Outcome, Refused
from .facts import Facts
from .presence import condition_at, has_cells_for, keeps_listed_only
from .shapes import Values, all_of, case, columns, disjunction, fresh, over, select, source_of, value_lists

NO_KEY = "the pivot has no key column: it gives a row even of no rows"
NOT_VALID = "below, rows may contend for a cell: no key is known within the pivot's key and columns"


def push_gpivot_below_select(rel: Rel, facts: Facts) -> Outcome:
    """Pivot before selecting by carried columns.

    Before:
        GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          Select [region = 'north' AND qty > 0]
            Scan sales
    After:
        Select [region = 'north']
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Select [qty > 0]
              Scan sales

    Sound because all rows of a key agree on the carried columns. Provided
    1. the pivot has key columns,   2. some conjunct reads those only,
    3. no two rows contend for a cell without the condition.
    [gpivot-2005, section 5.2.1]
    """
    match rel:
        case GPivot(input=Select(input=input, condition=condition)):
            parts = scalar.conjuncts(condition)
            carried = tuple(part for part in parts if scalar.columns_of(part) <= set(rel.keys))
            if not carried:
                return None
            if not rel.keys:
                return Refused(NO_KEY)
            rest = select(input, tuple(part for part in parts if part not in carried))
            if not facts.has_key_within(rest, (*rel.keys, *rel.by)):
                return Refused(NOT_VALID)
            return select(GPivot(rest, rel.by, rel.cells), carried)
    return None


def push_gpivot_below_select_on_cells(rel: Rel, facts: Facts) -> Outcome:
    """Pivot before selecting by what is pivoted: cells whose row is not selected become NULL, keys without one go.

    Before:
        GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          Select [month IN ('jan', 'feb') AND qty > 0]
            Scan sales
    After:
        Project {
            region,
            store,
            jan := CASE WHEN jan > 0 THEN jan END,
            feb := CASE WHEN feb > 0 THEN feb END
          }
          Select [jan > 0 OR feb > 0]
            GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
              Scan sales

    Sound because at each value list the condition on the row is a condition on its cells. Provided
    1. the pivot has key columns,
    2. the condition holds in rows of listed values only: of others nothing is left after pivoting,
    3. each measure that it reads has a cell at each value list,
    4. it tells a missing row from a row of NULLs: it rejects NULLs, or a measure is never NULL,
    5. no two rows contend for a cell without the condition.
    [gpivot-2005, eq. 11]
    """
    match rel:
        case GPivot(input=Select(input=input, condition=condition)):
            if not scalar.columns_of(condition) & {*rel.by, *rel.measures}:
                return None
            if not rel.keys:
                return Refused(NO_KEY)
            if not keeps_listed_only(rel, condition):
                return Refused("rows of values that the pivot does not list may be selected: they give keys a row")
            if not has_cells_for(rel, condition):
                return Refused("a measure that the condition reads has no cell at one of the values")
            if not facts.has_key_within(input, (*rel.keys, *rel.by)):
                return Refused(NOT_VALID)
            pivot = GPivot(input, rel.by, rel.cells)
            at: dict[Values, exp.Expr] = {}
            for values in value_lists(pivot):
                there = condition_at(pivot, values, condition, facts)
                if there is None:
                    return Refused("the condition does not tell a missing row from a row of NULLs")
                at[values] = there
            cells = tuple(Item(cell.name, case(at[cell.values], col(cell.name))) for cell in rel.cells)
            return over(pivot, (disjunction(at.values()),), columns(rel.keys) + cells)
    return None


def push_gpivot_below_project(rel: Rel, facts: Facts) -> Outcome:
    """Pivot before dropping, renaming and reordering columns.

    Before:
        GPivot [month] { jan := qty @ ('jan') }
          Project { id, qty, month }
            Join [id = bound]
              Scan bounds
              Scan bound_sales
    After:
        Project { id, jan }
          GPivot [month] { jan := qty @ ('jan') }
            Join [id = bound]
              Scan bounds
              Scan bound_sales

    Sound because rows that agree on what is left of the key agree on all of it. Provided
    1. the projection computes nothing, and shows no column twice,
    2. the pivot has key columns, if key columns are dropped,
    3. what is left of the key determines what is dropped.
    [gpivot-2005, section 5.2.2]
    """
    match rel:
        case GPivot(input=Project(input=input, items=items)):
            sources = {item.name: source_of(item.expression) for item in items}
            if None in sources.values() or len(set(sources.values())) != len(sources):
                return Refused("the projection computes a column, or shows one twice")
            new = {name: source or "" for name, source in sources.items()}
            left = {new[name] for name in rel.keys}
            dropped = set(input.names) - set(new.values())
            if dropped and not rel.keys:
                return Refused(NO_KEY)
            if not dropped <= facts.determined(input, left):
                return Refused(f"{', '.join(sorted(dropped))} may differ in rows of one key")
            named: dict[str, str] = {}
            for cell in rel.cells:
                named[cell.name] = fresh(cell.name, {*left, *dropped, *named.values()})
            cells = tuple(Cell(named[c.name], new[c.measure], c.values) for c in rel.cells)
            above = tuple(Item(name, col(new[name])) for name in rel.keys)
            above += tuple(Item(c.name, col(named[c.name])) for c in rel.cells)
            return over(GPivot(input, tuple(new[name] for name in rel.by), cells), (), above)
    return None


def push_gpivot_below_join(rel: Rel, facts: Facts) -> Outcome:
    """Pivot before joining on carried columns.

    Before:
        GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          Join [region = name]
            Scan sales
            Scan regions
    After:
        Project { region, store, name, country, size, jan, feb }
          Join [region = name]
            GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
              Scan sales
            Scan regions

    Sound because all rows of a key meet the same rows of the other side. Provided
    1. all that is pivoted comes from one side,
    2. which the join does not fill up with rows of its own,
    3. the condition reads carried columns of it only, 4. and there are some,
    5. no two of its rows contend for a cell before the join.
    [gpivot-2005, section 5.2.3]
    """
    match rel:
        case GPivot(input=Join(left=left, right=right, condition=condition, kind=kind)):
            spread = {*rel.by, *rel.measures}
            if not (spread <= set(left.names) or spread <= set(right.names)):
                return Refused("what is pivoted comes from both sides of the join")
            on_left = spread <= set(left.names)
            side, other = (left, right) if on_left else (right, left)
            if kind is not JoinKind.INNER and not (on_left and kind is not JoinKind.FULL):
                return Refused(f"a {kind} join fills up rows of the side that is pivoted")
            if scalar.columns_of(condition) & spread:
                return Refused("the join reads a column that is pivoted")
            carried = [name for name in side.names if name not in spread]
            if not carried:
                return Refused(NO_KEY)
            if not facts.has_key_within(side, (*carried, *rel.by)):
                return Refused(NOT_VALID)
            named: dict[str, str] = {}
            for cell in rel.cells:
                named[cell.name] = fresh(cell.name, {*left.names, *right.names, *named.values()} - spread)
            pivot = GPivot(side, rel.by, tuple(Cell(named[c.name], c.measure, c.values) for c in rel.cells))
            joined = Join(pivot, other, condition, kind) if on_left else Join(other, pivot, condition, kind)
            cells = tuple(Item(cell.name, col(named[cell.name])) for cell in rel.cells)
            return over(joined, (), columns(rel.keys) + cells)
    return None


def push_gpivot_below_join_on_cells(rel: Rel, facts: Facts) -> Outcome:
    """Pivot before joining on what is pivoted: join where one of the cells does, and keep only the cells that do.

    Before:
        GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          Join [qty = size]
            Select [month IN ('jan', 'feb')]
              Scan sales
            Scan regions
    After:
        Project {
            region,
            store,
            name,
            country,
            size,
            jan := CASE WHEN jan = size THEN jan END,
            feb := CASE WHEN feb = size THEN feb END
          }
          Join [jan = size OR feb = size]
            GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
              Select [month IN ('jan', 'feb')]
                Scan sales
            Scan regions

    Sound because at each value list the condition on the row is a condition on its cells. Provided
    1. all that is pivoted comes from one side, the join is inner,   2. that side has carried columns,
    3. only rows of listed values are joined,
    4. each measure that the condition reads has a cell at each value list,
    5. it tells a missing row from a row of NULLs: it rejects NULLs, or a measure is never NULL,
    6. no two rows contend for a cell before the join.
    [gpivot-2005, section 5.2.3]
    """
    match rel:
        case GPivot(input=Join(left=left, right=right, condition=condition, kind=kind)):
            spread = {*rel.by, *rel.measures}
            parts = scalar.conjuncts(condition)
            on_cells = all_of(tuple(part for part in parts if scalar.columns_of(part) & spread))
            if on_cells == scalar.TRUE:
                return None
            on_left = spread <= set(left.names)
            if kind is not JoinKind.INNER or not (on_left or spread <= set(right.names)):
                return Refused("what is pivoted comes from both sides, or the join is not inner")
            side, other = (left, right) if on_left else (right, left)
            carried = [name for name in side.names if name not in spread]
            if not carried:
                return Refused(NO_KEY)
            if not any(keeps_listed_only(rel, part) for part in (on_cells, *_selected(side))):
                return Refused("rows of values that the pivot does not list may be joined: they give keys a row")
            if not has_cells_for(rel, on_cells):
                return Refused("a measure that the condition reads has no cell at one of the values")
            if not facts.has_key_within(side, (*carried, *rel.by)):
                return Refused(NOT_VALID)
            named: dict[str, str] = {}
            for cell in rel.cells:
                named[cell.name] = fresh(cell.name, {*left.names, *right.names, *named.values()} - spread)
            pivot = GPivot(side, rel.by, tuple(Cell(named[c.name], c.measure, c.values) for c in rel.cells))
            at: dict[Values, exp.Expr] = {}
            for values in value_lists(pivot):
                there = condition_at(pivot, values, on_cells, facts)
                if there is None:
                    return Refused("the condition does not tell a missing row from a row of NULLs")
                at[values] = there
            rest = tuple(part for part in parts if not scalar.columns_of(part) & spread)
            joins = all_of((*rest, disjunction(at.values())))
            joined = Join(pivot, other, joins) if on_left else Join(other, pivot, joins)
            cells = tuple(Item(c.name, case(at[c.values], col(named[c.name]))) for c in rel.cells)
            return over(joined, (), columns(rel.keys) + cells)
    return None


def _selected(rel: Rel) -> tuple[exp.Expr, ...]:
    return (rel.condition,) if isinstance(rel, Select) else ()


def push_gpivot_below_groupby(rel: Rel, facts: Facts) -> Outcome:
    """Pivot before aggregating, where the rows below have a key.

    Before:
        GPivot [month] { jan := total @ ('jan'), feb := total @ ('feb') }
          GroupBy [region, month] { total := sum(qty) }
            Scan sales
    After:
        GroupBy [region] { jan := sum(qty_at_1), feb := sum(qty_at_2) }
          GPivot [month] { qty_at_1 := qty @ ('jan'), qty_at_2 := qty @ ('feb') }
            Scan sales

    Sound because a cell holds one row's measure, or NULL, which the aggregate leaves out. Provided
    1. it pivots by grouping columns, on all of the aggregates,
    2. each aggregate has one argument, a column that is not grouped by,
    3. leaves out NULLs and is NULL of no rows (COUNT is 0 where the cell is missing),
    4. no two rows contend for a cell before they are grouped.
    [gpivot-2005, section 5.2.4]
    """
    match rel:
        case GPivot(input=GroupBy(input=input, keys=keys, measures=measures)):
            if not set(rel.by) <= set(keys) or {m.name for m in measures} != set(rel.measures):
                return Refused("it does not pivot all aggregates by columns that are grouped by")
            arguments: dict[str, tuple[str, Measure]] = {}
            for measure in measures:
                source = source_of(measure.arguments[0]) if len(measure.arguments) == 1 else None
                if source is None or source in keys:
                    return Refused(f"{measure.name} does not aggregate a column that is not grouped by")
                if not leaves_out_nulls(measure) or not null_on_empty(measure):
                    return Refused(f"{measure.function} is not NULL of no rows, or looks at NULLs")
                arguments[measure.name] = (source, measure)
            carried = set(input.names) - {source for source, _ in arguments.values()}
            if not facts.has_key_within(input, carried):
                return Refused(NOT_VALID)
            cells: dict[Cell, str] = {}
            made = []
            lists = {values: at + 1 for at, values in enumerate(value_lists(rel))}
            for cell in rel.cells:
                source, measure = arguments[cell.measure]
                place = Cell("", source, cell.values)
                cells.setdefault(place, fresh(f"{source}_at_{lists[cell.values]}", {*carried, *cells.values()}))
                made.append(Measure(cell.name, measure.function, (col(cells[place]),), measure.distinct))
            spread = tuple(Cell(name, place.measure, place.values) for place, name in cells.items())
            return GroupBy(GPivot(input, rel.by, spread), rel.keys, tuple(made))
    return None
