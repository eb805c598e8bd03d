"""For readers: tables and views at the committed state, and what a warehouse holds."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession

from .feed import auto_batch
from .files import located
from .names import public
from .state import marker_of, newest_state, pointer_of, state_or_error
from .storage import Storage


def read_table(spark: SparkSession, warehouse: str, name: str) -> DataFrame:
    """A base table at the committed state."""
    return _read_committed(spark, warehouse, "tables", name)


def read_view(spark: SparkSession, warehouse: str, name: str, hidden: bool = False) -> DataFrame:
    """A stored view at the committed state; its hidden columns and rows too, if asked for."""
    frame = _read_committed(spark, warehouse, "views", name)
    return frame if hidden else public(frame)


def _read_committed(spark: SparkSession, warehouse: str, kind: str, name: str) -> DataFrame:
    storage = Storage(spark, warehouse)
    state = state_or_error(storage.files, storage.root)
    return storage.read(kind, name, pointer_of(state, kind, name))


def status(warehouse: str, spark: SparkSession | None = None) -> dict[str, Any]:
    """What a warehouse holds: its state, batches applied, staged, and propagated but not refreshed.

    A session is needed only for a warehouse that is not a directory of this machine.
    """
    _, files = located(spark, warehouse)
    state = newest_state(files)
    applied = state["batches"] if state else []
    batches = [unquote(name) for name in files.names("changes") if not name.startswith((".", "_"))]
    staged = [batch for batch in batches if batch not in applied]
    version = state["version"] if state else None
    followed = [auto_batch(state["version"] + 1)] if state else []
    markers = {batch: marker_of(files, batch) for batch in [*staged, *followed]}
    return {
        "initialized": state is not None,
        "version": version,
        "format": state["format"] if state else None,
        "tables": sorted(state["tables"]) if state else [],
        "views": sorted(state["views"]) if state else [],
        "applied": applied,
        "staged": staged,
        "propagated": [batch for batch, marker in markers.items() if marker and marker["version"] == version],
    }
