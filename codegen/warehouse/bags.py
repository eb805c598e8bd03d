"""Bags of signed rows: a row with `__sign` 1 comes, one with -1 goes; signs of equal rows add up."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from .names import SIGN, column

COPIES = "__copies"


def net_of(signed: DataFrame, columns: list[str]) -> DataFrame:
    """Equal rows added up: every row once, and by how many copies it becomes more or less."""
    grouped = signed.groupBy(*(column(name) for name in columns)).agg(F.sum(column(SIGN)).cast("bigint").alias(COPIES))
    return grouped.where(column(COPIES) != 0)


def same_row(columns: list[str], left: str, right: str) -> Column:
    """Null-safe equality of all columns."""
    condition = F.lit(True)
    for name in columns:
        condition = condition & column(name, left).eqNullSafe(column(name, right))
    return condition


def touched(old: DataFrame, net: DataFrame, columns: list[str]) -> DataFrame:
    """The rows of `net`, with the copies that there are afterwards: below zero if more go than there were."""
    gone = net.where(column(COPIES) < 0)
    held = old.alias("old").join(gone.alias("gone"), same_row(columns, "old", "gone"), "left_semi")
    both = held.select(*(column(name) for name in columns), F.lit(1).cast("bigint").alias(COPIES)).unionAll(net)
    return both.groupBy(*(column(name) for name in columns)).agg(F.sum(column(COPIES)).alias(COPIES))


def expanded(counted: DataFrame, columns: list[str], name: str) -> DataFrame:
    """Every row as often as its copies say; refuses below zero."""
    row = [F.concat(F.lit(f"{one}="), F.coalesce(column(one).cast("string"), F.lit("NULL"))) for one in columns]
    message = f"{name}: more copies of a row are deleted than there are: ("
    refusal = F.raise_error(F.concat(F.lit(f"<deltafold|{message}"), F.concat_ws(", ", *row), F.lit(")|deltafold>")))
    copies = F.when(column(COPIES) < 0, refusal.cast("int")).otherwise(column(COPIES).cast("int"))
    each = F.explode(F.array_repeat(F.lit(1), copies)).alias(COPIES)
    return counted.select(*(column(one) for one in columns), each).drop(COPIES)


def after(old: DataFrame, net: DataFrame, columns: list[str], name: str) -> DataFrame:
    """The bag of `old` with the changes of `net`: every row as often as it is left."""
    gone = net.where(column(COPIES) < 0)
    rest = old.alias("old").join(gone.alias("gone"), same_row(columns, "old", "gone"), "left_anti")
    again = expanded(touched(old, net, columns), columns, name)
    return rest.select(*(column(one) for one in columns)).unionAll(again)


def after_by_key(old: DataFrame, net: DataFrame, columns: list[str], key: list[str]) -> DataFrame:
    """As `after`, for a bag in which no two rows agree on the key."""
    gone = net.where(column(COPIES) < 0)
    rest = old.alias("old").join(gone.alias("gone"), same_row(key, "old", "gone"), "left_anti")
    names = [column(one) for one in columns]
    return rest.select(*names).unionAll(net.where(column(COPIES) > 0).select(*names))


def with_changes(old: DataFrame, changes: DataFrame) -> DataFrame:
    """A relation after the batch, signed: its old rows and its changes, whose signs add up."""
    return old.withColumn(SIGN, F.lit(1)).unionByName(changes)
