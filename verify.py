"""`deltafold verify`: random data, the generated scripts on real Spark, compared with Spark's own answer.

On a difference the case is made smaller, as far as a time budget goes: fewer batches, fewer changes, fewer rows.
"""

from __future__ import annotations

import math
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlglot

from .codegen.emit import emit, write
from .compiler.plan import Definition, Plan
from .compiler.scalar import quote
from .compiler.source import CompilerBug
from .constraints import broken, broken_on_spark
from .randomdata import Batch, Case, Change, Row, apply_batch, make_case
from .runner import Scripts, load_scripts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Difference:
    """A view that does not hold what the author's SQL gives, or a batch that could not be applied."""

    case: Case
    batch: int  # how many batches were applied before
    view: str
    missing: tuple[Row, ...]
    extra: tuple[Row, ...]
    failure: str = ""


def verify(
    spark: SparkSession, plan: Plan, format: str, rows: int, batches: int, seed: int, progress: Progress
) -> Difference | None:
    """The first difference found, made small; None when every view was equal after every batch."""
    with tempfile.TemporaryDirectory(prefix="deltafold-verify-") as scratch:
        directory = Path(scratch) / "compiled"
        write(emit(plan, format), directory)
        return check_scripts(spark, plan, load_scripts(directory), Path(scratch), rows, batches, seed, progress)


def check_scripts(
    spark: SparkSession,
    plan: Plan,
    scripts: Scripts,
    scratch: Path,
    rows: int,
    batches: int,
    seed: int,
    progress: Progress,
    seconds: float = 90,
) -> Difference | None:
    """As `verify`, of scripts that are there already."""
    case = make_case(plan.catalog, plan.tables, rows, batches, random.Random(seed))
    if not _is_valid(plan, case):
        raise CompilerBug("the random data does not honour the declared constraints")
    found = run_case(spark, plan, scripts, case, scratch, progress)
    if found is None:
        return None
    progress("different: looking for a smaller case")
    return shrink(
        plan, found, lambda smaller: run_case(spark, plan, scripts, smaller, scratch, lambda _: None), seconds
    )


def run_case(
    spark: SparkSession, plan: Plan, scripts: Scripts, case: Case, scratch: Path, progress: Progress
) -> Difference | None:
    """Runs a case from nothing; the first difference, if any."""
    warehouse = scratch / "warehouse"
    shutil.rmtree(warehouse, ignore_errors=True)
    from .codegen.warehouse import folder

    for name in plan.tables:
        write_table(spark, plan, name, case.tables.get(name, ()), warehouse / "tables" / folder(name), scripts.format)
    step = "init"
    try:
        scripts.initialize(spark, str(warehouse))
        if found := _compare(spark, plan, case, 0, warehouse):
            return found
        for number, batch in enumerate(case.batches, start=1):
            progress(f"batch {number} of {len(case.batches)}: {len(batch)} changes")
            step = f"batch {number}"
            write_changes(spark, plan, batch, warehouse, f"b{number}")
            scripts.propagate(spark, str(warehouse), f"b{number}")
            scripts.refresh(spark, str(warehouse), f"b{number}")
            if found := _compare(spark, plan, case, number, warehouse):
                return found
    except Exception as error:
        applied = 0 if step == "init" else int(step.split()[1])
        return Difference(case, applied, "", (), (), f"{step} failed: {str(error)[:600]}")
    return None


def verify_warehouse(spark: SparkSession, plan: Plan, warehouse: str, progress: Progress) -> list[str]:
    """What is wrong in a warehouse, a line each: declared constraints that do not hold, views that are not equal."""
    from .codegen.warehouse import read_table, read_view

    progress("checking the declared constraints")
    tables = {name: read_table(spark, warehouse, name) for name in plan.tables}
    found = broken_on_spark(plan.catalog, tables)
    for name, expected in expected_views(spark, plan, tables).items():
        progress(f"recomputing {name}")
        actual = read_view(spark, warehouse, name).select(*(quote(c) for c in expected.columns))
        both = expected.selectExpr("*", "1 AS __sign").unionAll(actual.selectExpr("*", "-1 AS __sign"))
        sums = both.groupBy(*(quote(c) for c in expected.columns)).agg({"__sign": "sum"})
        rows = _rows(sums.where("`sum(__sign)` <> 0").limit(1000))
        missing, extra = bag_difference(
            [row[:-1] for row in rows for _ in range(row[-1])], [row[:-1] for row in rows for _ in range(-row[-1])]
        )
        found += [f"{name}: missing {_shown(row, expected.columns)}" for row in missing[:5]]
        found += [f"{name}: extra {_shown(row, expected.columns)}" for row in extra[:5]]
    return found


def table_schema(plan: Plan, name: str, extra: str = "") -> str:
    table = plan.catalog.table(name)
    assert table is not None
    return ", ".join(f"{quote(c.name)} {c.type}" for c in table.columns) + extra


def write_table(spark: SparkSession, plan: Plan, name: str, rows: Sequence[Row], path: Path, format: str) -> None:
    frame = spark.createDataFrame(list(rows), table_schema(plan, name)).coalesce(1)
    frame.write.format(format).mode("overwrite").save(str(path))


def write_changes(spark: SparkSession, plan: Plan, batch: Batch, warehouse: Path, name: str) -> None:
    """A batch as changed rows with _change_type."""
    by_table: dict[str, list[Row]] = {}
    for change in batch:
        rows = by_table.setdefault(change.table, [])
        if change.before is not None:
            rows.append((*change.before, "delete" if change.after is None else "update_preimage"))
        if change.after is not None:
            rows.append((*change.after, "insert" if change.before is None else "update_postimage"))
    from .codegen.warehouse import folder

    (warehouse / "changes" / name).mkdir(parents=True, exist_ok=True)
    for table, rows in by_table.items():
        if table in plan.tables:
            frame = spark.createDataFrame(rows, table_schema(plan, table, ", _change_type STRING"))
            frame.coalesce(1).write.mode("overwrite").parquet(str(warehouse / "changes" / name / folder(table)))


def author_query(definition: Definition) -> str:
    """The author's own query, as written: what stands after AS in CREATE VIEW; translated, if not Spark's dialect."""
    if definition.translated is not None:
        return definition.translated
    text, depth = definition.span.text, 0
    for token in sqlglot.tokenize(text, dialect="spark"):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if depth == 0 and token.text.upper() == "AS":
            return text[token.end + 1 :]
    raise AssertionError("a view without AS")


def expected_views(spark: SparkSession, plan: Plan, tables: dict[str, DataFrame]) -> dict[str, DataFrame]:
    """What Spark gives for the author's SQL over these tables."""
    for name, frame in tables.items():
        frame.createOrReplaceTempView(quote(name))
    results = {}
    for definition in plan.definitions:
        frame = spark.sql(author_query(definition))
        if definition.column_names:
            frame = frame.toDF(*definition.column_names)
        frame.createOrReplaceTempView(quote(definition.name))
        if plan.view(definition.name):
            results[definition.name] = frame
    return results


def _compare(spark: SparkSession, plan: Plan, case: Case, batch: int, warehouse: Path) -> Difference | None:
    from .codegen.warehouse import read_table, read_view

    database = {name: list(rows) for name, rows in case.tables.items()}
    for done in case.batches[:batch]:
        applied = apply_batch(database, done)
        assert applied is not None, "a random batch contradicts its own database"
        database = applied
    tables = {name: read_table(spark, str(warehouse), name) for name in plan.tables}
    for name, frame in tables.items():
        missing, extra = bag_difference(database.get(name, []), _rows(frame))
        if missing or extra:
            return Difference(case, batch, f"table {name}", missing, extra)
    fresh = {
        name: spark.createDataFrame(list(database.get(name, [])), table_schema(plan, name)).coalesce(1)
        for name in plan.tables
    }
    for name, expected in expected_views(spark, plan, fresh).items():
        actual = read_view(spark, str(warehouse), name).select(*(quote(c) for c in expected.columns))
        missing, extra = bag_difference(_rows(expected), _rows(actual))
        if missing or extra:
            return Difference(case, batch, name, missing, extra)
    return None


def _rows(frame: DataFrame) -> list[Row]:
    return [tuple(_plain(value) for value in row) for row in frame.collect()]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytearray) else value


def bag_difference(expected: Sequence[Row], actual: Sequence[Row]) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Rows missing from `actual` and rows it has too many; floating point numbers are compared with a tolerance."""
    missing, extra = Counter(map(_key, expected)), Counter(map(_key, actual))
    common = missing & extra
    missing, extra = missing - common, extra - common
    lost, found = list(missing.elements()), list(extra.elements())
    for row in list(lost):
        close = next((other for other in found if _close(row, other)), None)
        if close is not None:
            lost.remove(row)
            found.remove(close)
    return tuple(sorted(lost, key=repr)), tuple(sorted(found, key=repr))


def _key(row: Row) -> Row:
    return tuple("NaN" if isinstance(v, float) and math.isnan(v) else v for v in row)


def _close(row: Row, other: Row) -> bool:
    def same(a: Any, b: Any) -> bool:
        if isinstance(a, float) and isinstance(b, float):
            return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)
        return bool(a == b)

    return len(row) == len(other) and all(same(a, b) for a, b in zip(row, other, strict=True))


# ---- a smaller case


def shrink(plan: Plan, found: Difference, run: Callable[[Case], Difference | None], seconds: float = 90) -> Difference:
    """Drops batches, changes and rows as long as a difference remains and time is left."""
    deadline = time.monotonic() + seconds
    case = replace(found.case, batches=found.case.batches[: found.batch])
    best = replace(found, case=case)

    def attempt(candidate: Case) -> bool:
        nonlocal best
        if time.monotonic() > deadline or not _is_valid(plan, candidate):
            return False
        result = run(candidate)
        if result is None:
            return False
        best = replace(result, case=replace(candidate, batches=candidate.batches[: result.batch]))
        return True

    if len(case.batches) > 1:  # the state before the last batch as the start
        attempt(Case(_state_before(case, len(case.batches) - 1), case.batches[-1:]))
    smaller = True
    while smaller and time.monotonic() < deadline:
        smaller = False
        for candidate in _smaller(best.case):
            if attempt(candidate):
                smaller = True
                break
    return best


def _state_before(case: Case, batches: int) -> dict[str, tuple[Row, ...]]:
    database = {name: list(rows) for name, rows in case.tables.items()}
    for batch in case.batches[:batches]:
        applied = apply_batch(database, batch)
        assert applied is not None
        database = applied
    return {name: tuple(rows) for name, rows in database.items()}


def _smaller(case: Case) -> list[Case]:
    """Cases with a part left out, large parts first."""
    candidates: list[Case] = []
    for number, batch in enumerate(case.batches):
        for kept in _without_parts(batch):
            batches = (*case.batches[:number], kept, *case.batches[number + 1 :])
            candidates.append(replace(case, batches=batches))
    for name, rows in case.tables.items():
        candidates += [replace(case, tables={**case.tables, name: kept}) for kept in _without_parts(rows)]
    return sorted(candidates, key=_size)


def _size(case: Case) -> int:
    return sum(map(len, case.tables.values())) + sum(map(len, case.batches))


def _without_parts(things: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    results, size = [], max(1, len(things) // 2)
    while things and size >= 1:
        results += [things[:i] + things[i + size :] for i in range(0, len(things), size)]
        size = size // 2 if size > 1 else 0
    return results


def _is_valid(plan: Plan, case: Case) -> bool:
    database = {name: list(rows) for name, rows in case.tables.items()}
    if broken(plan.catalog, database):
        return False
    for batch in case.batches:
        applied = apply_batch(database, batch)
        if applied is None or broken(plan.catalog, applied):
            return False
        database = applied
    return True


def describe(plan: Plan, found: Difference) -> str:
    """The difference with all of its rows, for people."""
    lines = [found.failure] if found.failure else [f"{found.view} differs after batch {found.batch}"]
    view = plan.view(found.view)
    header = [c.name for c in view.columns] if view else []
    lines += [f"  missing {_shown(row, header)}" for row in found.missing[:20]]
    lines += [f"  extra   {_shown(row, header)}" for row in found.extra[:20]]
    lines += ["", "the smallest case found:"]
    for name, rows in found.case.tables.items():
        table = plan.catalog.table(name)
        lines.append(f"  table {name} ({', '.join(table.names if table else ())}), {len(rows)} rows")
        lines += [f"    {_shown(row, [])}" for row in rows[:50]]
    for number, batch in enumerate(found.case.batches, start=1):
        lines.append(f"  batch {number}")
        lines += [f"    {_shown_change(change)}" for change in batch[:50]]
    return "\n".join(lines)


def _shown(row: Row, header: Sequence[str]) -> str:
    values = ["NULL" if v is None else repr(v) if isinstance(v, str) else str(v) for v in row]
    if header:
        return "(" + ", ".join(f"{n}={v}" for n, v in zip(header, values, strict=False)) + ")"
    return "(" + ", ".join(values) + ")"


def _shown_change(change: Change) -> str:
    if change.before is None:
        return f"insert {change.table} {_shown(change.after or (), [])}"
    if change.after is None:
        return f"delete {change.table} {_shown(change.before, [])}"
    return f"update {change.table} {_shown(change.before, [])} to {_shown(change.after, [])}"
