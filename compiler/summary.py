"""The summary-delta method for one view. [summary-delta-1997, sections 3.1 and 4]

A view  Project { values } ( GroupBy [keys] { measures } ( core ) )  is stored as its keys, its values and hidden
parts (`aggregates`). Propagate makes

    pc_v   prepare-changes: the rows of the core that come (+1) and go (-1), grouping columns and arguments only
    net_v  signs of equal rows added up (only where MIN or MAX needs it)
    sd_v   the summary-delta: what each group's parts change by

and for MIN and MAX under deletions also

    stale_v  groups whose extreme was deleted, with none as good inserted and rows left
    again_v  the extremes of just those groups, from the new base, all together with one semi-join

Departures from the paper: keys are compared null-safe; SUM is NULL when COUNT(e) reaches 0; the extremes of inserted
and of deleted values are kept apart, which makes the recomputation test tight without assuming minimal changes;
all of it happens in propagate, so that refresh never reads a base table.

HAVING filters groups after the merge: all groups are stored, and a hidden column `__shown` says which ones the author
sees. A pivot is a summary too (`crosstabs`); a part `only` holds the only value of a cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

from . import scalar
from .affected import restrict
from .aggregates import FUNCTIONS, PartFunction, aggregate_type
from .algebra import (
    SIGN,
    Column,
    GroupBy,
    Item,
    Join,
    JoinKind,
    Measure,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    State,
    UnionAll,
    col,
)
from .crosstabs import ONLY
from .deltas import Deltas
from .moments import algebra_of
from .plan import SHOWN, Assignment, Merge, Step
from .properties import schema
from .types import ScalarType
from .typing import type_of

StoredFunction = PartFunction | Literal["only"]
EXTREMES = ("min", "max")
KEPT_APART = (*EXTREMES, ONLY)  # what comes and what goes are kept apart, of net changes


@dataclass(frozen=True, slots=True)
class Part:
    """A stored distributive aggregate. `count` names the part that says how many values it has."""

    name: str
    function: StoredFunction
    argument: exp.Expr | None  # over the core
    count: str
    nullable: bool
    type: str


@dataclass(frozen=True, slots=True)
class Summary:
    """How an aggregate view is stored."""

    view: str
    core: Rel
    keys: tuple[tuple[str, str], ...]  # stored name, the core's column
    parts: tuple[Part, ...]
    values: tuple[Item, ...]  # every public column, over keys and parts
    count: str  # the part that is COUNT(*)

    @property
    def key(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keys)

    @property
    def initial(self) -> Rel:
        """The stored view from scratch."""
        columns = tuple(column for _, column in self.keys)
        measured = {p.name: f"__{p.name}" if p.name in columns else p.name for p in self.parts}
        measures = tuple(Measure(measured[p.name], _called(p.function), _arguments(p.argument)) for p in self.parts)
        grouped = GroupBy(self.core, columns, measures)
        public = {item.name for item in self.values}
        hidden = [name for name in (*self.key, *(part.name for part in self.parts)) if name not in public]
        by_stored: dict[str, exp.Expr] = {name: col(column) for name, column in self.keys}
        by_stored |= {name: col(column) for name, column in measured.items()}
        items = [Item(i.name, scalar.canonical(scalar.substitute(i.expression, by_stored))) for i in self.values]
        items += [Item(name, by_stored[name]) for name in hidden]
        return Project(grouped, tuple(items))


def summarize(view: str, rel: Project, grouped: GroupBy) -> Summary:
    """Chooses the stored columns: public ones serve as keys and parts where they are just that."""
    public = {item.name for item in rel.items}
    taken = set(public) | set(grouped.input.names)

    def stored_name(column: str, hidden: str) -> str:
        for item in rel.items:
            if item.expression == col(column):
                return item.name
        return _fresh(hidden, taken)

    keys = tuple((stored_name(key, f"__key_{key}"), key) for key in grouped.keys)
    columns = {column.name: column for column in schema(grouped.input)}
    parts: dict[str, Part] = {}
    visible = {_part_text(m.function, m.argument): m.name for m in grouped.measures}

    def part(function: StoredFunction, argument: exp.Expr | None) -> Part:
        nullable = argument is not None and type_of(argument, columns).nullable
        if function == "count" and not nullable:
            argument = None  # COUNT of what is never NULL is COUNT(*)
        text = _part_text(function, argument)
        if text not in parts:
            same = [m for t, m in visible.items() if t == text or (text == "count(*)" and _counts_rows(t))]
            hidden = f"__{function}" + (f"_{argument.name}" if argument is not None and argument.name else "")
            name = next((stored_name(m, "") for m in same if any(i.expression == col(m) for i in rel.items)), None)
            count = "" if function in ("count", ONLY) else part("count", argument).name
            kind = aggregate_type(_called(function), None if argument is None else type_of(argument, columns)).type
            parts[text] = Part(name or _fresh(hidden, taken), function, argument, count, nullable, kind)
        return parts[text]

    def _counts_rows(text: str) -> bool:
        return any(
            m.function == "count" and m.argument is not None and not type_of(m.argument, columns).nullable
            for m in grouped.measures
            if _part_text(m.function, m.argument) == text
        )

    count = part("count", None).name
    over_parts: dict[str, exp.Expr] = {column: col(name) for name, column in keys}
    for measure in grouped.measures:
        made = decomposed(measure, columns)
        assert made is not None
        names: dict[str, exp.Expr] = {name: col(part(f, argument).name) for name, f, argument in made.parts}
        over_parts[measure.name] = scalar.canonical(scalar.substitute(made.value, names))
    values = tuple(
        Item(item.name, scalar.canonical(scalar.substitute(item.expression, over_parts))) for item in rel.items
    )
    return Summary(view, grouped.input, keys, tuple(parts.values()), values, count)


@dataclass(frozen=True, slots=True)
class Decomposed:
    """An aggregate as a scalar expression over parts; each part is its name there, a function and an argument."""

    parts: tuple[tuple[str, StoredFunction, exp.Expr | None], ...]
    value: exp.Expr


def decomposed(measure: Measure, columns: Mapping[str, Column]) -> Decomposed | None:
    """The parts of an aggregate; None where it is not made of parts that can be added up."""
    if measure.function == ONLY:
        return Decomposed((("p0", "only", measure.argument),), col("p0"))
    facts = FUNCTIONS[measure.function]
    if measure.distinct and not facts.idempotent:
        return None
    kinds = [type_of(argument, columns).type for argument in measure.arguments]
    if facts.parts:
        argument = measure.argument if len(measure.arguments) <= 1 else _all_there(measure.arguments)
        parts = tuple((f"p{place}", function, argument) for place, function in enumerate(facts.parts))
        return Decomposed(parts, _quotient("p0", "p1", kinds[0]) if facts.quotient else col("p0"))
    if any(kind in ("float", "double") for kind in kinds):
        return None  # differences of large sums would cancel the digits that count
    algebra = algebra_of(measure.function, measure.arguments, kinds)
    if algebra is None:
        return None
    return Decomposed(tuple((p.name, p.function, p.argument) for p in algebra.parts), algebra.value)


def _all_there(arguments: tuple[exp.Expr, ...]) -> exp.Expr:
    """What COUNT(a, b) counts: rows in which no argument is NULL."""
    tests = " AND ".join(f"({scalar.text(argument)}) IS NOT NULL" for argument in arguments)
    return _sql(f"CASE WHEN {tests} THEN 1 END")


def _called(function: StoredFunction) -> str:
    """The aggregate that computes a part from scratch."""
    return "max" if function == ONLY else function


def _arguments(argument: exp.Expr | None) -> tuple[exp.Expr, ...]:
    return () if argument is None else (argument,)


def _part_text(function: str, argument: exp.Expr | None) -> str:
    return f"{function}({'*' if argument is None else scalar.text(argument)})"


def _quotient(total: str, count: str, argument_type: str) -> exp.Expr:
    """AVG from its parts, rounded as Spark's AVG of this type is."""
    divisor = f"NULLIF({scalar.quote(count)}, 0)"
    if argument_type.startswith("decimal"):
        result = aggregate_type("avg", ScalarType(argument_type, True)).type
        return scalar.canonical(scalar.parse(f"CAST({scalar.quote(total)} / {divisor} AS {result.upper()})"))
    return scalar.canonical(scalar.parse(f"CAST({scalar.quote(total)} AS DOUBLE) / {divisor}"))


def _fresh(name: str, taken: set[str]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    taken.add(candidate)
    return candidate


# ---- propagate


def propagate_steps(summary: Summary, insert_only: bool, deltas: Deltas) -> tuple[Step, ...]:
    """The steps from the batch to the summary-delta, the last one."""
    view = summary.view
    arguments = _argument_columns(summary)
    prepared = Step(
        f"pc_{view}",
        _prepare(summary, deltas.change(summary.core), arguments),
        "prepare-changes: rows that come (+1) and go (-1)",
    )
    kept_apart = [part for part in summary.parts if part.function in KEPT_APART]
    extremes = [part for part in kept_apart if part.function in EXTREMES]
    if not kept_apart or insert_only:
        grouped = GroupBy(_scan(prepared), summary.key, _signed_measures(summary, arguments, rows="signed"))
        return (
            *deltas.steps,
            prepared,
            Step(f"sd_{view}", _without_deleted(grouped, insert_only), "the summary-delta: what each group changes by"),
        )
    net_keys = tuple(dict.fromkeys((*summary.key, *(arguments[scalar.text(_argument(p))] for p in kept_apart))))
    sums = tuple(
        m for m in _signed_measures(summary, arguments, rows="signed") if not m.name.startswith(("__ins_", "__del_"))
    )
    net = Step(
        f"net_{view}",
        GroupBy(
            _scan(prepared),
            net_keys,
            (Measure(SIGN, "sum", (col(SIGN),)), *(m for m in sums if m.name != summary.count)),
        ),
        "signs of equal rows added up, so that a row that comes and goes counts as neither",
    )
    grouped = GroupBy(_scan(net), summary.key, _signed_measures(summary, arguments, rows="net"))
    if not extremes:
        return (
            *deltas.steps,
            prepared,
            net,
            Step(f"sd_{view}", grouped, "the summary-delta: what each group changes by"),
        )
    delta = Step(f"groups_{view}", grouped, "what each group changes by")
    stale = Step(
        f"stale_{view}",
        stale_groups(summary, _scan(delta), extremes),
        "groups that lost an extreme and may have another",
    )
    again = Step(
        f"again_{view}",
        _again(summary, arguments, _scan(stale), extremes, deltas),
        "the extremes of those groups, from the new base",
    )
    renamed = _renamed(_scan(again), "__again_", summary.key)
    joined = Join(_scan(delta), renamed, key_equality(summary.key, "__again_"), JoinKind.LEFT)
    items = tuple(Item(name, col(name)) for name in (*delta.rel.names, *(f"__new_{p.name}" for p in extremes)))
    return (
        *deltas.steps,
        prepared,
        net,
        delta,
        stale,
        again,
        Step(f"sd_{view}", Project(joined, items), "the summary-delta"),
    )


def _argument(part: Part) -> exp.Expr:
    assert part.argument is not None
    return part.argument


def _argument_columns(summary: Summary) -> dict[str, str]:
    """For each argument of a part, the column of prepare-changes that holds it."""
    columns: dict[str, str] = {}
    by_column = {column: name for name, column in summary.keys}
    taken = set(summary.key)
    for part in summary.parts:
        if part.argument is None or scalar.text(part.argument) in columns:
            continue
        argument = part.argument
        if isinstance(argument, exp.Column) and argument.name in by_column:
            columns[scalar.text(argument)] = by_column[argument.name]
        else:
            plain = isinstance(argument, exp.Column) and argument.name not in taken
            columns[scalar.text(argument)] = _fresh(argument.name if plain else f"__arg_{len(columns) + 1}", taken)
    return columns


def _prepare(summary: Summary, signed: Rel, arguments: dict[str, str]) -> Rel:
    items = [Item(name, col(column)) for name, column in summary.keys]
    for part in summary.parts:
        if part.argument is not None:
            name = arguments[scalar.text(part.argument)]
            if name not in {item.name for item in items}:
                items.append(Item(name, part.argument))
    return Project(signed, (*items, Item(SIGN, col(SIGN))))


def _signed_measures(summary: Summary, arguments: dict[str, str], rows: str) -> tuple[Measure, ...]:
    """The measures of the summary-delta [table 2], over signed rows, or over netted ones with their sums made."""
    types = {column.name: column for column in schema(summary.core)}
    measures: list[Measure] = []
    for part in summary.parts:
        column = "" if part.argument is None else scalar.quote(arguments[scalar.text(part.argument)])
        sign = scalar.quote(SIGN)
        own = scalar.quote(part.name)
        if part.function in KEPT_APART:
            for prefix, sense in (("__ins_", ">"), ("__del_", "<")):
                chosen = _sql(f"CASE WHEN {sign} {sense} 0 THEN {column} END")
                measures.append(Measure(f"{prefix}{part.name}", _called(part.function), (chosen,)))
        elif part.argument is None:
            measures.append(Measure(part.name, "sum", (col(SIGN),)))
        elif rows == "net":
            measures.append(Measure(part.name, "sum", (_sql(own),)))
        elif part.function == "count":
            measures.append(Measure(part.name, "sum", (_sql(f"CASE WHEN {column} IS NULL THEN 0 ELSE {sign} END"),)))
        else:
            small = type_of(part.argument, types).type in ("tinyint", "smallint", "int")
            negated = f"-CAST({column} AS BIGINT)" if small else f"-{column}"
            measures.append(
                Measure(part.name, "sum", (_sql(f"CASE WHEN {sign} > 0 THEN {column} ELSE {negated} END"),))
            )
    return tuple(measures)


def _without_deleted(delta: GroupBy, insert_only: bool) -> Rel:
    """Insert-only changes delete no extreme: nothing is kept of deleted values."""
    if not insert_only:
        return delta
    return GroupBy(delta.input, delta.keys, tuple(m for m in delta.measures if not m.name.startswith("__del_")))


def stale_groups(summary: Summary, delta: Rel, extremes: list[Part], moved: str | None = None) -> Rel:
    """The groups whose extremes must be looked up again; `moved` names a column that says so whatever was there."""
    needed = dict.fromkeys((*summary.key, *(p.name for p in extremes), *(p.count for p in extremes)))
    stored = Scan(Ref(summary.view, State.STORED), stored_columns(summary))
    old = Project(stored, tuple(Item(f"__old_{name}", col(name)) for name in needed))
    tests = []
    for part in extremes:
        went, came = scalar.quote(f"__del_{part.name}"), scalar.quote(f"__ins_{part.name}")
        was, left = scalar.quote(f"__old_{part.name}"), scalar.quote(f"__old_{part.count}")
        reached, better = ("<=", ">") if part.function == "min" else (">=", "<")
        tests.append(
            f"({went} {reached} {was} AND ({came} IS NULL OR {came} {better} {was}) "
            f"AND {left} + {scalar.quote(part.count)} > 0)"
        )
    if moved is not None:
        tests.append(f"{scalar.quote(moved)} = 1")
    kind = JoinKind.INNER if moved is None else JoinKind.LEFT
    joined = Join(delta, old, key_equality(summary.key, "__old_"), kind)
    keys = tuple(Item(f"__stale_{name}", col(name)) for name in summary.key) or (Item("__stale", _sql("1")),)
    return Project(Select(joined, _sql(" OR ".join(tests))), keys)


def _again(summary: Summary, arguments: dict[str, str], stale: Rel, extremes: list[Part], deltas: Deltas) -> Rel:
    rows = _prepare(summary, deltas.signed(summary.core), arguments)
    of_stale = restrict(rows, tuple((name, f"__stale_{name}") for name in summary.key), stale)
    columns = tuple(dict.fromkeys((*summary.key, *(arguments[scalar.text(_argument(p))] for p in extremes))))
    net = GroupBy(of_stale, columns, (Measure(SIGN, "sum", (col(SIGN),)),))
    there = Select(net, _sql(f"{scalar.quote(SIGN)} > 0"))
    measures = tuple(
        Measure(f"__new_{p.name}", p.function, (col(arguments[scalar.text(_argument(p))]),)) for p in extremes
    )
    return GroupBy(there, summary.key, measures)


def key_equality(key: tuple[str, ...], prefix: str) -> exp.Expr:
    return _sql(" AND ".join(f"{scalar.quote(name)} <=> {scalar.quote(prefix + name)}" for name in key) or "TRUE")


def _renamed(rel: Rel, prefix: str, names: tuple[str, ...]) -> Rel:
    return Project(rel, tuple(Item(prefix + name if name in names else name, col(name)) for name in rel.names))


def _scan(step: Step) -> Scan:
    return Scan(Ref(step.name, State.STEP), schema(step.rel))


def _sql(text: str) -> exp.Expr:
    return scalar.bound(text)


def stored_columns(summary: Summary) -> tuple[Column, ...]:
    return schema(summary.initial)


# ---- refresh


def merge(summary: Summary, insert_only: bool) -> Merge:
    """Figure 8, as assignments: what each stored column becomes."""
    update: dict[str, exp.Expr] = {}
    insert: dict[str, exp.Expr] = {}
    for name in summary.key:
        update[name] = insert[name] = _of("sd", name)
    dies = bool(summary.key)  # a group without rows is deleted; the one group of no keys stays
    for part in summary.parts:
        update[part.name] = _as_stored(part, _updated(part, dies, insert_only))
        insert[part.name] = _as_stored(part, _inserted(part, insert_only))
    assignments = []
    parts = {part.name for part in summary.parts}
    public = {item.name for item in summary.values}
    for item in summary.values:
        if item.name not in summary.key:
            assignments.append(Assignment(item.name, _over(item.expression, update), _over(item.expression, insert)))
    assignments += [
        Assignment(name, update[name], insert[name])
        for name in (p.name for p in summary.parts)
        if name in parts - public
    ]
    return Merge(summary.key, summary.count, tuple(assignments))


def _of(side: str, name: str) -> exp.Expr:
    return exp.Column(this=exp.Identifier(this=name, quoted=True), table=exp.Identifier(this=side, quoted=True))


def _inserted(part: Part, insert_only: bool) -> exp.Expr:
    """A part of a new group. Values that came and went in one batch leave a sum of 0, where none is left it is NULL."""
    if part.function in KEPT_APART:
        return _of("sd", f"__ins_{part.name}")
    if part.function == "sum" and part.nullable and not insert_only:
        count, total = f"sd.{scalar.quote(part.count)}", f"sd.{scalar.quote(part.name)}"
        return _sql(f"CASE WHEN {count} <> 0 THEN {total} END")
    return _of("sd", part.name)


def _as_stored(part: Part, expression: exp.Expr) -> exp.Expr:
    """A sum of decimals is wider than they are; what is computed from it must see the stored type."""
    if part.function != "sum" or not part.type.startswith("decimal"):
        return expression
    return _sql(f"CAST({scalar.text(expression)} AS {part.type.upper()})")


def _over(expression: exp.Expr, by_name: dict[str, exp.Expr]) -> exp.Expr:
    return scalar.canonical(scalar.substitute(expression, by_name))


def _updated(part: Part, dies: bool, insert_only: bool) -> exp.Expr:
    old, delta = f"old.{scalar.quote(part.name)}", f"sd.{scalar.quote(part.name)}"
    if part.function == "count":
        return _sql(f"{old} + COALESCE({delta}, 0)" if not dies else f"{old} + {delta}")
    if part.function == ONLY:
        came, went = (f"sd.{scalar.quote(prefix + part.name)}" for prefix in ("__ins_", "__del_"))
        if insert_only:
            return _sql(f"COALESCE({came}, {old})")
        return _sql(f"CASE WHEN {came} IS NULL AND {went} IS NULL THEN {old} ELSE {came} END")
    left = f"old.{scalar.quote(part.count)} + COALESCE(sd.{scalar.quote(part.count)}, 0)"
    if part.function == "sum":
        if not part.nullable and dies:
            return _sql(f"{old} + {delta}")
        return _sql(f"CASE WHEN {left} = 0 THEN NULL ELSE COALESCE({old}, 0) + COALESCE({delta}, 0) END")
    came, went, again = (f"sd.{scalar.quote(prefix + part.name)}" for prefix in ("__ins_", "__del_", "__new_"))
    pick, reached, kept = ("LEAST", "<=", ">") if part.function == "min" else ("GREATEST", ">=", "<")
    if insert_only:
        return _sql(f"{pick}({old}, {came})")
    return _sql(
        f"CASE WHEN {left} = 0 THEN NULL WHEN {old} IS NULL OR {came} {reached} {old} THEN {came} "
        f"WHEN {went} IS NULL OR {went} {kept} {old} THEN {old} ELSE {again} END"
    )


def image_changes(summary: Summary, merge: Merge, delta: Step) -> Rel:
    """The view's own changes as signed public rows: each changed group's row before (-1) and after (+1)."""
    stored = Scan(Ref(summary.view, State.STORED), stored_columns(summary))
    old = Project(stored, tuple(Item(f"__old_{name}", col(name)) for name in stored.names))
    delta_scan = Scan(Ref(summary.view, State.DELTA), schema(delta.rel))
    joined = Join(delta_scan, old, key_equality(summary.key, "__old_"), JoinKind.LEFT)
    was_there = f"{scalar.quote('__old_' + summary.count)} IS NOT NULL"
    left = f"COALESCE({scalar.quote('__old_' + summary.count)}, 0) + COALESCE({scalar.quote(summary.count)}, 0)"
    public = [item for item in summary.values if item.name != SHOWN]
    before = tuple(Item(i.name, col(f"__old_{i.name}")) for i in public)
    after = {a.column: _after(a, was_there) for a in merge.assignments}
    items = tuple(Item(i.name, after.get(i.name, col(i.name))) for i in public)
    gone = Select(joined, _sql(was_there))
    there: Rel = Select(joined, _sql(f"{left} > 0")) if summary.key else joined
    if SHOWN in after:
        gone = Select(gone, col(f"__old_{SHOWN}"))
        there = Select(there, after[SHOWN])
    return UnionAll((Project(gone, (*before, Item(SIGN, _sql("-1")))), Project(there, (*items, Item(SIGN, _sql("1"))))))


def after_rows(summary: Summary, merge: Merge, delta: tuple[Column, ...], columns: tuple[str, ...]) -> Rel:
    """Some columns of the stored rows after the batch, hidden ones too: groups without a delta, and the merged ones."""
    stored = Scan(Ref(summary.view, State.STORED), stored_columns(summary))
    delta_scan = Scan(Ref(summary.view, State.DELTA), delta)
    touched = tuple(Item(f"__sd_{name}", col(name)) for name in summary.key) or (Item("__sd", _sql("1")),)
    untouched = Join(stored, Project(delta_scan, touched), key_equality(summary.key, "__sd_"), JoinKind.ANTI)
    old = Project(stored, tuple(Item(f"__old_{name}", col(name)) for name in stored.names))
    joined: Rel = Join(delta_scan, old, key_equality(summary.key, "__old_"), JoinKind.LEFT)
    was_there = f"{scalar.quote('__old_' + summary.count)} IS NOT NULL"
    if summary.key:
        count, change = scalar.quote(f"__old_{summary.count}"), scalar.quote(summary.count)
        joined = Select(joined, _sql(f"COALESCE({count}, 0) + COALESCE({change}, 0) > 0"))
    assigned = {a.column: a for a in merge.assignments}
    after = tuple(Item(n, _after(assigned[n], was_there) if n in assigned else col(n)) for n in columns)
    return UnionAll((Project(untouched, tuple(Item(n, col(n)) for n in columns)), Project(joined, after)))


def _after(assignment: Assignment, was_there: str) -> exp.Expr:
    def unqualified(expression: exp.Expr) -> str:
        renamed = scalar.replace_columns(expression, lambda c: col(f"__old_{c.name}" if c.table == "old" else c.name))
        return scalar.text(renamed)

    return _sql(
        f"CASE WHEN {was_there} THEN {unqualified(assignment.update)} ELSE {unqualified(assignment.insert)} END"
    )
