"""Random views of up to eight operators, random batches over several tables: maintained equals recomputed."""

from __future__ import annotations

import random

from deltafold.compiler.wellformed import check
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_views import Maker, RandomCase
from store import Store, unequal


def run(case: RandomCase) -> str:
    plan = case.plan()
    for view in plan.views:
        for step in view.steps:
            check(step.rel)
    store = Store(plan, {name: list(rows) for name, rows in case.tables.items()})
    for batch in case.batches:
        store.apply(batch)
        if found := unequal(store):
            return found
    return ""


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.randoms(use_true_random=False), st.integers(1, 8))
def test_random_views_equal_recomputation(chance: random.Random, operators: int) -> None:
    case = Maker(chance).case(operators, batches=2)
    assert run(case) == "", case
