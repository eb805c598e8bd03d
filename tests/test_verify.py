"""The generated scripts on real Spark, compared with Spark's own answer to the author's SQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltafold.codegen.emit import emit, write
from deltafold.compiler.pipeline import compile_file, compile_text
from deltafold.randomdata import apply_batch, make_case, respects_keys
from deltafold.runner import load_scripts
from deltafold.verify import Difference, bag_difference, check_scripts, describe, verify

ROOT = Path(__file__).parent.parent
VIEW_FILES = [ROOT / "examples" / "retail.sql", ROOT / "tests" / "views" / "everything.sql"]


def explained(plan: Any, found: Difference | None) -> str:
    return describe(plan, found) if found else ""


@pytest.mark.spark
@pytest.mark.parametrize("file", VIEW_FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("seed", [1, 2])
def test_views_equal_recomputation_on_parquet(spark: Any, file: Path, seed: int) -> None:
    plan = compile_file(file)
    found = verify(spark, plan, "parquet", rows=30, batches=3, seed=seed, progress=lambda _: None)
    assert found is None, explained(plan, found)


@pytest.mark.spark
@pytest.mark.delta
@pytest.mark.parametrize("file", VIEW_FILES, ids=lambda file: file.stem)
def test_views_equal_recomputation_on_delta(spark: Any, delta_available: bool, file: Path) -> None:
    if not delta_available:
        pytest.skip("the Delta jars cannot be had on this machine")
    plan = compile_file(file)
    found = verify(spark, plan, "delta", rows=30, batches=2, seed=3, progress=lambda _: None)
    assert found is None, explained(plan, found)


@pytest.mark.spark
def test_a_broken_script_is_caught_and_the_case_made_small(spark: Any, tmp_path: Path) -> None:
    plan = compile_text(
        "CREATE TABLE t (k INT, v INT); CREATE VIEW s AS SELECT k, COUNT(*) AS n, SUM(v) AS total FROM t GROUP BY k;"
    )
    files = emit(plan, "parquet")
    right = '"total": "CASE WHEN old.__count_v + COALESCE(sd.__count_v, 0) = 0 THEN NULL ELSE '
    assert right in files["refresh.py"]
    files["refresh.py"] = files["refresh.py"].replace(right, '"total": "CASE WHEN FALSE THEN NULL ELSE ')
    write(files, tmp_path / "compiled")
    found = check_scripts(
        spark, plan, load_scripts(tmp_path / "compiled"), tmp_path, 12, 4, 5, lambda _: None, seconds=25
    )
    assert found is not None
    assert found.view == "s"
    assert found.missing or found.extra
    assert len(found.case.batches) == 1
    assert "smallest case" in describe(plan, found)


@pytest.mark.parametrize("seed", range(40))
def test_random_cases_honour_the_constraints(seed: int) -> None:
    for file in VIEW_FILES:
        plan = compile_file(file)
        case = make_case(plan.catalog, plan.tables, 25, 4, seed)
        database = {name: list(rows) for name, rows in case.tables.items()}
        assert respects_keys(plan.catalog, database)
        for batch in case.batches:
            after = apply_batch(database, batch)
            assert after is not None
            assert respects_keys(plan.catalog, after)
            database = after


def test_bags_are_compared_with_copies_and_tolerance() -> None:
    assert bag_difference([(1,), (1,)], [(1,)]) == (((1,),), ())
    assert bag_difference([(0.1 + 0.2,)], [(0.3,)]) == ((), ())
    assert bag_difference([(None,)], [(0,)]) == (((None,),), ((0,),))
