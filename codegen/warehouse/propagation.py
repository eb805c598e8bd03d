"""Propagate: from a batch to the deltas of the views."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from .bags import COPIES, net_of, touched
from .batch import Job
from .errors import BatchRefused
from .feed import versions_ahead
from .names import SIGN, column, folder, shown
from .state import (
    MARKER,
)

SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
ROWS_NAMED = 10


class Propagation(Job):
    """From a batch to the deltas of the views. Changes no table and no view."""

    def __init__(self, spark: SparkSession, warehouse: str, batch: str, format: str, plan: dict[str, str]) -> None:
        super().__init__(spark, warehouse, batch, format, plan)
        if self.follows:
            self._followed = versions_ahead(self.storage, self.state)
            self.is_applied = not self._followed
        self._fingerprint = [] if self.is_applied or self.follows else self._changes_fingerprint()
        self._kept: dict[str, DataFrame] = {}

    def check(self, table: str, not_null: list[str], insert_only: bool = False) -> None:
        """Refuse the batch if its changes of a table contradict the table; do nothing if there are none."""
        if self.is_applied or not self._has_changes(table):
            return
        changes = self.changes(table)
        problem = self._problem(table, not_null, insert_only)
        counts = problem.agg(
            F.count_if(column("problem").isNotNull()).alias("bad"), F.count_if(column(SIGN) < 0).alias("deletes")
        ).collect()[0]
        if counts["bad"]:
            self._refuse(table, problem.where("problem IS NOT NULL"), counts["bad"])
        self._deletes[table] = counts["deletes"]
        if counts["deletes"] and not self.follows:  # a feed tells what did happen
            self._check_deletes(table, changes)

    def _problem(self, table: str, not_null: list[str], insert_only: bool) -> DataFrame:
        """The changes, and for each row what is wrong with it by itself, or NULL."""
        rows = self.changes(table)
        reasons = [F.when(column(SIGN).isNull(), F.lit("its _change_type is none of " + ", ".join(SIGNS)))]
        if insert_only:
            reasons.append(F.when(column(SIGN) < 0, F.lit("it is a delete, and the table is declared insert only")))
        reasons += [F.when(column(name).isNull(), F.lit(f"{name} is NOT NULL")) for name in not_null]
        return rows.select("*", F.coalesce(*reasons).alias("problem"))

    def _check_deletes(self, table: str, changes: DataFrame) -> None:
        """Refuse net deletes of more copies than there are."""
        columns = changes.columns[:-1]
        gone = net_of(changes, columns).where(column(COPIES) < 0)
        lacking = touched(self.old(table), gone, columns).where(column(COPIES) < 0)
        problem = F.concat(F.lit("deleted "), -column(COPIES), F.lit(" more times than the table has it"))
        self._refuse(table, lacking.select(*(column(name) for name in columns), problem.alias("problem")))

    def _refuse(self, table: str, bad: DataFrame, count: int | None = None) -> None:
        """Refuse the batch, naming the first of the bad rows, if there are any."""
        rows = bad.limit(ROWS_NAMED + 1).collect()
        if not rows:
            return
        lines = [f"  {shown(_values(row))}: {row['problem']}" for row in rows[:ROWS_NAMED]]
        if len(rows) > ROWS_NAMED:
            lines.append(f"  and {count - ROWS_NAMED if count else 'some'} more")
        raise BatchRefused(
            f"batch {self.batch} is refused, nothing was changed: {table} has changes that cannot be\n"
            + "\n".join(lines)
        )

    def write_delta(self, view: str, df: DataFrame) -> None:
        """Write the delta of a view, over what an earlier try left."""
        if self.is_applied:
            return
        if not self._deltas:  # from the first delta on, those of an earlier try are not to be refreshed from
            self.files.remove(f"{self._deltas_folder()}/{MARKER}")
        observed = Observation()
        counted = df.observe(observed, F.count(F.lit(1)).alias("rows"))
        self.storage.write_parquet(f"{self._deltas_folder()}/{folder(view)}", counted)
        self._deltas[view] = {"rows": observed.get.get("rows", 0), "schema": df.schema.jsonValue()}

    def keep(self, step: Step) -> DataFrame:
        """What a step computes, kept for the steps that read it until all deltas are written."""
        if step.__name__ not in self._kept:
            self._kept[step.__name__] = step(self).persist()
        return self._kept[step.__name__]

    def done(self) -> dict[str, Any]:
        """Say that all deltas of the batch are written."""
        if self.is_applied:
            return self._nothing_to_do()
        for frame in self._kept.values():
            frame.unpersist()
        marker = {
            "batch": self.batch,
            "version": self.state["version"],
            "plan": self.plan,
            "changes": self._fingerprint,
            "followed": self._followed,
            "deltas": self._deltas,
        }
        self.files.replace(f"{self._deltas_folder()}/{MARKER}", json.dumps(marker, indent=1, sort_keys=True) + "\n")
        views = {view: {"delta_rows": delta["rows"]} for view, delta in self._deltas.items()}
        report: dict[str, Any] = {"batch": self.batch, "views": views}
        if self.follows:
            return report
        folders = {folder(table) for table in self.state["tables"]}
        ignored = [unquote(name) for name in self.files.names(self._changes_folder()) if name not in folders]
        ignored = [name for name in ignored if not name.startswith((".", "_"))]
        if ignored:
            report["ignored"] = ignored  # changes of tables that no view reads
        return report


Step = Callable[[Propagation], DataFrame]


def once(step: Step) -> Step:
    """A step that is computed once, however many steps read it."""

    @wraps(step)
    def kept(w: Propagation) -> DataFrame:
        return w.keep(step)

    return kept


def _values(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.asDict().items() if name not in ("problem", SIGN)}
