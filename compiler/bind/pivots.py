"""PIVOT, GPIVOT and UNPIVOT behind what stands in FROM.

PIVOT groups by every column that is neither pivoted by nor read by an aggregate, and by the pivoted ones; GPivot then
spreads the groups. Spark computes it in two ways, which differ where a cell has no rows:

| results of the aggregates | expressions over aggregates | a cell without rows |
|---|---|---|
| all numbers or truth values | below GPivot | NULL, whatever the aggregate |
| any other type among them | above GPivot | as over no rows: COUNT is 0, COALESCE(SUM(x), 0) is 0 |

Columns are named as Spark names them: `value` for one aggregate, `value_aggregate` for several; an alias stands for
either of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from ...grammar.spark_dialect import is_gpivot
from .. import scalar as scalars
from ..aggregates import FUNCTIONS, call_of, is_aggregate
from ..algebra import Cell, Column, GPivot, GroupBy, GUnpivot, Item, Measure, Rel, col
from ..constants import Constant, NotConstant, cast, fold, literal, shown
from ..properties import keys, schema
from ..prune import project
from ..types import common_type, is_decimal
from ..typing import NotDeterministic, UnknownType, type_of
from .expressions import scalar
from .pretty import pretty
from .scope import Binder, Source, Visible, fresh

_SPREAD_AS_THEY_ARE = ("double", "float", "int", "bigint", "smallint", "tinyint", "boolean")


def bind_pivot(binder: Binder, source: Source, pivot: exp.Pivot) -> Source:
    """The rows of a source, pivoted or unpivoted, under the pivot's alias.

    After joins the source is the whole of FROM so far, as in Spark, wherever sqlglot hangs the pivot.
    """
    for part in ("using", "into", "group", "default_on_null"):
        if pivot.args.get(part):
            raise binder.unsupported(f"PIVOT … {part.replace('_', ' ').upper()}", pivot)
    if len(pivot.fields) != 1:
        raise binder.unsupported("PIVOT with several FOR", pivot)
    if pivot.args.get("unpivot"):
        made = _unpivot(binder, source, pivot)
    else:
        made = _Pivot(binder, source, pivot).bound()
    if pivot.alias:
        made = replace(made, scope=tuple(replace(visible, alias=pivot.alias) for visible in made.scope))
    return made


@dataclass(frozen=True, slots=True)
class _Value:
    """One entry of PIVOT's IN list: its name and, for each column pivoted by, the constant."""

    name: str
    constants: tuple[exp.Expr, ...]


class _Pivot:
    def __init__(self, binder: Binder, source: Source, pivot: exp.Pivot) -> None:
        self.binder = binder
        self.source = source
        self.pivot = pivot
        self.columns = {column.name: column for column in schema(source.rel)}
        self.measures: dict[Measure, str] = {}
        self.read: set[str] = set()
        self.taken = set(source.rel.names)
        [field] = pivot.fields
        names = field.this.expressions if isinstance(field.this, exp.Tuple) else [field.this]
        self.by = [self._pivoted_column(name) for name in names]
        self.values = self._values(field)
        self.names = [self._aggregate_name(item) for item in pivot.expressions]

    def bound(self) -> Source:
        aggregates = [self._over_groups(item.unalias()) for item in self.pivot.expressions]
        kept = [v for v in self.source.scope if not v.merged and v.column not in self.read and v.column not in self.by]
        key = tuple(v.column for v in kept)
        spread = self._without_groups(key, aggregates) if is_gpivot(self.pivot) else self._grouped(key, aggregates)
        cells = [self._cell_name(value, at) for value in self.values for at in range(len(self.names))]
        made = (Visible("", name, column) for name, column in zip(cells, spread.names[len(key) :], strict=True))
        return Source(spread, (*kept, *made))

    def _cell_name(self, value: _Value, aggregate: int) -> str:
        return value.name if len(self.names) == 1 else f"{value.name}_{self.names[aggregate]}"

    # ---- FOR … IN

    def _pivoted_column(self, node: exp.Expr) -> str:
        if not isinstance(node, exp.Column):
            raise self.binder.fail(
                "DF0321", "PIVOT is by columns, not by expressions", node, "compute it in a subquery"
            )
        return self.binder.visible(node.this, self.source.scope, node.table).column

    def _values(self, field: exp.Expr) -> list[_Value]:
        found: list[_Value] = []
        for node in field.expressions:
            value = self._value(node)
            if any(value.constants == other.constants for other in found):
                raise self.binder.fail("DF0322", f"{value.name} is listed twice", node, "leave one out")
            found.append(value)
        if not found:
            raise self.binder.fail("DF0321", "PIVOT lists the values that become columns", field, "FOR a IN (1, 2)")
        return found

    def _value(self, node: exp.Expr) -> _Value:
        given = node.this if isinstance(node, exp.PivotAlias) else node
        parts = given.expressions if isinstance(given, exp.Tuple) else [given]
        if len(parts) != len(self.by):
            message = f"{len(parts)} values for {len(self.by)} columns"
            raise self.binder.fail("DF0322", message, node, "give one value a column")
        try:
            constants = [fold(part) for part in parts]
            fitted = [cast(c, self.columns[by].type) for c, by in zip(constants, self.by, strict=True)]
            name = node.args["alias"].name if isinstance(node, exp.PivotAlias) else _value_name(constants)
        except NotConstant as error:
            remedy = "write the value as a literal, with an alias if its name matters"
            raise self.binder.fail("DF0321", str(error), node, remedy) from None
        return _Value(name, tuple(literal(constant) for constant in fitted))

    # ---- aggregates

    def _aggregate_name(self, item: exp.Expr) -> str:
        if isinstance(item, exp.Alias):
            return str(item.alias)
        name = pretty(item)
        if name is None and len(self.pivot.expressions) > 1:
            message = "the name that Spark makes of this aggregate is not known"
            raise self.binder.fail("DF0210", message, item, "give it one: … AS name")
        return name or ""

    def _over_groups(self, node: exp.Expr) -> exp.Expr:
        """An expression of PIVOT over the measures of its groups."""
        if is_aggregate(node):
            return col(self._measure(node))
        if isinstance(node, exp.Column):
            message = f"{node.name} is not aggregated"
            raise self.binder.fail("DF0306", message, node, f"aggregate it: MAX({node.name})")
        copy = node.copy()
        for key, value in node.args.items():
            if isinstance(value, exp.Expr):
                copy.set(key, self._over_groups(value))
            elif isinstance(value, list):
                copy.set(key, [self._over_groups(v) if isinstance(v, exp.Expr) else v for v in value])
        return copy

    def _measure(self, node: exp.Expr) -> str:
        filtered = node.expression.this if isinstance(node, exp.Filter) else None
        call = call_of(node.this if isinstance(node, exp.Filter) else node)
        if call is None:
            raise self.binder.unsupported(f"the aggregate {node.sql(dialect='spark')}", node)
        for argument in call.arguments:
            for inner in (part for part in argument.walk() if is_aggregate(part)):
                raise self.binder.fail("DF0305", "an aggregate cannot stand in an aggregate", inner)
        arguments = [scalar(self.binder, argument, self.source) for argument in call.arguments]
        facts = FUNCTIONS[call.function]
        if filtered is not None:
            if not facts.ignores_nulls:
                raise self.binder.unsupported(f"{call.function.upper()} with FILTER", node)
            condition = scalar(self.binder, filtered, self.source)
            guarded = arguments or [exp.Literal.number(1)]
            guarded[facts.guard] = exp.Case(ifs=[exp.If(this=condition, true=guarded[facts.guard])])
            arguments = [scalars.canonical(argument) for argument in guarded]
        for argument in arguments:
            self.read |= scalars.columns_of(argument)
        measure = Measure("", call.function, tuple(arguments), call.distinct)
        if measure not in self.measures:
            first = next((argument.name for argument in arguments if isinstance(argument, exp.Column)), "")
            hint = f"{call.function}_{first}" if first else call.function
            self.measures[measure] = fresh(hint, self.taken)
        return self.measures[measure]

    # ---- the relation

    def _grouped(self, key: tuple[str, ...], aggregates: Sequence[exp.Expr]) -> Rel:
        measures = tuple(replace(measure, name=name) for measure, name in self.measures.items())
        groups = GroupBy(self.source.rel, (*key, *self.by), measures)
        columns = {column.name: column for column in schema(groups)}
        types = [self._type(expression, columns) for expression in aggregates]
        if all(type_ in _SPREAD_AS_THEY_ARE or is_decimal(type_) for type_ in types):
            return self._spread_values(key, groups, aggregates)
        return self._spread_measures(key, groups, aggregates)

    def _type(self, expression: exp.Expr, columns: dict[str, Column]) -> str:
        try:
            return type_of(scalars.canonical(expression), columns).type
        except (UnknownType, NotDeterministic) as error:
            raise self.binder.fail("DF0303", error.message, self.pivot) from None

    def _spread_values(self, key: tuple[str, ...], groups: GroupBy, aggregates: Sequence[exp.Expr]) -> Rel:
        """The expressions of each group, spread: a cell without rows is NULL."""
        items = [Item(name, col(name)) for name in (*key, *self.by)]
        held: list[str] = []
        for expression in aggregates:
            alone = isinstance(expression, exp.Column) and expression.name not in held
            name = expression.name if alone else fresh("value", self.taken)
            held.append(name)
            items.append(Item(name, scalars.canonical(expression)))
        cells = [Cell(name, held[at], value.constants) for value, at, name in self._cells(key)]
        return GPivot(project(groups, tuple(items)), tuple(self.by), tuple(cells))

    def _cells(self, key: tuple[str, ...]) -> list[tuple[_Value, int, str]]:
        """For each cell its value, the number of its aggregate, and a name that no other column has."""
        taken = set(key)
        places = [(value, at) for value in self.values for at in range(len(self.names))]
        return [(value, at, fresh(self._cell_name(value, at), taken)) for value, at in places]

    def _spread_measures(self, key: tuple[str, ...], groups: GroupBy, aggregates: Sequence[exp.Expr]) -> Rel:
        """The measures of each group, spread, and the expressions of each cell: without rows, as over no rows."""
        for measure in groups.measures:
            facts = FUNCTIONS[measure.function]
            constant = any(argument.find(exp.Column) is None for argument in measure.arguments[1:])
            if constant or not (facts.ignores_nulls or measure.function in ("first", "last")):
                message = f"{measure.function.upper()} beside an aggregate that gives no number"
                raise self.binder.unsupported(f"PIVOT of {message}", self.pivot)
        names = {
            (measure.name, value.constants): fresh(f"{value.name}_{measure.name}", self.taken)
            for value in self.values
            for measure in groups.measures
        }
        cells = tuple(Cell(name, measure, constants) for (measure, constants), name in names.items())
        spread = GPivot(groups, tuple(self.by), cells)
        empty = {measure.name: _on_no_rows(measure) for measure in groups.measures}
        items = [Item(name, col(name)) for name in key]
        for value, at, name in self._cells(key):
            by_name: dict[str, exp.Expr] = {}
            for measure in groups.measures:
                cell = col(names[measure.name, value.constants])
                nothing = empty[measure.name]
                by_name[measure.name] = (
                    cell if nothing is None else exp.Coalesce(this=cell, expressions=[nothing.copy()])
                )
            items.append(Item(name, scalars.canonical(scalars.substitute(aggregates[at], by_name))))
        return project(spread, tuple(items))

    def _without_groups(self, key: tuple[str, ...], measures: Sequence[exp.Expr]) -> Rel:
        """GPIVOT: each cell holds the measure of the one row of its key and values."""
        identified = {*key, *self.by}
        if not any(known <= identified for known in keys(self.source.rel, self.binder.catalog)):
            listed = ", ".join((*key, *self.by))
            message = f"GPIVOT needs one row for each {listed}, and no declared key says so"
            remedy = "declare the key, or aggregate with PIVOT"
            raise self.binder.fail("DF0324", message, self.pivot, remedy)
        items = [Item(name, col(name)) for name in (*key, *self.by)]
        items += [Item(name, measure.arguments[0]) for measure, name in self.measures.items()]
        cells = [Cell(name, measures[at].name, value.constants) for value, at, name in self._cells(key)]
        return GPivot(project(self.source.rel, tuple(items)), tuple(self.by), tuple(cells))


def _value_name(constants: Sequence[Constant]) -> str:
    if len(constants) == 1:
        return shown(constants[0])
    return "{" + ", ".join(shown(constant) for constant in constants) + "}"


def _on_no_rows(measure: Measure) -> exp.Expr | None:
    """What an aggregate gives over no rows; None for NULL."""
    if FUNCTIONS[measure.function].null_on_empty:
        return None
    if measure.function.startswith("collect"):
        return exp.Array(expressions=[])
    return exp.Literal.number(0)


def _unpivot(binder: Binder, source: Source, pivot: exp.Pivot) -> Source:
    [field] = pivot.fields
    [target] = pivot.expressions
    values = [v.name for v in target.expressions] if isinstance(target, exp.Tuple) else [target.name]
    taken = set(source.rel.names)
    columns = {column.name: column for column in schema(source.rel)}
    rows: list[tuple[str, list[str]]] = []
    for node in field.expressions:
        given = node.this if isinstance(node, exp.PivotAlias) else node
        parts = given.expressions if isinstance(given, exp.Tuple) else [given]
        if len(parts) != len(values) or not all(isinstance(part, exp.Column) for part in parts):
            message = f"UNPIVOT gathers {len(values)} columns here"
            raise binder.fail("DF0323", message, node, "list columns, as many as there are value columns")
        gathered = [binder.visible(part.this, source.scope, part.table) for part in parts]
        name = node.args["alias"].name if isinstance(node, exp.PivotAlias) else "_".join(part.name for part in parts)
        if any(name == other for other, _ in rows):
            raise binder.fail("DF0323", f"two rows of UNPIVOT are called {name}", node, "give one an alias")
        rows.append((name, [v.column for v in gathered]))
    gathered_columns = {column for _, listed in rows for column in listed}
    kept = [v for v in source.scope if not v.merged and v.column not in gathered_columns]
    items = [Item(v.column, col(v.column)) for v in kept]
    used = {v.column for v in kept}
    cells: list[Cell] = []
    measures = [fresh(value, taken) for value in values]
    by = fresh(field.this.name, taken)
    for at, measure in enumerate(measures):
        common = "void"
        for _, listed in rows:
            wider = common_type(common, columns[listed[at]].type)
            if wider is None or (wider != columns[listed[at]].type and columns[listed[at]].type == "string"):
                message = f"{values[at]} gathers columns of the types {common} and {columns[listed[at]].type}"
                raise binder.fail("DF0323", message, field, "cast them to one type in a subquery")
            common = wider
        for name, listed in rows:
            given_column = columns[listed[at]]
            column = given_column.name if given_column.name not in used else fresh(given_column.name, taken)
            used.add(column)
            expression: exp.Expr = col(given_column.name)
            if given_column.type != common:
                expression = scalars.canonical(exp.cast(expression, common, dialect=scalars.DIALECT))
            items.append(Item(column, expression))
            cells.append(Cell(column, measure, (exp.Literal.string(name),)))
    rel = GUnpivot(project(source.rel, tuple(items)), (by,), tuple(cells), bool(pivot.args.get("include_nulls")))
    made = [Visible("", field.this.name, by), *(Visible("", v, m) for v, m in zip(values, measures, strict=True))]
    return Source(rel, (*kept, *made))
