"""Running alone: a session, a command line and a report for a script that is run by itself."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from .errors import WarehouseError


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
    if report.get("unchanged"):
        return "no base table has changed since the last batch; nothing to do"
    lines = [batch]
    for kind in ("tables", "views"):
        for name, counts in report.get(kind, {}).items():
            numbers = ", ".join(f"{value} {what.replace('_', ' ')}" for what, value in counts.items())
            lines.append(f"  {kind[:-1]} {name}: {numbers}")
    if report.get("ignored"):
        lines.append(f"  not read by any view, ignored: {', '.join(report['ignored'])}")
    return "\n".join(lines)


def status_text(report: dict[str, Any]) -> str:
    """What `status` tells, for people."""
    if "batch" in report:
        state = next((name for name in ("applied", "propagated", "staged") if report[name]), "not there")
        return f"batch {report['batch']} is {state}"
    if not report["initialized"]:
        return f"never initialized; batches staged: {', '.join(report['staged']) or 'none'}"
    applied, waiting = report["applied"], [name for name in report["staged"] if name not in report["propagated"]]
    lines = [f"state {report['version']}, format {report['format']}"]
    lines.append(f"  tables      {', '.join(report['tables'])}")
    lines.append(f"  views       {', '.join(report['views'])}")
    lines.append(f"  applied     {f'{len(applied)}, the last one {applied[-1]}' if applied else 'none'}")
    lines.append(f"  propagated  {', '.join(report['propagated']) or 'none'}")
    lines.append(f"  staged      {', '.join(waiting) or 'none'}")
    return "\n".join(lines)


def main(run: Callable[..., dict[str, Any]], description: str, needs_batch: bool, format: str) -> NoReturn:
    """The command line of a script: run(spark, warehouse[, batch]), and print its report. Exits with 2 if refused."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--warehouse", required=True, help="directory or URI of the warehouse")
    if needs_batch:
        parser.add_argument("--batch", required=True, help="id of the batch: its folder in changes/, or auto")
    arguments = parser.parse_args()
    try:
        spark = session(description, format)
        report = run(spark, arguments.warehouse, *([arguments.batch] if needs_batch else []))
    except WarehouseError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    print(report_text(report))
    sys.exit(0)
