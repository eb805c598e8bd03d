"""The plan for people and diffs (plan.txt) and for machines (plan.json), from what the scripts are made of."""

from __future__ import annotations

import json
from typing import Any

from ..compiler import scalar
from ..compiler.algebra import Column
from ..compiler.plan import ApplyBag, Merge, Plan, Replace, Step, ViewPlan
from ..grammar.notation import print_rel
from .lattice_text import lattice_data, lattice_lines
from .paths_text import core_data, core_text

PLAN_VERSION = 1


def plan_text(plan: Plan) -> str:
    """The whole plan."""
    lines = [f"plan of {plan.source}", ""]
    lines += ["tables"]
    for name in plan.tables:
        table = plan.catalog.table(name)
        assert table is not None
        declared = [f"key ({', '.join(key)})" for key in table.keys]
        declared += [f"({', '.join(fk.columns)}) references {fk.table}" for fk in table.foreign_keys]
        declared += ["insert only"] if table.changes.insert_only else []
        lines.append(f"  {scalar.quote(name)} ({_columns(table.columns)})" + "".join(f"; {d}" for d in declared))
    lines += ["", "views, in the order in which they are maintained"]
    width = max((len(view.name) for view in plan.maintained), default=0)
    wide = max((len(view.strategy) for view in plan.maintained if view.parent), default=0)
    for view in plan.maintained:
        of = f", a part of {view.hidden_for}" if view.hidden_for else ""
        strategy = f"{view.strategy:<{wide}}{_from_parent(view)}" if view.parent else view.strategy
        lines.append(f"  {view.name:<{width}}  {strategy}{of}")
    if any(len(node.names) > 1 for node in plan.lattice.nodes) or plan.lattice.edges:
        lines += ["", "derives lattice", *(f"  {line}" for line in lattice_lines(plan.lattice))]
    for view in plan.maintained:
        lines += ["", *view_text(view), *cores_text(plan, view.name)]
    return "\n".join(lines) + "\n"


def cores_text(plan: Plan, view: str) -> list[str]:
    """The cores of a view over sources, with the query path of every change."""
    lines = []
    for core in plan.cores:
        if core.views[0] == view:
            lines += core_text(core)
        elif view in core.views:
            lines.append(f"  core     {core.core.name}, that of {core.views[0]}")
    return lines


def view_text(view: ViewPlan, why_not: bool = True, steps: bool = True) -> list[str]:
    """One view of the plan."""
    lines = [f"view {view.name}", f"  strategy {view.strategy}"]
    lines += [f"  columns  {_columns(view.columns)}"]
    lines += [f"  hidden   {_columns(view.hidden)}"] if view.hidden else []
    lines += [f"  key      {', '.join(scalar.quote(name) for name in view.key)}"] if view.key else []
    lines += [f"  reads    {', '.join(view.reads)}"]
    lines += [f"  part of  {view.hidden_for}"] if view.hidden_for else []
    lines += [f"  parent   {view.parent}{_joined(view.joins)}"] if view.parent else []
    if why_not:
        for refusal in view.refused:
            lines.append(f"  not {refusal.strategy}: {refusal.because} [{refusal.code}]")
    lines += ["  definition", *_block(print_rel(view.definition))]
    if not steps:
        return lines
    for step in view.steps:
        lines += _step(step)
    lines += ["  refresh", *_refresh(view)]
    if view.changes:
        lines += _step(view.changes)
    return lines


def _from_parent(view: ViewPlan) -> str:
    return f"  from {view.parent}{_joined(view.joins)}"


def _joined(tables: tuple[str, ...]) -> str:
    return f" joined with {', '.join(tables)}" if tables else ""


def trace_text(view: ViewPlan) -> list[str]:
    """How the view's definition came to its form: each rule that fired, and what it made of what."""
    lines = []
    for rewrite in view.rewrites:
        place = ".".join(map(str, rewrite.place)) or "the top"
        lines += [f"  rewrite {rewrite.rule} at {place}", *_block(print_rel(rewrite.before))]
        lines += ["  to", *_block(print_rel(rewrite.after))]
    return lines


def _step(step: Step) -> list[str]:
    return [f"  propagate {step.name}: {step.purpose}", *_block(print_rel(step.rel))]


def _block(text: str) -> list[str]:
    return [f"    {line}" for line in text.rstrip("\n").split("\n")]


def _columns(columns: tuple[Column, ...]) -> str:
    return ", ".join(f"{scalar.quote(c.name)} {c.type}{'' if c.nullable else ' not null'}" for c in columns)


def _refresh(view: ViewPlan) -> list[str]:
    match view.refresh:
        case Merge(key, count, assignments):
            on = ", ".join(scalar.quote(name) for name in key) or "the one row"
            lines = [f"    merge sd on {on}; a row goes when {scalar.quote(count)} reaches 0"]
            for a in assignments:
                lines.append(f"      {scalar.quote(a.column)} := {scalar.text(a.update)}")
                lines.append(f"        or, in a new group, {scalar.text(a.insert)}")
            return lines
        case ApplyBag():
            return ["    take out the rows that go, add the rows that come, counting copies"]
        case Replace():
            return ["    put what was computed anew in the place of the stored view"]


def plan_json(plan: Plan) -> str:
    """The plan as JSON; docs/plan-json.md describes it."""
    return json.dumps(plan_data(plan), indent=2, ensure_ascii=False) + "\n"


def plan_data(plan: Plan) -> dict[str, Any]:
    cores = {view: {"core": core_data(core)} for core in plan.cores for view in core.views}
    views = [_view_data(view) | cores.get(view.name, {}) for view in plan.maintained]
    lattice = lattice_data(plan.lattice)
    return {"version": PLAN_VERSION, "source": plan.source, "views": views, "lattice": lattice}


def _view_data(view: ViewPlan) -> dict[str, Any]:
    return {
        "name": view.name,
        "strategy": view.strategy,
        "refused": [
            {
                "strategy": r.strategy,
                "code": r.code,
                "because": r.because,
                "line": r.line,
                "column": r.column,
                "remedy": r.remedy,
            }
            for r in view.refused
        ],
        "columns": [_column_data(column) for column in view.columns],
        "hidden": [_column_data(column) for column in view.hidden],
        "key": list(view.key),
        "parent": view.parent,
        "joins": list(view.joins),
        "hidden_for": view.hidden_for,
        "reads": list(view.reads),
        "rewrites": [{"rule": r.rule, "place": list(r.place)} for r in view.rewrites],
        "definition": print_rel(view.definition),
        "initial": print_rel(view.initial),
        "from_parent": print_rel(view.from_parent) if view.from_parent else None,
        "propagate": [
            {"name": step.name, "purpose": step.purpose, "relation": print_rel(step.rel)}
            for step in (*view.steps, *((view.changes,) if view.changes else ()))
        ],
        "refresh": _refresh_data(view),
    }


def _refresh_data(view: ViewPlan) -> dict[str, Any]:
    match view.refresh:
        case Merge(key, count, assignments):
            return {
                "apply": "merge",
                "key": list(key),
                "count": count,
                "update": {a.column: scalar.text(a.update) for a in assignments},
                "insert": {a.column: scalar.text(a.insert) for a in assignments},
            }
        case ApplyBag(columns):
            return {"apply": "bag", "columns": list(columns)}
        case Replace():
            return {"apply": "replace"}


def _column_data(column: Column) -> dict[str, Any]:
    return {"name": column.name, "type": column.type, "nullable": column.nullable}
