"""Every query of TPC-H and TPC-DS as a view: it binds, or it is refused with a reason at its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tpc import compiled, queries

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.parametrize(("benchmark", "how_many"), [("tpch", 22), ("tpcds", 99)])
def test_every_query_binds_or_is_refused_at_its_place(benchmark: str, how_many: int) -> None:
    result = compiled(benchmark)
    bound = {view.name for view in result.plan.views}
    assert len(queries(benchmark)) == how_many
    assert bound | set(result.refused) == {query.name for query in queries(benchmark)}
    assert not bound & set(result.refused)
    for diagnostics in result.refused.values():
        assert all(re.fullmatch(r"DF\d{4}", d.code) and d.message for d in diagnostics)


def test_the_readme_says_how_many_bind() -> None:
    for benchmark, title in (("tpch", "TPC-H"), ("tpcds", "TPC-DS")):
        result = compiled(benchmark)
        row = f"| {title} | {len(queries(benchmark))} | {len(result.plan.views)} | {len(result.refused)} |"
        assert row in README.read_text(encoding="utf-8"), f"README.md should say: {row}"
