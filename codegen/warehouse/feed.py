"""The batch `auto`: base tables that others change, followed by the change data feed of Delta, version by version."""

from __future__ import annotations

from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from .errors import WarehouseError
from .names import folder
from .storage import HARMLESS, Storage

AUTO = "auto"


def auto_batch(version: int) -> str:
    """The id of the batch that leads to a state."""
    return f"{AUTO}-{version:08d}"


def versions_ahead(storage: Storage, state: dict[str, Any]) -> dict[str, int]:
    """The newest version of every base table whose rows others changed since the state."""
    if state["format"] != "delta":
        raise WarehouseError("--batch auto follows Delta tables; this warehouse has the format parquet: stage a batch")
    ahead = {}
    for table, pointer in sorted(state["tables"].items()):
        path = f"tables/{folder(table)}"
        newest = storage.delta_version(path)
        commits = storage.delta_history(path, newest - pointer["version"]) if newest > pointer["version"] else []
        for commit in commits:
            tag = commit["userMetadata"] or ""
            if tag.startswith("deltafold:restore:"):
                break  # what is older was undone
            if tag.startswith("deltafold:"):
                raise WarehouseError(
                    f"a refresh of batch {tag.split(':', 1)[1].rsplit(':', 2)[0]} died while it changed {table}; "
                    "run it again to its end"
                )
        if any(commit["operation"] not in HARMLESS for commit in commits):
            ahead[table] = newest
    return ahead


def read_feed(storage: Storage, table: str, since: int, until: int) -> DataFrame:
    """The rows that changed after one version of a Delta table, up to another."""
    path = f"tables/{folder(table)}"
    reader = storage.spark.read.format("delta").option("readChangeFeed", True)
    try:
        frame = reader.option("startingVersion", since + 1).option("endingVersion", until).load(storage.path(path))
        frame.isEmpty()  # only now is the feed asked for
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise WarehouseError(
            f"the change data feed of {table} cannot be read from version {since + 1} to {until} ({reason}); "
            f"ALTER TABLE {storage.delta_name(path)} SET TBLPROPERTIES (delta.enableChangeDataFeed = true), "
            "then run init again"
        ) from None
    return frame
