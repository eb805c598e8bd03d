"""Random views, maintained by the generated scripts on Spark, compared with the oracle: many views a warehouse."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from deltafold.codegen.emit import emit, write
from deltafold.codegen.warehouse import folder, read_view
from deltafold.compiler.algebra import Ref
from deltafold.compiler.pipeline import compile_file
from deltafold.compiler.plan import Plan
from deltafold.grammar.notation import print_rel
from deltafold.randomdata import apply_batch
from deltafold.runner import load_scripts
from deltafold.verify import bag_difference, describe, verify, write_changes, write_table
from oracle import evaluate
from random_views import Maker, RandomCase

WAREHOUSES = int(os.environ.get("DELTAFOLD_SPARK_WAREHOUSES", "2"))
VIEWS = 10


def expected(plan: Plan, tables: dict[str, list[tuple[Any, ...]]]) -> dict[str, list[tuple[Any, ...]]]:
    relations = {}
    for table in plan.catalog.tables:
        rows = tables.get(table.name, [])
        relations[Ref(table.name)] = [dict(zip(table.names, row, strict=True)) for row in rows]
    for view in plan.views:
        relations[Ref(view.name)] = evaluate(view.definition, relations)
    return {view.name: [tuple(row.values()) for row in relations[Ref(view.name)]] for view in plan.views}


def run(spark: Any, case: RandomCase, directory: Path) -> None:
    """Every view equals the oracle's, at first and after each batch."""
    plan = case.plan()
    write(emit(plan, "parquet"), directory / "compiled")
    scripts = load_scripts(directory / "compiled")
    warehouse = directory / "warehouse"
    tables, batches = case.databases[0]
    for table in plan.tables:
        write_table(spark, plan, table, tables[table], warehouse / "tables" / folder(table), "parquet")
    scripts.initialize(spark, str(warehouse))
    for number, batch in enumerate((None, *batches)):
        if batch is not None:
            write_changes(spark, plan, batch, warehouse, f"b{number}")
            scripts.propagate(spark, str(warehouse), f"b{number}")
            scripts.refresh(spark, str(warehouse), f"b{number}")
            after = apply_batch(tables, batch)
            assert after is not None
            tables = after
        for name, rows in expected(plan, tables).items():
            view = plan.view(name)
            assert view is not None
            names = [column.name for column in view.columns]
            stored = [tuple(row) for row in read_view(spark, str(warehouse), name).select(*names).collect()]
            difference = bag_difference(rows, stored)
            assert difference == ((), ()), f"{name}, {view.strategy}, batch {number}\n{print_rel(view.definition)}"


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(WAREHOUSES))
def test_random_views_on_spark_equal_the_oracle(spark: Any, tmp_path: Path, seed: int) -> None:
    run(spark, Maker(random.Random(seed)).warehouse(VIEWS, batches=2), tmp_path)


@pytest.mark.spark
def test_each_kind_of_maintenance_equals_sparks_own_answer(spark: Any) -> None:
    plan = compile_file(Path(__file__).with_name("views") / "maintained.sql")
    found = verify(spark, plan, "parquet", rows=20, batches=2, seed=1, progress=lambda _: None)
    assert found is None, describe(plan, found) if found else ""
