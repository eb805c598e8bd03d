"""What initialize.py, propagate.py and refresh.py share: a warehouse, its state, and how changes are applied to it.

A warehouse W is a directory or a URI that Hadoop understands:

    W/tables/TABLE          base tables
    W/changes/BATCH/TABLE   changed rows: the table's columns and _change_type
    W/views/VIEW            stored views
    W/deltas/BATCH/VIEW     summary-deltas, and _propagated.json once all of them are written
    W/_deltafold/state/     00000000.json, 00000001.json, ...: the newest is the committed state

A state says, for every table and view, which data it consists of: directories (format parquet) or the version of a
Delta table (format delta). Nothing that a committed state refers to is ever changed in place, so whoever reads through
the state sees all tables and views at one batch. A refresh writes beside it, then adds the next state file, in one
atomic step that fails if the file is there already.

Needs nothing but PySpark, and the Delta jars for the format delta.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import sys
import uuid
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, Protocol, cast
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructField, StructType

SIGN = "__sign"
CHANGE_TYPE = "_change_type"
STATE = "_deltafold/state"
MARKER = "_propagated.json"
SIGNS = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}
ROWS_NAMED = 10
# An append adds a directory to a base table; with this many of them it is written anew, as one.
MAX_DIRECTORIES = 64
# Operations on a Delta table that leave its rows as they are.
HARMLESS = {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "REORG", "FSCK"}
USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
VERSIONED = re.compile(r"_(\d{8})-[0-9a-f]{8}")
REFUSAL = re.compile(r"<deltafold\|(.*?)\|deltafold>", re.DOTALL)


class WarehouseError(Exception):
    """The warehouse is not in a condition for what was asked; the message says what to do."""


class BatchRefused(WarehouseError):
    """The changes of a batch contradict the base tables; nothing was committed."""


# --- names and quoting ------------------------------------------------------------------------------------------------


def folder(name: str) -> str:
    """The directory name of a table, view or batch: unsafe characters percent-encoded, as in `a%2Fb`."""

    def encode(match: re.Match[str]) -> str:
        return "".join(f"%{byte:02X}" for byte in match[0].encode())

    return re.sub(r"^[_.]|[^\w.-]", encode, name)


def quote(name: str) -> str:
    """An identifier of Spark SQL."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"


def column(name: str, of: str = "") -> Column:
    """The column of exactly this name, whatever characters it has."""
    return F.col((quote(of) + "." if of else "") + quote(name))


def shown(values: dict[str, Any]) -> str:
    """A row, for a message."""
    return "(" + ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in values.items()) + ")"


# --- files ------------------------------------------------------------------------------------------------------------


class Files(Protocol):
    """The few file operations that a warehouse needs; paths are relative to its root."""

    def names(self, path: str) -> list[str]:
        """Names in a directory, sorted; none where there is no such directory."""

    def exists(self, path: str) -> bool:
        """Whether there is a file or directory."""

    def read(self, path: str) -> str:
        """The text of a file."""

    def replace(self, path: str, text: str) -> None:
        """Write a file, over an older one if there is one."""

    def create(self, path: str, text: str) -> bool:
        """Write a file as a whole or not at all; False if there is one already."""

    def remove(self, path: str) -> None:
        """Remove a file or a directory with all in it, if there."""

    def listing(self, path: str) -> list[tuple[str, int, int]]:
        """Every file below a directory: path below it, length, time of modification; sorted."""


class LocalFiles:
    """Files of this machine."""

    def __init__(self, root: str) -> None:
        self.root = root

    def _path(self, path: str) -> str:
        return os.path.join(self.root, path)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(path)))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def read(self, path: str) -> str:
        with open(self._path(path), encoding="utf-8") as file:
            return file.read()

    def _temporary(self, path: str, text: str) -> str:
        target = self._path(path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary = os.path.join(os.path.dirname(target), f".{os.path.basename(target)}.{uuid.uuid4().hex}.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        return temporary

    def replace(self, path: str, text: str) -> None:
        os.replace(self._temporary(path, text), self._path(path))

    def create(self, path: str, text: str) -> bool:
        temporary = self._temporary(path, text)
        try:
            os.link(temporary, self._path(path))  # unlike rename, never overwrites
        except FileExistsError:
            return False
        finally:
            os.unlink(temporary)
        return True

    def remove(self, path: str) -> None:
        target = self._path(path)
        if os.path.isdir(target):
            shutil.rmtree(target)
        elif os.path.exists(target):
            os.unlink(target)

    def listing(self, path: str) -> list[tuple[str, int, int]]:
        top = self._path(path)
        files = [os.path.join(where, name) for where, _, names in os.walk(top) for name in names]
        stats = [(os.path.relpath(file, top), os.stat(file)) for file in files]
        return sorted((name, stat.st_size, stat.st_mtime_ns // 1_000_000) for name, stat in stats)


class HadoopFiles:
    """Files of any file system that Hadoop knows.

    `create` is as atomic as the file system's rename: on HDFS it is; on an object store without an atomic rename,
    only one process at a time may refresh a warehouse.
    """

    def __init__(self, spark: SparkSession, root: str) -> None:
        self.jvm = cast("Any", spark._jvm)
        configuration = _java_session(spark).sessionState().newHadoopConf()
        self.root = root
        self.system = self._path("").getFileSystem(configuration)
        self.context = self.jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path("").toUri(), configuration)

    def _path(self, path: str) -> Any:
        return self.jvm.org.apache.hadoop.fs.Path(f"{self.root}/{path}" if path else self.root)

    def names(self, path: str) -> list[str]:
        target = self._path(path)
        if not self.system.exists(target) or not self.system.getFileStatus(target).isDirectory():
            return []
        return sorted(status.getPath().getName() for status in self.system.listStatus(target))

    def exists(self, path: str) -> bool:
        return bool(self.system.exists(self._path(path)))

    def read(self, path: str) -> str:
        stream = self.system.open(self._path(path))
        try:
            return str(self.jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _write(self, target: Any, text: str) -> None:
        stream = self.system.create(target, True)
        try:
            stream.write(bytearray(text.encode()))
        finally:
            stream.close()

    def replace(self, path: str, text: str) -> None:
        self._write(self._path(path), text)

    def create(self, path: str, text: str) -> bool:
        target = self._path(path)
        temporary = self.jvm.org.apache.hadoop.fs.Path(
            target.getParent(), f".{target.getName()}.{uuid.uuid4().hex}.tmp"
        )
        self._write(temporary, text)
        options = self.jvm.java.lang.reflect.Array.newInstance(
            self.jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename"), 0
        )
        try:
            self.context.rename(temporary, target, options)
        except Exception:
            self.system.delete(temporary, False)
            if self.system.exists(target):
                return False
            raise
        return True

    def remove(self, path: str) -> None:
        self.system.delete(self._path(path), True)

    def listing(self, path: str) -> list[tuple[str, int, int]]:
        found = []
        if self.exists(path):
            top = self.system.resolvePath(self._path(path)).toString()
            files = self.system.listFiles(self._path(path), True)
            while files.hasNext():
                status = files.next()
                name = status.getPath().toString()[len(top) :].lstrip("/")
                found.append((name, int(status.getLen()), int(status.getModificationTime())))
        return sorted(found)


def _java_session(spark: SparkSession) -> Any:
    session: Any = spark
    return session._jsparkSession


def _located(spark: SparkSession | None, warehouse: str) -> tuple[str, Files]:
    """The full path of a warehouse, and its files. Without a session, a directory of this machine."""
    warehouse = str(warehouse)
    if warehouse.startswith("catalog:"):
        raise WarehouseError(f"{warehouse}: a warehouse has to be a directory or a URI")
    if spark is None:
        root = os.path.abspath(re.sub(r"^file:(//)?(?=/)", "", warehouse))
        return root, LocalFiles(root)
    jvm: Any = spark._jvm
    path = jvm.org.apache.hadoop.fs.Path(warehouse)
    system = path.getFileSystem(_java_session(spark).sessionState().newHadoopConf())
    root = system.makeQualified(path).toString().rstrip("/")
    if root.startswith("file:/"):
        return root, LocalFiles("/" + root[len("file:") :].lstrip("/"))
    return root, HadoopFiles(spark, root)


# --- the state --------------------------------------------------------------------------------------------------------


def _newest_state(files: Files) -> dict[str, Any] | None:
    """The committed state, or None before the first initialization."""
    numbered = [name for name in files.names(STATE) if re.fullmatch(r"\d{8,}\.json", name)]
    if not numbered:
        return None
    state: dict[str, Any] = json.loads(files.read(f"{STATE}/{max(numbered, key=lambda name: int(name[:-5]))}"))
    return state


def _commit_state(files: Files, state: dict[str, Any]) -> None:
    text = json.dumps(state, indent=1, sort_keys=True) + "\n"
    if not files.create(f"{STATE}/{state['version']:08d}.json", text):
        raise WarehouseError(
            f"somebody else committed state {state['version']} of this warehouse meanwhile; run the command again"
        )


def _directories(state: dict[str, Any] | None) -> set[str]:
    """Every directory that a state refers to."""
    pointers = [*state["tables"].values(), *state["views"].values()] if state else []
    return {path for pointer in pointers for path in pointer.get("paths", [])}


def _remove_unused(files: Files, new: dict[str, Any], previous: dict[str, Any] | None) -> None:
    """Remove directories that a refresh wrote and neither of two states uses. What users wrote is never touched."""
    used = _directories(new) | _directories(previous)
    for kind in ("tables", "views"):
        for owner in files.names(kind):
            for name in files.names(f"{kind}/{owner}"):
                path = f"{kind}/{owner}/{name}"
                match = VERSIONED.fullmatch(name)
                if match and int(match[1]) <= new["version"] and path not in used:
                    with contextlib.suppress(Exception):  # the commit stands; the next one tries again
                        files.remove(path)


def _state_or_error(files: Files, root: str) -> dict[str, Any]:
    state = _newest_state(files)
    if state is None:
        raise WarehouseError(f"{root} was never initialized; run initialize.py (deltafold init) first")
    return state


def _require_plan(state: dict[str, Any], plan: dict[str, str], format: str) -> None:
    """Refuse a plan that does not fit the stored views."""
    if state["format"] != format:
        raise WarehouseError(
            f"the warehouse has the format {state['format']}, these scripts are for {format}; "
            f"compile with --format {state['format']}"
        )
    stored = state["plan"]
    differing = sorted(name for name in {*plan, *stored} if plan.get(name) != stored.get(name))
    if differing:
        raise WarehouseError(
            f"the plan does not fit the stored views: {', '.join(differing)}; "
            "run initialize.py (deltafold init) again to store the views of this plan"
        )


# --- reading ----------------------------------------------------------------------------------------------------------


class _Storage:
    """Reads and writes the data of tables and views of one warehouse."""

    def __init__(self, spark: SparkSession, warehouse: str) -> None:
        self.spark = spark
        self.root, self.files = _located(spark, warehouse)

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
        with _refusals():
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


def read_table(spark: SparkSession, warehouse: str, name: str) -> DataFrame:
    """A base table at the committed state."""
    return _read_committed(spark, warehouse, "tables", name)


def read_view(spark: SparkSession, warehouse: str, name: str, hidden: bool = False) -> DataFrame:
    """A stored view at the committed state; its hidden columns too, if asked for."""
    frame = _read_committed(spark, warehouse, "views", name)
    if hidden:
        return frame
    return frame.select(*(column(field) for field in frame.columns if not field.startswith("__")))


def _read_committed(spark: SparkSession, warehouse: str, kind: str, name: str) -> DataFrame:
    storage = _Storage(spark, warehouse)
    state = _state_or_error(storage.files, storage.root)
    return storage.read(kind, name, _pointer(state, kind, name))


def _pointer(state: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    try:
        pointer: dict[str, Any] = state[kind][name]
    except KeyError:
        known = ", ".join(sorted(state[kind])) or "none"
        raise WarehouseError(f"the warehouse has no {kind[:-1]} {name} (it has: {known})") from None
    return pointer


def status(warehouse: str, spark: SparkSession | None = None) -> dict[str, Any]:
    """What a warehouse holds: its state, batches applied, staged, and propagated but not refreshed.

    A session is needed only for a warehouse that is not a directory of this machine.
    """
    _, files = _located(spark, warehouse)
    state = _newest_state(files)
    applied = state["batches"] if state else []
    batches = [unquote(name) for name in files.names("changes") if not name.startswith((".", "_"))]
    staged = [batch for batch in batches if batch not in applied]
    version = state["version"] if state else None
    markers = {batch: _marker(files, batch) for batch in staged}
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


def _marker(files: Files, batch: str) -> dict[str, Any] | None:
    """What propagate left when all deltas of a batch were written."""
    path = f"deltas/{folder(batch)}/{MARKER}"
    if not files.exists(path):
        return None
    marker: dict[str, Any] = json.loads(files.read(path))
    return marker


# --- what the jobs have in common -------------------------------------------------------------------------------------


class _Job:
    """A batch, seen from the committed state."""

    def __init__(self, spark: SparkSession, warehouse: str, batch: str, format: str, plan: dict[str, str]) -> None:
        self.spark = spark
        self.batch = str(batch)
        self.format = format
        self.plan = plan
        self.storage = _Storage(spark, warehouse)
        self.files = self.storage.files
        self.state = _state_or_error(self.files, self.storage.root)
        self.is_applied = self.batch in self.state["batches"]
        self._changes: dict[str, DataFrame | None] = {}
        self._deltas: dict[str, dict[str, Any]] = {}
        if not self.is_applied:
            _require_plan(self.state, plan, format)
            if not self.files.exists(self._changes_folder()):
                staged = ", ".join(self.files.names("changes")) or "none"
                raise WarehouseError(
                    f"there is no batch {self.batch}: {self.storage.path(self._changes_folder())} does not exist "
                    f"(batches there: {staged})"
                )

    def old(self, table: str) -> DataFrame:
        """A base table at the committed state."""
        return self.storage.read("tables", table, _pointer(self.state, "tables", table))

    def stored(self, view: str) -> DataFrame:
        """A stored view at the committed state, hidden columns included."""
        return self.storage.read("views", view, _pointer(self.state, "views", view))

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
        if table not in self._changes:
            path = f"{self._changes_folder()}/{folder(table)}"
            reader = _changes_format(self.files, path)
            if reader is None:
                self._changes[table] = None
            else:
                self._changes[table] = _read_changes(
                    self.spark, self.storage.path(path), reader, schema or self.old(table).schema
                )
        return self._changes[table]

    def _changes_fingerprint(self) -> list[list[Any]]:
        """Which files the batch consists of: to notice that it was written anew after it was propagated."""
        return [list(entry) for entry in self.files.listing(self._changes_folder())]


FORMATS = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json"}
COMPRESSED = re.compile(r"\.(gz|bz2|zst|snappy|lz4|deflate)$")


def _changes_format(files: Files, path: str) -> str | None:
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


def _read_changes(spark: SparkSession, path: str, format: str, schema: StructType) -> DataFrame:
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


# --- bags of signed rows ----------------------------------------------------------------------------------------------

COPIES = "__copies"


def _net(signed: DataFrame, columns: list[str]) -> DataFrame:
    """Equal rows added up: every row once, and by how many copies it becomes more or less."""
    grouped = signed.groupBy(*(column(name) for name in columns)).agg(F.sum(column(SIGN)).cast("bigint").alias(COPIES))
    return grouped.where(column(COPIES) != 0)


def _same(columns: list[str], left: str, right: str) -> Column:
    """Null-safe equality of all columns."""
    condition = F.lit(True)
    for name in columns:
        condition = condition & column(name, left).eqNullSafe(column(name, right))
    return condition


def _touched(old: DataFrame, net: DataFrame, columns: list[str]) -> DataFrame:
    """The rows of `net`, with the copies that there are afterwards: below zero if more go than there were."""
    gone = net.where(column(COPIES) < 0)
    held = old.alias("old").join(gone.alias("gone"), _same(columns, "old", "gone"), "left_semi")
    both = held.select(*(column(name) for name in columns), F.lit(1).cast("bigint").alias(COPIES)).unionAll(net)
    return both.groupBy(*(column(name) for name in columns)).agg(F.sum(column(COPIES)).alias(COPIES))


def _expanded(counted: DataFrame, columns: list[str], name: str) -> DataFrame:
    """Every row as often as its copies say; refuses below zero."""
    row = [F.concat(F.lit(f"{one}="), F.coalesce(column(one).cast("string"), F.lit("NULL"))) for one in columns]
    message = f"{name}: more copies of a row are deleted than there are: ("
    refusal = F.raise_error(F.concat(F.lit(f"<deltafold|{message}"), F.concat_ws(", ", *row), F.lit(")|deltafold>")))
    copies = F.when(column(COPIES) < 0, refusal.cast("int")).otherwise(column(COPIES).cast("int"))
    each = F.explode(F.array_repeat(F.lit(1), copies)).alias(COPIES)
    return counted.select(*(column(one) for one in columns), each).drop(COPIES)


def with_changes(old: DataFrame, changes: DataFrame) -> DataFrame:
    """A relation after the batch, signed: its old rows and its changes, whose signs add up."""
    return old.withColumn(SIGN, F.lit(1)).unionByName(changes)


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """Turn what raise_error raised inside a Spark job into BatchRefused."""
    try:
        yield
    except Exception as error:
        found = REFUSAL.search(str(error))
        if found:
            raise BatchRefused(f"refused, nothing was committed: {found[1]}") from None
        raise


# --- propagate --------------------------------------------------------------------------------------------------------


class Propagation(_Job):
    """From a batch to the deltas of the views. Changes no table and no view."""

    def __init__(self, spark: SparkSession, warehouse: str, batch: str, format: str, plan: dict[str, str]) -> None:
        super().__init__(spark, warehouse, batch, format, plan)
        self._fingerprint = [] if self.is_applied else self._changes_fingerprint()

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
        if counts["deletes"]:
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
        gone = _net(changes, columns).where(column(COPIES) < 0)
        lacking = _touched(self.old(table), gone, columns).where(column(COPIES) < 0)
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

    def done(self) -> dict[str, Any]:
        """Say that all deltas of the batch are written."""
        if self.is_applied:
            return {"batch": self.batch, "already_applied": True}
        marker = {
            "batch": self.batch,
            "version": self.state["version"],
            "plan": self.plan,
            "changes": self._fingerprint,
            "deltas": self._deltas,
        }
        self.files.replace(f"{self._deltas_folder()}/{MARKER}", json.dumps(marker, indent=1, sort_keys=True) + "\n")
        views = {view: {"delta_rows": delta["rows"]} for view, delta in self._deltas.items()}
        report: dict[str, Any] = {"batch": self.batch, "views": views}
        folders = {folder(table) for table in self.state["tables"]}
        ignored = [unquote(name) for name in self.files.names(self._changes_folder()) if name not in folders]
        ignored = [name for name in ignored if not name.startswith((".", "_"))]
        if ignored:
            report["ignored"] = ignored  # changes of tables that no view reads
        return report


def _values(row: Any) -> dict[str, Any]:
    return {name: value for name, value in row.asDict().items() if name not in ("problem", SIGN)}


# --- refresh ----------------------------------------------------------------------------------------------------------


class Refresh(_Job):
    """Applies a batch and the deltas of its views; `commit` makes all of it the state at once."""

    def __init__(self, spark: SparkSession, warehouse: str, batch: str, format: str, plan: dict[str, str]) -> None:
        super().__init__(spark, warehouse, batch, format, plan)
        self.version = self.state["version"] + 1
        self.tag = f"deltafold:{self.batch}:{self.version}"
        self._new: dict[tuple[str, str], dict[str, Any]] = {}
        self._counts: dict[tuple[str, str], dict[str, int]] = {}
        if not self.is_applied:
            self._deltas = self._propagated()["deltas"]

    def _propagated(self) -> dict[str, Any]:
        """What propagate left, if it is of this state, this plan and these changes."""
        marker = _marker(self.files, self.batch)
        if marker is None:
            raise WarehouseError(f"batch {self.batch} was never propagated, or not to the end; propagate it first")
        if marker["version"] != self.state["version"]:
            raise WarehouseError(
                f"batch {self.batch} was propagated against state {marker['version']}, "
                f"the warehouse is at {self.state['version']}; propagate it again"
            )
        if marker["plan"] != self.plan:
            raise WarehouseError(f"batch {self.batch} was propagated with another plan; propagate it again")
        if marker["changes"] != self._changes_fingerprint():
            raise WarehouseError(f"the changes of batch {self.batch} were written anew since; propagate it again")
        return marker

    # What is applied, either format.

    def apply_changes(self, table: str) -> None:
        """A base table without the rows that the batch deletes, and with those that it inserts."""
        if self.is_applied:
            return
        if not self._has_changes(table):
            self._keep("tables", table)
            return
        changes = self.changes(table)
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
        merge = _Merge(view, self.stored(view).schema, key, count, update, insert)
        if self.format == "delta":
            self._merge_delta(merge)
        else:
            self._merge_parquet(merge)

    def _merge_parquet(self, merge: _Merge) -> None:
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

    def _merge_delta(self, merge: _Merge) -> None:
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
        pointer = _pointer(self.state, kind, name)
        plus, minus = self._plus_minus(signed)
        net = signed
        if minus:
            net = _net(signed, columns)
            plus, minus = self._plus_minus(net.withColumnRenamed(COPIES, SIGN))
        self._count(kind, name, inserted=plus, deleted=minus)
        if not plus and not minus:
            self._new[kind, name] = pointer
        elif not minus:
            rows = signed.drop(SIGN) if net is signed else _expanded(net, columns, name)
            self._append(kind, name, pointer, rows)
        elif self.format == "delta":
            self._replace_rows(kind, name, net, columns)
        else:
            old = self.storage.read(kind, name, pointer)
            gone = net.where(column(COPIES) < 0)
            rest = old.alias("old").join(gone.alias("gone"), _same(columns, "old", "gone"), "left_anti")
            again = _expanded(_touched(old, net, columns), columns, name)
            self._write(kind, name, rest.select(*(column(one) for one in columns)).unionAll(again), "overwrite")

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
        old = self.storage.read(kind, name, _pointer(self.state, kind, name))
        gone = net.where(column(COPIES) < 0).drop(COPIES).select("*", F.lit("d").alias(COPIES))
        there = _expanded(_touched(old, net, columns), columns, name).select("*", F.lit("i").alias(COPIES))
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
            self._new[kind, name] = _pointer(self.state, kind, name)
            self._count(kind, name, inserted=0, **({"updated": 0} if kind == "views" else {}), deleted=0)

    def _done_before(self, kind: str, name: str) -> bool:
        """Whether this object, or for Delta an earlier process that died, did the work already."""
        if (kind, name) in self._new:
            return True
        if self.format != "delta":
            return False
        version = self._applied_version(kind, name, _pointer(self.state, kind, name)["version"])
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
                    f"{commit['operation']}; restore it to version {committed}, or run init again"
                )
        if leftover:
            with self.storage.tagged(f"deltafold:restore:{self.version}"):
                self.spark.sql(f"RESTORE TABLE {self.storage.delta_name(path)} TO VERSION AS OF {committed}").collect()
        return None

    def _run_delta(self, kind: str, name: str, sql: str) -> dict[str, int]:
        """Run a MERGE, and note the version that it made."""
        with self.storage.tagged(self.tag), _refusals():
            metrics: dict[str, int] = self.spark.sql(sql).collect()[0].asDict()
        self._note_version(kind, name)
        return metrics

    def _note_version(self, kind: str, name: str) -> None:
        committed = _pointer(self.state, kind, name)["version"]
        version = self._applied_version(kind, name, committed)
        self._new[kind, name] = {"version": committed if version is None else version}

    def _write(self, kind: str, name: str, rows: DataFrame, mode: str) -> None:
        """Write new rows beside the committed ones."""
        if self.format == "delta":
            writer = rows.write.format("delta").mode(mode).option("userMetadata", self.tag)
            with _refusals():
                writer.save(self.storage.path(f"{kind}/{folder(name)}"))
            self._note_version(kind, name)
            return
        pointer = _pointer(self.state, kind, name)
        path = _version_directory(kind, name, self.version)
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
            return {"batch": self.batch, "already_applied": True}
        self._require_complete()
        state = {
            **self.state,
            "version": self.version,
            "batches": [*self.state["batches"], self.batch],
            "tables": self._pointers("tables"),
            "views": self._pointers("views"),
        }
        _commit_state(self.files, state)
        _remove_unused(self.files, state, self.state)
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


def _version_directory(kind: str, name: str, version: int) -> str:
    """A new directory for a table or view. The underscore hides it from whoever reads the parent as one table."""
    return f"{kind}/{folder(name)}/_{version:08d}-{uuid.uuid4().hex[:8]}"


class _Merge:
    """The parts of a merge, in SQL over `old` and `sd`."""

    def __init__(
        self, view: str, schema: StructType, key: list[str], count: str, update: dict[str, str], insert: dict[str, str]
    ) -> None:
        self.view = view
        self.schema = schema
        self.key = key
        self.old_count = f"old.{quote(count)}"
        self.sd_count = f"sd.{quote(count)}"
        self.new_count = f"({self.old_count} + {self.sd_count})"
        rest = [name for name in schema.names if name not in key]
        missing = [name for name in rest if name not in update or name not in insert]
        if missing:
            raise WarehouseError(f"merge of {view}: no expression for {', '.join(missing)}")
        self.update = {name: f"({update[name]})" for name in rest}
        self.insert = {name: f"({insert[name]})" for name in rest}
        self.update[count] = self._guarded(self.new_count, self.update[count])
        self.insert[count] = self._guarded(self.sd_count, self.insert[count])

    def same_key(self) -> str:
        """The condition of the join."""
        return " AND ".join(f"old.{quote(name)} <=> sd.{quote(name)}" for name in self.key) or "true"

    # A count is never NULL, so that it is NULL only where the outer join found no row.

    def comes(self) -> str:
        """A row of the delta that the view does not have."""
        return f"{self.old_count} IS NULL AND NOT ({self.is_void()})"

    def stays(self) -> str:
        """A row of the view that the delta changes."""
        return f"{self.old_count} IS NOT NULL AND {self.sd_count} IS NOT NULL AND NOT ({self.dies()})"

    def dies(self) -> str:
        """A row of the view none of whose rows is left."""
        return f"coalesce({self.new_count} = 0, false)" if self.key else "false"

    def is_void(self) -> str:
        """A row of the delta whose changes cancel out, and that the view does not have."""
        return f"{self.old_count} IS NULL AND {self.sd_count} = 0" if self.key else "false"

    def _guarded(self, count: str, value: str) -> str:
        """The value, or an error that names the view and the key where the count is below zero."""
        parts = [
            f"concat({literal(name + '=')}, coalesce(CAST(sd.{quote(name)} AS STRING), 'NULL'))" for name in self.key
        ]
        row = "concat_ws(', ', " + ", ".join(parts) + ")" if parts else "'the only row'"
        text = literal(f"<deltafold|{self.view}: the batch deletes more rows than there are in the group (")
        return f"(CASE WHEN {count} < 0 THEN raise_error(concat({text}, {row}, ')|deltafold>')) ELSE {value} END)"

    def new_columns(self) -> list[Column]:
        """The columns of the new row, over the full outer join."""
        return [F.expr(self._new_value(field.name)).cast(field.dataType).alias(field.name) for field in self.schema]

    def _new_value(self, name: str) -> str:
        if name in self.key:
            return f"CASE WHEN {self.old_count} IS NULL THEN sd.{quote(name)} ELSE old.{quote(name)} END"
        return (
            f"CASE WHEN {self.sd_count} IS NULL THEN old.{quote(name)} "
            f"WHEN {self.old_count} IS NULL THEN {self.insert[name]} ELSE {self.update[name]} END"
        )

    def statement(self, target: str, source: str) -> str:
        """The MERGE of a Delta table."""
        names = self.schema.names
        types = {field.name: field.dataType for field in self.schema}
        sets = [f"{quote(name)} = {_cast(sql, types[name])}" for name, sql in self.update.items()]
        values = [_cast(self.insert.get(name, f"sd.{quote(name)}"), types[name]) for name in names]
        lines = [f"MERGE INTO {target} AS old USING {source} AS sd", f"ON {self.same_key()}"]
        if self.key:
            lines.append(f"WHEN MATCHED AND {self.new_count} = 0 THEN DELETE")
        lines.append(f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)}")
        lines.append(f"WHEN NOT MATCHED{f' AND {self.sd_count} <> 0' if self.key else ''} THEN")
        lines.append(f"INSERT ({', '.join(map(quote, names))}) VALUES ({', '.join(values)})")
        return "\n".join(lines)


def _cast(sql: str, to: DataType) -> str:
    """A cast, but for nested types, whose field names need not be writable in SQL: MERGE itself casts those."""
    if isinstance(to, (StructType, ArrayType, MapType)):
        return sql
    return f"CAST({sql} AS {to.simpleString()})"


# --- initialize -------------------------------------------------------------------------------------------------------


class Initialization:
    """Stores every view from its base tables; `commit` makes them the state at once. Can be run again at any time."""

    def __init__(self, spark: SparkSession, warehouse: str, format: str, plan: dict[str, str]) -> None:
        self.spark = spark
        self.format = format
        self.plan = plan
        self.storage = _Storage(spark, warehouse)
        self.files = self.storage.files
        self.previous = _newest_state(self.files)
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
            path = _version_directory("views", view, self.version)
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
        _commit_state(self.files, state)
        _remove_unused(self.files, state, self.previous)
        return {"version": self.version, "views": {view: {"rows": rows} for view, rows in self._rows.items()}}


def _overwrite_delta(frame: DataFrame, path: str, tag: str) -> None:
    """Write a DataFrame as the whole of a Delta table, whatever names its columns have."""
    writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", True).option("userMetadata", tag)
    if any(re.search(r"[ ,;{}()\n\t=]", name) for name in frame.columns):
        writer = writer.option("delta.columnMapping.mode", "name")
    writer.save(path)


# --- running alone ----------------------------------------------------------------------------------------------------


def session(app: str, format: str) -> SparkSession:
    """A session for a script that runs alone; with Delta if the format is delta."""
    builder: Any = SparkSession.builder
    builder = builder.appName(app)
    if format == "delta":
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        with contextlib.suppress(ImportError):
            from delta import configure_spark_with_delta_pip

            builder = configure_spark_with_delta_pip(builder)
    try:
        spark: SparkSession = builder.getOrCreate()
    except PySparkException as error:
        if format == "delta":
            raise WarehouseError(_no_delta(str(error))) from error
        raise
    if format == "delta" and not has_delta(spark):
        raise WarehouseError(_no_delta("the session does not have them"))
    return spark


def _no_delta(why: str) -> str:
    return (
        "the format delta needs the Delta jars: pass --packages io.delta:delta-spark_SPARK_2.13:VERSION "
        "to spark-submit, "
        f"or install delta-spark where Maven can be reached ({why.strip().splitlines()[0]})"
    )


def has_delta(spark: SparkSession) -> bool:
    """Whether a session has the Delta jars."""
    jvm: Any = spark._jvm
    return type(jvm.io.delta.sql.DeltaSparkSessionExtension).__name__ == "JavaClass"


def report_text(report: dict[str, Any]) -> str:
    """A report of a job, for people."""
    batch = f"batch {report['batch']}" if "batch" in report else f"state {report.get('version')}"
    if report.get("already_applied"):
        return f"{batch} is applied already; nothing to do"
    lines = [batch]
    for kind in ("tables", "views"):
        for name, counts in report.get(kind, {}).items():
            numbers = ", ".join(f"{value} {what.replace('_', ' ')}" for what, value in counts.items())
            lines.append(f"  {kind[:-1]} {name}: {numbers}")
    if report.get("ignored"):
        lines.append(f"  not read by any view, ignored: {', '.join(report['ignored'])}")
    return "\n".join(lines)


def main(run: Callable[..., dict[str, Any]], description: str, needs_batch: bool, format: str) -> NoReturn:
    """The command line of a script: run(spark, warehouse[, batch]), and print its report. Exits with 2 if refused."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--warehouse", required=True, help="directory or URI of the warehouse")
    if needs_batch:
        parser.add_argument("--batch", required=True, help="id of the batch: its folder in changes/")
    arguments = parser.parse_args()
    try:
        spark = session(description, format)
        report = run(spark, arguments.warehouse, *([arguments.batch] if needs_batch else []))
    except WarehouseError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(report_text(report))
    sys.exit(0)
