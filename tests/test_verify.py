"""The generated scripts on real Spark, compared with Spark's own answer to the author's SQL."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from deltafold.compiler.pipeline import compile_file
from deltafold.randomdata import apply_batch, make_case, respects_keys
from deltafold.verify import Difference, bag_difference, describe, verify
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

ROOT = Path(__file__).parent.parent
compiled = cache(compile_file)
VIEW_FILES = [ROOT / "examples" / "retail.sql", ROOT / "tests" / "views" / "everything.sql"]


def explained(plan: Any, found: Difference | None) -> str:
    return describe(plan, found) if found else ""


@pytest.mark.spark
@pytest.mark.parametrize("file", VIEW_FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("seed", [1, 2])
def test_views_equal_recomputation_on_parquet(spark: Any, file: Path, seed: int) -> None:
    plan = compiled(file)
    found = verify(spark, plan, "parquet", rows=30, batches=3, seed=seed, progress=lambda _: None)
    assert found is None, explained(plan, found)


@pytest.mark.spark
@pytest.mark.delta
@pytest.mark.parametrize("file", VIEW_FILES, ids=lambda file: file.stem)
def test_views_equal_recomputation_on_delta(spark: Any, delta_available: bool, file: Path) -> None:
    if not delta_available:
        pytest.skip("the Delta jars cannot be had on this machine")
    plan = compiled(file)
    found = verify(spark, plan, "delta", rows=30, batches=2, seed=3, progress=lambda _: None)
    assert found is None, explained(plan, found)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.large_base_example])
@given(st.sampled_from(VIEW_FILES), st.integers(0, 25), st.randoms(use_true_random=False))
def test_random_cases_honour_the_constraints(file: Path, rows: int, chance: random.Random) -> None:
    plan = compiled(file)
    case = make_case(plan.catalog, plan.tables, rows, 4, chance)
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
