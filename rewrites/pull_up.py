"""GPIVOT up through select, project, join and group by, so that it ends on top of the view.

What these rules pull up is a pivot as `shapes.pivoted` sees it: with a Select on its cells and a Project over it,
which both move along. [gpivot-2005, section 5.1]

Departures from the paper. Every key of the input gives a row here, so dropping a cell never drops a row, and no rule
needs the values of the pivot to be selected below it. A pivot without key columns gives a row of no rows: what would
put an operator that can lose this row below the pivot is refused.
"""

from __future__ import annotations

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Cell, GPivot, GroupBy, Item, Join, JoinKind, Measure, Project, Rel, Select, col
from .aggregation import leaves_out_nulls, null_on_empty, or_zero, zero_on_empty
from .engine import Outcome, Refused
from .facts import Facts
from .nulls import always_null
from .shapes import columns, fresh, keep, over, pivot_apart, pivoted, select, source_of, substituted


def pull_gpivot_through_select(rel: Rel, facts: Facts) -> Outcome:
    """Select by carried columns before pivoting; a condition on cells stays over the pivot.

    Before:
        Select [region = 'north' AND jan > 1]
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan sales
    After:
        Select [jan > 1]
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Select [region = 'north']
              Scan sales

    Sound because all rows of a key agree on the carried columns: the condition keeps all of them or none. Provided
    1. the pivot has key columns: without them it gives a row of no rows,
    2. some conjunct reads carried columns only.
    [gpivot-2005, section 5.1.1]
    """
    match rel:
        case Select(input=input, condition=condition) if below := pivoted(input):
            pivot = below.pivot
            parts = tuple(substituted(p, below.visible) for p in scalar.conjuncts(condition))
            carried = tuple(part for part in parts if not scalar.columns_of(part) & below.cells)
            rest = tuple(part for part in parts if part not in carried)
            if not pivot.keys:
                return Refused("the pivot has no key column: it gives a row even of no rows")
            if not carried and input is pivot:
                return Refused("the condition reads pivoted columns only: it stays over the pivot")
            moved = GPivot(select(pivot.input, carried), pivot.by, pivot.cells)
            return over(moved, below.condition + rest, below.items)
    return None


def pull_gpivot_through_project(rel: Rel, facts: Facts) -> Outcome:
    """Drop cells that nothing reads, and compute before pivoting what depends on carried columns only.

    Before:
        Project { region, store, next := store + 1, jan }
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan sales
    After:
        GPivot [month] { jan := qty @ ('jan') }
          Project { region, store, month, qty, next := store + 1 }
            Scan sales

    Sound because a key gives its row whatever cells are listed, and a value that depends on key columns is the same
    for all rows of a key. Provided
    1. a cell is left.
    [gpivot-2005, section 5.1.2]
    """
    match rel:
        case Project(input=GPivot() as pivot, items=items):
            cells = frozenset(cell.name for cell in pivot.cells)
            reads = [scalar.columns_of(item.expression) for item in items]
            computed = [
                item
                for item, read in zip(items, reads, strict=True)
                if read and not read & cells and source_of(item.expression) is None
            ]
            unused = cells.difference(*reads)
            if not (computed or unused):
                return None
            if unused == cells:
                return Refused("no cell of the pivot is left: what remains is not a pivot")
            kept = tuple(cell for cell in pivot.cells if cell.name not in unused)
            gone = set(pivot.measures) - {cell.measure for cell in kept}
            named: dict[str, str] = {}
            for item in computed:
                named[item.name] = fresh(item.name, {*pivot.input.names, *cells, *named.values()})
            base = columns(name for name in pivot.input.names if name not in gone)
            made = tuple(Item(named[item.name], item.expression) for item in computed)
            above = tuple(Item(i.name, col(named[i.name])) if i in computed else i for i in items)
            return over(GPivot(over(pivot.input, (), base + made), pivot.by, kept), (), above)
    return None


def pull_gpivot_through_project_of_keys(rel: Rel, facts: Facts) -> Outcome:
    """Drop columns of the key before pivoting, where the others determine them.

    Before:
        Project { id, jan, feb }
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Join [id = bound]
              Scan bounds
              Scan bound_sales
    After:
        GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          Project { id, month, qty }
            Join [id = bound]
              Scan bounds
              Scan bound_sales

    Sound because rows that agree on the columns left agree on the dropped ones: they are rows of the same key. Provided
    1. what is left of the key determines what is dropped.
    [gpivot-2005, section 5.1.2]
    """
    match rel:
        case Project(input=GPivot() as pivot, items=items):
            read = frozenset[str]().union(*(scalar.columns_of(item.expression) for item in items))
            dropped = frozenset(pivot.keys) - read
            if not dropped:
                return None
            if not dropped <= facts.determined(pivot.input, frozenset(pivot.keys) - dropped):
                return Refused(f"{', '.join(sorted(dropped))} would be lost, a part of the pivot's key")
            input = keep(pivot.input, set(pivot.input.names) - dropped)
            return over(GPivot(input, pivot.by, pivot.cells), (), items)
    return None


def pull_gpivot_through_join(rel: Rel, facts: Facts) -> Outcome:
    """Join before pivoting; a condition on cells becomes a Select over the pivot.

    Before:
        Join [region = name AND jan > size]
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan sales
          Scan regions
    After:
        Project { region, store, jan, feb, name, country, size }
          Select [jan > size]
            GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
              Join [region = name]
                Scan sales
                Scan regions

    Sound because all rows of a key meet the same rows of the other side, and pivot key and other row together are a
    key of the join. Provided
    1. the pivot has key columns (without them it gives a row of no rows),
    2. the condition joins the pivot's key with the other side, or else the base would be multiplied by it; of
       `a OR b` nothing can be split off,
    3. the other side has a key (else equal rows would become one), unless the join only filters,
    4. the join is inner, or keeps the rows of one side and has no condition on cells,
    5. what is computed over a pivot that the join may fill up with NULLs, is NULL then,
    6. the other side is not a pivot too: one of the two would stay below.
    [gpivot-2005, section 5.1.3]
    """
    match rel:
        case Join(left=left, right=right, condition=condition, kind=kind):
            on_left = pivoted(left)
            filters = kind in (JoinKind.SEMI, JoinKind.ANTI)
            below = on_left or (None if filters else pivoted(right))
            if below is None:
                return None
            other = right if on_left else left
            if on_left and not filters and pivoted(right):
                return Refused("both sides are pivots: one of them would stay below the other")
            if kind is JoinKind.FULL:
                return Refused("a full join keeps rows of both sides")
            if not below.pivot.keys:
                return Refused("the pivot has no key column: it gives a row even of no rows")
            if kind is JoinKind.LEFT and not on_left:
                if below.condition:
                    return Refused("a condition on cells of the side that the join fills up cannot move above it")
                hidden = frozenset(below.pivot.names)
                if not all(always_null(item.expression, hidden) for item in below.items):
                    return Refused("what is computed over the pivot is not NULL in rows that the join fills up")
            pivot, names = pivot_apart(below.pivot, other.names)
            within = {name: col(new) for name, new in names.items()}
            items = tuple(Item(i.name, scalar.substitute(i.expression, within)) for i in below.items)
            cells = {cell.name for cell in pivot.cells}
            visible = {item.name: item.expression for item in items}
            parts = tuple(substituted(p, visible) for p in scalar.conjuncts(condition))
            on_keys = tuple(part for part in parts if not scalar.columns_of(part) & cells)
            on_cells = tuple(part for part in parts if part not in on_keys)
            if not any(_joins(part, frozenset(pivot.keys), frozenset(other.names)) for part in on_keys):
                return Refused("no condition of its own joins the pivot's key: the other side would multiply the base")
            if on_cells and kind is not JoinKind.INNER:
                return Refused(f"a {kind} join on pivoted columns cannot be split")
            if not filters and not facts.keys(other):
                return Refused("the other side of the join has no key: equal rows would become one")
            sides = (pivot.input, other) if on_left else (other, pivot.input)
            joined = GPivot(Join(*sides, scalar.conjunction(on_keys), kind), pivot.by, pivot.cells)
            kept = tuple(scalar.substitute(part, within) for part in below.condition)
            ours, theirs = items, () if filters else columns(other.names)
            return over(joined, kept + on_cells, ours + theirs if on_left else theirs + ours)
    return None


def _joins(part: exp.Expr, one: frozenset[str], other: frozenset[str]) -> bool:
    read = scalar.columns_of(part)
    return bool(read & one and read & other)


def pull_gpivot_through_groupby(rel: Rel, facts: Facts) -> Outcome:
    """Aggregate before pivoting.

    Before:
        GroupBy [region] { jan := sum(jan_qty), n := count(feb_qty) }
          GPivot [month] { jan_qty := qty @ ('jan'), feb_qty := qty @ ('feb') }
            Scan sales
    After:
        Project { region, jan, n := COALESCE(n, 0) }
          GPivot [month] { jan := sum_qty @ ('jan'), n := count_qty @ ('feb') }
            GroupBy [region, month] { sum_qty := sum(qty), count_qty := count(qty) }
              Scan sales

    Sound because a cell holds one row's measure, or NULL, which the aggregate leaves out. Provided it
    1. groups by carried columns only,          2. has one argument, that reads cells of one value list,
    3. which is NULL where all its cells are,   4. is known to leave out NULLs,
    5. is NULL or 0 of no rows (0, that of a count, is put back above), 6. has no condition on cells below it,
    7. is there at all. COUNT(*) counts keys, not rows.
    [gpivot-2005, eq. 8]
    """
    match rel:
        case GroupBy(input=input, keys=keys, measures=measures) if below := pivoted(input):
            pivot, visible = below.pivot, below.visible
            if below.condition:
                return Refused("a condition on pivoted columns lies between")
            grouped = [source_of(visible[key]) for key in keys]
            if not all(name in pivot.keys for name in grouped):
                return Refused("it groups by pivoted columns: they are values of one column, in several rows, below")
            by_name = {cell.name: cell for cell in pivot.cells}
            inner: dict[Measure, str] = {}
            cells: dict[Cell, str] = {}
            above = [Item(key, visible[key]) for key in keys]
            carried = {name for name in grouped if name is not None}
            for measure in measures:
                if len(measure.arguments) != 1:
                    return Refused(f"{measure.name} counts the rows of the pivot, which are keys, not rows below it")
                if not leaves_out_nulls(measure):
                    return Refused(f"{measure.function} is not known to leave out NULLs")
                if not (null_on_empty(measure) or zero_on_empty(measure)):
                    return Refused(f"{measure.function} of no rows is neither NULL nor 0")
                argument = substituted(measure.arguments[0], visible)
                read = [by_name[name] for name in sorted(scalar.columns_of(argument)) if name in by_name]
                if len({cell.values for cell in read}) != 1:
                    return Refused(f"{measure.name} does not aggregate the cells of one value list")
                if not always_null(argument, frozenset(cell.name for cell in read)):
                    return Refused(f"{measure.name} aggregates something that is not NULL where its cell is missing")
                lower = scalar.rename(argument, {cell.name: cell.measure for cell in read})
                made = Measure("", measure.function, (lower,), measure.distinct)
                if made not in inner:
                    hint = source_of(lower) or measure.name
                    inner[made] = fresh(f"{measure.function}_{hint}", {*carried, *pivot.by, *inner.values()})
                place = Cell("", inner[made], read[0].values)
                if place not in cells:
                    cells[place] = fresh(measure.name, {*carried, *cells.values()})
                above.append(Item(measure.name, col(cells[place]) if null_on_empty(measure) else or_zero(cells[place])))
            lower_measures = tuple(Measure(name, m.function, m.arguments, m.distinct) for m, name in inner.items())
            lower_keys = tuple(dict.fromkeys(name for name in (*grouped, *pivot.by) if name is not None))
            below_it = GroupBy(pivot.input, lower_keys, lower_measures)
            made_cells = tuple(Cell(name, place.measure, place.values) for place, name in cells.items())
            if not made_cells:
                return Refused("it aggregates nothing: what remains is not a pivot")
            return over(GPivot(below_it, pivot.by, made_cells), (), tuple(above))
    return None
