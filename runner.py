"""Runs generated scripts from the command line's process: a Spark session, and the three functions of a directory."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class CannotRun(Exception):
    """Something outside of the view file is missing; the message is one sentence with the remedy."""


@dataclass(frozen=True, slots=True)
class Scripts:
    """What a compiled directory can do."""

    format: str
    initialize: Callable[..., dict[str, Any]]
    propagate: Callable[..., dict[str, Any]]
    refresh: Callable[..., dict[str, Any]]


def load_scripts(directory: Path) -> Scripts:
    """The functions of the generated scripts. They share this process's `warehouse` module, whose text is theirs."""
    for name in ("initialize", "propagate", "refresh", "warehouse"):
        if not (directory / f"{name}.py").is_file():
            raise CannotRun(f"{directory} has no {name}.py: make it with deltafold compile FILE -o {directory}")
    shared = _load("warehouse", directory)
    before = sys.modules.get("warehouse")
    sys.modules["warehouse"] = shared
    try:
        modules = {name: _load(name, directory) for name in ("initialize", "propagate", "refresh")}
    finally:
        if before is None:
            del sys.modules["warehouse"]
        else:
            sys.modules["warehouse"] = before
    return Scripts(
        modules["initialize"].FORMAT,
        modules["initialize"].initialize,
        modules["propagate"].propagate,
        modules["refresh"].refresh,
    )


def _load(name: str, directory: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, directory / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


TINY = {  # for data of a few rows, planning and compiling cost more than the rows do
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def local_session(format: str, settings: dict[str, str] | None = None) -> SparkSession:
    """A session for the size of data that runs on one machine."""
    _require_java()
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise CannotRun("PySpark is not installed: pip install 'deltafold[spark]'") from None
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("deltafold")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.default.parallelism", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.catalogImplementation", "in-memory")
        .config("spark.databricks.delta.snapshotPartitions", "2")
    )
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    if format == "delta":
        try:
            from delta import configure_spark_with_delta_pip
        except ImportError:
            raise CannotRun("the Delta format needs delta-spark: pip install 'deltafold[delta]'") from None
        builder = builder.config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension").config(
            "spark.sql.catalog.spark_catalog", "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
        builder = configure_spark_with_delta_pip(builder)
    try:
        spark = builder.getOrCreate()
    except Exception as error:
        if format == "delta":
            raise CannotRun(
                "the Delta jars could not be had from Maven: connect, or use --format parquet, which needs none"
            ) from error
        raise CannotRun(f"Spark did not start: {str(error).splitlines()[0]}") from error
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _require_java() -> None:
    """Spark needs Java 17 or newer; says so in one sentence instead of a stack trace."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not Path(java).exists():
        raise CannotRun("Java is not installed: Spark needs Java 17 or newer (for example Debian's openjdk-17-jre)")
    text = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    digits = text.split('"')[1].split(".") if '"' in text else ["0"]
    major = digits[1] if digits[0] == "1" and len(digits) > 1 else digits[0]
    if major.isdigit() and int(major) < 17:
        raise CannotRun(f"Java {major} is too old: Spark needs Java 17 or newer")
