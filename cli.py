"""The command line. Exit codes: 0 fine; 1 differs or a finding; 2 the input is wrong; 3 a bug of the compiler."""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.status import Status

from .codegen.emit import emit, stale, write
from .codegen.plan_text import cores_text, plan_data, plan_text, trace_text, view_text
from .compiler import dialects, errors
from .compiler.catalog import did_you_mean
from .compiler.dependencies import minimal_cover
from .compiler.pipeline import bind_file, compile_file
from .compiler.plan import Plan, ViewPlan
from .compiler.properties import properties
from .compiler.scalar import DIALECT, quote
from .compiler.source import CompilerBug, InputError
from .runner import TINY, CannotRun, load_scripts, local_session

app = typer.Typer(
    help="Keeps SQL views on Spark up to date from changes alone.", no_args_is_help=True, pretty_exceptions_enable=False
)
Result = TypeVar("Result")
progress = Console(stderr=True, highlight=False)

FINDING, WRONG_INPUT, BUG = 1, 2, 3


class Format(StrEnum):
    PARQUET = "parquet"
    DELTA = "delta"


class LatticeFormat(StrEnum):
    TEXT = "text"
    JSON = "json"
    DOT = "dot"
    MERMAID = "mermaid"
    SVG = "svg"


class ExplainFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


File = Annotated[Path, typer.Argument(help="a view file", show_default=False)]
Dialect = Annotated[str, typer.Option("--dialect", help="of the view file's SQL; scripts are always Spark's")]
WarehouseFormat = Annotated[Format, typer.Option("--format", help="how base tables and views are stored")]
Warehouse = Annotated[str, typer.Option("--warehouse", "-w", help="a directory or URI", show_default=False)]
BatchId = Annotated[
    str, typer.Option("--batch", "-b", help="a folder of WAREHOUSE/changes, or auto", show_default=False)
]
ReportFormat = Annotated[ExplainFormat, typer.Option("--format", help="text for people, json for machines")]
Compiled = Annotated[Path, typer.Argument(help="a directory that compile wrote", show_default=False)]


@app.command("compile")
def compile_(
    files: Annotated[list[Path], typer.Argument(help="view files", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", help="where the scripts go", show_default=False)],
    format: WarehouseFormat = Format.PARQUET,
    check: Annotated[bool, typer.Option("--check", help="write nothing; exit 1 when DIR is stale")] = False,
    dialect: Dialect = DIALECT,
) -> None:
    """Compile view files to PySpark scripts and a plan."""
    stale_found = False
    for file in files:
        plan = _plan(file, dialect)
        directory = output if len(files) == 1 else output / file.stem
        generated = emit(plan, format)
        if check:
            differing = stale(generated, directory)
            stale_found |= bool(differing)
            for name in differing:
                state = "stale" if (directory / name).exists() else "missing"
                print(f"{directory / name}: {state}")
        else:
            written = write(generated, directory)
            print(f"{directory}: {len(plan.views)} views, {len(written)} of {len(generated)} files written")
    if check and stale_found:
        spoken = "" if dialect == DIALECT else f" --dialect {dialect}"
        print(f"to update: deltafold compile {' '.join(map(str, files))} -o {output} --format {format.value}{spoken}")
        raise typer.Exit(FINDING)


@app.command()
def explain(
    file: File,
    views: Annotated[list[str] | None, typer.Argument(help="only these views", show_default=False)] = None,
    steps: Annotated[
        bool, typer.Option("--steps", help="the propagate and refresh steps, and how the definition was rewritten")
    ] = False,
    why_not: Annotated[bool, typer.Option("--why-not", help="why cheaper strategies do not fit")] = False,
    props: Annotated[bool, typer.Option("--props", help="keys, functional dependencies, nullability")] = False,
    format: ExplainFormat = ExplainFormat.TEXT,
    dialect: Dialect = DIALECT,
) -> None:
    """Print how views are maintained, and why."""
    plan = _plan(file, dialect)
    chosen = _chosen(plan, views or [])
    if format is ExplainFormat.JSON:
        data = plan_data(plan)
        data["views"] = [view for view in data["views"] if view["name"] in chosen]
        if props:
            for view in data["views"]:
                view["properties"] = _properties_data(plan.view(view["name"]), plan)
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    blocks = []
    for view in plan.views:
        if view.name not in chosen:
            continue
        lines = view_text(view, why_not=why_not, steps=steps) + cores_text(plan, view.name)
        lines += trace_text(view) if steps else []
        if props:
            lines += _properties_text(view, plan)
        blocks.append("\n".join(lines))
    print("\n\n".join(blocks))


@app.command()
def optimize(
    file: File,
    views: Annotated[list[str] | None, typer.Argument(help="only these views", show_default=False)] = None,
    dialect: Dialect = DIALECT,
) -> None:
    """Print each view's query rewritten to be cheaper to evaluate, as Spark SQL, with the rules that fired."""
    from .codegen.sql import sql_text
    from .rewrites.cost import optimise

    catalog, bound = _readable(file, dialect, bind_file)
    wanted = {name.casefold() for name in views or []}
    missing = wanted - {view.name.casefold() for view in bound}
    if missing:
        known = ", ".join(view.name for view in bound)
        raise CannotRun(f"there is no view {', '.join(sorted(missing))}; there is: {known}")
    blocks = []
    for view in bound:
        if wanted and view.name.casefold() not in wanted:
            continue
        found = optimise(view.rel, catalog)
        fired = ", ".join(dict.fromkeys(step.rule for step in found.steps)) or "as written"
        blocks.append(f"-- {fired}\nCREATE VIEW {quote(view.name)} AS\n{sql_text(found.rel)};")
    print("\n\n".join(blocks))


def _properties_data(view: ViewPlan | None, plan: Plan) -> dict[str, Any]:
    assert view is not None
    found = properties(view.definition, plan.catalog)
    told = [d for d in minimal_cover(found.dependencies, found.not_null) if d.left not in found.keys]
    return {
        "keys": [sorted(key) for key in found.keys],
        "dependencies": [{"left": sorted(d.left), "right": sorted(d.right), "lax": d.lax} for d in told],
        "not_null": [name for name in view.definition.names if name in found.not_null],
    }


def _properties_text(view: ViewPlan, plan: Plan) -> list[str]:
    """Keys, what other columns determine (~> where they are not NULL), and what is never NULL."""
    data = _properties_data(view, plan)
    told = [
        f"{', '.join(d['left']) or '()'} {'~>' if d['lax'] else '->'} {', '.join(d['right'])}"
        for d in data["dependencies"]
    ]
    return [
        f"  keys     {'; '.join(', '.join(key) or '()' for key in data['keys']) or 'none known'}",
        f"  fds      {'; '.join(told) or 'none besides the keys'}",
        f"  not null {', '.join(data['not_null']) or 'none'}",
    ]


@app.command()
def lattice(
    file: File,
    format: LatticeFormat = LatticeFormat.TEXT,
    dialect: Dialect = DIALECT,
) -> None:
    """Print which view's summary-delta can be computed from which, and which one is."""
    from .codegen.lattice_pictures import dot, mermaid, svg
    from .codegen.lattice_text import lattice_data, lattice_lines

    found = _plan(file, dialect).lattice
    match format:
        case LatticeFormat.JSON:
            print(json.dumps(lattice_data(found), indent=2, ensure_ascii=False))
        case LatticeFormat.DOT:
            print(dot(found), end="")
        case LatticeFormat.MERMAID:
            print(mermaid(found), end="")
        case LatticeFormat.SVG:
            print(svg(found), end="")
        case LatticeFormat.TEXT:
            print("\n".join(lattice_lines(found)))


@app.command()
def advise(
    file: File,
    budget: Annotated[
        int, typer.Option("--rows", help="rows that the proposed views may hold together", min=1)
    ] = 100_000,
    format: ExplainFormat = ExplainFormat.TEXT,
    dialect: Dialect = DIALECT,
) -> None:
    """Propose views to add, with the estimated gain. Changes nothing."""
    from .codegen.lattice_text import advice_data, advice_lines
    from .compiler.lattice.advise import advise as choose

    plan = _plan(file, dialect)
    found = choose(plan.summaries, plan.catalog, budget)
    if format is ExplainFormat.JSON:
        print(json.dumps(advice_data(found), indent=2, ensure_ascii=False))
    else:
        print("\n".join(advice_lines(found)))


@app.command()
def diff(
    left: Annotated[Path, typer.Argument(help="a view file, or a compiled directory", show_default=False)],
    right: Annotated[Path | None, typer.Argument(help="a compiled directory", show_default=False)] = None,
    git: Annotated[str | None, typer.Option("--git", help="compare FILE with itself at this revision")] = None,
    format: WarehouseFormat = Format.PARQUET,
    dialect: Dialect = DIALECT,
) -> None:
    """Show what a change does to the plan: consequences first, then the text."""
    new, old = _sides(left, right, git, dialect)
    lines = _consequences(old, new)
    text = list(
        difflib.unified_diff(
            old["text"].splitlines(), new["text"].splitlines(), old["label"], new["label"], lineterm=""
        )
    )
    extra = _file_findings(left, right, format, dialect) if right and not left.is_dir() else []
    if not lines and not text and not extra:
        print("no difference")
        return
    print("\n".join([*lines, *extra, *([""] if text else []), *text]))
    raise typer.Exit(FINDING)


def _sides(left: Path, right: Path | None, git: str | None, dialect: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The new and the old plan."""
    if git is not None:
        return _side(left, dialect), _revision(left, git, dialect)
    if right is None:
        raise CannotRun("diff needs a second directory, or --git REV")
    new, old = (right, left) if left.is_dir() else (left, right)
    return _side(new, dialect), _side(old, dialect)


def _side(path: Path, dialect: str) -> dict[str, Any]:
    if not path.is_dir():
        plan = _plan(path, dialect)
        return {"label": str(path), "text": plan_text(plan), "data": plan_data(plan)}
    try:
        text = (path / "plan.txt").read_text(encoding="utf-8")
        data = json.loads((path / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CannotRun(
            f"{path} holds no readable plan ({error}): make it with deltafold compile FILE -o {path}"
        ) from None
    return {"label": str(path / "plan.txt"), "text": text, "data": data}


def _revision(file: Path, revision: str, dialect: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as scratch:
        folder = file.resolve().parent
        top = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "--show-toplevel"], capture_output=True, text=True, check=False
        )
        archive = subprocess.run(
            ["git", "-C", top.stdout.strip() or ".", "archive", revision], capture_output=True, check=False
        )
        if top.returncode or archive.returncode:
            raise CannotRun(f"git has no revision {revision} of {file}")
        subprocess.run(["tar", "-x", "-C", scratch], input=archive.stdout, check=True)
        old_file = Path(scratch) / file.resolve().relative_to(top.stdout.strip())
        if not old_file.exists():
            raise CannotRun(f"{file} is not in revision {revision}")
        plan = compile_file(old_file, shown_as=file.name, dialect=dialect)
        return {"label": f"{file}@{revision}", "text": plan_text(plan), "data": plan_data(plan)}


def _consequences(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    before = {view["name"]: view for view in old["data"]["views"]}
    after = {view["name"]: view for view in new["data"]["views"]}
    lines = [f"+ {name}: new, {view['strategy']}; init stores it" for name, view in after.items() if name not in before]
    lines += [f"- {name}: no longer maintained" for name in before if name not in after]
    for name, view in after.items():
        was = before.get(name)
        if was is None:
            continue
        if was["strategy"] != view["strategy"]:
            lines.append(f"~ {name}: strategy {was['strategy']} becomes {view['strategy']}")
        if (was["initial"], was["columns"], was["hidden"]) != (view["initial"], view["columns"], view["hidden"]):
            lines.append(f"! {name}: the stored view no longer fits, init must store it again")
        elif was["propagate"] != view["propagate"] or was["refresh"] != view["refresh"]:
            lines.append(f"~ {name}: maintained differently; the stored view stays")
    return lines


def _file_findings(file: Path, directory: Path, format: Format, dialect: str) -> list[str]:
    plan = _plan(file, dialect)
    made = json.loads((directory / "plan.json").read_text(encoding="utf-8"))
    chosen = Format.DELTA if 'FORMAT = "delta"' in _text(directory / "initialize.py") else format
    names = [n for n in stale(emit(plan, chosen), directory) if n not in ("plan.txt", "plan.json") or not made]
    return [f"{'stale' if (directory / name).exists() else 'missing'}: {directory / name}" for name in names]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


@app.command()
def verify(
    file: File,
    rows: Annotated[int, typer.Option(help="rows of each fact table", min=1)] = 40,
    batches: Annotated[int, typer.Option(help="how many random batches", min=0)] = 5,
    seed: Annotated[str, typer.Option(help="a number, or a range such as 1..5")] = "1",
    format: WarehouseFormat = Format.PARQUET,
    dialect: Dialect = DIALECT,
) -> None:
    """Run the generated scripts on random data and compare every view with recomputation."""
    from .verify import describe
    from .verify import verify as run

    plan = _plan(file, dialect)
    if plan.cores:
        raise CannotRun(f"{plan.cores[0].views[0]} is over sources: verify it over tables, without CREATE SOURCE")
    seeds = _seeds(seed)
    with progress.status("starting Spark") as status:
        spark = local_session(format, TINY)
        for number in seeds:
            tell = partial(_tell, status, number)
            found = run(spark, plan, format, rows, batches, number, tell)
            if found is not None:
                print(f"seed {number}: NOT EQUAL")
                print(describe(plan, found))
                raise typer.Exit(FINDING)
            print(
                f"seed {number}: equal: {len(plan.views)} views after each of {batches} batches ({format.value})",
                flush=True,
            )


def _verify_warehouse(plan: Plan, warehouse: str) -> None:
    from .codegen.warehouse import status as status_of
    from .verify import verify_warehouse

    with progress.status("starting Spark") as status:
        spark = local_session(status_of(warehouse)["format"] or Format.PARQUET)
        found = verify_warehouse(spark, plan, warehouse, status.update)
    if found:
        print("\n".join(found))
        raise typer.Exit(FINDING)
    print(f"equal: {len(plan.views)} views; the declared constraints of {len(plan.tables)} tables hold")


def _tell(status: Status, seed: int, text: str) -> None:
    status.update(f"seed {seed}: {text}")


def _seeds(text: str) -> list[int]:
    first, dots, last = text.partition("..")
    try:
        return list(range(int(first), int(last if dots else first) + 1))
    except ValueError:
        raise CannotRun(f"--seed {text}: a number, or a range such as 1..5") from None


@app.command()
def init(directory: Compiled, warehouse: Warehouse, format: ReportFormat = ExplainFormat.TEXT) -> None:
    """Store every view from its base tables."""
    _run(directory, "storing the views", format, lambda scripts, spark: scripts.initialize(spark, warehouse))


@app.command()
def propagate(
    directory: Compiled, warehouse: Warehouse, batch: BatchId, format: ReportFormat = ExplainFormat.TEXT
) -> None:
    """Compute the summary-deltas of a batch. Changes no view."""
    _run(directory, f"propagating {batch}", format, lambda scripts, spark: scripts.propagate(spark, warehouse, batch))


@app.command()
def refresh(
    directory: Compiled, warehouse: Warehouse, batch: BatchId, format: ReportFormat = ExplainFormat.TEXT
) -> None:
    """Apply a propagated batch to the views and the base tables."""
    _run(directory, f"refreshing with {batch}", format, lambda scripts, spark: scripts.refresh(spark, warehouse, batch))


def _run(directory: Path, doing: str, format: ExplainFormat, work: Callable[[Any, Any], dict[str, Any]]) -> None:
    scripts = load_scripts(directory)
    with progress.status("starting Spark") as status:
        spark = local_session(scripts.format)
        status.update(doing)
        report = work(scripts, spark)
        from .codegen.warehouse import report_text
    print(json.dumps(report, indent=2, default=str) if format is ExplainFormat.JSON else report_text(report))


source_app = typer.Typer(help="Sources: databases that change on their own.", no_args_is_help=True)
app.add_typer(source_app, name="source")


@source_app.command("install")
def source_install(
    file: File,
    source: Annotated[str | None, typer.Argument(help="only this one", show_default=False)] = None,
    apply: Annotated[bool, typer.Option("--apply", help="run it on the source as well as print it")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="take it out again instead")] = False,
    dialect: Dialect = DIALECT,
) -> None:
    """Print, and with --apply run, what a source needs: triggers that log its changes with their versions."""
    from .sources.install import install_sql, remove_sql

    plan = _plan(file, dialect)
    chosen = [s for s in plan.catalog.sources if source is None or s.name.casefold() == source.casefold()]
    if not chosen:
        known = ", ".join(s.name for s in plan.catalog.sources) or "none"
        raise CannotRun(f"there is no source {source or 'in ' + str(file)}; there is: {known}")
    for each in chosen:
        if each.type.lower() == "warehouse":
            print(f"-- source {each.name} needs nothing: its commits are its versions")
            continue
        script = (remove_sql if remove else install_sql)(each, plan.catalog)
        print(f"-- source {each.name}\n{script}", flush=True)
        if apply:
            try:
                from .sources.postgres import Postgres
            except ImportError:
                raise CannotRun("psycopg is not installed: pip install 'deltafold[postgres]'") from None
            Postgres(each, plan.catalog).run_script(script)
            progress.print(f"{each.name}: {'removed' if remove else 'installed'}", markup=False)


@source_app.command("run")
def source_run(
    directory: Compiled,
    warehouse: Warehouse,
    once: Annotated[bool, typer.Option("--once", help="stop when all that is committed now is applied")] = False,
    seconds: Annotated[float | None, typer.Option(help="stop after this long", show_default=False)] = None,
    reload: Annotated[bool, typer.Option("--reload", help="read the sources whole first")] = False,
    give_up_after: Annotated[float, typer.Option(help="seconds to wait for a source that is down")] = 300.0,
) -> None:
    """Keep views over sources up to date while the sources change."""
    from .sources.maintainer import Patience
    from .sources.status import description_of

    try:
        from .sources.running import run
    except ImportError:
        raise CannotRun("psycopg is not installed: pip install 'deltafold[postgres]'") from None

    description = description_of(directory)
    scripts = load_scripts(directory)
    end = None if seconds is None else time.monotonic() + seconds
    until = None if once else (lambda: end is not None and time.monotonic() > end)
    with progress.status("starting Spark") as status:
        spark = local_session(scripts.format)
        patience = Patience(in_all=give_up_after)
        report = run(spark, scripts, description, warehouse, until, patience, status.update, reload)
    print(json.dumps(report, indent=2))


@app.command("status")
def status_(
    directory: Compiled,
    warehouse: Warehouse,
    batch: Annotated[str | None, typer.Option("--batch", "-b", help="only this batch")] = None,
    format: ReportFormat = ExplainFormat.TEXT,
) -> None:
    """Tell what a warehouse holds: its state, batches applied, batches waiting."""
    from .codegen.warehouse import status, status_text
    from .sources.status import status_lines, status_of

    load_scripts(directory)
    report = status(warehouse)
    sources = status_of(directory, warehouse)
    if sources is not None:
        report["sources"] = sources
    if batch is not None:
        report = {"batch": batch, **{name: batch in report[name] for name in ("applied", "staged", "propagated")}}
    if format is ExplainFormat.JSON:
        print(json.dumps(report, indent=2, default=str))
    else:
        print("\n".join([status_text(report), *(status_lines(report["sources"]) if "sources" in report else [])]))


@app.command()
def demo(
    directory: Annotated[Path | None, typer.Argument(help="where to put it; a temporary one if left out")] = None,
    format: WarehouseFormat = Format.PARQUET,
    rows: Annotated[int, typer.Option(help="rows of pos", min=100)] = 200_000,
    changes: Annotated[int, typer.Option(help="changed rows", min=10)] = 2_000,
) -> None:
    """The retail warehouse of the 1997 paper, from nothing to a refreshed view."""
    from .demo import run

    with tempfile.TemporaryDirectory(prefix="deltafold-demo-") as scratch:
        if not run(directory or Path(scratch), format, rows, changes, progress):
            raise typer.Exit(FINDING)


@app.command("schema")
def schema_(
    warehouse: Annotated[str, typer.Argument(help="a warehouse, a folder of tables, or catalog:NAME")],
) -> None:
    """Print CREATE TABLE statements of tables that exist; add the keys to them."""
    from .schemas import CATALOG, schema_text

    settings = {"spark.sql.catalogImplementation": "hive"} if warehouse.startswith(CATALOG) else TINY
    print(schema_text(warehouse, lambda: local_session("parquet", settings)), end="")


@app.command("explain-error")
def explain_error(
    code: Annotated[str | None, typer.Argument(help="as in DF0209; all are listed if left out")] = None,
    format: ExplainFormat = ExplainFormat.TEXT,
) -> None:
    """Print what an error code means, an example that gives it, and what to write instead."""
    known = errors.codes()
    entry = None if code is None else errors.find_code(code)
    if code is not None and entry is None:
        raise CannotRun(f"there is no code {code}; {errors.nearest(code)}")
    if format is ExplainFormat.JSON:
        data = [asdict(e) for e in known.values()] if entry is None else asdict(entry)
        print(json.dumps(data, indent=2, ensure_ascii=False))
    elif entry is None:
        print("\n".join(f"{e.code}  {e.title}" for e in known.values()))
    else:
        print(errors.page(entry), end="")


def _readable(file: Path, dialect: str, use: Callable[..., Result]) -> Result:
    """What is made of a view file, which has to be there and in a dialect that is known."""
    if dialect not in dialects.NAMES:
        raise CannotRun(f"there is no dialect {dialect}; {did_you_mean(dialect, dialects.NAMES)}")
    try:
        return use(file, dialect=dialect)
    except OSError as error:
        raise CannotRun(f"{file} cannot be read: {error.strerror}") from None


def _plan(file: Path, dialect: str) -> Plan:
    plan = _readable(file, dialect, compile_file)
    for warning in plan.warnings:
        progress.print(warning.render(), style="yellow", markup=False)
    return plan


def _chosen(plan: Plan, names: list[str]) -> set[str]:
    if not names:
        return {view.name for view in plan.views}
    found = {name: plan.view(name) for name in names}
    missing = [name for name, view in found.items() if view is None]
    if missing:
        known = did_you_mean(missing[0], (view.name for view in plan.views))
        raise CannotRun(f"there is no view {', '.join(missing)}; {known}")
    return {view.name for view in found.values() if view}


def main() -> None:
    """Runs the command line and turns every way of failing into its message and exit code."""
    try:
        app()
    except InputError as error:
        print(error, file=sys.stderr)
        count = len(error.diagnostics)
        print(f"{count} error{'s' if count != 1 else ''}", file=sys.stderr)
        sys.exit(WRONG_INPUT)
    except CannotRun as error:
        print(f"deltafold: {error}", file=sys.stderr)
        sys.exit(WRONG_INPUT)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FINDING)
    except KeyboardInterrupt:
        print("deltafold: interrupted; run the same command again to finish", file=sys.stderr)
        sys.exit(130)
    except Exception as error:
        if type(error).__name__ in ("WarehouseError", "BatchRefused", "SourceError", "Unavailable"):
            print(f"deltafold: {error}", file=sys.stderr)
            sys.exit(WRONG_INPUT)
        if os.environ.get("DELTAFOLD_DEBUG"):
            raise
        kind = (
            "a bug of deltafold" if isinstance(error, CompilerBug) else f"a bug of deltafold ({type(error).__name__})"
        )
        print(f"deltafold: this is {kind}, not of your file: {str(error)[:2000]}", file=sys.stderr)
        print("deltafold: set DELTAFOLD_DEBUG=1 for the stack trace, and report it with the view file", file=sys.stderr)
        sys.exit(BUG)


if __name__ == "__main__":
    main()
