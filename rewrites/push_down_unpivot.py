"""GPIVOT over GUNPIVOT: the two cancel, or change places. [gpivot-2005, section 5.2.5]"""

from __future__ import annotations

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Cell, GPivot, GUnpivot, Item, Rel, col
from ..compiler.typing import type_of
from .engine import Outcome, Refused
from .facts import Facts
from .push_down import NO_KEY, NOT_VALID
from .shapes import columns, disjunction, fresh, none_null, over


def cancel_gpivot_over_gunpivot(rel: Rel, facts: Facts) -> Outcome:
    """Spreading all that an unpivot gathered gives its rows back, but for those without a value.

    Before:
        GPivot [month] { january := qty @ ('jan'), march := qty @ ('mar') }
          GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan wide
    After:
        Project { id, region, january := jan, march := CAST(NULL AS INT) }
          Select [NOT jan IS NULL OR NOT feb IS NULL]
            Scan wide

    Sound because each row spreads into rows of its own key. A value that was not gathered leaves its cells NULL; one
    that is not listed still keeps its key. Provided
    1. the pivot spreads all name and value columns of the unpivot, and nothing else,
    2. there are carried columns,   3. which hold a key,
    4. listed and gathered values can be compared as they are written.
    [gpivot-2005, eq. 12]
    """
    match rel:
        case GPivot(input=GUnpivot(input=input) as lower):
            if not {*rel.by, *rel.measures} & {*lower.by, *lower.measures}:
                return None
            if set(rel.by) != set(lower.by) or set(rel.measures) != set(lower.measures):
                return Refused("it spreads a part of what the unpivot gathered, or more")
            if not lower.keys:
                return Refused(NO_KEY)
            if not facts.has_key_within(input, lower.keys):
                return Refused("the carried columns hold no key: rows of several would meet in one")
            if not _comparable(rel, lower):
                return Refused("a listed value is not written like the gathered ones")
            held = {(cell.measure, cell.values): cell.name for cell in lower.cells}
            wanted, given = facts.columns(rel), facts.columns(input)
            items = list(columns(rel.keys))
            for cell in rel.cells:
                values = tuple(cell.values[rel.by.index(name)] for name in lower.by)
                source = held.get((cell.measure, values))
                value: exp.Expr = exp.Null() if source is None else col(source)
                if source is None or given[source].type != wanted[cell.name].type:
                    value = scalar.canonical(exp.cast(value, wanted[cell.name].type, dialect="spark"))
                items.append(Item(cell.name, value))
            gathered = dict.fromkeys(cell.name for cell in lower.cells)
            there = () if lower.include_nulls else (disjunction(none_null(gathered)),)
            return over(input, there, tuple(items))
    return None


def _comparable(rel: GPivot, lower: GUnpivot) -> bool:
    """Whether two values are equal exactly if they are written alike: literals of one type, in each column."""
    for name in lower.by:
        values = [cell.values[rel.by.index(name)] for cell in rel.cells]
        values += [cell.values[lower.by.index(name)] for cell in lower.cells]
        if not all(isinstance(value, exp.Literal) for value in values):
            return False
        if len({type_of(value, {}).type for value in values}) != 1:
            return False
    return True


def push_gpivot_below_gunpivot(rel: Rel, facts: Facts) -> Outcome:
    """A pivot and an unpivot that share no column change places.

    Before:
        GPivot [month] { jan := qty @ ('jan') }
          GUnpivot [part] { low := edge @ ('low'), high := edge @ ('high') }
            Join [id = bound]
              Scan bounds
              Scan bound_sales
    After:
        Project { id, bound, part, edge, jan }
          GUnpivot [part] { low := edge @ ('low'), high := edge @ ('high') }
            GPivot [month] { jan := qty @ ('jan') }
              Join [id = bound]
                Scan bounds
                Scan bound_sales

    Sound because the unpivot repeats all rows of a key alike. Provided
    1. the pivot spreads carried columns only,
    2. the other carried columns determine what is gathered: else rows of several keys would meet in one,
    3. no two rows contend for a cell before they are repeated.
    [gpivot-2005, eq. 10 from right to left, which needs the second condition as well]
    """
    match rel:
        case GPivot(input=GUnpivot(input=input) as lower):
            spread = {*rel.by, *rel.measures}
            if spread & {*lower.by, *lower.measures}:
                return Refused("it spreads columns that the unpivot made")
            gathered = {cell.name for cell in lower.cells}
            rest = set(lower.keys) - spread
            if not gathered <= facts.determined(input, rest):
                return Refused(
                    f"{', '.join(sorted(gathered))} may differ in rows that agree on the other carried columns"
                )
            if not facts.has_key_within(input, (*rest, *gathered, *rel.by)):
                return Refused(NOT_VALID)
            named: dict[str, str] = {}
            for cell in rel.cells:
                named[cell.name] = fresh(cell.name, {*rel.keys, *gathered, *named.values()})
            cells = tuple(Cell(named[c.name], c.measure, c.values) for c in rel.cells)
            pivot = GPivot(input, rel.by, cells)
            above = columns(rel.keys) + tuple(Item(c.name, col(named[c.name])) for c in rel.cells)
            return over(GUnpivot(pivot, lower.by, lower.cells, lower.include_nulls), (), above)
    return None
