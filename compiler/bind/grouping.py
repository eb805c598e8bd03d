"""GROUP BY and aggregates: rows become groups, aggregates stand in GroupBy only.

GROUPING SETS, CUBE and ROLLUP are GroupBy over Expand: each row goes into one group of every set, with NULL for the
columns that the set leaves out and a number that says which set it is, so that NULLs in the data stay apart. Of no
rows there is no group, the grand total's neither, as in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from .. import scalar as scalars
from ..aggregates import FUNCTIONS, Call, call_of
from ..algebra import Expand, GroupBy, Item, Measure, col
from ..source import Diagnostic, InputError
from .correlation import Around, equality
from .expressions import aggregates, bind, is_aggregate
from .grouping_sets import grouping_sets, listed_keys
from .rows import Rows
from .scope import Binder, Correlation, Source, collecting, fresh
from .selection import Selected

_ZERO_ON_EMPTY = ("count", "count_if", "regr_count", "approx_count_distinct")


@dataclass(frozen=True, slots=True)
class Key:
    """What rows are grouped by: the column that holds it, and the expression over the rows that it is."""

    name: str
    expression: exp.Expr


class Groups(Rows):
    """The groups of rows, seen through their keys and aggregates."""

    def __init__(self, rows: Rows, keys: list[Key], correlation: Correlation) -> None:
        super().__init__(rows.binder, rows.environment, Source(rows.rel, rows.scope))
        self.rows = rows
        self.keys = {scalars.text(key.expression): key.name for key in keys}
        self.measures: dict[str, Measure] = {}
        self.calls: dict[exp.Expr, str] = {}  # the column of each aggregate call
        self.indicators: dict[exp.Expr, str] = {}  # the column of grouping() and grouping_id()
        self.correlation = correlation
        self.domain = rows.domain

    def replaced(self, node: exp.Expr) -> exp.Expr | None:
        if is_aggregate(node):
            name = self.calls.get(node) or self.indicators.get(node)
            if name is None:
                raise self.binder.fail("DF0304", "an aggregate cannot stand here", node)
            return col(name)
        if isinstance(node, exp.Window) or node.find(exp.Query) or next(aggregates(node), None) is not None:
            return None
        if not isinstance(node, exp.Condition) or isinstance(node, exp.If):
            return None
        name = self.keys.get(self._text(node))
        return None if name is None else col(name)

    def _text(self, node: exp.Expr) -> str:
        try:
            bound = node.transform(lambda n: self.rows.column(n) if isinstance(n, exp.Column) else n)
        except InputError:
            return ""
        return scalars.text(scalars.canonical(bound))

    def column(self, node: exp.Column) -> exp.Expr:
        found = self.rows.column(node)
        name = self.keys.get(scalars.text(found))
        if name is None and found.name in self.domain:
            return found
        if name is None:
            raise self.binder.fail(
                "DF0306",
                f"{node.name} is neither grouped by nor aggregated",
                node,
                f"add it to GROUP BY, or aggregate it: MIN({node.name})",
            )
        return col(name)

    def outer_reference(self, node: exp.Column) -> str | None:
        found = self.rows.outer_reference(node)
        if found is None or found in self.domain:
            return found
        return self.column(node).name

    def on_no_rows(self, expressions: list[exp.Expr]) -> tuple[exp.Expr, ...] | None:
        """What expressions over the aggregates of no rows are; None where they read anything else."""
        empty: dict[str, exp.Expr] = {}
        for measure in self.measures.values():
            if measure.function in _ZERO_ON_EMPTY:
                empty[measure.name] = exp.Literal.number(0)
            elif FUNCTIONS[measure.function].null_on_empty:
                empty[measure.name] = exp.Null()
        if any(not scalars.columns_of(expression) <= set(empty) for expression in expressions):
            return None
        return tuple(_on_no_rows(expression, empty) for expression in expressions)


def _on_no_rows(expression: exp.Expr, empty: dict[str, exp.Expr]) -> exp.Expr:
    strict = exp.Column | exp.Literal | exp.Binary | exp.Paren | exp.Neg | exp.Cast | exp.Identifier | exp.DataType
    nulls = [name for name in scalars.columns_of(expression) if empty[name] == exp.Null()]
    logical = expression.find(exp.And, exp.Or, exp.NullSafeEQ, exp.Is)
    if nulls and not logical and all(isinstance(node, strict) for node in expression.walk()):
        return exp.Null()
    return scalars.canonical(scalars.substitute(expression, empty))


def group_keys(rows: Rows, selected: list[Selected], group: exp.Group | None) -> tuple[list[Key], list[list[int]]]:
    """What is grouped by, and the grouping sets: for each the places of its keys. Without such sets, all in one."""
    if group is None:
        return [], [[]]
    if group.args.get("totals"):
        raise rows.binder.unsupported("GROUP BY WITH TOTALS", group)
    if group.args.get("all"):
        plain = [
            i for i in selected if next(aggregates(i.expression), None) is None and not i.expression.find(exp.Window)
        ]
        nodes: list[exp.Expr] = [item.expression for item in plain]
        sets: list[list[exp.Expr]] = [nodes]
    else:
        nodes, sets = listed_keys(group), grouping_sets(group)
    keys: dict[str, Key] = {}
    places: dict[exp.Expr, int] = {}
    errors: list[Diagnostic] = []
    for node in nodes:
        with collecting(errors):
            key = _key(rows, selected, node, len(keys))
            text = scalars.text(key.expression)
            keys.setdefault(text, key)
            places[node] = list(keys).index(text)
    if errors:
        raise InputError(errors)
    return list(keys.values()), [sorted({places[node] for node in chosen}) for chosen in sets]


def _key(rows: Rows, selected: list[Selected], node: exp.Expr, number: int) -> Key:
    binder = rows.binder
    expression, wanted = node, ""
    if isinstance(node, exp.Literal) and not node.is_string:
        index = int(node.name) if node.name.isdigit() else 0
        if not 1 <= index <= len(selected):
            raise binder.fail("DF0211", f"GROUP BY {node.name}: the select list has {len(selected)} columns", node)
        wanted, expression = selected[index - 1].name, selected[index - 1].expression
    elif isinstance(node, exp.Column) and not node.table and binder.find(node.this, rows.scope) is None:
        aliased = next((item for item in selected if item.name.casefold() == node.name.casefold()), None)
        if aliased is not None:
            wanted, expression = aliased.name, aliased.expression
    for aggregate in aggregates(expression):
        raise binder.fail("DF0304", "an aggregate cannot stand in GROUP BY", aggregate)
    if window := expression.find(exp.Window):
        raise binder.fail("DF0304", "a window function cannot stand in GROUP BY", window)
    bound = bind(rows, expression)
    spelled = next((item.name for item in selected if item.expression == expression), "")
    return Key(rows.add(wanted or spelled or f"key_{number + 1}", bound), bound)


def make_groups(rows: Rows, keys: list[Key], sets: list[list[int]], named: list[tuple[exp.Expr, str]]) -> Groups:
    """The groups, with every aggregate that the expressions call; each comes with the name it should have."""
    correlated_keys, correlation = _correlation_keys(rows)
    groups = Groups(rows, keys, correlation)
    names = [key.name for key in keys]
    errors: list[Diagnostic] = []
    taken = set(rows.rel.names)
    calls = [
        (call, hint if call is expression else "") for expression, hint in named for call in aggregates(expression)
    ]
    for call, hint in calls:
        with collecting(errors):
            if not isinstance(call, exp.Grouping | exp.GroupingId) and call not in groups.calls:
                _measure(groups, call, hint, taken | set(rows.rel.names))
    if errors:
        raise InputError(errors)
    if len(sets) > 1 or len(sets[0]) < len(keys):
        names = _expand(groups, keys, sets, [call for call, _ in calls])
    else:
        for call, _ in calls:
            if isinstance(call, exp.Grouping | exp.GroupingId):
                raise rows.binder.fail("DF0304", "there is no GROUPING SETS, CUBE or ROLLUP here", call)
    by = tuple(dict.fromkeys((*names, *correlated_keys, *rows.domain)))
    groups.rel = GroupBy(rows.rel, by, tuple(groups.measures.values()))
    return groups


def _correlation_keys(rows: Rows) -> tuple[list[str], Correlation]:
    """A subquery's groups are told apart by what its conditions equate with outer columns."""
    names, conditions = [], []
    for condition in rows.correlated:
        sides = equality(condition)
        if sides is None:
            assert isinstance(rows.binder.outer, Around)
            raise rows.binder.outer.needs_domain()
        name = rows.add("correlated", scalars.canonical(sides[0]))
        names.append(name)
        conditions.append(exp.EQ(this=col(name), expression=_operand(sides[1])))
    return names, Correlation(tuple(dict.fromkeys(names)), tuple(conditions))


def _operand(expression: exp.Expr) -> exp.Expr:
    return exp.Paren(this=expression.copy()) if isinstance(expression, exp.Binary) else expression.copy()


def _measure(groups: Groups, call: exp.Expr, hint: str, taken: set[str]) -> None:
    binder = groups.binder
    aggregate = _aggregate(binder, call)
    function, distinct = aggregate.function, aggregate.distinct
    for argument in aggregate.arguments:
        for inner in aggregates(argument):
            raise binder.fail("DF0305", "an aggregate cannot stand in an aggregate", inner)
        if window := argument.find(exp.Window):
            raise binder.fail("DF0305", "a window function cannot stand in an aggregate", window)
    bound = tuple(bind(groups.rows, argument) for argument in aggregate.arguments)
    text = f"{function}({'distinct ' if distinct else ''}{', '.join(scalars.text(b) for b in bound) or '*'})"
    if text not in groups.measures:
        argued = f"{function}_{bound[0].name}" if bound and bound[0].name else function
        name = fresh(hint or argued, taken | {measure.name for measure in groups.measures.values()})
        groups.measures[text] = Measure(name, function, bound, distinct)
    groups.calls[call] = groups.measures[text].name


def _aggregate(binder: Binder, call: exp.Expr) -> Call:
    """An aggregate call taken apart. FILTER becomes CASE, where a NULL argument is passed over."""
    if isinstance(call, exp.Filter):
        inner = _aggregate(binder, call.this)
        facts = FUNCTIONS[inner.function]
        if not facts.ignores_nulls:
            raise binder.unsupported(f"FILTER with {inner.function.upper()}", call)
        arguments = list(inner.arguments or (exp.Literal.number(1),))
        condition = call.expression.this.copy()
        arguments[facts.guard] = exp.Case().when(condition, arguments[facts.guard].copy())
        return Call(inner.function, tuple(arguments), inner.distinct)
    found = call_of(call)
    if found is None:
        known = ", ".join(name.upper() for name in FUNCTIONS)
        raise binder.unsupported(f"the aggregate {call.sql(dialect='spark').split('(')[0]}", call, f"known: {known}")
    return found


def _expand(groups: Groups, keys: list[Key], sets: list[list[int]], calls: list[exp.Expr]) -> list[str]:
    """Puts Expand below the groups; gives the columns to group by."""
    rows = groups.rows
    columns = {column.name: column.type for column in rows.columns.values()}
    taken = set(rows.rel.names)
    copies = [fresh(f"{key.name}_or_all", taken) for key in keys]
    number = fresh("grouping_id", taken)
    position = fresh("grouping_set", taken) if len({tuple(s) for s in sets}) < len(sets) else ""
    asked: dict[exp.Expr, tuple[str, int]] = {}
    for call in calls:
        match call:
            case exp.Grouping(expressions=[argument]):
                text = scalars.text(bind(rows, argument))
                place = next((i for i, key in enumerate(keys) if scalars.text(key.expression) == text), None)
                if place is None:
                    raise rows.binder.fail("DF0304", "grouping() is of a column that is grouped by", call)
                if call not in asked:
                    asked[call] = (fresh("grouping", taken), place)
                groups.indicators[call] = asked[call][0]
            case exp.GroupingId(expressions=arguments):
                texts = [scalars.text(bind(rows, argument)) for argument in arguments]
                if texts and texts != [scalars.text(key.expression) for key in keys]:
                    raise rows.binder.fail("DF0304", "grouping_id() lists all columns of GROUP BY or none", call)
                groups.indicators[call] = number
            case exp.Grouping():
                raise rows.binder.fail("DF0304", "grouping() has one argument", call)
    branches = []
    for at, chosen in enumerate(sets):
        items = [Item(name, col(name)) for name in rows.rel.names]
        for place, (key, copy) in enumerate(zip(keys, copies, strict=True)):
            null = exp.cast(exp.Null(), columns[key.name], dialect="spark")
            items.append(Item(copy, col(key.name) if place in chosen else scalars.canonical(null)))
        bits = sum(1 << (len(keys) - 1 - place) for place in range(len(keys)) if place not in chosen)
        items.append(Item(number, _number(bits, "bigint")))
        items += [Item(name, _number(int(place not in chosen), "tinyint")) for name, place in asked.values()]
        items += [Item(position, _number(at, "int"))] if position else []
        branches.append(tuple(items))
    rows.rel = Expand(rows.rel, tuple(branches))
    groups.keys = {scalars.text(key.expression): copy for key, copy in zip(keys, copies, strict=True)}
    return [*copies, number, *(name for name, _ in asked.values()), *([position] if position else [])]


def _number(value: int, kind: str) -> exp.Expr:
    return scalars.canonical(exp.cast(exp.Literal.number(value), kind, dialect="spark"))
