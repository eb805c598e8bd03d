"""What views mean: bound algebra on the oracle, the generated code on Spark, and the author's SQL on Spark agree.

The same rows, column names and column types, over random data with NULLs, duplicates and empty tables.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from binding_cases import BEYOND_SPARK, CASES, TABLES
from deltafold.codegen.frames import expression, literal
from deltafold.compiler.algebra import Ref, Rel, scans
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.properties import schema
from deltafold.grammar.notation import print_ref, print_rel
from deltafold.grammar.plan_reader import parse_rel
from oracle import Row, bag, evaluate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMAS = {
    "t": "k INT, v INT, s STRING, d DECIMAL(10,2), dt DATE",
    "u": "w INT, k INT, s STRING",
    "x": "id INT, k INT, n INT",
}


def bound(query: str) -> Rel:
    """The definition of a view, as it is stored."""
    return compile_text(f"{TABLES}CREATE VIEW a_view AS {query};").views[0].definition


def random_tables(seed: int) -> dict[str, list[Row]]:
    """Few values, so that rows repeat and match; the first seed has no rows at all."""
    chance = random.Random(seed)

    def one_of(*values: Any) -> Any:
        return chance.choice((None, *values))

    def rows(most: int) -> range:
        return range(chance.randrange(most) if seed else 0)

    days = [dt.date(2024, 2, 28), dt.date(2024, 2, 29), dt.date(2024, 3, 1)]
    prices = [Decimal("1.50"), Decimal("2.00"), Decimal("-0.25")]
    t = [
        {
            "k": one_of(1, 2, 3),
            "v": one_of(1, 2, 3, 4),
            "s": one_of("a", "b"),
            "d": one_of(*prices),
            "dt": one_of(*days),
        }
        for _ in rows(12)
    ]
    u = [{"w": one_of(0, 1, 2, 4), "k": one_of(1, 2, 4), "s": one_of("a", "c")} for _ in rows(9)]
    x = [{"id": i, "k": chance.choice((1, 2)), "n": one_of(1, 2, 5)} for i in rows(8)]
    return {"t": t + t[:2], "u": u + u[:1], "x": x}


@pytest.mark.parametrize("group", CASES)
def test_views_bind_and_their_plans_parse_back(group: str) -> None:
    for query in CASES[group]:
        rel = bound(query)
        assert parse_rel(print_rel(rel), {print_ref(scan.ref): scan.schema for scan in scans(rel)}) == rel, query


@pytest.mark.parametrize("group", CASES)
def test_the_oracle_evaluates_them(group: str) -> None:
    """So that nothing here is left to Spark alone."""
    tables = {Ref(name): rows for name, rows in random_tables(3).items()}
    for query in CASES[group]:
        evaluate(bound(query), tables)


def generated(spark: SparkSession, rel: Rel) -> DataFrame:
    """The relation as the generated scripts compute it."""
    from pyspark.sql import functions

    text = "\n".join(expression(rel, lambda scan: f"w.spark.table({literal(scan.ref.name)})"))

    class Warehouse:
        pass

    warehouse = Warehouse()
    warehouse.spark = spark  # type: ignore[attr-defined]
    frame: DataFrame = eval(text, {"w": warehouse, "F": functions})
    return frame


def put_tables(spark: SparkSession, seed: int) -> dict[str, list[Row]]:
    tables = random_tables(seed)
    for name, rows in tables.items():
        columns = [column.split()[0] for column in SCHEMAS[name].split(", ")]
        given = [tuple(row[column] for column in columns) for row in rows]
        spark.createDataFrame(given, SCHEMAS[name]).createOrReplaceTempView(name)
    return tables


def rows_of(frame: DataFrame, names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    return bag([dict(zip(names, row, strict=True)) for row in frame.collect()], names)


@pytest.mark.spark
@pytest.mark.parametrize("group", CASES)
def test_oracle_generated_code_and_spark_agree(spark: SparkSession, group: str) -> None:
    wrong: list[str] = []
    for seed in (0, 2):
        tables = put_tables(spark, seed)
        for query in CASES[group]:
            rel = bound(query)
            author = spark.sql(query)
            made = generated(spark, rel)
            wanted = [(field.name, field.dataType.simpleString()) for field in author.schema.fields]
            given_types = [(field.name, field.dataType.simpleString()) for field in made.schema.fields]
            derived = [(column.name, column.type) for column in schema(rel)]
            if wanted != given_types or wanted != derived:
                wrong.append(f"{query}\n  Spark     {wanted}\n  generated {given_types}\n  derived   {derived}")
                continue
            rows = rows_of(author, rel.names)
            oracle = bag(evaluate(rel, {Ref(name): held for name, held in tables.items()}), rel.names)
            for what, others in (("generated", rows_of(made, rel.names)), ("oracle", oracle)):
                if others != rows:
                    text = f"{query} (seed {seed})\n  {what} has more {others - rows}, lacks {rows - others}"
                    wrong.append(f"{text}\n{print_rel(rel)}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.spark
def test_what_spark_refuses_still_runs(spark: SparkSession) -> None:
    tables = put_tables(spark, 2)
    for query in BEYOND_SPARK:
        rel = bound(query)
        oracle = bag(evaluate(rel, {Ref(name): held for name, held in tables.items()}), rel.names)
        assert rows_of(generated(spark, rel), rel.names) == oracle, query
