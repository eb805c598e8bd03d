"""A deltafold warehouse as a source: its commits are its versions.

Every state of a warehouse is committed at once and says which data each table consists of, so an answer that is read
through one state is read at one version. All tables have the version of the warehouse: what a commit did not touch has
an empty change. The log is the batches themselves, which must be kept until they were read. Sub-queries are small Spark
jobs, a second rather than a millisecond each: for sources that change by batches, not for sources that change all the
time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from ..codegen.warehouse.changes import changes_format, read_changes
from ..codegen.warehouse.names import CHANGE_TYPE, folder
from ..codegen.warehouse.propagation import SIGNS
from ..codegen.warehouse.state import STATE, newest_state, pointer_of
from ..codegen.warehouse.storage import Storage
from ..compiler.catalog import Catalog, Source
from ..compiler.joingraph import Node
from ..compiler.scalar import quote
from .answering import answer_rows
from .bag import Bag, Row, add, project, where
from .conditions import condition
from .install import option
from .maintainer import SourceError
from .messages import Answer, Change, Query, Update
from .postgres import expanded
from .values import Reader, reader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FEW_KEYS = 1000  # more than these are joined with, not listed


class WarehouseSource:
    """Tables of one warehouse that somebody else keeps."""

    def __init__(self, source: Source, catalog: Catalog, spark: SparkSession) -> None:
        self.name = source.name
        self.spark = spark
        self.storage = Storage(spark, expanded(option(source, "path", "")))
        tables = [table for name in source.tables if (table := catalog.table(name)) is not None]
        self._columns = {table.name: table.names for table in tables}
        self._readers: dict[str, list[Reader]] = {t.name: [reader(c.type) for c in t.columns] for t in tables}
        self._updates: dict[int, Update] = {}

    def close(self) -> None:
        """There is no connection to let go of."""

    def version(self) -> int:
        return int(self._state()["version"])

    def _state(self) -> dict[str, Any]:
        state = newest_state(self.storage.files)
        if state is None:
            raise SourceError(f"source {self.name}: {self.storage.root} was never initialized")
        return state

    # --- the log -----------------------------------------------------------------------------------------------------

    def updates(self, after: int, through: int | None = None, limit: int = 1000) -> list[Update]:
        """The commits after a version, in order."""
        last = min(self.version() if through is None else through, after + limit)
        for version in [known for known in self._updates if known <= after]:
            del self._updates[version]
        for version in range(after + 1, last + 1):
            if version not in self._updates:
                self._updates[version] = self._update(version)
        return [self._updates[version] for version in range(after + 1, last + 1)]

    def _update(self, version: int) -> Update:
        new = [batch for batch in self._batches(version) if batch not in self._batches(version - 1)]
        changes = {}
        for table, columns in self._columns.items():
            rows: Bag = {}
            for batch in new:
                add(rows, self._changed(batch, table))
            changes[table] = Change(version, columns, rows)
        return Update(self.name, version, changes)

    def _batches(self, version: int) -> list[str]:
        path = f"{STATE}/{version:08d}.json"
        if not self.storage.files.exists(path):
            raise SourceError(f"source {self.name}: {self.storage.path(path)} is gone; use source run --reload")
        batches: list[str] = json.loads(self.storage.files.read(path))["batches"]
        return batches

    def _changed(self, batch: str, table: str) -> Bag:
        files, own = self.storage.files, f"changes/{folder(batch)}"
        if not files.exists(own):
            raise SourceError(f"source {self.name}: the changes of batch {batch} are gone; use source run --reload")
        path = f"{own}/{folder(table)}"
        format = changes_format(files, path)
        if format is None:
            return {}
        schema = self._frame(self._state(), table).schema
        frame = read_changes(self.spark, self.storage.path(path), format, schema)
        rows: Bag = {}
        for kind, *values in frame.selectExpr(quote(CHANGE_TYPE), *self._texts(table)).collect():
            add(rows, {self._row(table, values): SIGNS[kind]})
        return rows

    # --- rows --------------------------------------------------------------------------------------------------------

    def _frame(self, state: Mapping[str, Any], table: str) -> DataFrame:
        return self.storage.read("tables", table, pointer_of(dict(state), "tables", table))

    def _texts(self, table: str) -> list[str]:
        return [f"CAST({quote(column)} AS STRING)" for column in self._columns[table]]

    def _row(self, table: str, values: list[str | None]) -> Row:
        return tuple(None if v is None else r(v) for r, v in zip(self._readers[table], values, strict=True))

    def _collected(self, node: Node, frame: DataFrame) -> Bag:
        rows: Bag = {}
        for values in frame.selectExpr(*self._texts(node.table)).collect():
            add(rows, {self._row(node.table, list(values)): 1})
        return self._seen(node, rows)

    def _seen(self, node: Node, rows: Bag) -> Bag:
        columns = self._columns[node.table]
        kept = project(rows, tuple(columns.index(column) for column in node.columns))
        return where(kept, condition(node.filters, node.columns))

    def answer(self, query: Query) -> tuple[int, Answer]:
        """The rows asked for, all through one state."""
        state = self._state()
        version = int(state["version"])

        def matching(node: Node, columns: tuple[str, ...], keys: frozenset[Row]) -> Bag:
            if not keys:
                return {}
            frame = self._frame(state, node.table)
            if len(keys) <= FEW_KEYS:
                frame = frame.where(" OR ".join(_equal(columns, key) for key in sorted(keys, key=repr)))
            own = node.positions(columns)
            return where(self._collected(node, frame), lambda row: tuple(row[i] for i in own) in keys)

        def changed_since(node: Node, since: int) -> list[Row]:
            updates = self.updates(since, version)
            return [row for update in updates for row in self._seen(node, dict(update.changes[node.table].rows))]

        rows = answer_rows(query, matching, changed_since)
        versions = {ask.node.table: version for ask in query.asks}
        return version, Answer(query.number, self.name, versions, rows)

    def snapshot(self, nodes: list[Node]) -> tuple[int, dict[str, int], dict[str, Bag]]:
        """All rows of some nodes at one version."""
        state = self._state()
        rows = {node.name: self._collected(node, self._frame(state, node.table)) for node in nodes}
        return int(state["version"]), {node.table: int(state["version"]) for node in nodes}, rows


def _equal(columns: tuple[str, ...], key: Row) -> str:
    """A condition of Spark SQL; values are literals, never text of their own."""
    parts = []
    for column, value in zip(columns, key, strict=True):
        literal = exp.Literal.string(str(value)) if not isinstance(value, int | bool) else exp.convert(value)
        parts.append(f"{quote(column)} = {literal.sql('spark')}")
    return "(" + " AND ".join(parts) + ")"
