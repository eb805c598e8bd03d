"""GROUP BY and aggregates: a query block becomes Project over GroupBy, aggregates stand in GroupBy only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from .. import scalar as scalars
from ..aggregates import FUNCTIONS, function_of
from ..algebra import GroupBy, Item, Measure, Project, col
from .expressions import aggregates, is_aggregate, scalar
from .scope import Binder, Bound, Output, Source, distinct_names, fresh
from .selection import Selected

_GROUPINGS = {exp.GroupingSets: "GROUPING SETS", exp.Rollup: "ROLLUP", exp.Cube: "CUBE"}


def bind_groups(binder: Binder, source: Source, selected: list[Selected], group: exp.Group | None) -> Bound:
    """A query block with GROUP BY or aggregates, from GROUP BY to SELECT."""
    keys = _group_keys(binder, source, selected, group)
    by_text = {scalars.text(expression): name for name, expression in keys}
    computed = [Item(name, expression) for name, expression in keys if not isinstance(expression, exp.Column)]
    if computed:
        kept = tuple(Item(name, col(name)) for name in source.rel.names)
        source = replace(source, rel=Project(source.rel, (*kept, *computed)))
    measures: dict[str, Measure] = {}
    taken = set(source.rel.names) | {name for name, _ in keys}
    bound = [_over_groups(binder, item, source, by_text, measures, taken) for item in selected]
    names = distinct_names(item.name for item in selected)
    grouped = GroupBy(source.rel, tuple(name for name, _ in keys), tuple(measures.values()))
    final = tuple(Item(name, expression) for name, expression in zip(names, bound, strict=True))
    return Bound(Project(grouped, final), tuple(Output(item.name, item.node) for item in selected))


def _group_keys(
    binder: Binder, source: Source, selected: list[Selected], group: exp.Group | None
) -> list[tuple[str, exp.Expr]]:
    """The grouping columns, each with the bound expression it stands for."""
    if group is None:
        return []
    for part, value in group.args.items():
        if value and part != "expressions":
            raise binder.unsupported(f"GROUP BY {part.replace('_', ' ').upper()}", group)
    keys: dict[str, tuple[str, exp.Expr]] = {}
    taken = set(source.rel.names)
    for node in group.expressions:
        if isinstance(node, exp.GroupingSets | exp.Rollup | exp.Cube):
            raise binder.unsupported(f"GROUP BY {_GROUPINGS[type(node)]}", node)
        expression, wanted = node, ""
        if isinstance(node, exp.Literal) and not node.is_string:
            index = int(node.name) if node.name.isdigit() else 0
            if not 1 <= index <= len(selected):
                message = f"GROUP BY {node.name}: the select list has {len(selected)} columns"
                raise binder.fail("DF0211", message, node)
            wanted, expression = selected[index - 1].name, selected[index - 1].expression
        elif isinstance(node, exp.Column) and not node.table:
            known = any(v.name.casefold() == node.name.casefold() for v in source.scope)
            aliased = [item for item in selected if item.name.casefold() == node.name.casefold()]
            if not known and aliased:
                wanted, expression = aliased[0].name, aliased[0].expression
        for aggregate in aggregates(expression):
            raise binder.fail("DF0304", "an aggregate cannot stand in GROUP BY", aggregate)
        bound = scalar(binder, expression, source)
        if scalars.text(bound) in keys:
            continue
        if isinstance(bound, exp.Column):
            keys[scalars.text(bound)] = (bound.name, bound)
        else:
            spelled = next((item.name for item in selected if item.expression == expression), "")
            name = fresh(wanted or spelled or f"key_{len(keys) + 1}", taken)
            keys[scalars.text(bound)] = (name, bound)
    return list(keys.values())


def _over_groups(
    binder: Binder,
    item: Selected,
    source: Source,
    keys: Mapping[str, str],
    measures: dict[str, Measure],
    taken: set[str],
) -> exp.Expr:
    """A select item of a grouped query, over grouping columns and measures."""

    def measure(call: exp.Expr) -> exp.Expr:
        function, argument = _aggregate_call(binder, call)
        for inner in aggregates(argument) if argument is not None else ():
            raise binder.fail("DF0305", "an aggregate cannot stand in an aggregate", inner)
        bound = None if argument is None else scalar(binder, argument, source)
        text = f"{function}({'*' if bound is None else scalars.text(bound)})"
        if text not in measures:
            argued = f"{function}_{bound.name}" if bound is not None and bound.name else function
            hint = item.name if call is item.expression else argued
            measures[text] = Measure(fresh(hint, taken), function, () if bound is None else (bound,))
        return col(measures[text].name)

    def walk(part: exp.Expr) -> exp.Expr:
        if is_aggregate(part):
            return measure(part)
        if not part.find(exp.AggFunc) and not isinstance(part, exp.Literal | exp.Null | exp.Boolean | exp.DataType):
            if part.find(exp.Column) is None:
                return part
            if not isinstance(part, exp.Identifier):
                bound = scalar(binder, part, source) if not isinstance(part, exp.If) else None
                if bound is not None and scalars.text(bound) in keys:
                    return col(keys[scalars.text(bound)])
                if isinstance(part, exp.Column):
                    raise binder.fail(
                        "DF0306",
                        f"{part.name} is neither grouped by nor aggregated",
                        part if "start" in part.this.meta else item.node,
                        f"add it to GROUP BY, or aggregate it: MIN({part.name})",
                    )
        copy = part.copy()
        for key, value in list(part.args.items()):
            if isinstance(value, exp.Expr):
                copy.set(key, walk(value))
            elif isinstance(value, list):
                copy.set(key, [walk(v) if isinstance(v, exp.Expr) else v for v in value])
        return copy

    return scalars.canonical(walk(item.expression))


def _aggregate_call(binder: Binder, call: exp.Expr) -> tuple[str, exp.Expr | None]:
    if isinstance(call, exp.Filter):
        raise binder.unsupported("FILTER", call, "aggregate a CASE expression: SUM(CASE WHEN … THEN … END)")
    function = function_of(call)
    if function is None or not FUNCTIONS[function].parts:
        known = ", ".join(name.upper() for name, facts in FUNCTIONS.items() if facts.parts)
        raise binder.unsupported(f"the aggregate {call.sql(dialect='spark').split('(')[0]}", call, f"known: {known}")
    argument = call.this
    if isinstance(argument, exp.Distinct):
        raise binder.unsupported(f"{function.upper()}(DISTINCT …)", call)
    if call.expressions:
        raise binder.unsupported(f"{function.upper()} of several arguments", call)
    return function, None if isinstance(argument, exp.Star) else argument
