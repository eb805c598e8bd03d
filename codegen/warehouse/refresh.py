"""Refresh: applies a batch and the deltas of its views."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from .bags import COPIES, after, expanded, net_of, touched
from .batch import Job
from .errors import WarehouseError, refusals
from .feed import versions_ahead
from .merge import Merge
from .names import SIGN, column, folder, quote
from .state import (
    commit_state,
    marker_of,
    pointer_of,
    remove_unused,
)
from .storage import HARMLESS, version_directory

# An append adds a directory to a base table; with this many of them it is written anew, as one.
MAX_DIRECTORIES = 64


class Refresh(Job):
    """Applies a batch and the deltas of its views; `commit` makes all of it the state at once."""

    def __init__(self, spark: SparkSession, warehouse: str, batch: str, format: str, plan: dict[str, str]) -> None:
        super().__init__(spark, warehouse, batch, format, plan)
        self.version = self.state["version"] + 1
        self.tag = ""
        self._new: dict[tuple[str, str], dict[str, Any]] = {}
        self._counts: dict[tuple[str, str], dict[str, int]] = {}
        if self.follows and marker_of(self.files, self.batch) is None:
            self.is_applied = not versions_ahead(self.storage, self.state)
        if not self.is_applied:
            marker = self._propagated()
            self._deltas = marker["deltas"]
            self._followed = marker["followed"]
            # Of these very changes: a batch may be written anew after a refresh of it died.
            digest = hashlib.sha256(json.dumps([marker["changes"], marker["followed"]]).encode()).hexdigest()
            self.tag = f"deltafold:{self.batch}:{self.version}:{digest[:16]}"

    def _propagated(self) -> dict[str, Any]:
        """What propagate left, if it is of this state, this plan and these changes."""
        marker = marker_of(self.files, self.batch)
        if marker is None:
            raise WarehouseError(f"batch {self.batch} was never propagated, or not to the end; propagate it first")
        if marker["version"] != self.state["version"]:
            raise WarehouseError(
                f"batch {self.batch} was propagated against state {marker['version']}, "
                f"the warehouse is at {self.state['version']}; propagate it again"
            )
        if marker["plan"] != self.plan:
            raise WarehouseError(f"batch {self.batch} was propagated with another plan; propagate it again")
        if not self.follows and marker["changes"] != self._changes_fingerprint():
            raise WarehouseError(f"the changes of batch {self.batch} were written anew since; propagate it again")
        return marker

    # What is applied, either format.

    def apply_changes(self, table: str) -> None:
        """A base table without the rows that the batch deletes, and with those that it inserts."""
        if self.is_applied:
            return
        changes = self.changes(table)
        if self.follows:  # the table has the rows already; the state moves on to them
            committed = pointer_of(self.state, "tables", table)["version"]
            self._new["tables", table] = {"version": self._followed.get(table, committed)}
            plus, minus = self._plus_minus(changes)
            self._count("tables", table, inserted=plus, deleted=minus)
            return
        if not self._has_changes(table):
            self._keep("tables", table)
            return
        self._apply_signed("tables", table, changes, changes.columns[:-1])

    def apply_bag(self, view: str, columns: list[str]) -> None:
        """A view without the rows that its delta deletes, and with those that it inserts."""
        if self._nothing_for(view):
            return
        schema = self.stored(view).schema
        types = {field.name: field.dataType for field in schema}
        typed = [column(name).cast(types[name]).alias(name) for name in schema.names if name in columns]
        self._apply_signed("views", view, self.delta(view).select(*typed, column(SIGN)), schema.names)

    def replace(self, view: str, df: DataFrame) -> None:
        """A view computed anew."""
        if self.is_applied or self._done_before("views", view):
            return
        observed = Observation()
        schema = self.stored(view).schema
        typed = df.select(*(column(field.name).cast(field.dataType).alias(field.name) for field in schema))
        self._write("views", view, typed.observe(observed, F.count(F.lit(1)).alias("rows")), "overwrite")
        self._count("views", view, written=observed.get.get("rows", 0))

    def merge(self, view: str, key: list[str], count: str, update: dict[str, str], insert: dict[str, str]) -> None:
        """Merge the delta (`sd`) into the stored view (`old`), row by row, on null-safe equality of the key.

        `update` and `insert` give an SQL expression for every column that is not in the key. A row whose count
        reaches 0 dies, except without a key: such a view has exactly one row, always.
        """
        if self._nothing_for(view):
            return
        merge = Merge(view, self.stored(view).schema, key, count, update, insert)
        if self.format == "delta":
            self._merge_delta(merge)
        else:
            self._merge_parquet(merge)

    def _merge_parquet(self, merge: Merge) -> None:
        observed = Observation()
        joined = (
            self.stored(merge.view)
            .alias("old")
            .join(self.delta(merge.view).alias("sd"), F.expr(merge.same_key()), "full_outer")
        )
        fates = {"inserted": merge.comes(), "updated": merge.stays(), "deleted": merge.dies()}
        counted = joined.observe(observed, *(F.count_if(F.expr(sql)).alias(name) for name, sql in fates.items()))
        kept = counted.where(f"NOT ({merge.dies()}) AND NOT ({merge.is_void()})")
        self._write("views", merge.view, kept.select(*merge.new_columns()), "overwrite")
        self._count("views", merge.view, **{name: observed.get.get(name, 0) for name in fates})

    def _merge_delta(self, merge: Merge) -> None:
        with self.storage.named(self.delta(merge.view)) as source:
            sql = merge.statement(self.storage.delta_name(f"views/{folder(merge.view)}"), source)
            metrics = self._run_delta("views", merge.view, sql)
        self._count(
            "views",
            merge.view,
            inserted=metrics["num_inserted_rows"],
            updated=metrics["num_updated_rows"],
            deleted=metrics["num_deleted_rows"],
        )

    def _apply_signed(self, kind: str, name: str, signed: DataFrame, columns: list[str]) -> None:
        """Apply signed rows to a table or view; where nothing is deleted, that is an append."""
        if self._done_before(kind, name):
            return
        pointer = pointer_of(self.state, kind, name)
        plus, minus = self._plus_minus(signed)
        net = signed
        if minus:
            net = net_of(signed, columns)
            plus, minus = self._plus_minus(net.withColumnRenamed(COPIES, SIGN))
        self._count(kind, name, inserted=plus, deleted=minus)
        if not plus and not minus:
            self._new[kind, name] = pointer
        elif not minus:
            rows = signed.drop(SIGN) if net is signed else expanded(net, columns, name)
            self._append(kind, name, pointer, rows)
        elif self.format == "delta":
            self._replace_rows(kind, name, net, columns)
        else:
            old = self.storage.read(kind, name, pointer)
            self._write(kind, name, after(old, net, columns, name), "overwrite")

    def _plus_minus(self, signed: DataFrame) -> tuple[int, int]:
        """How many rows come and how many go."""
        plus = F.sum(F.greatest(column(SIGN), F.lit(0))).alias("plus")
        minus = F.sum(F.greatest(-column(SIGN), F.lit(0))).alias("minus")
        row = signed.agg(plus, minus).collect()[0]
        return row["plus"] or 0, row["minus"] or 0

    def _append(self, kind: str, name: str, pointer: dict[str, Any], rows: DataFrame) -> None:
        if self.format == "parquet" and len(pointer["paths"]) >= MAX_DIRECTORIES:
            self._write(kind, name, self.storage.read(kind, name, pointer).unionAll(rows), "overwrite")
        else:
            self._write(kind, name, rows, "append")

    def _replace_rows(self, kind: str, name: str, net: DataFrame, columns: list[str]) -> None:
        """Delete every copy of a changed row of a Delta table, and insert as many as there are to be; one MERGE."""
        old = self.storage.read(kind, name, pointer_of(self.state, kind, name))
        gone = net.where(column(COPIES) < 0).drop(COPIES).select("*", F.lit("d").alias(COPIES))
        there = expanded(touched(old, net, columns), columns, name).select("*", F.lit("i").alias(COPIES))
        same = " AND ".join(f"old.{quote(one)} <=> sd.{quote(one)}" for one in columns)
        with self.storage.named(gone.unionAll(there)) as source:
            self._run_delta(
                kind,
                name,
                f"MERGE INTO {self.storage.delta_name(f'{kind}/{folder(name)}')} AS old USING {source} AS sd\n"
                f"ON sd.{COPIES} = 'd' AND {same}\n"
                f"WHEN MATCHED THEN DELETE\n"
                f"WHEN NOT MATCHED AND sd.{COPIES} = 'i' THEN INSERT ({', '.join(map(quote, columns))})\n"
                f"VALUES ({', '.join('sd.' + quote(one) for one in columns)})",
            )

    # Where it goes.

    def _nothing_for(self, view: str) -> bool:
        """Whether a view needs no work: applied, or its delta is empty."""
        if self.is_applied:
            return True
        if view not in self._deltas:
            raise WarehouseError(f"batch {self.batch} has no delta of {view}; propagate it again")
        if not self._deltas[view]["rows"]:
            self._keep("views", view)
            return True
        return self._done_before("views", view)

    def _keep(self, kind: str, name: str) -> None:
        """Leave a table or view as it is."""
        if not self._done_before(kind, name):
            self._new[kind, name] = pointer_of(self.state, kind, name)
            self._count(kind, name, inserted=0, **({"updated": 0} if kind == "views" else {}), deleted=0)

    def _done_before(self, kind: str, name: str) -> bool:
        """Whether this object, or for Delta an earlier process that died, did the work already."""
        if (kind, name) in self._new:
            return True
        if self.format != "delta":
            return False
        version = self._applied_version(kind, name, pointer_of(self.state, kind, name)["version"])
        if version is None:
            return False
        self._new[kind, name] = {"version": version}
        return True

    def _applied_version(self, kind: str, name: str, committed: int) -> int | None:
        """The version of a Delta table with this batch, if there is one; undoes what another try left.

        A refresh that died leaves commits that no state refers to. If they are of this batch, they are its work; if
        they are of another, the table goes back to the version of the state. Anything else was not written by us.
        """
        path = f"{kind}/{folder(name)}"
        ahead = self.storage.delta_version(path) - committed
        commits = self.storage.delta_history(path, ahead) if ahead > 0 else []
        leftover = False
        for commit in commits:
            tag = commit["userMetadata"] or ""
            restored = (commit["operationParameters"] or {}).get("version") == str(committed)
            if commit["operation"] == "RESTORE" and restored:
                break
            if tag == self.tag and not leftover:
                return int(commit["version"])
            if tag.startswith("deltafold:"):
                leftover = True
            elif commit["operation"] not in HARMLESS:
                raise WarehouseError(
                    f"the Delta table {self.storage.path(path)} was changed by others: version {commit['version']}, "
                    f"{commit['operation']}; restore it to version {committed}, "
                    "or run init again; to follow such changes, use --batch auto"
                )
        if leftover:
            with self.storage.tagged(f"deltafold:restore:{self.version}"):
                self.spark.sql(f"RESTORE TABLE {self.storage.delta_name(path)} TO VERSION AS OF {committed}").collect()
        return None

    def _run_delta(self, kind: str, name: str, sql: str) -> dict[str, int]:
        """Run a MERGE, and note the version that it made."""
        with self.storage.tagged(self.tag), refusals():
            metrics: dict[str, int] = self.spark.sql(sql).collect()[0].asDict()
        self._note_version(kind, name)
        return metrics

    def _note_version(self, kind: str, name: str) -> None:
        committed = pointer_of(self.state, kind, name)["version"]
        version = self._applied_version(kind, name, committed)
        self._new[kind, name] = {"version": committed if version is None else version}

    def _write(self, kind: str, name: str, rows: DataFrame, mode: str) -> None:
        """Write new rows beside the committed ones."""
        if self.format == "delta":
            writer = rows.write.format("delta").mode(mode).option("userMetadata", self.tag)
            with refusals():
                writer.save(self.storage.path(f"{kind}/{folder(name)}"))
            self._note_version(kind, name)
            return
        pointer = pointer_of(self.state, kind, name)
        path = version_directory(kind, name, self.version)
        self.storage.write_parquet(path, rows)
        paths = [*pointer["paths"], path] if mode == "append" else [path]
        self._new[kind, name] = {"schema": pointer["schema"], "paths": paths}

    def _count(self, kind: str, name: str, **counts: int) -> None:
        if kind == "views" and "deleted" in counts:
            counts.setdefault("updated", 0)
        self._counts[kind, name] = counts

    def commit(self) -> dict[str, Any]:
        """Make what was applied the state: base tables and all views at once."""
        if self.is_applied:
            return self._nothing_to_do()
        self._require_complete()
        state = {
            **self.state,
            "version": self.version,
            "batches": [*self.state["batches"], self.batch],
            "tables": self._pointers("tables"),
            "views": self._pointers("views"),
        }
        commit_state(self.files, state)
        remove_unused(self.files, state, self.state)
        self.is_applied = True
        return {"batch": self.batch, "views": self._report("views"), "tables": self._report("tables")}

    def _pointers(self, kind: str) -> dict[str, Any]:
        return {**self.state[kind], **{name: new for (one, name), new in self._new.items() if one == kind}}

    def _report(self, kind: str) -> dict[str, dict[str, Any]]:
        """Counts of rows; for what an earlier try of this batch had written, only that."""
        return {
            name: self._counts.get((kind, name), {"by_an_earlier_try": True}) for one, name in self._new if one == kind
        }

    def _require_complete(self) -> None:
        """A commit that left out a changed table or view would lose its part of the batch for good."""
        tables = [name for name in self.state["tables"] if ("tables", name) not in self._new]
        forgotten = [name for name in tables if self._has_changes(name)]
        forgotten += [
            view
            for view, delta in self._deltas.items()
            if view in self.state["views"] and delta["rows"] and ("views", view) not in self._new
        ]
        if forgotten:
            raise WarehouseError(f"nothing was committed: changes of {', '.join(forgotten)} were not applied")
