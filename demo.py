"""`deltafold demo`: the retail warehouse of the 1997 paper, from nothing to a refreshed view, with the times."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from .codegen.emit import emit, write
from .compiler.pipeline import compile_file
from .compiler.plan import Plan
from .runner import load_scripts, local_session
from .verify import expected_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXAMPLE = Path(__file__).parent / "examples" / "retail.sql"
STORES, ITEMS, DAYS = 100, 1_000, 365


def run(directory: Path, format: str, rows: int, changes: int, progress: Console) -> bool:
    """Runs the demo; whether every view was equal to recomputation."""
    out = Console(highlight=False, soft_wrap=True)
    plan = compile_file(EXAMPLE)
    compiled, warehouse = directory / "compiled", directory / "warehouse"
    write(emit(plan, format), compiled)
    out.print(f"compiled {EXAMPLE.name} to {compiled}")
    for view in plan.views:
        out.print(f"  {view.name:<10} {view.strategy}, by {', '.join(view.key)}", markup=False)
    times: dict[str, float] = {}
    with progress.status("starting Spark") as status:
        spark = local_session(format)
        scripts = load_scripts(compiled)

        def timed(name: str, doing: str, work: Any) -> Any:
            status.update(doing)
            start = time.perf_counter()
            result = work()
            times[name] = time.perf_counter() - start
            out.print(f"{doing}: {times[name]:.1f} s")
            return result

        timed("data", f"writing a warehouse of {rows:,} sales", lambda: _write_tables(spark, warehouse, format, rows))
        timed("init", "storing the views", lambda: scripts.initialize(spark, str(warehouse)))
        timed("stage", f"staging a batch of about {changes:,} changes", lambda: _stage(spark, warehouse, changes))
        timed("propagate", "propagating the batch", lambda: scripts.propagate(spark, str(warehouse), "day1"))
        report = timed("refresh", "refreshing the views", lambda: scripts.refresh(spark, str(warehouse), "day1"))
        equal = timed("recompute", "recomputing every view, to compare", lambda: _compare(spark, plan, warehouse))
    table = Table("view", "rows in", "rows changed", "rows out", "equal to recomputation")
    for view in plan.views:
        counts = report["views"][view.name]
        changed = [f"{counts.get(kind, 0):,}" for kind in ("inserted", "updated", "deleted")]
        table.add_row(view.name, *changed, "yes" if equal[view.name] else "NO")
    out.print(table)
    out.print(
        f"propagate {times['propagate']:.1f} s, refresh {times['refresh']:.1f} s; "
        f"recomputation and comparison {times['recompute']:.1f} s"
    )
    return all(equal.values())


def _write_tables(spark: SparkSession, warehouse: Path, format: str, rows: int) -> None:
    tables = {
        "stores": spark.range(STORES).selectExpr(
            "CAST(id AS INT) AS storeID",
            "concat('city', CAST(id % 20 AS STRING)) AS city",
            "concat('region', CAST(id % 20 % 4 AS STRING)) AS region",
        ),
        "items": spark.range(ITEMS).selectExpr(
            "CAST(id AS INT) AS itemID",
            "concat('item', CAST(id AS STRING)) AS name",
            "concat('category', CAST(id % 20 AS STRING)) AS category",
            "CAST(id % 97 AS DECIMAL(10,2)) AS cost",
        ),
        "pos": spark.range(rows).selectExpr(*_sale("id")),
    }
    for name, frame in tables.items():
        frame.coalesce(2).write.format(format).mode("overwrite").save(str(warehouse / "tables" / name))


def _sale(number: str) -> list[str]:
    return [
        f"CAST(pmod(hash({number}, 1), {STORES}) AS INT) AS storeID",
        f"CAST(pmod(hash({number}, 2), {ITEMS}) AS INT) AS itemID",
        f"date_add(DATE'2025-01-01', CAST(pmod(hash({number}, 3), {DAYS}) AS INT)) AS date",
        f"IF(pmod(hash({number}, 4), 50) = 0, NULL, CAST(1 + pmod(hash({number}, 5), 9) AS INT)) AS qty",
        f"CAST(pmod(hash({number}, 6), 10000) / 100 AS DECIMAL(10,2)) AS price",
    ]


def _stage(spark: SparkSession, warehouse: Path, changes: int) -> None:
    """Sales inserted, deleted and corrected, and a store that moves to another city."""
    from .codegen.warehouse import read_table

    third = max(1, changes // 3)
    pos = read_table(spark, str(warehouse), "pos")
    chosen = pos.orderBy("storeID", "itemID", "date", "qty", "price").limit(2 * third).collect()
    schema = pos.schema
    deleted = spark.createDataFrame(chosen[:third], schema)
    before = spark.createDataFrame(chosen[third:], schema)
    inserted = spark.range(10_000_000, 10_000_000 + third).selectExpr(*_sale("id"))
    corrected = before.selectExpr("storeID", "itemID", "date", "coalesce(qty, 0) + 1 AS qty", "price")
    _changes(
        [(inserted, "insert"), (deleted, "delete"), (before, "update_preimage"), (corrected, "update_postimage")],
        warehouse / "changes" / "day1" / "pos",
    )
    store = read_table(spark, str(warehouse), "stores").where("storeID = 7")
    moved = store.selectExpr("storeID", "'city19' AS city", "'region3' AS region")
    _changes([(store, "update_preimage"), (moved, "update_postimage")], warehouse / "changes" / "day1" / "stores")


def _changes(frames: list[tuple[DataFrame, str]], path: Path) -> None:
    typed = [frame.selectExpr("*", f"'{kind}' AS _change_type") for frame, kind in frames]
    together = typed[0]
    for frame in typed[1:]:
        together = together.unionByName(frame)
    together.coalesce(1).write.mode("overwrite").parquet(str(path))


def _compare(spark: SparkSession, plan: Plan, warehouse: Path) -> dict[str, bool]:
    from .codegen.warehouse import read_table, read_view

    tables = {name: read_table(spark, str(warehouse), name) for name in plan.tables}
    equal = {}
    for name, expected in expected_views(spark, plan, tables).items():
        actual = read_view(spark, str(warehouse), name)
        both = expected.selectExpr("*", "1 AS __sign").unionByName(actual.selectExpr("*", "-1 AS __sign"))
        sums = both.groupBy(*expected.columns).sum("__sign")
        equal[name] = sums.where("`sum(__sign)` <> 0").isEmpty()
    return equal
