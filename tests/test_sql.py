"""The text of plans as SQL: what optimize prints; on Spark, the same rows as the oracle, before and after each rule."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from check_rules import random_plan
from deltafold.cli import app
from deltafold.codegen.sql import sql_text
from deltafold.compiler.algebra import Rel
from deltafold.rewrites.cost import optimise
from deltafold.rewrites.engine import Refused
from deltafold.rewrites.facts import Facts
from golden import Case, Golden
from oracle import NotAKey, bag, evaluate
from random_plans import Plans
from rule_cases import CATALOG, Database, differ, example, plan, random_database, rules
from typer.testing import CliRunner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_optimize_prints_queries(golden: Golden, tmp_path: Path) -> None:
    def run(case: Case) -> str:
        file = tmp_path / "views.sql"
        file.write_text(case.input, encoding="utf-8")
        return CliRunner().invoke(app, ["optimize", str(file), *case.arguments], catch_exceptions=False).stdout

    golden("optimize.txt", run)


def test_the_optimiser_keeps_the_rows_of_random_views() -> None:
    chance = random.Random(3)
    fired = 0
    for _ in range(50):
        before = _random_view(chance)
        found = optimise(before, CATALOG)
        fired += bool(found.steps)
        for _ in range(3):
            database = random_database(chance, before)
            assert differ(before, found.rel, database) is None, (sql_text(before), database)
    assert fired > 10


def _random_view(chance: random.Random) -> Rel:
    while True:
        try:
            return Plans(chance).view(6)
        except (ValueError, IndexError):
            continue


def _spark_rows(spark: SparkSession, rel: Rel) -> Any:
    rows = spark.sql(sql_text(rel)).collect()
    return bag([dict(zip(rel.names, row, strict=True)) for row in rows], rel.names)


def _load(spark: SparkSession, database: Database) -> None:
    for ref, rows in database.items():
        table = CATALOG.table(ref.name)
        assert table is not None
        schema = ", ".join(f"{c.name} {c.type}" for c in table.columns)
        data = [tuple(row[n] for n in table.names) for row in rows]
        spark.createDataFrame(data, schema).createOrReplaceTempView(table.name)


@pytest.mark.spark
def test_both_sides_of_each_rule_give_the_same_rows_on_spark(spark: SparkSession) -> None:
    chance = random.Random(11)
    for rule in rules():
        before, after = map(plan, example(rule))
        database = random_database(chance, before)
        _load(spark, database)
        expected = bag(evaluate(before, database), before.names)
        assert _spark_rows(spark, before) == expected, rule.__name__
        assert _spark_rows(spark, after) == expected, rule.__name__


@pytest.mark.spark
def test_random_plans_give_the_same_rows_on_spark(spark: SparkSession) -> None:
    chance = random.Random(12)
    done = 0
    for rule in rules():
        for _ in range(60):
            before = random_plan(rule.__name__, chance)
            after = rule(before, Facts(CATALOG))
            database = random_database(chance, before)
            if after is None or isinstance(after, Refused) or not any(database.values()):
                continue
            try:
                expected = bag(evaluate(before, database), before.names)
            except NotAKey:
                continue
            _load(spark, database)
            assert _spark_rows(spark, after) == expected, (rule.__name__, sql_text(before), sql_text(after), database)
            done += 1
            break
    assert done > len(rules()) * 0.8


def test_a_subquery_has_a_name_of_its_own() -> None:
    text = sql_text(
        plan("Select [n > 1]\n  GroupBy [region] { n := count(*) }\n    Select [qty > 1]\n      Scan sales")
    )
    assert re.findall(r"AS (q\d+)", text) == ["q1"]
