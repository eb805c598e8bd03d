"""The generated scripts on real Spark, compared with Spark's own answer to the author's SQL."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from deltafold.codegen.emit import emit, write
from deltafold.compiler.pipeline import compile_file, compile_text
from deltafold.constraints import broken
from deltafold.randomdata import Case, apply_batch, make_case
from deltafold.runner import load_scripts
from deltafold.verify import (
    Difference,
    bag_difference,
    check_scripts,
    describe,
    shrink,
    verify,
    verify_warehouse,
    write_table,
)
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
    assert broken(plan.catalog, database) == []
    for batch in case.batches:
        after = apply_batch(database, batch)
        assert after is not None
        assert broken(plan.catalog, after) == []
        database = after


def test_bags_are_compared_with_copies_and_tolerance() -> None:
    assert bag_difference([(1,), (1,)], [(1,)]) == (((1,),), ())
    assert bag_difference([(0.1 + 0.2,)], [(0.3,)]) == ((), ())
    assert bag_difference([(None,)], [(0,)]) == (((None,),), ((0,),))


SMALL = """
CREATE TABLE d (id INT NOT NULL PRIMARY KEY, a STRING);
CREATE TABLE t (k STRING, x INT NOT NULL, d INT REFERENCES d (id));
CREATE VIEW v AS SELECT k, SUM(x) AS s FROM t GROUP BY k;
"""


def test_broken_constraints_are_named() -> None:
    catalog = compile_text(SMALL).catalog
    rows: dict[str, list[Any]] = {"d": [(1, "a"), (1, "b")], "t": [("k", None, 1), ("k", 2, 7), ("k", 3, None)]}
    assert broken(catalog, rows) == [
        "d: (id) is a key, but not for (1)",
        "t: x is NOT NULL, but not for (k, NULL, 1)",
        "t: (d) references d (id), but not for (7)",
    ]


def test_a_difference_is_made_small() -> None:
    """A fault that needs a NULL in k, inserted over one that is there: nothing else is left of the case."""
    plan = compile_text(SMALL)
    case = make_case(plan.catalog, plan.tables, 40, 6, random.Random(1))

    def fails(case: Case) -> Difference | None:
        there = {row[0] for row in case.tables.get("t", ())}
        for number, batch in enumerate(case.batches, start=1):
            if None in there and any(change.after and change.after[0] is None for change in batch):
                return Difference(case, number, "v", ((None, 1),), ())
            there |= {change.after[0] for change in batch if change.after}
        return None

    found = fails(case)
    assert found is not None
    small = shrink(plan, found, fails)
    assert len(small.case.batches) == 1 and len(small.case.batches[0]) == 1
    assert sum(map(len, small.case.tables.values())) <= 3  # the row, one to update perhaps, a row of d it references
    assert "missing (k=NULL, s=1)" in describe(plan, small)


FAULTS = {  # in the emitted warehouse.py
    "NULL keys are not matched": ("<=> sd.{quote(name)}", "= sd.{quote(name)}"),
    "a delta is doubled": ("self.delta(merge.view)", "self.delta(merge.view).unionAll(self.delta(merge.view))"),
}


@pytest.mark.spark
@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_script_is_caught(spark: Any, tmp_path: Path, fault: str) -> None:
    plan = compile_text(SMALL)
    files = emit(plan, "parquet")
    right, wrong = FAULTS[fault]
    assert right in files["warehouse.py"]
    write({**files, "warehouse.py": files["warehouse.py"].replace(right, wrong)}, tmp_path / "compiled")
    scripts = load_scripts(tmp_path / "compiled")
    # The batch of this seed changes the group of NULL.
    found = check_scripts(spark, plan, scripts, tmp_path, 12, 1, 2, lambda _: None, seconds=10)
    assert found is not None
    assert "the smallest case found" in describe(plan, found)


@pytest.mark.spark
def test_a_warehouse_is_checked(spark: Any, tmp_path: Path) -> None:
    plan = compile_text(SMALL + "CREATE VIEW j AS SELECT a, COUNT(*) AS n FROM t JOIN d ON t.d = d.id GROUP BY a;")
    write(emit(plan, "parquet"), tmp_path / "compiled")
    root = tmp_path / "w"
    write_table(spark, plan, "d", [(1, "a")], root / "tables" / "d", "parquet")
    write_table(spark, plan, "t", [("k", 2, 1), (None, 3, 7)], root / "tables" / "t", "parquet")

    load_scripts(tmp_path / "compiled").initialize(spark, str(root))
    said: list[str] = []
    lonely = "t: (d) references d (id), but not for (7)"
    assert verify_warehouse(spark, plan, str(root), said.append) == [lonely]
    view = next((root / "views" / "v").glob("_*"))
    spark.createDataFrame([("k", 5, 1, 1)], "k STRING, s BIGINT, __count BIGINT, x BIGINT").write.mode(
        "append"
    ).parquet(str(view))
    assert verify_warehouse(spark, plan, str(root), said.append) == [lonely, "v: extra (k='k', s=5)"]
    assert said[-1] == "recomputing j"
