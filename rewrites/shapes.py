"""Shapes that several rules look for, and the small constructions that they share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Cell, GPivot, GUnpivot, Item, Project, Rel, Select, col
from ..compiler.prune import project

Substitution = Mapping[str, exp.Expr]
Values = tuple[exp.Expr, ...]


@dataclass(frozen=True, slots=True)
class Pivoted:
    """A pivot with what may stand over it and still counts as a pivot on top: Project over Select, both optional."""

    pivot: GPivot
    condition: tuple[exp.Expr, ...]  # conjuncts over the columns of the pivot
    items: tuple[Item, ...]  # the visible columns, over the columns of the pivot

    @property
    def visible(self) -> dict[str, exp.Expr]:
        return {item.name: item.expression for item in self.items}

    @property
    def cells(self) -> frozenset[str]:
        return frozenset(cell.name for cell in self.pivot.cells)


def pivoted(rel: Rel) -> Pivoted | None:
    """The relation as a pivot, if it is one."""
    match rel:
        case Project(input=Select(input=GPivot() as pivot, condition=condition), items=items):
            return Pivoted(pivot, scalar.conjuncts(condition), items)
        case Project(input=GPivot() as pivot, items=items):
            return Pivoted(pivot, (), items)
        case Select(input=GPivot() as pivot, condition=condition):
            return Pivoted(pivot, scalar.conjuncts(condition), columns(pivot.names))
        case GPivot() as pivot:
            return Pivoted(pivot, (), columns(pivot.names))
    return None


def columns(names: Iterable[str]) -> tuple[Item, ...]:
    """Columns under their own names."""
    return tuple(Item(name, col(name)) for name in names)


def over(rel: Rel, conjuncts: tuple[exp.Expr, ...], items: tuple[Item, ...]) -> Rel:
    """Project over Select over the relation, each left out where it would change nothing."""
    return project(select(rel, conjuncts), items)


def select(rel: Rel, conjuncts: tuple[exp.Expr, ...]) -> Rel:
    parts = tuple(part for part in conjuncts if part != scalar.TRUE)
    return Select(rel, all_of(parts)) if parts else rel


def all_of(parts: tuple[exp.Expr, ...]) -> exp.Expr:
    """The conjunction, as it is read back: without parentheses around one of a single part, nor within another."""
    flat = tuple(part for whole in parts for part in scalar.conjuncts(whole))
    return flat[0].copy() if len(flat) == 1 else scalar.conjunction(flat)


def keep(rel: Rel, names: Collection[str]) -> Rel:
    """The relation without its other columns."""
    return project(rel, columns(name for name in rel.names if name in names))


def substituted(expression: exp.Expr, by_name: Substitution) -> exp.Expr:
    """The expression over other columns or expressions, in the form in which it is read back."""
    made = scalar.substitute(expression, by_name)
    renames = all(isinstance(by_name.get(name, col(name)), exp.Column) for name in scalar.columns_of(expression))
    return made if renames else scalar.canonical(made)


def source_of(expression: exp.Expr) -> str | None:
    """The column that the expression is, if it is no more than that."""
    return expression.name if isinstance(expression, exp.Column) else None


def fresh(name: str, taken: Collection[str]) -> str:
    """The name, or the name with the first number that makes it new."""
    number, new = 2, name
    while new in taken:
        new, number = f"{name}_{number}", number + 1
    return new


def apart(rel: Rel, taken: Collection[str]) -> tuple[Rel, dict[str, str]]:
    """The relation with columns renamed that clash with the taken names; and the new name of each column."""
    if not set(rel.names) & set(taken):
        return rel, {name: name for name in rel.names}
    new: dict[str, str] = {}
    for name in rel.names:
        clash = name in taken
        new[name] = fresh(name, {*taken, *rel.names, *new.values()}) if clash else name
    return project(rel, tuple(Item(new[name], col(name)) for name in rel.names)), new


def pivot_apart(pivot: GPivot, taken: Collection[str]) -> tuple[GPivot, dict[str, str]]:
    """The pivot with no column, inside or out, that clashes; and the new name of each of its output columns."""
    if not {*pivot.input.names, *pivot.names} & set(taken):
        return pivot, {name: name for name in pivot.names}
    input, new = apart(pivot.input, taken)
    names: dict[str, str] = {key: new[key] for key in pivot.keys}
    cells = []
    for cell in pivot.cells:
        names[cell.name] = fresh(cell.name, {*taken, *input.names, *names.values()})
        cells.append(Cell(names[cell.name], new[cell.measure], cell.values))
    return GPivot(input, tuple(new[name] for name in pivot.by), tuple(cells)), names


def rename_cells(cells: Iterable[Cell], names: Mapping[str, str]) -> tuple[Cell, ...]:
    return tuple(replace(cell, name=names.get(cell.name, cell.name)) for cell in cells)


def at_values(rel: GPivot | GUnpivot, values: Values) -> dict[str, exp.Expr]:
    """What the pivot columns and the measures are at these values, over the cells; a measure without a cell is NULL."""
    found: dict[str, exp.Expr] = dict(zip(rel.by, values, strict=True))
    held: dict[str, exp.Expr] = {cell.measure: col(cell.name) for cell in rel.cells if cell.values == values}
    return found | {measure: held.get(measure, exp.Null()) for measure in rel.measures}


def value_lists(rel: GPivot | GUnpivot) -> tuple[Values, ...]:
    """The value lists of the cells, each once, in their order."""
    return tuple(dict.fromkeys(cell.values for cell in rel.cells))


def cells_at(rel: GPivot | GUnpivot, values: Values) -> frozenset[str]:
    return frozenset(cell.name for cell in rel.cells if cell.values == values)


def equal_columns(pairs: Iterable[tuple[str, str]]) -> exp.Expr:
    """Null-safe equality of each pair."""
    return scalar.conjunction(tuple(exp.NullSafeEQ(this=col(a), expression=col(b)) for a, b in pairs))


def disjunction(parts: Iterable[exp.Expr]) -> exp.Expr:
    result: exp.Expr | None = None
    for part in parts:
        result = part.copy() if result is None else exp.Or(this=result, expression=part.copy())
    return scalar.canonical(result) if result is not None else exp.Boolean(this=False)


def case(condition: exp.Expr, value: exp.Expr) -> exp.Expr:
    """CASE WHEN condition THEN value END."""
    return scalar.canonical(exp.Case(ifs=[exp.If(this=condition.copy(), true=value.copy())]))


def none_null(names: Iterable[str]) -> tuple[exp.Expr, ...]:
    return tuple(exp.Not(this=exp.Is(this=col(name), expression=exp.Null())) for name in names)
