"""Pivots as aggregates: the stored form of a crosstab.

A cell of a pivot over a GROUPBY is the aggregate of the rows that have the cell's values; a cell of any other pivot
holds the only such row. So both are groups by the pivot's key, of conditional aggregates,

    GPivot [b] { c := m @ (v) } ( GroupBy [k, b] { m := f(x) } ( R ) )
                            =  GroupBy [k] { c := f(CASE WHEN b <=> v THEN x END) } ( R )
    GPivot [b] { c := m @ (v) } ( R )
                            =  GroupBy [k] { c := only(CASE WHEN b <=> v THEN m END) } ( R )

and are maintained as such: merged on the key, with COUNT(*) of all rows of the key, listed values or not, to decide
when the stored row dies. A cell without rows is NULL: COUNT is taken only where the cell's own count of rows is not 0.
The batch is netted first, so that a cell that is deleted and inserted again is just changed. [gpivot-2005, figures 23
and 27; the counts replace its test for cells that are all empty, which is wrong where a measure may be NULL]
"""

from __future__ import annotations

from sqlglot import exp

from . import scalar
from .aggregates import FUNCTIONS
from .algebra import Cell, GPivot, GroupBy, Item, Measure, Project, col
from .tops import peel

ONLY = "only"  # the value of the only row that has one


def of_aggregate(rel: GPivot) -> Project | str:
    """A pivot over a GROUPBY as groups of conditional aggregates, or why it is not one."""
    top = peel(rel.input)
    if not isinstance(top.below, GroupBy):
        return "there is no GROUP BY below the PIVOT"
    if top.condition is not None:
        return "there is a condition between the PIVOT and the GROUP BY below it"
    grouped = top.below
    held = {item.name: item.expression for item in top.items}
    columns = {name: held[name].name for name in (*rel.keys, *rel.by) if isinstance(held[name], exp.Column)}
    if set(columns.values()) != set(grouped.keys) or len(columns) != len(rel.keys) + len(rel.by):
        return "the PIVOT's key and its FOR columns are not the grouping columns below it"
    for measure in grouped.measures:
        if not FUNCTIONS[measure.function].ignores_nulls:
            return f"{measure.function.upper()} does not pass over NULLs, so it cannot be taken of one cell's rows"
    measures: dict[str, Measure] = {}

    def conditional(measure: Measure, place: int, here: exp.Expr) -> exp.Expr:
        name = f"__{measure.name}_{place}"
        arguments = tuple(_where(here, argument) for argument in measure.arguments) or (_where(here, _ONE),)
        measures.setdefault(name, Measure(name, measure.function, arguments, measure.distinct))
        return col(name)

    items = [Item(name, col(columns[name])) for name in rel.keys]
    places = {values: place for place, values in enumerate(dict.fromkeys(cell.values for cell in rel.cells), start=1)}
    for cell in rel.cells:
        here, place = _here(rel, cell, columns), places[cell.values]
        of_cell = {m.name: m for m in grouped.measures if m.name in scalar.columns_of(held[cell.measure])}
        value = scalar.substitute(held[cell.measure], {n: conditional(m, place, here) for n, m in of_cell.items()})
        if not _is_null_without_rows(held[cell.measure], of_cell):
            rows = conditional(Measure("rows", "count"), place, here)
            value = exp.Case(ifs=[exp.If(this=exp.GT(this=rows, expression=_ZERO), true=value)])
        items.append(Item(cell.name, scalar.canonical(value)))
    keys = tuple(columns[name] for name in rel.keys)
    return Project(GroupBy(grouped.input, keys, tuple(measures.values())), tuple(items))


def of_rows(rel: GPivot) -> Project:
    """A pivot of rows as groups of which each cell holds the only value."""
    names = {name: name for name in rel.by}
    measures = tuple(Measure(c.name, ONLY, (_where(_here(rel, c, names), col(c.measure)),)) for c in rel.cells)
    return Project(GroupBy(rel.input, rel.keys, measures), tuple(Item(name, col(name)) for name in rel.names))


_ONE, _ZERO = exp.Literal.number(1), exp.Literal.number(0)


def _here(rel: GPivot, cell: Cell, columns: dict[str, str]) -> exp.Expr:
    pairs = zip(rel.by, cell.values, strict=True)
    return scalar.conjunction(tuple(exp.NullSafeEQ(this=col(columns[b]), expression=v) for b, v in pairs))


def _where(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    return scalar.canonical(exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())]))


def _is_null_without_rows(value: exp.Expr, measures: dict[str, Measure]) -> bool:
    return isinstance(value, exp.Column) and all(FUNCTIONS[m.function].null_on_empty for m in measures.values())
