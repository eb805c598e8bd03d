"""One pivot becomes several: the combination rules from right to left, and local pivots of the parts of a union."""

from __future__ import annotations

from ..compiler.algebra import Cell, GPivot, GroupBy, Item, Join, Measure, Rel, UnionAll, col
from .engine import Outcome, Refused
from .facts import Facts
from .shapes import columns, equal_columns, fresh, keep, over

_WITHOUT_ORDER = ("map", "interval", "variant")  # types that have no maximum


def split_measures(rel: Rel, facts: Facts) -> Outcome:
    """A pivot of several measures is a join of the pivots of each.

    Before:
        GPivot [month] { jan := qty @ ('jan'), jan_price := price @ ('jan'), feb_price := price @ ('feb') }
          Scan priced_sales
    After:
        Project { region, store, jan, jan_price, feb_price }
          Join [region <=> region_2 AND store <=> store_2]
            GPivot [month] { jan := qty @ ('jan') }
              Project { region, store, month, qty }
                Scan priced_sales
            Project { region_2 := region, store_2 := store, jan_price, feb_price }
              GPivot [month] { jan_price := price @ ('jan'), feb_price := price @ ('feb') }
                Project { region, store, month, price }
                  Scan priced_sales

    Sound because both pivots have a row for each key, and the join, null-safe, finds it. Provided
    1. there are several measures,   2. and key columns to join on.
    [gpivot-2005, eq. 5]
    """
    match rel:
        case GPivot(input=input, by=by, cells=cells):
            first = rel.measures[0]
            if len(rel.measures) == 1:
                return None
            if not rel.keys:
                return Refused("the pivot has no key column to join on")
            left = GPivot(keep(input, {*rel.keys, *by, first}), by, tuple(c for c in cells if c.measure == first))
            rest = {*rel.keys, *by, *rel.measures} - {first}
            right = GPivot(keep(input, rest), by, tuple(c for c in cells if c.measure != first))
            other = {key: fresh(key, (*rel.names, *input.names)) for key in rel.keys}
            renamed = tuple(Item(other.get(name, name), col(name)) for name in right.names)
            joined = Join(left, over(right, (), renamed), equal_columns(other.items()))
            return over(joined, (), columns(rel.names))
    return None


def split_columns(rel: Rel, facts: Facts) -> Outcome:
    """A pivot by several columns is a pivot, by the first one, of a pivot by the others.

    Before:
        GPivot [kind, month] {
            tv_jan := qty @ ('tv', 'jan'),
            pc_jan := qty @ ('pc', 'jan'),
            pc_feb := qty @ ('pc', 'feb')
          }
          Scan kinds
    After:
        GPivot [kind] { tv_jan := qty_at_1 @ ('tv'), pc_jan := qty_at_1 @ ('pc'), pc_feb := qty_at_2 @ ('pc') }
          GPivot [month] { qty_at_1 := qty @ ('jan'), qty_at_2 := qty @ ('feb') }
            Scan kinds

    Sound because a cell of the upper pivot holds a cell of the lower one's row with its value. Provided
    1. it pivots by several columns.
    [gpivot-2005, eq. 6]
    """
    match rel:
        case GPivot(input=input, by=by, cells=cells):
            if len(by) == 1:
                return None
            lists = list(dict.fromkeys(cell.values[1:] for cell in cells))
            inner: dict[Cell, str] = {}
            outer = []
            for cell in cells:
                place = Cell("", cell.measure, cell.values[1:])
                hint = f"{cell.measure}_at_{lists.index(cell.values[1:]) + 1}"
                inner.setdefault(place, fresh(hint, {*input.names, *rel.names, *inner.values()}))
                outer.append(Cell(cell.name, inner[place], cell.values[:1]))
            lower = tuple(Cell(name, place.measure, place.values) for place, name in inner.items())
            return GPivot(GPivot(input, by[1:], lower), by[:1], tuple(outer))
    return None


def split_parts(rel: Rel, facts: Facts) -> Outcome:
    """Pivot the parts of a union on their own, and put the rows of each key together: local, then global.

    Before:
        GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          UnionAll
            Select [store = 1]
              Scan sales
            Select [store = 2]
              Scan sales
    After:
        GroupBy [region, store] { jan := max(jan), feb := max(feb) }
          UnionAll
            GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
              Select [store = 1]
                Scan sales
            GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
              Select [store = 2]
                Scan sales

    Sound because at most one part holds a row for a cell: its maximum is its only value. Provided
    1. the measures have types with a maximum.
    [gpivot-2005, section 4.3]
    """
    match rel:
        case GPivot(input=UnionAll(branches=branches), by=by, cells=cells):
            types = facts.columns(rel)
            if any(types[cell.name].type.startswith(_WITHOUT_ORDER) for cell in cells):
                return Refused("a measure has a type without a maximum")
            local = tuple(GPivot(branch, by, cells) for branch in branches)
            return GroupBy(UnionAll(local), rel.keys, tuple(Measure(c.name, "max", (col(c.name),)) for c in cells))
    return None
