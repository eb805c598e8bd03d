"""Reads and writes the data of tables and views of one warehouse."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from .errors import WarehouseError, refusals
from .files import located
from .names import column, folder, quote
from .state import VERSIONED

# Operations on a Delta table that leave its rows as they are.
HARMLESS = {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "REORG", "FSCK"}
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


class Storage:
    """Reads and writes the data of tables and views of one warehouse."""

    def __init__(self, spark: SparkSession, warehouse: str) -> None:
        self.spark = spark
        self.root, self.files = located(spark, warehouse)

    def path(self, path: str) -> str:
        return f"{self.root}/{path}"

    def read(self, kind: str, name: str, pointer: dict[str, Any]) -> DataFrame:
        """A table or view as a state has it."""
        if "version" in pointer:
            reader = self.spark.read.format("delta").option("versionAsOf", pointer["version"])
            return reader.load(self.path(f"{kind}/{folder(name)}"))
        schema = StructType.fromJson(pointer["schema"])
        ours = [path for path in pointer["paths"] if VERSIONED.fullmatch(path.rsplit("/", 1)[1])]
        theirs = [path for path in pointer["paths"] if path not in ours]
        # What users wrote may be partitioned: read apart, each directory has its own partition columns.
        parts = [self.read_parquet(group, schema) for group in (theirs, ours) if group]
        return parts[0] if len(parts) == 1 else parts[0].unionAll(parts[1])

    def read_parquet(self, paths: list[str], schema: StructType) -> DataFrame:
        frame = self.spark.read.schema(schema).parquet(*(self.path(path) for path in paths))
        return frame.select(*(column(name) for name in schema.names))

    def write_parquet(self, path: str, frame: DataFrame) -> None:
        with refusals():
            frame.write.mode("overwrite").parquet(self.path(path))

    def base(self, name: str, format: str) -> dict[str, Any]:
        """The pointer to a base table that no state knows yet."""
        path = f"tables/{folder(name)}"
        if not self.files.exists(path):
            raise WarehouseError(f"there is no base table {name}: {self.path(path)} does not exist")
        is_delta = self.files.exists(f"{path}/_delta_log")
        if is_delta != (format == "delta"):
            found, remedy = (
                ("a Delta table", "compile with --format delta")
                if is_delta
                else ("not a Delta table", "convert it with CONVERT TO DELTA, or compile with --format parquet")
            )
            raise WarehouseError(f"base table {name} at {self.path(path)} is {found}: {remedy}")
        if is_delta:
            return {"version": self.delta_version(path)}
        return {"paths": [path], "schema": self.spark.read.parquet(self.path(path)).schema.jsonValue()}

    def delta_name(self, path: str) -> str:
        """A Delta table in SQL."""
        return "delta." + quote(self.path(path))

    def delta_history(self, path: str, limit: int) -> list[Any]:
        """The newest commits to a Delta table, newest first."""
        return self.spark.sql(f"DESCRIBE HISTORY {self.delta_name(path)} LIMIT {limit}").collect()

    def delta_version(self, path: str) -> int:
        return int(self.delta_history(path, 1)[0]["version"])

    @contextlib.contextmanager
    def tagged(self, tag: str) -> Iterator[None]:
        """Commits of SQL statements within carry this userMetadata."""
        before = self.spark.conf.get(USER_METADATA, None)
        self.spark.conf.set(USER_METADATA, tag)
        try:
            yield
        finally:
            if before is None:
                self.spark.conf.unset(USER_METADATA)
            else:
                self.spark.conf.set(USER_METADATA, before)

    @contextlib.contextmanager
    def named(self, frame: DataFrame) -> Iterator[str]:
        """A name for a DataFrame within SQL statements."""
        name = f"deltafold_{uuid.uuid4().hex}"
        frame.createOrReplaceTempView(name)
        try:
            yield name
        finally:
            self.spark.catalog.dropTempView(name)


def version_directory(kind: str, name: str, version: int) -> str:
    """A new directory for a table or view. The underscore hides it from whoever reads the parent as one table."""
    return f"{kind}/{folder(name)}/_{version:08d}-{uuid.uuid4().hex[:8]}"
