"""Two adjacent pivots become one; a pivot and the unpivot that undoes it cancel. [gpivot-2005, sections 4.2 and 5.1.5]

What composition refuses, the four cases of the paper's figure 7: in all of them something of the first pivot's output
ends where a single pivot has no place for it.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Cell, GPivot, GUnpivot, Item, Rel, col
from .engine import Outcome, Refused
from .facts import Facts
from .shapes import Values, columns, disjunction, none_null, over, pivoted, source_of


def compose_gpivots(rel: Rel, facts: Facts) -> Outcome:
    """Pivoting all that a pivot spread is one pivot by the columns of both.

    Before:
        GPivot [kind] { tv_jan := jan @ ('tv'), tv_feb := feb @ ('tv'), pc_jan := jan @ ('pc') }
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan kinds
    After:
        GPivot [kind, month] {
            tv_jan := qty @ ('tv', 'jan'),
            tv_feb := qty @ ('tv', 'feb'),
            pc_jan := qty @ ('pc', 'jan')
          }
          Scan kinds

    Sound because a cell of the upper pivot holds a cell of the lower one's row with its value, and both give a row for
    each key of their input. Provided
    1. no condition lies between,
    2. no cell of the lower pivot becomes a part of the key (figure 7, first and second case),
    3. none is pivoted by (third case: its name would be lost),
    4. nothing else is pivoted on (fourth case: it has no value of the lower pivot).
    [gpivot-2005, eq. 6]
    """
    match rel:
        case GPivot(input=input, by=by, cells=cells) if below := pivoted(input):
            lower, visible = below.pivot, below.visible
            if below.condition:
                return Refused("a condition on pivoted columns lies between the pivots")
            if any(scalar.columns_of(visible[name]) & below.cells for name in rel.keys):
                return Refused("a column that the lower pivot made would be part of the key")
            if any(scalar.columns_of(visible[name]) & below.cells for name in by):
                return Refused("it pivots by a column that the lower pivot made: the column's name would be lost")
            held = {cell.name: cell for cell in lower.cells}
            sources = {name: source_of(visible[name]) for name in rel.measures}
            if not all(source in held for source in sources.values()):
                return Refused("it pivots a column that the lower pivot did not make as well")
            made: dict[Cell, str] = {}
            above = list(columns(rel.keys))
            for cell in cells:
                inner = held[sources[cell.measure] or ""]
                name = made.setdefault(Cell("", inner.measure, cell.values + inner.values), cell.name)
                above.append(Item(cell.name, col(name)))
            spread = tuple(replace(place, name=name) for place, name in made.items())
            base = [Item(name, visible[name]) for name in (*rel.keys, *by)]
            used = dict.fromkeys(cell.measure for cell in spread)
            taken = {item.name for item in base}
            if taken & {*used, *lower.by}:
                return Refused("a column is named like one that the lower pivot reads")
            base += [Item(name, col(name)) for name in (*lower.by, *used)]
            return over(GPivot(over(lower.input, (), tuple(base)), by + lower.by, spread), (), tuple(above))
    return None


def cancel_gunpivot_over_gpivot(rel: Rel, facts: Facts) -> Outcome:
    """Gathering all that a pivot spread gives the rows that it spread, but for those without a value.

    Before:
        GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan sales
    After:
        Select [(month <=> 'jan' OR month <=> 'feb') AND NOT qty IS NULL]
          Scan sales

    Sound because each cell comes from one row and gives it back; a row of NULLs leaves cells like a missing one's, and
    neither comes back. Provided the unpivot
    1. gathers all cells of the pivot and nothing else,   2. leaves out NULLs (else missing rows come back),
    3. gathers in each row the cells of one value list,   4. and all of its measures, each from the same one.
    5. No condition lies between.
    [gpivot-2005, eq. 9]
    """
    match rel:
        case GUnpivot(input=input) if below := pivoted(input):
            pivot = below.pivot
            held = {cell.name: cell for cell in pivot.cells}
            sources = {cell.name: source_of(below.visible[cell.name]) for cell in rel.cells}
            if not set(sources.values()) & set(held):
                return None
            if below.condition:
                return Refused("a condition on pivoted columns lies between")
            if rel.include_nulls:
                return Refused("it keeps NULLs: rows that were never there come back")
            carried = [source_of(below.visible[name]) for name in rel.keys]
            if set(sources.values()) != set(held) or not all(name in pivot.keys for name in carried):
                return Refused("it gathers a part of what the pivot spread, or more")
            values: dict[Values, Values] = {}
            measures: dict[str, str] = {}
            for group in rel.groups:
                inner = [held[sources[cell.name] or ""] for cell in group]
                if len({cell.values for cell in inner}) != 1 or inner[0].values in values:
                    return Refused(
                        "it gathers the cells of a value list into several rows, or those of several into one"
                    )
                if {cell.measure for cell in inner} != set(pivot.measures) or len(inner) != len(pivot.measures):
                    return Refused("it does not gather each measure for each value list")
                values[inner[0].values] = group[0].values
                for outer, lower in zip(group, inner, strict=True):
                    if measures.setdefault(outer.measure, lower.measure) != lower.measure:
                        return Refused("it gathers several measures in one column")
            places = {inner: _at(pivot.by, inner) for inner in values}
            items = [Item(name, below.visible[name]) for name in rel.keys]
            made = facts.columns(rel)
            for at, name in enumerate(rel.by):
                same = at < len(pivot.by) and all(i[at] == outer[at] for i, outer in values.items())
                if same and facts.columns(pivot.input)[pivot.by[at]].type == made[name].type:
                    items.append(Item(name, col(pivot.by[at])))
                    continue
                branches = [exp.If(this=places[i].copy(), true=outer[at].copy()) for i, outer in values.items()]
                items.append(Item(name, scalar.canonical(exp.Case(ifs=branches))))
            items += [Item(name, col(measures[name])) for name in rel.measures]
            there = disjunction(none_null(pivot.measures)) if len(pivot.measures) > 1 else none_null(pivot.measures)[0]
            return over(pivot.input, (disjunction(places.values()), there), tuple(items))
    return None


def _at(by: tuple[str, ...], values: Values) -> exp.Expr:
    pairs = zip(by, values, strict=True)
    return scalar.conjunction(tuple(exp.NullSafeEQ(this=col(name), expression=value.copy()) for name, value in pairs))


def pull_gpivot_through_gunpivot(rel: Rel, facts: Facts) -> Outcome:
    """A pivot and an unpivot that share no column change places.

    Before:
        GUnpivot [part] { low := edge @ ('low'), high := edge @ ('high') }
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Join [id = bound]
              Scan bounds
              Scan bound_sales
    After:
        Project { id, bound, jan, feb, part, edge }
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            GUnpivot [part] { low := edge @ ('low'), high := edge @ ('high') }
              Join [id = bound]
                Scan bounds
                Scan bound_sales

    Sound because the unpivot repeats all rows of a key alike. Provided
    1. it gathers carried columns only,
    2. the other carried columns determine those: else rows of several keys would meet in one,
    3. its new columns are named like none below the pivot.
    [gpivot-2005, eq. 10, which needs the second condition as well]
    """
    match rel:
        case GUnpivot(input=GPivot() as pivot):
            gathered = {cell.name for cell in rel.cells}
            if not gathered <= set(pivot.keys):
                return Refused("it gathers columns that the pivot made")
            if not gathered <= facts.determined(pivot.input, set(pivot.keys) - gathered):
                return Refused(
                    f"{', '.join(sorted(gathered))} may differ in rows that agree on the other carried columns"
                )
            if {*rel.by, *rel.measures} & {*pivot.by, *pivot.measures}:
                return Refused("a new column is named like one below the pivot")
            lower = GUnpivot(pivot.input, rel.by, rel.cells, rel.include_nulls)
            return over(GPivot(lower, pivot.by, pivot.cells), (), columns(rel.names))
    return None
