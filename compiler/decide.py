"""Stages 4 and 6, decide and derive: the strategy of each view with the reasons, its stored columns, its steps.

Strategies are tried cheapest first; one that does not fit is refused with a reason that `explain --why-not` prints.
"""

from __future__ import annotations

from dataclasses import replace

from .aggregates import FUNCTIONS
from .algebra import GroupBy, Item, Project, Ref, Rel, Scan, State, UnionAll, col, scans
from .bind import BoundView
from .catalog import Catalog
from .deltas import change, in_state, is_linear, not_linear, signed_rows
from .plan import ApplyBag, Refusal, Replace, Step, ViewPlan
from .properties import keys, schema
from .prune import prune
from .source import Diagnostic, InputError
from .summary import image_changes, merge, propagate_steps, summarize

STRATEGIES = (
    "append",
    "summary-delta",
    "pivot-of-aggregate",
    "pivot",
    "filtered-pivot",
    "insert-delete",
    "partition-recompute",
    "recompute",
)


def plan_view(view: BoundView, catalog: Catalog, read_by_others: bool) -> ViewPlan:
    """The maintenance plan of one view."""
    insert_only = _insert_only(view.rel, catalog)
    match view.rel:
        case Project(input=GroupBy() as grouped) as rel if _is_summary(grouped):
            plan = _summary_delta(view, rel, grouped, insert_only, read_by_others, catalog)
        case GroupBy() as grouped if _is_summary(grouped):
            rel = Project(grouped, tuple(Item(name, col(name)) for name in grouped.names))
            plan = _summary_delta(view, rel, grouped, insert_only, read_by_others, catalog)
        case rel if is_linear(rel):
            plan = _insert_delete(view, read_by_others, catalog)
        case _:
            plan = _recompute(view, read_by_others, catalog)
    _obey_pragmas(view, plan)
    return plan


def _summary_delta(
    view: BoundView, rel: Project, grouped: GroupBy, insert_only: bool, read_by_others: bool, catalog: Catalog
) -> ViewPlan:
    summary = summarize(view.name, rel, grouped)
    steps = tuple(replace(step, rel=prune(step.rel)) for step in propagate_steps(summary, insert_only))
    merged = merge(summary, insert_only)
    public = {item.name for item in summary.values}
    stored = schema(summary.initial)
    changes = None
    if read_by_others:
        rows = image_changes(summary, merged, steps[-1])
        changes = Step(f"changes_{view.name}", rows, "each changed group's row before (-1) and after (+1)")
    return ViewPlan(
        name=view.name,
        strategy="summary-delta",
        refused=_refusals(view, "summary-delta", _append_refusal(view, catalog)),
        definition=view.rel,
        initial=summary.initial,
        columns=tuple(column for column in stored if column.name in public),
        hidden=tuple(column for column in stored if column.name not in public),
        key=summary.key,
        reads=_reads(view.rel),
        steps=steps,
        changes=changes,
        refresh=merged,
        span=view.statement.span,
    )


def _insert_delete(view: BoundView, read_by_others: bool, catalog: Catalog) -> ViewPlan:
    delta = Step(f"sd_{view.name}", prune(change(view.rel)), "the rows that come (+1) and go (-1)")
    changes = None
    if read_by_others:
        rows = Scan(Ref(view.name, State.DELTA), schema(delta.rel))
        changes = Step(f"changes_{view.name}", rows, "the rows that come (+1) and go (-1)")
    return ViewPlan(
        name=view.name,
        strategy="insert-delete",
        refused=_refusals(view, "insert-delete", _append_refusal(view, catalog)),
        definition=view.rel,
        initial=view.rel,
        columns=schema(view.rel),
        hidden=(),
        key=_key(view.rel, catalog),
        reads=_reads(view.rel),
        steps=(delta,),
        changes=changes,
        refresh=ApplyBag(view.rel.names),
        span=view.statement.span,
    )


def _recompute(view: BoundView, read_by_others: bool, catalog: Catalog) -> ViewPlan:
    whole = Step(f"sd_{view.name}", prune(in_state(view.rel, State.NEW)), "the whole view, computed anew")
    changes = None
    if read_by_others:
        names = view.rel.names
        stored = Scan(Ref(view.name, State.STORED), schema(view.rel))
        computed = Scan(Ref(view.name, State.DELTA), schema(whole.rel))
        rows = UnionAll((signed_rows(stored, names, -1), signed_rows(computed, names, 1)))
        changes = Step(f"changes_{view.name}", rows, "all rows before (-1) and all rows after (+1)")
    return ViewPlan(
        name=view.name,
        strategy="recompute",
        refused=_refusals(view, "recompute", _append_refusal(view, catalog)),
        definition=view.rel,
        initial=view.rel,
        columns=schema(view.rel),
        hidden=(),
        key=_key(view.rel, catalog),
        reads=_reads(view.rel),
        steps=(whole,),
        changes=changes,
        refresh=Replace(),
        span=view.statement.span,
    )


def _key(rel: Rel, catalog: Catalog) -> tuple[str, ...]:
    """The smallest known key, in the order of the columns."""
    candidates = sorted(keys(rel, catalog), key=lambda key: (len(key), sorted(key)))
    return tuple(name for name in rel.names if name in candidates[0]) if candidates else ()


def _reads(rel: Rel) -> tuple[str, ...]:
    return tuple(dict.fromkeys(scan.ref.name for scan in scans(rel)))


def _insert_only(rel: Rel, catalog: Catalog) -> bool:
    """Whether every relation that the view reads is a table whose changes are declared INSERT ONLY."""
    tables = [catalog.table(name) for name in _reads(rel)]
    return all(table is not None and table.changes.insert_only for table in tables)


def _is_summary(grouped: GroupBy) -> bool:
    """Whether every aggregate has maintainable parts and the rows below have a delta."""
    known = all(FUNCTIONS[m.function].parts and not m.distinct and len(m.arguments) <= 1 for m in grouped.measures)
    return known and is_linear(grouped.input)


def _append_refusal(view: BoundView, catalog: Catalog) -> str:
    if not _insert_only(view.rel, catalog):
        return "the changes of its tables are not all declared INSERT ONLY, so its groups may change"
    return "its changes only insert, but groups that are there already may grow; they are merged"


def _refusals(view: BoundView, chosen: str, append: str) -> tuple[Refusal, ...]:
    place = view.statement.name_span
    reasons = {
        "append": ("DF0501", append, "ALTER TABLE … SET CHANGES (INSERT ONLY, NEW VALUES OF …), if that is so"),
        "summary-delta": ("DF0502", "there is no GROUP BY on top of the view", ""),
        "pivot-of-aggregate": ("DF0503", "there is no PIVOT in the view", ""),
        "pivot": ("DF0503", "there is no PIVOT in the view", ""),
        "filtered-pivot": ("DF0503", "there is no PIVOT in the view", ""),
        "insert-delete": ("DF0504", f"no delta is derived yet through {not_linear(view.rel)}", ""),
        "partition-recompute": ("DF0505", "recomputing affected parts is not compiled yet", ""),
    }
    cheaper = STRATEGIES[: STRATEGIES.index(chosen)]
    return tuple(Refusal(name, *reasons[name], line=place.line, column=place.column) for name in cheaper)


def _obey_pragmas(view: BoundView, plan: ViewPlan) -> None:
    errors = []
    for pragma in view.statement.pragmas:
        name, value = pragma.name.lower(), (pragma.value or "").lower()
        if name == "strategy" and value != plan.strategy:
            known = value in STRATEGIES
            because = next((r.because for r in plan.refused if r.strategy == value), "it is not compiled yet")
            message = (
                f"strategy={value} does not fit {view.name}: {because}" if known else f"there is no strategy {value}"
            )
            errors.append(Diagnostic("DF0402", message, pragma.span, f"use {plan.strategy}, or leave the line out"))
        elif name == "require" and value == "incremental":
            if plan.strategy == "recompute":
                because = next(r.because for r in plan.refused if r.strategy == "insert-delete")
                message = f"{view.name} would be recomputed whole: {because}"
                errors.append(Diagnostic("DF0401", message, pragma.span, "leave the line out, or simplify the view"))
        elif name == "require":
            errors.append(Diagnostic("DF0403", f"require {value} is not known", pragma.span, "require incremental"))
        elif name not in ("strategy", "require"):
            errors.append(Diagnostic("DF0404", f"deltafold: {pragma.name} is not known", pragma.span))
    if errors:
        raise InputError(errors)
