"""Every query of TPC-H or TPC-DS as a view, maintained by the generated scripts on Spark through mixed batches.

    python -m tests.maintain_tpc --benchmark tpch|tpcds [--queries 1,5] [--scale 0.01] [--batches 2] [--seed 1]

After each batch every view is compared, as a bag, with Spark's own answer to the query over the changed tables, which
DuckDB keeps beside the warehouse.

A query whose ORDER BY leaves ties that its LIMIT cuts has several right answers. The stored one is right if it has as
many rows as Spark's, with the same values of what it is ordered by, and all of them are rows of the query without its
LIMIT; such a view is reported as equal up to ties.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import sqlglot
from deltafold.codegen.emit import emit, write
from deltafold.codegen.warehouse import read_view
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.plan import Plan
from deltafold.compiler.scalar import quote
from deltafold.runner import TINY, Scripts, load_scripts, local_session
from deltafold.verify import bag_difference
from sqlglot import exp
from tpc import Query, connect, queries, tables
from tpc_changes import Database

SETTINGS = {**TINY, "spark.driver.memory": "4g", "spark.sql.maxPlanStringLength": "2000"}
Rows = list[tuple[Any, ...]]
Progress = Callable[[str], None]


@dataclass
class Outcome:
    """What happened to the view of one query."""

    strategy: str = ""
    rows: int = 0  # at the end
    changed: list[int] = field(default_factory=list)  # rows that came or went, by batch
    verdicts: list[str] = field(default_factory=list)  # by batch, the state before the first one too
    details: list[str] = field(default_factory=list)
    propagated: float = 0.0  # seconds of all batches, hidden views included
    recomputed: float = 0.0  # seconds of Spark's own answer after the same batches

    @property
    def verdict(self) -> str:
        wrong = [verdict for verdict in self.verdicts if not verdict.startswith("equal")]
        return wrong[0] if wrong else max(self.verdicts, key=len, default="not run")

    @property
    def is_right(self) -> bool:
        return self.verdict.startswith("equal")


class Benchmark:
    """The data of a benchmark and its batches, as files: the tables before each of them, and what it changes."""

    def __init__(self, name: str, chosen: tuple[Query, ...], scale: float, batches: int, seed: int, folder: Path):
        self.name, self.queries, self.batches, self.folder = name, chosen, batches, folder
        database = Database(connect(scale), name, seed)
        database.insert_witnesses(chosen, rounds=2)
        database.write(folder / "tables0")
        self.changes = []
        for number in range(1, batches + 1):
            self.changes.append(database.batch(chosen, folder / f"changes{number}"))
            database.write(folder / f"tables{number}")

    def run(self, spark: Any, chosen: Sequence[Query], outcomes: dict[str, Outcome]) -> None:
        """Maintains the views of some queries in one warehouse."""
        plan = compile_text(tables(self.name) + "".join(query.view for query in chosen), f"{self.name}.sql")
        for view in plan.views:
            outcomes[view.name] = Outcome(view.strategy)
        place = self.folder / "run"
        shutil.rmtree(place, ignore_errors=True)
        write(emit(plan, "parquet"), place / "compiled")
        warehouse = place / "warehouse"
        for table in plan.tables:
            shutil.copytree(self.folder / "tables0" / table, warehouse / "tables" / table)
        scripts = timed(load_scripts(place / "compiled"), plan, outcomes)
        scripts.initialize(spark, str(warehouse))
        before = self._compare(spark, plan, chosen, warehouse, 0, {}, outcomes)
        for number in range(1, self.batches + 1):
            staged = warehouse / "changes" / f"b{number}"
            staged.mkdir(parents=True)
            for table in plan.tables:
                if table in self.changes[number - 1]:
                    shutil.copytree(self.folder / f"changes{number}" / table, staged / table)
            scripts.propagate(spark, str(warehouse), f"b{number}")
            scripts.refresh(spark, str(warehouse), f"b{number}")
            before = self._compare(spark, plan, chosen, warehouse, number, before, outcomes)

    def _compare(
        self,
        spark: Any,
        plan: Plan,
        chosen: Sequence[Query],
        warehouse: Path,
        batch: int,
        before: dict[str, Rows],
        outcomes: dict[str, Outcome],
    ) -> dict[str, Rows]:
        """Compares every view with Spark's answer, which is returned."""
        for table in plan.tables:
            spark.read.parquet(str(self.folder / f"tables{batch}" / table)).createOrReplaceTempView(table)
        answers = {}
        for query in chosen:
            outcome = outcomes[query.name]
            began = time.monotonic()
            answer = spark.sql(query.text)
            expected = rows_of(answer)
            outcome.recomputed += time.monotonic() - began if batch else 0
            names = query.columns or tuple(answer.columns)
            stored = read_view(spark, str(warehouse), query.name).select(*(quote(name) for name in names))
            actual = rows_of(stored)
            missing, extra = bag_difference(expected, actual)
            verdict = "equal"
            if missing or extra:
                verdict = "equal up to ties" if same_but_ties(spark, query, answer, stored) else f"differs at {batch}"
            if verdict.startswith("differs"):
                outcome.details += [f"batch {batch}: missing {row}" for row in missing[:3]]
                outcome.details += [f"batch {batch}: extra {row}" for row in extra[:3]]
            outcome.verdicts.append(verdict)
            outcome.rows = len(expected)
            if batch:
                gone, came = bag_difference(before[query.name], expected)
                outcome.changed.append(len(gone) + len(came))
            answers[query.name] = expected
        return answers


def timed(scripts: Scripts, plan: Plan, outcomes: dict[str, Outcome]) -> Scripts:
    """The scripts, which note how long the delta of each view takes, from one to the next."""
    parts = scripts.propagate.__globals__
    base = parts["Propagation"]

    class Timed(base):  # type: ignore[misc, valid-type]
        since = 0.0

        def check(self, *given: Any, **named: Any) -> None:
            super().check(*given, **named)
            self.since = time.monotonic()

        def write_delta(self, view: str, df: Any) -> None:
            super().write_delta(view, df)
            now = time.monotonic()
            maintained = plan.view(view)
            assert maintained is not None
            outcomes[maintained.hidden_for or view].propagated += now - self.since
            self.since = now

    parts["Propagation"] = Timed
    return scripts


def rows_of(frame: Any) -> Rows:
    return [tuple(row) for row in frame.collect()]


def same_but_ties(spark: Any, query: Query, expected: Any, stored: Any) -> bool:
    """Whether the stored rows are another right answer to a query with ORDER BY and LIMIT."""
    parsed = sqlglot.parse_one(query.text, dialect="spark")
    if parsed.args.get("limit") is None or parsed.args.get("order") is None:
        return False
    named = {name.lower(): item for name, item in zip(parsed.named_selects, parsed.selects, strict=True)}
    keys = []
    for ordered in parsed.args["order"].expressions:
        key = ordered.this
        if isinstance(key, exp.Literal) and key.is_int:
            key = exp.column(parsed.named_selects[int(key.this) - 1])
        same = next((name for name, item in named.items() if item.unalias() == key), None)
        key = exp.column(same) if same else key.transform(_unqualified)
        if all(column.name.lower() in named for column in key.find_all(exp.Column)):
            keys.append(key.sql(dialect="spark"))
    stored = stored.toDF(*expected.columns)
    ordered_alike = bag_difference(rows_of(expected.selectExpr(*keys)), rows_of(stored.selectExpr(*keys)))
    parsed.set("limit", None)
    unlimited = rows_of(spark.sql(parsed.sql(dialect="spark")))
    _, strangers = bag_difference(unlimited, rows_of(stored))
    return ordered_alike == ((), ()) and not strangers


def _unqualified(node: exp.Expr) -> exp.Expr:
    return exp.column(node.name) if isinstance(node, exp.Column) else node


def maintain(spark: Any, benchmark: Benchmark, together: int, progress: Progress) -> dict[str, Outcome]:
    """Runs all queries, some in a warehouse; if one of these fails, each of them alone."""
    outcomes: dict[str, Outcome] = {}
    waiting = [benchmark.queries[i : i + together] for i in range(0, len(benchmark.queries), together)]
    while waiting:
        chosen = waiting.pop(0)
        began = time.monotonic()
        try:
            benchmark.run(spark, chosen, outcomes)
        except Exception as error:
            if len(chosen) > 1:
                progress(f"{', '.join(query.name for query in chosen)}: one fails, each is run alone")
                waiting[:0] = [(query,) for query in chosen]
                continue
            outcome = outcomes.setdefault(chosen[0].name, Outcome())
            outcome.verdicts.append("fails")
            outcome.details.append(f"{type(error).__name__}: {str(error)[:1500]}")
        spark.catalog.clearCache()
        seconds = time.monotonic() - began
        for query in chosen:
            progress(described(query, outcomes[query.name]))
        progress(f"  {len(outcomes)} of {len(benchmark.queries)}, {seconds:.0f} s")
    return outcomes


def described(query: Query, outcome: Outcome) -> str:
    changed = ", ".join(map(str, outcome.changed))
    seconds = f"propagated in {outcome.propagated:.1f} s, recomputed in {outcome.recomputed:.1f} s"
    lines = [f"{query.name}: {outcome.strategy}, {outcome.rows} rows, changed {changed}, {outcome.verdict}, {seconds}"]
    return "\n    ".join([*lines, *outcome.details])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", choices=["tpch", "tpcds"], default="tpch")
    parser.add_argument("--queries", default="", help="numbers with commas; all of them if not given")
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--batches", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--together", type=int, default=8, help="how many views share a warehouse")
    given = parser.parse_args()
    numbers = {int(number) for number in given.queries.split(",") if number}
    chosen = tuple(query for query in queries(given.benchmark) if not numbers or query.number in numbers)

    def progress(line: str) -> None:
        print(line, flush=True)

    spark = local_session("parquet", SETTINGS)
    with tempfile.TemporaryDirectory(prefix="deltafold-tpc-") as folder:
        began = time.monotonic()
        benchmark = Benchmark(given.benchmark, chosen, given.scale, given.batches, given.seed, Path(folder))
        for number, changes in enumerate(benchmark.changes, start=1):
            kinds: Counter[str] = Counter()
            for counts in changes.values():
                kinds.update(counts)
            progress(f"batch {number} changes {len(changes)} tables: {json.dumps(dict(sorted(kinds.items())))}")
        progress(f"  made in {time.monotonic() - began:.0f} s")
        outcomes = maintain(spark, benchmark, given.together, progress)
    wrong = [name for name, outcome in outcomes.items() if not outcome.is_right]
    moved = sum(any(outcome.changed) for outcome in outcomes.values())
    progress(f"{len(outcomes) - len(wrong)} of {len(outcomes)} views equal, {moved} of them changed")
    progress(f"wrong: {', '.join(wrong)}" if wrong else "none is wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
