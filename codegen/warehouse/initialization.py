"""Initialize: stores every view from its base tables."""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from .errors import WarehouseError
from .names import folder
from .state import (
    commit_state,
    newest_state,
    remove_unused,
)
from .storage import Storage, version_directory


class Initialization:
    """Stores every view from its base tables; `commit` makes them the state at once. Can be run again at any time."""

    def __init__(self, spark: SparkSession, warehouse: str, format: str, plan: dict[str, str]) -> None:
        self.spark = spark
        self.format = format
        self.plan = plan
        self.storage = Storage(spark, warehouse)
        self.files = self.storage.files
        self.previous = newest_state(self.files)
        if self.previous and self.previous["format"] != format:
            raise WarehouseError(
                f"the warehouse has the format {self.previous['format']}, these scripts are for {format}; "
                f"compile with --format {self.previous['format']}"
            )
        self.version = self.previous["version"] + 1 if self.previous else 0
        self._tables: dict[str, dict[str, Any]] = {}
        self._views: dict[str, dict[str, Any]] = {}
        self._rows: dict[str, int] = {}

    def table(self, name: str) -> DataFrame:
        """A base table: as the last state has it, or as it was put there."""
        if name not in self._tables:
            known = self.previous["tables"].get(name) if self.previous and self.format == "parquet" else None
            self._tables[name] = known or self.storage.base(name, self.format)
        return self.storage.read("tables", name, self._tables[name])

    def view(self, name: str) -> DataFrame:
        """A view that was stored before, in this initialization."""
        if name not in self._views:
            raise WarehouseError(f"view {name} is not stored yet")
        return self.storage.read("views", name, self._views[name])

    def store(self, view: str, df: DataFrame) -> None:
        """Store a view, hidden columns included."""
        observed = Observation()
        counted = df.observe(observed, F.count(F.lit(1)).alias("rows"))
        path = f"views/{folder(view)}"
        if self.format == "delta":
            _overwrite_delta(counted, self.storage.path(path), f"deltafold:init:{self.version}")
            self._views[view] = {"version": self.storage.delta_version(path)}
        else:
            path = version_directory("views", view, self.version)
            self.storage.write_parquet(path, counted)
            self._views[view] = {"paths": [path], "schema": df.schema.jsonValue()}
        self._rows[view] = observed.get.get("rows", 0)

    def commit(self) -> dict[str, Any]:
        """Make the stored views the state."""
        state = {
            "version": self.version,
            "format": self.format,
            "batches": self.previous["batches"] if self.previous else [],
            "plan": self.plan,
            "tables": {**(self.previous["tables"] if self.previous else {}), **self._tables},
            "views": self._views,
        }
        commit_state(self.files, state)
        remove_unused(self.files, state, self.previous)
        return {"version": self.version, "views": {view: {"rows": rows} for view, rows in self._rows.items()}}


def _overwrite_delta(frame: DataFrame, path: str, tag: str) -> None:
    """Write a DataFrame as the whole of a Delta table, whatever names its columns have."""
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", True).option("userMetadata", tag)
    if any(re.search(r"[ ,;{}()\n\t=]", name) for name in frame.columns):
        writer = writer.option("delta.columnMapping.mode", "name")
    writer.save(path)
