"""The runtime of the generated scripts, by itself: exactly once, refusals, formats; parquet and delta."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from house import AFTER, MIXED, ODD, PLAN, SCHEMA, START, House, by_city, rows_of, w
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_every_command_twice(house: House) -> None:
    house.require(START)
    house.batch("b 1", MIXED)
    assert house.propagate("b 1") == house.propagate("b 1")
    report = house.refresh("b 1")
    assert report["views"]["by_city"] == {"inserted": 1, "updated": 3, "deleted": 0}
    assert report["tables"]["pos"] == {"inserted": 4, "deleted": 2}
    house.require(AFTER)
    assert house.refresh("b 1") == {"batch": "b 1", "already_applied": True}
    assert house.propagate("b 1") == {"batch": "b 1", "already_applied": True}
    house.require(AFTER)
    house.initialize()
    house.require(AFTER)
    assert house.refresh("b 1")["already_applied"]


@pytest.mark.parametrize("rows", [MIXED, [row for row in MIXED if row[3] == "insert"]], ids=["mixed", "inserts"])
def test_tables_and_views_after_a_batch(house: House, rows: list[tuple[Any, ...]]) -> None:
    house.batch("b", rows)
    job = w.Propagation(house.spark, house.root, "b", house.format, PLAN)
    job.check("pos", [])
    expected = Counter(AFTER if rows is MIXED else [*START, *(row[:3] for row in rows)])
    assert rows_of(job.new("pos")) == expected
    changes = job.changes("pos").where("qty > 1").select("city", "qty", "__sign")
    assert rows_of(job.new_view("bag", changes)) == Counter(row[:2] for row in expected.elements() if row[1] > 1)
    unknown = w.Propagation(house.spark, house.root, "b", house.format, PLAN)  # nobody counted its deletes
    assert rows_of(unknown.new("pos")) == expected


def test_a_table_with_a_key_after_a_batch(house: House) -> None:
    """An update in place, a row that comes and goes at once, a key that is deleted and used again."""
    house.batch("a", [("x", 1, "p", "delete")] * 2)
    house.run("a")
    changed = [("y", 2, "q", "delete"), ("y", 2, "r", "insert"), ("z", 9, "z", "insert"), ("z", 9, "z", "delete")]
    house.batch("b", [*changed, ("n", 4, None, "insert")])
    job = w.Propagation(house.spark, house.root, "b", house.format, PLAN)
    job.check("pos", ["qty"])
    expected = Counter([("y", 2, "r"), (None, 3, None), ("n", 4, None)])
    assert rows_of(job.new("pos", key=["qty"])) == rows_of(job.new("pos")) == expected


def test_a_view_computed_anew(house: House) -> None:
    """The strategy `recompute`: the delta is the whole new view, and takes the place of the stored one."""
    for batch, rows in (("b", MIXED), ("c", [(*row, "delete") for row in AFTER])):
        house.batch(batch, rows)
        job = w.Propagation(house.spark, house.root, batch, house.format, PLAN)
        job.check("pos", [])
        job.write_delta("by_city", by_city(job.new("pos")))
        job.write_delta("total", job.new("pos").selectExpr("count(1) AS __n", "coalesce(sum(qty), 0) AS total"))
        job.write_delta("bag", job.new("pos").where("qty > 1").select("city", "qty"))
        job.done()
        refresh = w.Refresh(house.spark, house.root, batch, house.format, PLAN)
        for view in PLAN:
            refresh.replace(view, refresh.delta(view))
        refresh.apply_changes("pos")
        report = refresh.commit()
        house.require(AFTER if batch == "b" else [])
        assert report["views"]["by_city"] == {"written": 4 if batch == "b" else 0}


def test_groups_die_and_the_only_row_does_not(house: House) -> None:
    house.batch("b", [(*row, "delete") for row in START])
    report = house.run("b")
    assert report["views"]["by_city"] == {"inserted": 0, "updated": 0, "deleted": 3}
    assert house.table() == house.rows("by_city") == house.rows("bag") == Counter()
    assert house.rows("total") == Counter([(0,)])
    assert w.read_view(house.spark, house.root, "total", hidden=True).columns == ["__n", "total"]
    house.batch("c", [(None, 8, None, "insert")])
    house.run("c")
    house.require([(None, 8, None)])


def test_appends_then_deletes_over_several_batches(house: House) -> None:
    rows = list(START)
    for number in range(3):
        house.batch(f"i{number}", [("z", number, "r", "insert")] * 2)
        house.run(f"i{number}")
        rows += [("z", number, "r")] * 2
        house.require(rows)
    house.batch("d", [("z", 1, "r", "delete"), ("x", 1, "p", "delete"), ("x", 1, "p", "delete")])
    house.run("d")
    rows = [row for row in rows if row != ("x", 1, "p")]
    rows.remove(("z", 1, "r"))
    house.require(rows)


def test_a_table_without_changes(house: House) -> None:
    (house.path / "changes/empty").mkdir(parents=True)
    assert house.propagate("empty")["views"]["by_city"] == {"delta_rows": 0}
    report = house.refresh("empty")
    assert report["views"]["by_city"] == {"inserted": 0, "updated": 0, "deleted": 0}
    house.require(START)


def test_two_refreshes_at_once(plain: House) -> None:
    plain.batch("b", MIXED)
    plain.batch("c", [("c", 6, "c", "insert")])
    plain.propagate("b")
    plain.propagate("c")
    slow = w.Refresh(plain.spark, plain.root, "c", "parquet", PLAN)
    for name in ("by_city", "total"):
        slow._keep("views", name)
    slow.apply_bag("bag", ["city", "qty"])
    slow.apply_changes("pos")
    plain.refresh("b")
    with pytest.raises(w.WarehouseError, match="somebody else committed"):
        slow.commit()
    plain.require(AFTER)


def test_forgotten_step_is_not_committed(plain: House) -> None:
    plain.batch("b", MIXED)
    plain.propagate("b")
    job = w.Refresh(plain.spark, plain.root, "b", "parquet", PLAN)
    with pytest.raises(w.WarehouseError, match="pos, bag, by_city, total were not applied"):
        job.commit()


REFUSED = [
    ([("x", 1, "p", "upsert")], r"(?s)pos.*\(city=x, qty=1.*_change_type"),
    ([("x", 1, "p", None)], r"_change_type"),
    ([("x", None, "p", "insert")], r"qty=NULL.*qty is NOT NULL"),
    ([("x", 1, "p", "delete")] * 3, r"\(city=x, qty=1.*deleted 1 more times"),
    ([(None, 3, None, "delete")] * 2, r"\(city=NULL, qty=3.*=NULL\): deleted 1 more"),
    ([("x", number, "p", "delete") for number in range(50, 70)], r"(?s)qty=.*and some more"),
]


@pytest.mark.parametrize(("rows", "message"), REFUSED)
def test_refused_batches(plain: House, rows: list[tuple[Any, ...]], message: str) -> None:
    plain.batch("bad", rows)
    with pytest.raises(w.BatchRefused, match=message):
        plain.propagate("bad", not_null=("qty",))
    plain.require(START)


def test_insert_only(plain: House) -> None:
    plain.batch("b", [("x", 1, "p", "delete")])
    with pytest.raises(w.BatchRefused, match="insert only"):
        plain.propagate("b", insert_only=True)


def test_missing_column_of_changes(plain: House) -> None:
    frame = plain.spark.createDataFrame([("x", 1)], "city STRING, qty INT")
    frame.write.parquet(f"{plain.root}/changes/b/pos")
    with pytest.raises(w.BatchRefused, match=r"pos have no column .*_change_type"):
        plain.propagate("b")


@pytest.mark.parametrize("view", ["by_city", "total", "bag"])
def test_delta_that_contradicts_the_view(house: House, view: str) -> None:
    """The last guard, when a delta deletes what the view does not have."""
    house.batch("b", [("y", 2, "q", "insert")])
    job = w.Propagation(house.spark, house.root, "b", house.format, PLAN)
    sql = {
        "by_city": "SELECT 'nowhere' AS city, -1L AS __n, 1L AS total",
        "total": "SELECT -100L AS __n, 1L AS total",
        "bag": "SELECT 'nowhere' AS city, 2 AS qty, -1 AS __sign",
    }
    for name in PLAN:
        job.write_delta(name, house.spark.sql(sql[name] + ("" if name == view else " WHERE false")))
    job.done()
    where = "the only row" if view == "total" else "city=nowhere"
    with pytest.raises(w.BatchRefused, match=f"{view}: .*{where}"):
        house.refresh("b")
    house.require(START)


def test_what_is_missing_is_said(spark: SparkSession, tmp_path: Path) -> None:
    house = House(spark, tmp_path / "w", "parquet")
    assert w.status(house.root)["initialized"] is False
    with pytest.raises(w.WarehouseError, match="no base table pos"):
        house.initialize()
    house.write_base(START)
    with pytest.raises(w.WarehouseError, match="never initialized"):
        house.propagate("b")
    with pytest.raises(w.WarehouseError, match="never initialized"):
        house.table()
    house.initialize()
    with pytest.raises(w.WarehouseError, match="no batch b"):
        house.propagate("b")
    house.batch("b", MIXED)
    with pytest.raises(w.WarehouseError, match="never propagated"):
        house.refresh("b")
    house.propagate("b")
    with pytest.raises(w.WarehouseError, match=r"stored views: total; .*init"):
        house.refresh("b", plan={**PLAN, "total": "other"})
    with pytest.raises(w.WarehouseError, match="--format parquet"):
        House(spark, house.path, "delta").propagate("b")
    with pytest.raises(w.WarehouseError, match="no view nothing"):
        house.rows("nothing")
    house.batch("b", [("other", 1, "p", "insert")])
    with pytest.raises(w.WarehouseError, match="written anew"):
        house.refresh("b")


@pytest.mark.parametrize("format", ["parquet", "csv", "json", pytest.param("delta", marks=pytest.mark.delta)])
def test_formats_of_changes(plain: House, format: str, request: pytest.FixtureRequest) -> None:
    if format == "delta" and not request.getfixturevalue("delta_available"):
        pytest.skip("no Delta jars")
    plain.batch("b", MIXED, format)
    plain.run("b")
    plain.require(AFTER)


def test_csv_columns_in_another_order(plain: House) -> None:
    folder = plain.path / "changes/b/pos"
    folder.mkdir(parents=True)
    (folder / "one.csv").write_text(f'_change_type,qty,_commit_version,"{ODD}",CITY\ninsert,6,1,o,c\n')
    plain.run("b")
    plain.require([*START, ("c", 6, "o")])


def test_csv_with_a_value_of_another_type(plain: House) -> None:
    folder = plain.path / "changes/b/pos"
    folder.mkdir(parents=True)
    (folder / "one.csv").write_text(f'city,qty,"{ODD}",_change_type\nx,many,p,insert\n')
    with pytest.raises(Exception, match=r"(?i)malformed"):
        plain.propagate("b")
    plain.require(START)


def test_unknown_files_and_tables(plain: House) -> None:
    plain.batch("b", MIXED)
    (plain.path / "changes/b/elsewhere").mkdir()
    assert plain.propagate("b")["ignored"] == ["elsewhere"]
    (plain.path / "changes/b/pos/notes.txt").write_text("?")
    with pytest.raises(w.WarehouseError, match=r"notes\.txt"):
        plain.propagate("b")


def test_directories_of_parquet(plain: House) -> None:
    """Appends add a directory, rewrites replace; two states are kept, and what users wrote always is."""

    def ours(path: str) -> list[str]:
        return [one.name for one in (plain.path / path).iterdir() if w.VERSIONED.fullmatch(one.name)]

    originals = {one.name for one in (plain.path / "tables/pos").iterdir()}
    for number in range(3):
        plain.batch(f"i{number}", [("z", number, "r", "insert")])
        plain.run(f"i{number}")
        assert len(ours("tables/pos")) == number + 1
        assert len(ours("views/by_city")) == 2
    for number in range(3):
        plain.batch(f"d{number}", [("z", number, "r", "delete")])
        plain.run(f"d{number}")
    assert len(ours("tables/pos")) == 2
    assert originals <= {one.name for one in (plain.path / "tables/pos").iterdir()}
    with pytest.raises(Exception, match=r"(?i)infer schema|UNABLE_TO_INFER_SCHEMA"):
        plain.spark.read.parquet(f"{plain.root}/views/by_city")
    plain.require(START)


def test_many_appends_are_written_as_one(plain: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(w, "MAX_DIRECTORIES", 2)
    for number in range(2):
        plain.batch(f"i{number}", [("z", number, "r", "insert")])
        plain.run(f"i{number}")
    plain.require([*START, ("z", 0, "r"), ("z", 1, "r")])
    state = w.newest_state(w.LocalFiles(plain.root))
    assert state is not None and len(state["tables"]["pos"]["paths"]) == 1


def test_partitioned_base_table(spark: SparkSession, tmp_path: Path) -> None:
    house = House(spark, tmp_path / "w", "parquet")
    frame = spark.createDataFrame([row for row in START if row[0]], SCHEMA)
    frame.write.partitionBy("city").parquet(f"{house.root}/tables/pos")
    house.initialize()
    house.batch("b", [("k", 3, "p", "insert")])
    house.run("b")
    assert house.rows("by_city") == Counter([("x", 2), ("y", 2), ("k", 3)])
    house.batch("c", [("x", 1, "p", "delete"), ("k", 3, "p", "delete")])
    house.run("c")
    assert house.rows("by_city") == Counter([("x", 1), ("y", 2)])


def test_status(plain: House) -> None:
    plain.batch("a", [("z", 1, "r", "insert")])
    plain.batch("b", [("z", 2, "r", "insert")])
    plain.batch("c/1", [("z", 3, "r", "insert")])
    plain.run("a")
    plain.propagate("c/1")
    (plain.path / w.STATE / ".00000009.json.1.tmp").write_text("half a sta")
    expected = {"version": 1, "applied": ["a"], "staged": ["b", "c/1"], "propagated": ["c/1"], "format": "parquet"}
    for found in (w.status(plain.root), w.status(f"file://{plain.root}", plain.spark)):
        assert {name: found[name] for name in expected} == expected
    assert w.status_text(found).splitlines() == [
        "state 1, format parquet",
        "  tables      pos",
        "  views       bag, by_city, total",
        "  applied     1, the last one a",
        "  propagated  c/1",
        "  staged      b",
    ]
    assert w.status_text({"batch": "b", "applied": False, "staged": True, "propagated": False}) == "batch b is staged"


def test_folder_names() -> None:
    names = ["pos", "größe", "a/b", "..", "_x", "a b", "a%2Fb", "x=1", "`", "a.b-c"]
    folders = [w.folder(name) for name in names]
    assert folders[:3] == ["pos", "größe", "a%2Fb"]
    assert len(set(folders)) == len(names)
    assert [w.unquote(name) for name in folders] == names
    assert not any(name.startswith(("_", ".")) or "/" in name for name in folders)


@pytest.mark.parametrize("kind", ["local", "hadoop"])
def test_files(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    files = w.LocalFiles(str(tmp_path)) if kind == "local" else w.HadoopFiles(spark, f"file:{tmp_path}")
    assert files.names("s") == [] and files.listing("s") == []
    assert files.create("s/1.json", "ä")
    assert not files.create("s/1.json", "b")
    assert files.read("s/1.json") == "ä"
    assert [name for name in files.names("s") if not name.endswith(".crc")] == ["1.json"]
    files.replace("s/1.json", "new")
    assert files.read("s/1.json") == "new"
    assert ("1.json", 3) in [entry[:2] for entry in files.listing("s")]
    files.remove("s")
    files.remove("s")
    assert not files.exists("s")


def test_whole_cycle_through_hadoop(plain: House, monkeypatch: pytest.MonkeyPatch) -> None:
    root = f"file:{plain.root}"
    monkeypatch.setattr(w, "located", lambda spark, warehouse: (root, w.HadoopFiles(plain.spark, root)))
    plain.batch("b", MIXED)
    plain.run("b")
    plain.require(AFTER)
    assert plain.refresh("b")["already_applied"]


@pytest.mark.delta
def test_delta_table_changed_by_others(spark: SparkSession, tmp_path: Path, delta_available: bool) -> None:
    if not delta_available:
        pytest.skip("no Delta jars")
    house = House(spark, tmp_path / "w", "delta")
    house.write_base(START)
    house.initialize()
    house.batch("b", MIXED)
    house.propagate("b")
    table = f"delta.`{house.root}/tables/pos`"
    spark.sql(f"DELETE FROM {table} WHERE city = 'y'")
    house.require(START)
    with pytest.raises(w.WarehouseError, match=r"changed by others.*DELETE; restore it to version 0"):
        house.refresh("b")
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 0")
    spark.sql(f"OPTIMIZE {table}")
    house.refresh("b")
    house.require(AFTER)
    state = json.loads(sorted((house.path / w.STATE).iterdir())[-1].read_text())
    newest = spark.sql(f"DESCRIBE HISTORY {table} LIMIT 1").collect()[0]
    assert newest["userMetadata"].startswith("deltafold:b:1:")
    assert state["tables"]["pos"] == {"version": newest["version"]}


@pytest.mark.delta
def test_delta_tables_followed_by_their_feed(spark: SparkSession, tmp_path: Path, delta_available: bool) -> None:
    if not delta_available:
        pytest.skip("no Delta jars")
    house = House(spark, tmp_path / "w", "delta")
    house.write_base(START)
    house.initialize()
    table = f"delta.`{house.root}/tables/pos`"
    spark.sql(f"INSERT INTO {table} VALUES ('n', 9, 'n')")
    with pytest.raises(w.WarehouseError, match=r"feed of pos cannot be read .*enableChangeDataFeed"):
        house.propagate("auto")
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    house.initialize()
    assert house.run("auto") == {"batch": "auto", "unchanged": True}
    spark.sql(f"DELETE FROM {table} WHERE city = 'x'")
    spark.sql(f"DELETE FROM {table} WHERE city = 'y'")
    spark.sql(f"INSERT INTO {table} VALUES ('y', 20, 'q')")
    house.propagate("auto")
    spark.sql(f"INSERT INTO {table} VALUES ('late', 4, 'l')")  # after propagate: of the next batch
    report = house.refresh("auto")
    assert report["tables"]["pos"] == {"inserted": 1, "deleted": 3}
    rows = [("y", 20, "q"), (None, 3, None), ("n", 9, "n")]
    house.require(rows)
    house.propagate("auto")
    with pytest.raises(RuntimeError, match="crash"):
        house.refresh("auto", crash_after=1)
    spark.sql(f"INSERT INTO {table} VALUES ('later', 5, 'l')")  # what the dead refresh merged was without it
    house.run("auto")
    house.require([*rows, ("late", 4, "l"), ("later", 5, "l")])
    assert w.status(house.root)["applied"] == ["auto-00000002", "auto-00000003"]


def test_only_delta_tables_are_followed(plain: House) -> None:
    with pytest.raises(w.WarehouseError, match="auto follows Delta tables"):
        plain.propagate("auto")


@pytest.mark.delta
def test_format_of_the_base_tables(spark: SparkSession, tmp_path: Path, delta_available: bool) -> None:
    if not delta_available:
        pytest.skip("no Delta jars")
    for format, other in (("delta", "parquet"), ("parquet", "delta")):
        House(spark, tmp_path / format, format).write_base(START)
        with pytest.raises(w.WarehouseError, match="Delta table"):
            House(spark, tmp_path / format, other).initialize()


def test_report_text() -> None:
    counts = {"inserted": 1, "updated": 2, "deleted": 0}
    text = w.report_text({"batch": "b", "views": {"v": counts}, "tables": {}, "ignored": ["t"]})
    assert text.splitlines() == [
        "batch b",
        "  view v: 1 inserted, 2 updated, 0 deleted",
        "  not read by any view, ignored: t",
    ]
    assert "nothing to do" in w.report_text({"batch": "b", "already_applied": True})
