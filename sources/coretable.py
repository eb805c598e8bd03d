"""A core as a table of a deltafold warehouse: each change of it is a batch, and the views above it follow.

A *position* says which batch brought the core where, and the versions of the sources that it then reflects:

    W/_deltafold/sources/CORE/00000007.json   {"batch": …, "versions": {source: …}, "refreshed": {node: …}}

The changes of a batch are written first, then its position, then the generated scripts propagate and refresh it. The
warehouse applies a batch once, however often it is run; so whoever finds a position whose batch is not applied applies
it, and is at that position. A process killed anywhere loses nothing and does nothing twice. Transactions that do not
change the core make no batch; they only move the versions of the last position on.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from ..codegen.warehouse.files import Files, located
from ..codegen.warehouse.names import CHANGE_TYPE, folder
from ..codegen.warehouse.reading import read_table
from ..codegen.warehouse.state import newest_state
from ..compiler.plan import ViewCore
from ..compiler.scalar import quote
from .bag import Bag, Row, add
from .messages import Apply
from .values import reader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from ..runner import Scripts

POSITIONS = "_deltafold/sources"


@dataclass(frozen=True)
class Position:
    """Where a core is."""

    number: int
    batch: str | None
    versions: Mapping[str, int]
    refreshed: Mapping[str, int]

    @property
    def text(self) -> str:
        data = {"batch": self.batch, "versions": dict(self.versions), "refreshed": dict(self.refreshed)}
        return json.dumps(data, indent=1, sort_keys=True) + "\n"


def read_position(files: Files, core: str) -> Position | None:
    """The newest position of a core."""
    names = [name for name in files.names(f"{POSITIONS}/{folder(core)}") if re.fullmatch(r"\d{8,}\.json", name)]
    if not names:
        return None
    newest = max(names, key=lambda name: int(name[:-5]))
    data = json.loads(files.read(f"{POSITIONS}/{folder(core)}/{newest}"))
    return Position(int(newest[:-5]), data["batch"], data["versions"], data["refreshed"])


class CoreTable:
    """One core in one warehouse."""

    def __init__(self, spark: SparkSession, scripts: Scripts, warehouse: str, view: ViewCore) -> None:
        self.spark = spark
        self.scripts = scripts
        self.warehouse = warehouse
        self.view = view
        self.name = view.core.name
        self.root, self.files = located(spark, warehouse)
        self.position = read_position(self.files, self.name)
        self._written = self.position

    def finish(self) -> None:
        """Applies the batch of the newest position, if whoever wrote it did not get that far."""
        if self.position is not None and self.position.batch is not None:
            state = newest_state(self.files)
            if state is not None and self.position.batch not in state["batches"]:
                self._run(self.position.batch)

    def rows(self) -> Bag:
        """The stored core. Values travel as text, so that no time zone is in between."""
        columns = self.view.table.columns
        texts = [f"CAST({quote(column.name)} AS STRING)" for column in columns]
        readers = [reader(column.type) for column in columns]
        found: Bag = {}
        for row in read_table(self.spark, self.warehouse, self.name).selectExpr(*texts).collect():
            add(found, {tuple(None if v is None else r(v) for r, v in zip(readers, row, strict=True)): 1})
        return found

    def load(self, rows: Bag, versions: Mapping[str, int], refreshed: Mapping[str, int]) -> None:
        """Stores the core for the first time, as a base table; the views are initialized after it."""
        path = f"tables/{folder(self.name)}"
        staged = f"{POSITIONS}/{folder(self.name)}/first.json"
        self.files.replace(staged, self._lines((row, None) for row, count in rows.items() for _ in range(count)))
        frame = self.spark.read.option("mode", "FAILFAST").schema(self._schema()).json(f"{self.root}/{staged}")
        writer = frame.write.mode("overwrite").format(self.scripts.format)
        writer.option("overwriteSchema", True).save(f"{self.root}/{path}")
        self.files.remove(staged)
        self._move(Position(0, None, versions, refreshed))

    def apply(self, change: Apply) -> None:
        """Makes a change of the core last, and its views with it."""
        assert self.position is not None
        if not change.rows:
            self.position = Position(self.position.number, self.position.batch, change.versions, change.refreshed)
            return
        number = self.position.number + 1
        batch = f"{self.name}-{number:08d}"
        signed = [
            (row, "insert" if count > 0 else "delete") for row, count in change.rows.items() for _ in range(abs(count))
        ]
        self.files.replace(f"changes/{folder(batch)}/{folder(self.name)}/rows.json", self._lines(signed))
        self._move(Position(number, batch, change.versions, change.refreshed))
        self._run(batch)

    def save(self) -> None:
        """Writes down versions that were reached without a change of the core."""
        if self.position is not None and self.position != self._written:
            self._move(self.position)

    def _move(self, to: Position) -> None:
        own = f"{POSITIONS}/{folder(self.name)}"
        self.files.replace(f"{own}/{to.number:08d}.json", to.text)
        self.files.remove(f"{own}/{to.number - 2:08d}.json")
        self.position = self._written = to

    def _run(self, batch: str) -> None:
        self.scripts.propagate(self.spark, self.warehouse, batch)
        self.scripts.refresh(self.spark, self.warehouse, batch)
        self.files.remove(f"changes/{folder(batch)}")

    def _schema(self) -> str:
        return ", ".join(f"{quote(column.name)} {column.type}" for column in self.view.table.columns)

    def _lines(self, rows: Iterable[tuple[Row, str | None]]) -> str:
        names = [column.name for column in self.view.table.columns]
        lines = []
        for row, kind in rows:
            line = dict(zip(names, map(_json, row), strict=True))
            lines.append(json.dumps(line | ({CHANGE_TYPE: kind} if kind else {}), ensure_ascii=False))
        return "".join(f"{line}\n" for line in lines)


def _json(value: Any) -> Any:
    match value:
        case dt.datetime():
            return value.isoformat(sep="T") + "Z"
        case dt.date():
            return value.isoformat()
        case Decimal():
            return format(value, "f")
        case _:
            return value
