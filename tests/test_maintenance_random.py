"""Random views of up to eight operators, random batches over several tables: maintained equals recomputed."""

from __future__ import annotations

import os
import random

import pytest
from deltafold.compiler.wellformed import check
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from random_views import Maker, RandomCase
from store import Store, unequal

CASES = int(os.environ.get("DELTAFOLD_CASES", "100"))
SEED = int(os.environ.get("DELTAFOLD_SEED", "0"))  # each seed draws other cases
DATABASES = 2  # for each view: a case is a view, a database and two batches
SHARDS = 4


def run(case: RandomCase) -> str:
    plan = case.plan()
    for view in plan.maintained:
        for step in view.steps:
            check(step.rel)
    for tables, batches in case.databases:
        store = Store(plan, {name: list(rows) for name, rows in tables.items()})
        for batch in batches:
            store.apply(batch)
            if found := unequal(store):
                return found
    return ""


@pytest.mark.parametrize("shard", range(SHARDS))
def test_random_views_equal_recomputation(shard: int) -> None:
    @seed(SEED + shard)
    @settings(max_examples=CASES // DATABASES // SHARDS, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.randoms(use_true_random=False), st.integers(1, 8))
    def holds(chance: random.Random, operators: int) -> None:
        case = Maker(chance).case(operators, batches=2, databases=DATABASES)
        assert run(case) == "", case

    holds()
