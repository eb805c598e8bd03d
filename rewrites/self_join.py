"""A condition on cells, moved below the pivot: keys that satisfy it are found by joining the rows with themselves.

For maintenance the condition stays over the pivot instead, as the paper advises: a change that has to pass several
copies of one table costs more than a look-up of the keys that come in. [gpivot-2005, section 5.1.1]
"""

from __future__ import annotations

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import GPivot, Item, Join, JoinKind, Project, Rel, Select, UnionAll, col
from .engine import Outcome, Refused
from .facts import Facts
from .nulls import never_true
from .shapes import Values, equal_columns, fresh, over, select


def pull_gpivot_through_select_on_cells(rel: Rel, facts: Facts) -> Outcome:
    """Select by cells before pivoting: keep the rows of keys for which the rows of those cells satisfy the condition.

    Before:
        Select [jan > feb]
          GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
            Scan sales
    After:
        GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          Join semi [region <=> region_found AND store <=> store_found]
            Scan sales
            Project { region_found, store_found }
              Select [jan > feb]
                Join [region_found <=> region_at_2 AND store_found <=> store_at_2]
                  Project { region_found := region, store_found := store, jan := qty }
                    Select [month <=> 'jan']
                      Scan sales
                  Project { region_at_2 := region, store_at_2 := store, feb := qty }
                    Select [month <=> 'feb']
                      Scan sales

    Sound because a cell that is not NULL is the measure of one row of its key. Conjuncts are taken one by one; of a
    disjunction, the keys of both sides. One value list needs no join. Provided
    1. the pivot has key columns,
    2. the condition is not true where the cells of one of its value lists are NULL: such a row may be missing.
    [gpivot-2005, eq. 7]
    """
    match rel:
        case Select(input=GPivot() as pivot, condition=condition):
            cells = {cell.name for cell in pivot.cells}
            parts = scalar.conjuncts(condition)
            on_cells = tuple(part for part in parts if scalar.columns_of(part) & cells)
            if not on_cells:
                return None
            if not pivot.keys:
                return Refused("the pivot has no key column: it gives a row even of no rows")
            found_names = {key: fresh(f"{key}_found", pivot.input.names) for key in pivot.keys}
            input = pivot.input
            for part in on_cells:
                found = _keys_where(pivot, part, found_names)
                if found is None:
                    return Refused("the condition may hold where a cell is missing")
                input = Join(input, found, equal_columns(found_names.items()), JoinKind.SEMI)
            rest = tuple(part for part in parts if part not in on_cells)
            return select(GPivot(input, pivot.by, pivot.cells), rest)
    return None


def _keys_where(pivot: GPivot, condition: exp.Expr, names: dict[str, str]) -> Rel | None:
    """The keys that satisfy a condition on cells, under the given names; a key may come several times."""
    match condition:
        case exp.Paren(this=inner):
            return _keys_where(pivot, inner, names)
        case exp.Or(this=a, expression=b):
            sides = (_keys_where(pivot, a, names), _keys_where(pivot, b, names))
            return UnionAll((sides[0], sides[1])) if sides[0] is not None and sides[1] is not None else None
    read = [cell for cell in pivot.cells if cell.name in scalar.columns_of(condition)]
    lists = tuple(dict.fromkeys(cell.values for cell in read))
    joined: Rel | None = None
    for at, values in enumerate(lists):
        here = [cell for cell in read if cell.values == values]
        if not never_true(condition, frozenset(cell.name for cell in here)):
            return None
        keys = names if joined is None else {key: fresh(f"{key}_at_{at + 1}", joined.names) for key in pivot.keys}
        items = [Item(keys[key], col(key)) for key in pivot.keys] + [Item(c.name, col(c.measure)) for c in here]
        rows = Project(Select(pivot.input, _at(pivot.by, values)), tuple(items))
        pairs = [(names[key], keys[key]) for key in pivot.keys]
        joined = rows if joined is None else Join(joined, rows, equal_columns(pairs))
    found = {key: col(names[key]) for key in pivot.keys}
    kept = tuple(Item(name, col(name)) for name in names.values())
    if joined is None:
        return Project(select(pivot.input, (condition,)), tuple(Item(names[key], col(key)) for key in pivot.keys))
    return over(joined, (scalar.substitute(condition, found),), kept)


def _at(by: tuple[str, ...], values: Values) -> exp.Expr:
    pairs = zip(by, values, strict=True)
    return scalar.conjunction(tuple(exp.NullSafeEQ(this=col(name), expression=value.copy()) for name, value in pairs))
