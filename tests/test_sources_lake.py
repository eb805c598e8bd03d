"""A deltafold warehouse as a source of another one."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltafold.codegen.emit import emit, write
from deltafold.codegen.warehouse import read_view
from deltafold.compiler.pipeline import compile_text
from deltafold.runner import load_scripts
from deltafold.sources.maintainer import Patience, SourceError
from deltafold.sources.running import run
from deltafold.sources.status import description_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TABLES = """
CREATE TABLE sold (id INT NOT NULL PRIMARY KEY, item INT, day DATE);
CREATE TABLE items (item INT NOT NULL PRIMARY KEY, name STRING);
"""


def changes(lake: Path, batch: str, table: str, *rows: dict[str, object]) -> None:
    folder = lake / "changes" / batch / table
    folder.mkdir(parents=True)
    (folder / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_a_warehouse_follows_another(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, warehouse = tmp_path / "lake", tmp_path / "w"
    monkeypatch.setenv("LAKE", str(lake))
    write(
        emit(
            compile_text(TABLES + "CREATE VIEW n AS SELECT COUNT(*) AS n FROM sold JOIN items USING (item);"), "parquet"
        ),
        tmp_path / "a",
    )
    text = (
        TABLES + "CREATE SOURCE lake TYPE warehouse OPTIONS (path '${LAKE}') TABLES (sold, items);\n"
        "CREATE VIEW named AS SELECT id, name, day FROM sold JOIN items USING (item);"
    )
    write(emit(compile_text(text), "parquet"), tmp_path / "b")
    spark.sql("SELECT 1 AS id, 7 AS item, DATE'2024-01-01' AS day").write.parquet(str(lake / "tables" / "sold"))
    spark.sql("SELECT 7 AS item, 'x' AS name").write.parquet(str(lake / "tables" / "items"))
    first, second = load_scripts(tmp_path / "a"), load_scripts(tmp_path / "b")
    first.initialize(spark, str(lake))

    def follow(**options: bool) -> Counter[tuple[object, ...]]:
        described = description_of(tmp_path / "b")
        run(spark, second, described, str(warehouse), None, Patience(in_all=5), lambda _: None, **options)
        return Counter((row.id, row.name, str(row.day)) for row in read_view(spark, str(warehouse), "named").collect())

    assert follow() == {(1, "x", "2024-01-01"): 1}
    sold = {"id": 2, "item": 8, "day": "2024-01-02", "_change_type": "insert"}
    changes(lake, "one", "sold", sold)
    changes(lake, "one", "items", {"item": 8, "name": "ü'y", "_change_type": "insert"})
    changes(lake, "two", "items", {"item": 7, "name": "x", "_change_type": "delete"})
    for batch in ("one", "two"):
        first.propagate(spark, str(lake), batch)
        first.refresh(spark, str(lake), batch)
    assert follow() == {(2, "ü'y", "2024-01-02"): 1}

    changes(lake, "three", "sold", {**sold, "id": 3})
    first.propagate(spark, str(lake), "three")
    first.refresh(spark, str(lake), "three")
    (lake / "changes" / "three").rename(lake / "elsewhere")
    with pytest.raises(SourceError, match="three"):
        follow()
    assert sum(follow(reload=True).values()) == 2
