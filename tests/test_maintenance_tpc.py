"""How the queries of TPC-H and TPC-DS are maintained as views: docs/tpc.md lists them, made by this test."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltafold.compiler.plan import Plan, ViewPlan
from tpc import compiled

DOCUMENT = Path(__file__).parents[1] / "docs" / "tpc.md"


def described(plan: Plan, view: ViewPlan) -> str:
    hidden = sum(one.hidden_for == view.name for one in plan.maintained)
    reasons = {refusal.strategy: refusal.because for refusal in view.refused}
    reason = reasons.get("partition-recompute") or reasons.get("insert-delete") or reasons.get("summary-delta") or ""
    return f"| {view.name.split('_q')[1]} | `{view.strategy}` | {hidden or ''} | {reason} |"


SLOW = pytest.mark.spark  # it needs no session, but compiling 99 queries belongs to the slow tier


@pytest.mark.parametrize("benchmark", ["tpch", pytest.param("tpcds", marks=SLOW)])
def test_the_document_lists_every_query(benchmark: str, request: pytest.FixtureRequest) -> None:
    plan = compiled(benchmark).plan
    lines = ["| query | strategy | hidden | reason |", "|---|---|---|---|"]
    lines += [described(plan, view) for view in sorted(plan.views, key=lambda view: int(view.name.split("_q")[1]))]
    begin, end = f"<!-- {benchmark}: begin -->\n", f"<!-- {benchmark}: end -->"
    before, rest = DOCUMENT.read_text(encoding="utf-8").split(begin)
    expected = before + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]
    if request.config.getoption("--update"):
        DOCUMENT.write_text(expected, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == expected, "python -m pytest tests/test_maintenance_tpc.py --update"
