"""The changes of a batch, as somebody left them: Parquet, Delta, CSV or JSON lines."""

from __future__ import annotations

import os
import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from .errors import WarehouseError
from .files import Files
from .names import CHANGE_TYPE

FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
COMPRESSED = re.compile(r"\.(gz|bz2|zst|snappy|lz4|deflate)$")


def changes_format(files: Files, path: str) -> str | None:
    """How a folder of changes is to be read, by its files' extensions; None if there are no files."""
    if files.exists(f"{path}/_delta_log"):
        return "delta"
    names = [name for name, _, _ in files.listing(path)]
    data = [name for name in names if not any(part.startswith(("_", ".")) for part in name.split(os.sep))]
    found = {FORMATS.get(os.path.splitext(COMPRESSED.sub("", name))[1].lower(), name) for name in data}
    if len(found) > 1 or found - set(FORMATS.values()):
        raise WarehouseError(
            f"{path} holds {', '.join(sorted(found))}: changes are all Parquet, all CSV (.csv), "
            "all JSON lines (.json, .jsonl), or a Delta table"
        )
    return found.pop() if found else None


def read_changes(spark: SparkSession, path: str, format: str, schema: StructType) -> DataFrame:
    """The files of a folder of changes; CSV and JSON with the table's types."""
    if format in ("parquet", "delta"):
        return spark.read.format(format).load(path)
    reader = spark.read.option("mode", "FAILFAST")
    if format == "json":
        return reader.schema(StructType([*schema.fields, StructField(CHANGE_TYPE, StringType())])).json(path)
    # The header says which column is where; enforceSchema=false has Spark compare the header of every file with it.
    header = spark.read.option("header", True).csv(path).columns
    types = {field.name.lower(): field.dataType for field in schema}
    fields = [StructField(name, types.get(name.lower(), StringType())) for name in header]
    return reader.option("header", True).option("enforceSchema", False).schema(StructType(fields)).csv(path)
