"""The generated scripts: initialize.py, propagate.py, refresh.py. One function a step, in the order of the plan."""

from __future__ import annotations

import hashlib

from ..compiler import scalar
from ..compiler.algebra import Ref, Scan, State, scans
from ..compiler.plan import SHOWN, ApplyBag, Merge, Plan, Replace, Step, ViewPlan
from ..grammar.notation import print_rel
from .frames import Lines, expression, identifier, literal
from .joined import warehouse_text

Format = str  # "parquet" or "delta"


def scripts(plan: Plan, format: Format) -> dict[str, str]:
    """The text of each generated file, by its name."""
    return {
        "initialize.py": _initialize(plan, format),
        "propagate.py": _propagate(plan, format),
        "refresh.py": _refresh(plan, format),
        "warehouse.py": warehouse_text(),
    }


def fingerprint(view: ViewPlan) -> str:
    """Changes when the stored view would have to be built anew."""
    shape = [print_rel(view.initial), *(f"{c.name}:{c.type}" for c in view.stored), view.strategy]
    return hashlib.sha256("\n".join(shape).encode()).hexdigest()[:16]


def _file(plan: Plan, format: Format, title: str, imports: str, body: list[Lines]) -> str:
    frames = ["from pyspark.sql import functions as F"] if any("F.expr(" in t for block in body for t in block) else []
    head = [
        f'"""{title}',
        "",
        f"DO NOT EDIT: made by deltafold from {_comment_text(plan.source)}.",
        '"""',
        "",
        "from __future__ import annotations",
        "",
        "from pyspark.sql import DataFrame, SparkSession",
        *frames,
        f"from warehouse import {imports}",
        "",
        f"FORMAT = {literal(format)}",
        "PLAN = {",
        *(f"    {literal(view.name)}: {literal(fingerprint(view))}," for view in plan.maintained),
        "}",
    ]
    blocks = [head, *body]
    return "\n\n\n".join("\n".join(block) for block in blocks) + "\n"


def _comment_text(text: str) -> str:
    """Text as it may stand in a comment or docstring: one line, no quotes or escapes that could end it."""
    return "".join(c if c.isprintable() and c not in '"\\' else "?" for c in text)


def _author_sql(view: ViewPlan) -> Lines:
    if view.hidden_for:
        return [f"# A part of {_comment_text(view.hidden_for)} that is kept as a hidden view."]
    lines = []
    for line in view.sql.split("\n"):
        shown = "".join(c if c.isprintable() or c == "\t" else "?" for c in line).rstrip()
        lines.append(f"# {shown}".rstrip())
    return lines if len(lines) <= 200 else [*lines[:200], f"# … and {len(lines) - 200} more lines"]


def _scan_text(plan: Plan, scan: Scan) -> str:
    name, state = scan.ref.name, scan.ref.state
    view = plan.view(name) if state is not State.STEP else None
    quoted = literal(name)
    match state:
        case State.CURRENT:
            return f"w.view({quoted}){_public(view)}" if view else f"w.table({quoted})"
        case State.OLD:
            return f"w.stored({quoted}){_public(view)}" if view else f"w.old({quoted})"
        case State.CHANGES:
            return f"{identifier(f'changes_{name}')}(w)" if view else f"w.changes({quoted})"
        case State.NEW:
            if view:
                return f"w.new_view({quoted}, {identifier(f'changes_{name}')}(w))"
            return f"w.new({quoted}{_key(plan, name)})"
        case State.SIGNED:
            old = f"w.stored({quoted}){_public(view)}" if view else f"w.old({quoted})"
            changes = f"{identifier(f'changes_{name}')}(w)" if view else f"w.changes({quoted})"
            return f"with_changes({old}, {changes})"
        case State.STORED:
            return f"w.stored({quoted})"
        case State.DELTA:
            return f"w.delta({quoted})"
        case State.STEP:
            return f"{identifier(name)}(w)"


def _key(plan: Plan, name: str) -> str:
    """The first declared key of a table none of whose columns may be NULL, as an argument."""
    table = plan.catalog.table(name)
    for key in table.keys if table else ():
        columns = [table.column(column) for column in key] if table else []
        if all(column and not column.nullable for column in columns):
            return f", key=[{', '.join(literal(column) for column in key)}]"
    return ""


def _public(view: ViewPlan) -> str:
    if not view.hidden:
        return ""
    shown = f".where({literal(scalar.quote(SHOWN))})" if view.is_filtered else ""
    return shown + f".select({', '.join(literal(scalar.quote(column.name)) for column in view.columns)})"


def _function(plan: Plan, step: Step, context: str) -> Lines:
    def scan_text(scan: Scan) -> str:
        if context == "Initialization" and scan.ref.state is State.STORED:
            return f"w.view({literal(scan.ref.name)})"
        return _scan_text(plan, scan)

    body = expression(step.rel, scan_text)
    return [
        f"def {identifier(step.name)}(w: {context}) -> DataFrame:",
        f'    """{_comment_text(step.purpose[0].upper() + step.purpose[1:])}."""',
        f"    return {body[0]}",
        *(f"    {line}" for line in body[1:]),
    ]


def _times_read(step: Step, steps: list[Step]) -> int:
    return sum(scan.ref == Ref(step.name, State.STEP) for other in steps for scan in scans(other.rel))


def _initialize(plan: Plan, format: Format) -> str:
    body: list[Lines] = []
    for view in plan.maintained:
        rel, source = (view.from_parent, f"from {view.parent}") if view.from_parent else (view.initial, "from scratch")
        step = Step(f"initial_{view.name}", rel, f"the stored view {source}, hidden columns included")
        body.append([*_author_sql(view), "", "", *_function(plan, step, "Initialization")])
    run = [
        "def initialize(spark: SparkSession, warehouse: str) -> dict[str, object]:",
        '    """Stores every view, from its base tables or from the view above it in the lattice."""',
        "    w = Initialization(spark, warehouse, FORMAT, PLAN)",
        *(f"    w.store({literal(v.name)}, {identifier(f'initial_{v.name}')}(w))" for v in plan.maintained),
        "    return w.commit()",
    ]
    body += [run, _main("initialize", needs_batch=False)]
    return _file(
        plan,
        format,
        "Stores every view, from its base tables or from the view above it in the lattice.",
        "Initialization, main",
        body,
    )


def _main(function: str, needs_batch: bool) -> Lines:
    return [
        'if __name__ == "__main__":',
        f"    main({function}, __doc__, needs_batch={needs_batch}, format=FORMAT)",
    ]


def _propagate(plan: Plan, format: Format) -> str:
    body: list[Lines] = []
    for view in plan.maintained:
        steps = [*view.steps, *((view.changes,) if view.changes else ())]
        functions = []
        for step in steps:
            once = ["@once"] if _times_read(step, steps) > 1 else []
            functions.append([*once, *_function(plan, step, "Propagation")])
        body.append([*_author_sql(view), "", "", *functions[0]])
        body += functions[1:]
    checks = []
    for name in plan.tables:
        table = plan.catalog.table(name)
        assert table is not None
        required = ", ".join(literal(column.name) for column in table.columns if not column.nullable)
        only = ", insert_only=True" if table.changes.insert_only else ""
        checks.append(f"    w.check({literal(name)}, not_null=[{required}]{only})")
    run = [
        "def propagate(spark: SparkSession, warehouse: str, batch: str) -> dict[str, object]:",
        '    """From the changes of a batch to the summary-delta of every view. Changes no view and no table."""',
        "    w = Propagation(spark, warehouse, batch, FORMAT, PLAN)",
        "    if w.is_applied:",
        "        return w.done()",
        *checks,
        *(f"    w.write_delta({literal(v.name)}, {identifier(v.steps[-1].name)}(w))" for v in plan.maintained),
        "    return w.done()",
    ]
    body += [run, _main("propagate", needs_batch=True)]
    imports = "Propagation, main"
    if any("with_changes(" in line for block in body for line in block):
        imports += ", with_changes"
    if any(line == "@once" for block in body for line in block):
        imports = imports.replace("main", "main, once")
    return _file(plan, format, "Propagates a batch of changes to the summary-delta of every view.", imports, body)


def _refresh(plan: Plan, format: Format) -> str:
    body = [[*_author_sql(view), "", "", *_refresh_function(view)] for view in plan.maintained]
    run = [
        "def refresh(spark: SparkSession, warehouse: str, batch: str) -> dict[str, object]:",
        '    """Applies the summary-deltas to the stored views and the batch to the base tables, all or nothing."""',
        "    w = Refresh(spark, warehouse, batch, FORMAT, PLAN)",
        "    if w.is_applied:",
        "        return w.commit()",
        *(f"    {identifier(f'refresh_{view.name}')}(w)" for view in plan.maintained),
        *(f"    w.apply_changes({literal(name)})" for name in plan.tables),
        "    return w.commit()",
    ]
    body += [run, _main("refresh", needs_batch=True)]
    text = _file(
        plan, format, "Applies a propagated batch to the stored views and the base tables.", "Refresh, main", body
    )
    return text.replace("from pyspark.sql import DataFrame, SparkSession", "from pyspark.sql import SparkSession", 1)


def _refresh_function(view: ViewPlan) -> Lines:
    name = literal(view.name)
    head = f"def {identifier(f'refresh_{view.name}')}(w: Refresh) -> None:"
    match view.refresh:
        case Merge(key, count, assignments):
            return [
                head,
                "    w.merge(",
                f"        {name},",
                f"        key=[{', '.join(literal(column) for column in key)}],",
                f"        count={literal(count)},",
                "        update={",
                *(f"            {literal(a.column)}: {literal(scalar.text(a.update))}," for a in assignments),
                "        },",
                "        insert={",
                *(f"            {literal(a.column)}: {literal(scalar.text(a.insert))}," for a in assignments),
                "        },",
                "    )",
            ]
        case ApplyBag(columns):
            return [head, f"    w.apply_bag({name}, columns=[{', '.join(literal(c) for c in columns)}])"]
        case Replace():
            return [head, f"    w.replace({name}, w.delta({name}))"]
