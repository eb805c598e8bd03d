"""The table of docs/maintenance.md: how each construct is maintained, checked after each kind of batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from constructs import BATCHES, CONSTRUCTS, TABLES, case
from store import Store, unequal
from test_maintenance_spark import run

DOCUMENT = Path(__file__).parents[1] / "docs" / "maintenance.md"
BEGIN, END = "<!-- constructs: begin -->\n", "<!-- constructs: end -->"


@pytest.mark.parametrize("kind", BATCHES)
def test_every_construct_equals_recomputation(kind: str) -> None:
    made = case(kind)
    store = Store(made.plan(), {name: list(rows) for name, rows in TABLES.items()})
    store.apply(BATCHES[kind])
    assert unequal(store) == ""


@pytest.mark.spark
@pytest.mark.parametrize("kind", BATCHES)
def test_every_construct_equals_recomputation_on_spark(spark: Any, tmp_path: Path, kind: str) -> None:
    run(spark, case(kind), tmp_path)


def test_the_document_lists_every_construct(request: pytest.FixtureRequest) -> None:
    plan = case("mixed").plan()
    lines = ["| construct | strategy | insert | delete | update | mixed |", "|---|---|---|---|---|---|"]
    for title, view in zip(CONSTRUCTS, plan.views, strict=True):
        hidden = sum(one.hidden_for == view.name for one in plan.maintained)
        kept = f", {hidden} hidden view" if hidden else ""
        lines.append(f"| {title} | `{view.strategy}`{kept} | " + " | ".join("equal" for _ in BATCHES) + " |")
    text = DOCUMENT.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    expected = f"{before}{BEGIN}" + "\n".join(lines) + f"\n{END}{after}"
    if request.config.getoption("--update"):
        DOCUMENT.write_text(expected, encoding="utf-8")
    assert DOCUMENT.read_text(encoding="utf-8") == expected, "python -m pytest tests/test_maintenance_docs.py --update"
