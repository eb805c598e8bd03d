"""Stages 4 and 6, decide and derive: the strategy of each view with the reasons, its stored columns, its steps.

Strategies are tried cheapest first; one that does not fit is refused with a reason that `explain --why-not` prints.
A strategy is a function from a view to its plan, or to the reason why it does not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from sqlglot import exp

from . import scalar
from .algebra import SIGN, GPivot, GroupBy, Item, Project, Ref, Rel, Scan, Select, State, UnionAll, col, scans
from .bind import BoundView
from .catalog import Catalog
from .crosstabs import of_aggregate, of_rows
from .deltas import Deltas, in_state, is_linear, narrowed, signed_rows
from .foreign import origin
from .lattice.relate import Related, relate
from .lattice.steps import Parent, initial_from_parent, steps_from_parent
from .parts import parts_of, recompute_parts, with_part_columns
from .plan import SHOWN, ApplyBag, Refusal, Replace, Step, ViewPlan
from .properties import keys, schema
from .prune import prune
from .reproducible import not_reproducible
from .source import Diagnostic, InputError
from .summary import Summary, decomposed, image_changes, merge, propagate_steps, summarize
from .tops import Top, peel


@dataclass(frozen=True, slots=True)
class Unfit:
    """Why a strategy does not fit a view."""

    because: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    view: BoundView
    catalog: Catalog
    read_by_others: bool
    forced: str | None = None  # the strategy that its author asks for
    related: Related | None = None  # a view with groups, as it was related to the others
    parent: Parent | None = None  # the one that its summary-delta comes from

    def deltas(self) -> Deltas:
        return Deltas(self.view.name, self.catalog)

    def plan(self, **parts: object) -> ViewPlan:
        rel = self.view.rel
        given: dict[str, object] = {
            "name": self.view.name,
            "refused": (),
            "definition": self.view.whole or rel,
            "hidden_for": self.view.hidden_for,
            "initial": rel,
            "columns": schema(rel),
            "hidden": (),
            "key": _key(rel, self.catalog),
            "reads": tuple(dict.fromkeys(scan.ref.name for scan in scans(self.view.whole or rel))),
            "changes": None,
            "span": self.view.statement.span,
        }
        return ViewPlan(**(given | parts))  # type: ignore[arg-type]


Outcome = ViewPlan | Unfit


def _append(context: Context) -> Outcome:
    """Nothing that is stored changes: rows of an insert-only view, or groups that no row was in before."""
    view, deltas = context.view, context.deltas()
    remedy = "ALTER TABLE … SET CHANGES (INSERT ONLY, NEW VALUES OF …), if that is so"
    top = peel(view.rel)
    source = top.below.input if isinstance(top.below, GroupBy) else view.rel
    if not deltas.only_inserts(source):
        return Unfit("the changes of its tables are not all declared INSERT ONLY, so its rows may change", remedy)
    changed = deltas.change(source)
    if source is view.rel:
        return _signed_plan(context, "append", view.rel, (*deltas.steps, _step(view, changed)))
    assert isinstance(top.below, GroupBy)
    grows = next((scan.ref.name for scan in _changed(changed) if not _is_new(top.below, scan, context.catalog)), None)
    if grows is not None:
        return Unfit(f"changes of {grows} may add to groups that are there; they are merged", remedy)
    summary = summary_of(view, top, top.below, context.catalog)
    if isinstance(summary, Unfit):
        return summary
    came = replace(summary, core=Project(changed, tuple(Item(name, col(name)) for name in source.names))).initial
    stored = summary.initial
    return _signed_plan(context, "append", stored, (*deltas.steps, _step(view, signed_rows(came, stored.names, 1))))


def _changed(rel: Rel) -> list[Scan]:
    return [scan for scan in scans(rel) if scan.ref.state is State.CHANGES]


def _is_new(grouped: GroupBy, changes: Scan, catalog: Catalog) -> bool:
    """Whether each changed row of a table has, in a grouping column, a value that the table did not have."""
    table = catalog.table(changes.ref.name)
    found = [origin(grouped.input, key) for key in grouped.keys]
    columns = {o[2] for o in found if o is not None and table is not None and o[1] == table.name}
    return bool(grouped.keys) and table is not None and bool(columns & set(table.changes.new_values_of))


def _step(view: BoundView, rows: Rel) -> Step:
    return Step(f"sd_{view.name}", rows, "the rows that come (+1) and go (-1)")


def _signed_plan(context: Context, strategy: str, stored: Rel, steps: tuple[Step, ...]) -> ViewPlan:
    """The plan of a view whose delta is made of signed rows."""
    steps = tuple(replace(step, rel=prune(step.rel)) for step in steps)
    public = set(context.view.rel.names)
    columns = schema(stored)
    return context.plan(
        strategy=strategy,
        initial=stored,
        columns=tuple(column for column in columns if column.name in public),
        hidden=tuple(column for column in columns if column.name not in public),
        steps=steps,
        changes=_bag_changes(context, steps[-1]),
        refresh=ApplyBag(stored.names),
    )


Found = Summary | Unfit  # how a view with groups is stored, or why it is not


def _summary_delta(context: Context) -> Found:
    top = peel(context.view.rel)
    if not isinstance(top.below, GroupBy):
        return Unfit("there is no GROUP BY on top of the view")
    return summary_of(context.view, top, top.below, context.catalog)


def _pivot_of_aggregate(context: Context) -> Found:
    top = peel(context.view.rel)
    if not isinstance(top.below, GPivot):
        return NO_PIVOT
    crosstab = of_aggregate(top.below)
    if isinstance(crosstab, str):
        return Unfit(crosstab)
    return _crosstab(context, top, crosstab, "pivot-of-aggregate")


def _pivot(context: Context) -> Found:
    top = peel(context.view.rel)
    if not isinstance(top.below, GPivot):
        return NO_PIVOT
    return _crosstab(context, top, of_rows(top.below), "pivot")


def _crosstab(context: Context, top: Top, crosstab: Project, strategy: str) -> Found:
    if top.condition is not None and strategy != "filtered-pivot":
        return Unfit("there is a condition above the PIVOT")
    values = {item.name: item.expression for item in crosstab.items}
    items = tuple(Item(i.name, scalar.canonical(scalar.substitute(i.expression, values))) for i in top.items)
    condition = None if top.condition is None else scalar.canonical(scalar.substitute(top.condition, values))
    assert isinstance(crosstab.input, GroupBy)
    return summary_of(context.view, Top(items, condition, crosstab.input), crosstab.input, context.catalog)


def _filtered_pivot(context: Context) -> Found:
    top = peel(context.view.rel)
    if not isinstance(top.below, GPivot):
        return NO_PIVOT
    if top.condition is None:
        return Unfit("there is no condition above the PIVOT")
    crosstab = of_aggregate(top.below)
    if isinstance(crosstab, Project):
        outcome = _crosstab(context, top, crosstab, "filtered-pivot")
        if isinstance(outcome, Summary):
            return outcome
    return _crosstab(context, top, of_rows(top.below), "filtered-pivot")


NO_PIVOT = Unfit("there is no PIVOT in the view")


def summary_of(view: BoundView, top: Top, grouped: GroupBy, catalog: Catalog) -> Found:
    """How a view with groups on top is stored, if its aggregates are made of parts that can be added up."""
    columns = {column.name: column for column in schema(grouped.input)}
    for measure in grouped.measures:
        if decomposed(measure, columns) is None:
            distinct = " of DISTINCT values" if measure.distinct else ""
            return Unfit(f"{measure.function.upper()}{distinct} is not made of parts that can be added up")
    if not is_linear(grouped.input):
        if because := not_reproducible(grouped.input, catalog):
            return Unfit(because)
        grouped = replace(grouped, input=narrowed(prune(grouped).inputs[0]))
    items = top.items
    if top.condition is not None:
        items += (Item(SHOWN, scalar.canonical(exp.Coalesce(this=top.condition, expressions=[exp.false()]))),)
    return summarize(view.name, Project(grouped, items), grouped)


# The strategies that merge changed groups, cheapest first: the derives lattice is over the views that they fit.
MERGING: dict[str, Callable[[Context], Found]] = {
    "summary-delta": _summary_delta,
    "pivot-of-aggregate": _pivot_of_aggregate,
    "pivot": _pivot,
    "filtered-pivot": _filtered_pivot,
}


def stored_summary(view: BoundView, catalog: Catalog) -> Summary | None:
    """How the view is stored by itself, if changed groups are merged into it."""
    context = Context(view, catalog, read_by_others=False, forced=forced_strategy(view))
    if context.forced is None and isinstance(_append(context), ViewPlan):
        return None
    for name, find in MERGING.items():
        if context.forced in (None, name):
            found = find(context)
            if isinstance(found, Summary):
                return found
    return None


def _merged(context: Context, strategy: str) -> Outcome:
    view, parent = context.view, context.parent
    found = MERGING[strategy](context)
    if isinstance(found, Unfit):
        return found
    related = context.related or relate((found,), context.catalog).views[view.name]
    summary, insert_only = related.summary, related.insert_only
    if parent is None:
        steps = propagate_steps(summary, insert_only, context.deltas())
    else:
        steps = steps_from_parent(related, parent)
    steps = tuple(replace(step, rel=prune(step.rel)) for step in steps)
    merged = merge(summary, insert_only)
    public = set(view.rel.names)
    stored = schema(summary.initial)
    changes = None
    if context.read_by_others:
        rows = image_changes(summary, merged, steps[-1])
        changes = Step(f"changes_{view.name}", rows, "each changed group's row before (-1) and after (+1)")
    return context.plan(
        strategy=strategy,
        initial=summary.initial,
        columns=tuple(column for column in stored if column.name in public),
        hidden=tuple(column for column in stored if column.name not in public),
        key=summary.key,
        steps=steps,
        changes=changes,
        refresh=merged,
        parent=parent.related.summary.view if parent else None,
        joins=related.edge.tables if related.edge else (),
        from_parent=prune(initial_from_parent(related, parent.related)) if parent else None,
    )


def _insert_delete(context: Context) -> Outcome:
    view = context.view
    rel = view.rel
    if not is_linear(rel):
        rel = narrowed(rel)
        if parts_of(rel) is not None and context.forced != "insert-delete":
            return Unfit("its parts are stored: to replace those that are affected needs nothing of the old base")
        if because := not_reproducible(rel, context.catalog):
            return Unfit(because)
    deltas = context.deltas()
    changed = deltas.change(rel)
    return _signed_plan(context, "insert-delete", view.rel, (*deltas.steps, _step(view, changed)))


def _partition_recompute(context: Context) -> Outcome:
    view = context.view
    rel = narrowed(view.rel)
    found = parts_of(rel)
    if found is None:
        return Unfit("the view does not fall into parts: there is no GROUP BY, window, LIMIT or PIVOT on top")
    for below in found[0].inputs:
        if because := not_reproducible(below, context.catalog):
            return Unfit(because)
    operator, columns = found
    stored, held = with_part_columns(rel, columns)
    steps = recompute_parts(context.deltas(), stored, held, operator)
    return _signed_plan(context, "partition-recompute", stored, steps)


def _recompute(context: Context) -> Outcome:
    view = context.view
    whole = Step(f"sd_{view.name}", prune(in_state(view.rel, State.NEW)), "the whole view, computed anew")
    changes = None
    if context.read_by_others:
        names = view.rel.names
        stored = Scan(Ref(view.name, State.STORED), schema(view.rel))
        computed = Scan(Ref(view.name, State.DELTA), schema(whole.rel))
        rows = UnionAll((signed_rows(stored, names, -1), signed_rows(computed, names, 1)))
        changes = Step(f"changes_{view.name}", rows, "all rows before (-1) and all rows after (+1)")
    return context.plan(strategy="recompute", steps=(whole,), changes=changes, refresh=Replace())


# Cheapest first. Each line: the strategy, the code of its refusal, the function.
STRATEGIES: dict[str, tuple[str, Callable[[Context], Outcome]]] = {
    "append": ("DF0501", _append),  # nothing that is stored is read
    "summary-delta": ("DF0502", partial(_merged, strategy="summary-delta")),  # the changed groups are merged
    "pivot-of-aggregate": ("DF0503", partial(_merged, strategy="pivot-of-aggregate")),  # so are keys of a crosstab
    "pivot": ("DF0503", partial(_merged, strategy="pivot")),  # the same, each cell the only row
    "filtered-pivot": ("DF0503", partial(_merged, strategy="filtered-pivot")),  # the same, other keys hidden
    "insert-delete": ("DF0504", _insert_delete),  # rows come and go
    "partition-recompute": ("DF0505", _partition_recompute),  # parts are computed anew
    "recompute": ("", _recompute),  # always fits, and says so loudly
}


def plan_view(
    view: BoundView,
    catalog: Catalog,
    read_by_others: bool,
    related: Related | None = None,
    parent: Parent | None = None,
) -> ViewPlan:
    """The maintenance plan of one view: the first strategy that fits, or the one that its author asks for."""
    forced = forced_strategy(view)
    context = Context(view, catalog, read_by_others, forced, related, parent)
    refused: list[Refusal] = []
    plan: ViewPlan | None = None
    place = view.statement.name_span
    for name, (code, attempt) in STRATEGIES.items():
        outcome = attempt(context)
        if isinstance(outcome, Unfit):
            refused.append(Refusal(name, code, outcome.because, outcome.remedy, place.line, place.column))
        elif forced in (None, name):
            plan = replace(outcome, refused=tuple(refused))
            break
    if plan is None:
        plan = replace(_must(_recompute(context)), refused=tuple(refused))
    if view.hidden_for is None:
        _obey_pragmas(view, plan)
    return plan


def _must(outcome: Outcome) -> ViewPlan:
    assert isinstance(outcome, ViewPlan)
    return outcome


def forced_strategy(view: BoundView) -> str | None:
    if view.hidden_for is not None:
        return None
    given = [(p.value or "").lower() for p in view.statement.pragmas if p.name.lower() == "strategy"]
    return given[0] if given and given[0] in STRATEGIES else None


def _bag_changes(context: Context, delta: Step) -> Step | None:
    """The public rows of a delta that is made of signed rows, for views that read this one."""
    if not context.read_by_others:
        return None
    rows: Rel = Scan(Ref(context.view.name, State.DELTA), schema(delta.rel))
    if SHOWN in rows.names:
        rows = Select(rows, col(SHOWN))
    names = (*context.view.rel.names, SIGN)
    if rows.names != names:
        rows = Project(rows, tuple(Item(name, col(name)) for name in names))
    return Step(f"changes_{context.view.name}", rows, delta.purpose)


def _key(rel: Rel, catalog: Catalog) -> tuple[str, ...]:
    """The smallest known key, in the order of the columns."""
    candidates = sorted(keys(rel, catalog), key=lambda key: (len(key), sorted(key)))
    return tuple(name for name in rel.names if name in candidates[0]) if candidates else ()


def _obey_pragmas(view: BoundView, plan: ViewPlan) -> None:
    errors = []
    for pragma in view.statement.pragmas:
        name, value = pragma.name.lower(), (pragma.value or "").lower()
        if name == "strategy" and value != plan.strategy:
            known = value in STRATEGIES
            because = next((r.because for r in plan.refused if r.strategy == value), "another one is cheaper")
            message = (
                f"strategy={value} does not fit {view.name}: {because}" if known else f"there is no strategy {value}"
            )
            errors.append(Diagnostic("DF0402", message, pragma.span, f"use {plan.strategy}, or leave the line out"))
        elif name == "require" and value == "incremental":
            if plan.strategy == "recompute":
                because = next((r.because for r in plan.refused if r.strategy == "insert-delete"), "it is asked for")
                message = f"{view.name} would be recomputed whole: {because}"
                errors.append(Diagnostic("DF0401", message, pragma.span, "leave the line out, or simplify the view"))
        elif name == "require":
            errors.append(Diagnostic("DF0403", f"require {value} is not known", pragma.span, "require incremental"))
        elif name == "auxiliary" and value in ("on", "off"):
            continue
        elif name not in ("strategy", "require", "consistency"):
            errors.append(Diagnostic("DF0404", f"deltafold: {pragma.name} is not known", pragma.span))
    if errors:
        raise InputError(errors)
