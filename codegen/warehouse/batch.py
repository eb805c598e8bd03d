"""What the jobs have in common: a batch, seen from the committed state."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from .bags import after, after_by_key, net_of
from .changes import changes_format, read_changes
from .errors import BatchRefused, WarehouseError
from .feed import AUTO, auto_batch, read_feed
from .names import CHANGE_TYPE, SIGN, column, folder, public
from .state import (
    pointer_of,
    require_plan,
    state_or_error,
)
from .storage import Storage


class Job:
    """A batch, seen from the committed state."""

    def __init__(self, spark: SparkSession, warehouse: str, batch: str, format: str, plan: dict[str, str]) -> None:
        self.spark = spark
        self.batch = str(batch)
        self.format = format
        self.plan = plan
        self.storage = Storage(spark, warehouse)
        self.files = self.storage.files
        self.state = state_or_error(self.files, self.storage.root)
        self.follows = self.batch == AUTO
        if self.follows:
            self.batch = auto_batch(self.state["version"] + 1)
        self._followed: dict[str, int] = {}  # the version up to which a table is followed
        self.is_applied = self.batch in self.state["batches"]
        self._changes: dict[str, DataFrame | None] = {}
        self._deltas: dict[str, dict[str, Any]] = {}
        self._deletes: dict[str, int] = {}  # of each table whose changes were counted
        if not self.is_applied:
            require_plan(self.state, plan, format)
            if not self.follows and not self.files.exists(self._changes_folder()):
                staged = ", ".join(self.files.names("changes")) or "none"
                raise WarehouseError(
                    f"there is no batch {self.batch}: {self.storage.path(self._changes_folder())} does not exist "
                    f"(batches there: {staged})"
                )

    def old(self, table: str) -> DataFrame:
        """A base table at the committed state."""
        return self.storage.read("tables", table, pointer_of(self.state, "tables", table))

    def stored(self, view: str) -> DataFrame:
        """A stored view at the committed state, hidden columns included."""
        return self.storage.read("views", view, pointer_of(self.state, "views", view))

    def changes(self, table: str) -> DataFrame:
        """The changed rows of a table: its columns, and `__sign`: 1 for a row that comes, -1 for one that goes."""
        schema = self.old(table).schema
        raw = self._raw_changes(table, schema)
        if raw is None:
            return self.old(table).select("*", F.lit(1).alias(SIGN)).where("false")
        present = {name.lower(): name for name in raw.columns}
        missing = [name for name in [*schema.names, CHANGE_TYPE] if name.lower() not in present]
        if missing:
            raise BatchRefused(f"batch {self.batch}: the changes of {table} have no column {', '.join(missing)}")
        columns = [column(present[field.name.lower()]).cast(field.dataType).alias(field.name) for field in schema]
        kind = column(present[CHANGE_TYPE])
        sign = F.when(kind.isin("insert", "update_postimage"), 1).when(kind.isin("delete", "update_preimage"), -1)
        return raw.select(*columns, sign.alias(SIGN), kind.alias(CHANGE_TYPE)).drop(CHANGE_TYPE)

    def new(self, table: str, key: list[str] | None = None) -> DataFrame:
        """A base table after the batch; by a key of columns that are never NULL, where one is declared."""
        old = self.old(table)
        if not self._has_changes(table):
            return old
        changes = self.changes(table)
        if self._deletes.get(table) == 0:
            return old.unionAll(changes.drop(SIGN))
        net = net_of(changes, old.columns)
        return after_by_key(old, net, old.columns, key) if key else after(old, net, old.columns, table)

    def new_view(self, view: str, changes: DataFrame) -> DataFrame:
        """A view after the batch, without its hidden columns, from its signed changes."""
        old = public(self.stored(view))
        names = old.columns
        types = {field.name: field.dataType for field in old.schema}
        typed = changes.select(*(column(name).cast(types[name]).alias(name) for name in names), column(SIGN))
        return after(old, net_of(typed, names), names, view)

    def delta(self, view: str) -> DataFrame:
        """The delta of a view, as it was written."""
        if view not in self._deltas:
            raise WarehouseError(f"batch {self.batch} has no delta of {view}; propagate it again")
        schema = StructType.fromJson(self._deltas[view]["schema"])
        return self.storage.read_parquet([f"{self._deltas_folder()}/{folder(view)}"], schema)

    def _changes_folder(self) -> str:
        return f"changes/{folder(self.batch)}"

    def _deltas_folder(self) -> str:
        return f"deltas/{folder(self.batch)}"

    def _has_changes(self, table: str) -> bool:
        return self._raw_changes(table, None) is not None

    def _raw_changes(self, table: str, schema: StructType | None) -> DataFrame | None:
        """The changes of a table as they were left in its folder; None if it has none."""
        if self.follows and table not in self._changes:
            since, until = pointer_of(self.state, "tables", table)["version"], self._followed.get(table)
            self._changes[table] = read_feed(self.storage, table, since, until) if until else None
        if table not in self._changes:
            path = f"{self._changes_folder()}/{folder(table)}"
            reader = changes_format(self.files, path)
            if reader is None:
                self._changes[table] = None
            else:
                self._changes[table] = read_changes(
                    self.spark, self.storage.path(path), reader, schema or self.old(table).schema
                )
        return self._changes[table]

    def _nothing_to_do(self) -> dict[str, Any]:
        return {"batch": AUTO, "unchanged": True} if self.follows else {"batch": self.batch, "already_applied": True}

    def _changes_fingerprint(self) -> list[list[Any]]:
        """Which files the batch consists of: to notice that it was written anew after it was propagated."""
        return [list(entry) for entry in self.files.listing(self._changes_folder())]
