"""The stages, in order. Read this first.

    read      view file            -> statements with places          compiler/read.py, grammar/
    schema    CREATE TABLE, …      -> catalog                          compiler/schema.py
    bind      CREATE VIEW          -> algebra                          compiler/bind/
    normalise algebra              -> pivots combined and on top, traced rewrites/
    verify    algebra              -> the same, known to be well formed compiler/wellformed.py
    split     views over sources   -> core of each, and the rest       compiler/cores.py
    relate    summary tables       -> derives lattice, parents         compiler/lattice/
    decide    algebra              -> strategy, stored columns, steps  compiler/decide.py
    emit      plan                 -> scripts, plan.txt, plan.json     codegen/

Each is a pure function on immutable data; errors of all stages are collected and raised together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from sqlglot import exp

from ..rewrites.normalise import normalise
from .algebra import GroupBy, Project, scans
from .auxiliary import with_hidden
from .bind import BoundView, bind_views
from .catalog import Catalog
from .cores import split_views
from .decide import plan_view, stored_summary
from .lattice.relate import Relation, relate
from .lattice.steps import Parent
from .plan import Definition, Merge, Plan, ViewPlan
from .properties import schema
from .read import CreateView, ReadFile, place_of, read, read_text, too_deep
from .scalar import DIALECT
from .schema import bind_schema
from .source import Diagnostic, InputError
from .summary import Summary
from .typing import type_of
from .wellformed import check


def compile_file(path: Path, shown_as: str | None = None, dialect: str = DIALECT) -> Plan:
    """The maintenance plan of a view file."""
    return _compile(read(path, shown_as, dialect), shown_as or path.name)


def compile_text(text: str, name: str = "views.sql", dialect: str = DIALECT) -> Plan:
    """The maintenance plan of a view file that is in memory."""
    return _compile(read_text(text, name, dialect), name)


def bind_file(path: Path, dialect: str = DIALECT) -> tuple[Catalog, tuple[BoundView, ...]]:
    """The views of a file as algebra, in the order in which they read each other; not yet rewritten."""
    file = read(path, None, dialect)
    catalog, schema_errors = bind_schema(file.statements)
    bound, _, view_errors = bind_views(catalog, (s for s in file.statements if isinstance(s, CreateView)))
    errors = [*file.errors, *schema_errors, *view_errors]
    if errors:
        raise InputError(errors)
    return catalog, bound


def _compile(file: ReadFile, source: str) -> Plan:
    errors = list(file.errors)
    catalog, schema_errors = bind_schema(file.statements)
    bound, ordered, view_errors = bind_views(catalog, (s for s in file.statements if isinstance(s, CreateView)))
    errors += schema_errors + view_errors
    rewritten = {view.name: normalise(view.rel, catalog) for view in bound}
    bound = tuple(replace(view, rel=rewritten[view.name].rel) for view in bound)
    bound, catalog, cores, source_errors = split_views(bound, catalog)
    errors += source_errors
    bound = tuple(part for view in bound for part in with_hidden(view, catalog))
    read_names = {name for view in bound for name in _reads(view)}
    summaries = _summaries(bound, catalog)
    relation = relate(summaries, catalog)
    bound = _parents_first(bound, relation)
    planned: dict[str, ViewPlan] = {}
    for view in bound:
        try:
            related, parent = relation.views.get(view.name), _parent(view.name, relation, planned)
            plan = plan_view(view, catalog, view.name in read_names, related, parent)
            steps = rewritten[view.name].steps if view.name in rewritten else ()
            planned[view.name] = replace(plan, rewrites=steps)
        except InputError as error:
            errors += error.diagnostics
        except RecursionError:  # temporary views put into each other may nest deeper than any of them
            errors += too_deep(view.statement.name_span).diagnostics
    if errors:
        raise InputError(errors)
    plans = tuple(planned.values())
    for plan in plans:
        _check_steps(plan)
    definitions = tuple(
        Definition(v.name, v.span, tuple(c.name for c in v.column_names), v.translated) for v in ordered
    )
    warnings = tuple(file.warnings)
    warnings += tuple(warning for view in bound for warning in (*view.warnings, *_warnings(view)))
    warnings += tuple(warning for view, plan in zip(bound, plans, strict=True) for warning in _recomputed(view, plan))
    return Plan(source, catalog, plans, definitions, warnings, cores, relation.lattice, tuple(summaries))


def _summaries(bound: tuple[BoundView, ...], catalog: Catalog) -> list[Summary]:
    """The views that changed groups are merged into, as they would be stored by themselves."""
    found = []
    for view in bound:
        with contextlib.suppress(RecursionError):  # which the plan of the view will meet again, and report
            summary = stored_summary(view, catalog)
            found += [summary] if summary is not None else []
    return found


def _parents_first(bound: tuple[BoundView, ...], relation: Relation) -> tuple[BoundView, ...]:
    """The views in their order, but each after the one that its summary-delta comes from and those that it reads."""
    by_name = {view.name: view for view in bound}
    ordered: dict[str, BoundView] = {}

    def add(view: BoundView) -> None:
        if view.name not in ordered:
            parent = relation.parent(view.name)
            for name in (*sorted(_reads(view) & set(by_name)), *([parent] if parent else [])):
                add(by_name[name])
            ordered[view.name] = view

    for view in bound:
        add(view)
    return tuple(ordered.values())


def _parent(name: str, relation: Relation, plans: Mapping[str, ViewPlan]) -> Parent | None:
    parent = relation.parent(name)
    if parent is None:
        return None
    plan = plans.get(parent)
    if plan is None:
        return None  # it has an error, which will be reported
    assert isinstance(plan.refresh, Merge)
    return Parent(relation.views[parent], schema(plan.steps[-1].rel), plan.refresh)


def _reads(view: BoundView) -> set[str]:
    return {scan.ref.name for scan in scans(view.rel)}


def _check_steps(plan: ViewPlan) -> None:
    check(plan.definition)
    check(plan.initial)
    if plan.from_parent is not None:
        check(plan.from_parent)
    for step in (*plan.steps, *((plan.changes,) if plan.changes else ())):
        check(step.rel)


def _recomputed(view: BoundView, plan: ViewPlan) -> list[Diagnostic]:
    """A slide to recomputation is never silent, unless its author asked for it."""
    if plan.strategy != "recompute" or any(pragma.name.lower() == "strategy" for pragma in view.statement.pragmas):
        return []
    because = next(refusal.because for refusal in plan.refused if refusal.strategy == "insert-delete")
    message = f"{view.name} is recomputed whole with every batch: {because}"
    remedy = "maintain the part below it as a view of its own, or write -- deltafold: strategy=recompute"
    return [Diagnostic("DF0602", message, view.statement.name_span, remedy, severity="warning")]


def _warnings(view: BoundView) -> list[Diagnostic]:
    """A SUM or AVG over floating point numbers drifts by rounding when it is maintained."""
    grouped = view.rel.input if isinstance(view.rel, Project) else view.rel
    if not isinstance(grouped, GroupBy):
        return []
    columns = {column.name: column for column in schema(grouped.input)}
    found = []
    for measure in grouped.measures:
        if measure.function in ("sum", "avg") and measure.argument is not None:
            kind = type_of(measure.argument, columns).type
            if kind in ("float", "double"):
                node = next(iter(view.statement.query.find_all(exp.Sum, exp.Avg)), None)
                found.append(
                    Diagnostic(
                        "DF0601",
                        f"{measure.function.upper()} over {kind.upper()} drifts by rounding as it is maintained",
                        place_of(node, view.statement.span),
                        "use DECIMAL where the sum must be exact",
                        severity="warning",
                    )
                )
    return found
