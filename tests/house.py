"""A warehouse for tests of the runtime: one table, three views, and the scripts that a compiler would have written."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

from deltafold.codegen.joined import warehouse_text
from pyspark.sql import DataFrame, SparkSession


def emitted() -> Any:
    """The module that stands beside generated scripts."""
    module = ModuleType("warehouse")
    exec(compile(warehouse_text(), "warehouse.py", "exec"), module.__dict__)
    return module


w = emitted()

PLAN = {"by_city": "f1", "total": "f2", "bag": "f3"}
ODD = "a.b `c` 'd"  # a column name with everything that needs quoting
SCHEMA = f"city STRING, qty INT, {w.quote(ODD)} STRING"
START = [("x", 1, "p"), ("x", 1, "p"), ("y", 2, "q"), (None, 3, None)]


def by_city(rows: DataFrame, count: str = "count(1)", total: str = "sum(qty)") -> DataFrame:
    return rows.groupBy("city").agg(w.F.expr(count).alias("__n"), w.F.expr(total).alias("total"))


class House:
    """The warehouse, in a directory and a format."""

    def __init__(self, spark: SparkSession, path: Path, format: str) -> None:
        self.spark, self.path, self.format = spark, path, format
        self.root = str(path)

    def write_base(self, rows: list[tuple[Any, ...]]) -> None:
        frame = self.spark.createDataFrame(rows, SCHEMA)
        writer = frame.write.format(self.format).option("delta.columnMapping.mode", "name")  # for the odd name
        writer.save(f"{self.root}/tables/pos")

    def batch(self, name: str, rows: list[tuple[Any, ...]], format: str = "parquet", schema: str = SCHEMA) -> None:
        frame = self.spark.createDataFrame(rows, f"{schema}, _change_type STRING")
        writer = frame.write.mode("overwrite").format(format).option("delta.columnMapping.mode", "name")
        writer.option("header", True).save(f"{self.root}/changes/{w.folder(name)}/pos")

    def initialize(self, plan: dict[str, str] = PLAN) -> dict[str, Any]:
        job = w.Initialization(self.spark, self.root, self.format, plan)
        pos = job.table("pos")
        job.store("by_city", by_city(pos))
        job.store("total", job.view("by_city").selectExpr("sum(__n) AS __n", "sum(total) AS total"))
        job.store("bag", pos.where("qty > 1").select("city", "qty"))
        return job.commit()

    def propagate(self, batch: str, not_null: tuple[str, ...] = (), insert_only: bool = False) -> dict[str, Any]:
        job = w.Propagation(self.spark, self.root, batch, self.format, PLAN)
        if job.is_applied:
            return job.done()
        job.check("pos", list(not_null), insert_only)
        changes = job.changes("pos")
        job.write_delta("by_city", by_city(changes, "sum(__sign)", "sum(qty * __sign)"))
        total = job.delta("by_city").selectExpr("coalesce(sum(__n), 0) AS __n", "coalesce(sum(total), 0) AS total")
        job.write_delta("total", total)
        job.write_delta("bag", changes.where("qty > 1").select("city", "qty", "__sign"))
        return job.done()

    def refresh(self, batch: str, crash_after: int = 99, plan: dict[str, str] = PLAN) -> dict[str, Any]:
        job = w.Refresh(self.spark, self.root, batch, self.format, plan)
        if job.is_applied:
            return job.commit()
        update = {"__n": "old.__n + sd.__n", "total": "coalesce(old.total, 0) + sd.total"}
        insert = {"__n": "sd.__n", "total": "sd.total"}
        steps = [
            lambda: job.merge("by_city", ["city"], "__n", update, insert),
            lambda: job.apply_changes("pos"),
            lambda: job.merge("total", [], "__n", update, insert),
            lambda: job.apply_bag("bag", ["city", "qty"]),
        ]
        for step in steps[:crash_after]:
            step()
        if crash_after < len(steps):
            raise RuntimeError("crash")
        return job.commit()

    def run(self, batch: str) -> dict[str, Any]:
        self.propagate(batch)
        return self.refresh(batch)

    def rows(self, view: str) -> Counter[Any]:
        return rows_of(w.read_view(self.spark, self.root, view))

    def table(self) -> Counter[Any]:
        return rows_of(w.read_table(self.spark, self.root, "pos"))

    def require(self, expected: list[tuple[Any, ...]]) -> None:
        """The table holds these rows, and every view is what they give."""
        assert self.table() == Counter(expected)
        rows = self.spark.createDataFrame(expected, SCHEMA)
        assert self.rows("by_city") == rows_of(by_city(rows).drop("__n"))
        assert self.rows("total") == Counter([(sum(row[1] for row in expected),)])
        assert self.rows("bag") == Counter((row[0], row[1]) for row in expected if row[1] > 1)


MIXED = [
    ("x", 1, "p", "delete"),
    ("y", 2, "q", "update_preimage"),
    ("y", 5, "q", "update_postimage"),
    (None, 4, None, "insert"),
    ("new", 7, "n", "insert"),
    ("new", 7, "n", "insert"),
    ("gone", 9, "n", "insert"),
    ("gone", 9, "n", "delete"),
]
AFTER = [("x", 1, "p"), ("y", 5, "q"), (None, 3, None), (None, 4, None), ("new", 7, "n"), ("new", 7, "n")]


def rows_of(frame: DataFrame) -> Counter[Any]:
    return Counter(map(tuple, frame.collect()))
