"""The catalog: constraints in all their spellings, printed and read back; schemas of tables that exist."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltafold.codegen.catalog_sql import catalog_sql
from deltafold.compiler import scalar
from deltafold.compiler.algebra import Column
from deltafold.compiler.catalog import Catalog, Changes, Dimension, ForeignKey, Generated, Level, Source, Table
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.read import read_text
from deltafold.compiler.schema import bind_schema
from deltafold.compiler.source import InputError, SourceFile, Span
from deltafold.runner import CannotRun
from deltafold.schemas import schema_text
from hypothesis import given, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = Span(SourceFile("here", ""), 0, 0)


def catalog_of(text: str) -> Catalog:
    file = read_text(text)
    catalog, errors = bind_schema(file.statements)
    assert not file.errors and not errors, InputError([*file.errors, *errors])
    return catalog


# ---- printed and read back

odd_names = st.sampled_from(
    ["a", "B", "level", "select", "x y", "a`b", "é", "1st", "of", "table", "'", '"q"', "a.b", "--"]
)
types = st.sampled_from(
    [
        *(
            "int",
            "bigint",
            "string",
            "date",
            "double",
            "decimal(10,2)",
            "boolean",
            "timestamp",
            "timestamp_ntz",
            "binary",
        ),
        *("array<int>", "struct<x:int,y:array<string>>", "map<string,date>", "decimal(38,0)", "tinyint", "smallint"),
    ]
)


@st.composite
def tables(draw: st.DrawFn, name: str) -> Table:
    names = draw(st.lists(odd_names, min_size=1, max_size=5, unique_by=str.casefold))
    columns = tuple(Column(n, draw(types), draw(st.booleans())) for n in names)
    keys = [tuple(sorted(key)) for key in draw(st.lists(st.sets(st.sampled_from(names), min_size=1), max_size=2))]
    checks = [
        scalar.canonical(scalar.parse(f"{scalar.quote(n)} IS NOT NULL")) for n in draw(st.sets(st.sampled_from(names)))
    ]
    changes = Changes(draw(st.booleans()), tuple(sorted(draw(st.sets(st.sampled_from(names))))))
    numbers = [c.name for c in columns if c.type == "int"]
    generated = ()
    if len(numbers) > 1:
        generated = (Generated(numbers[0], scalar.canonical(scalar.parse(f"{scalar.quote(numbers[1])} + 1"))),)
    checks.sort(key=scalar.text)
    return Table(name, columns, HERE, tuple(dict.fromkeys(keys)), (), tuple(checks), changes, generated)


@st.composite
def catalogs(draw: st.DrawFn) -> Catalog:
    names = draw(st.lists(odd_names, min_size=1, max_size=3, unique_by=str.casefold))
    made = [draw(tables(name)) for name in names]
    first = made[0]
    if first.keys:
        wanted = len(first.keys[0])
        for place, table in enumerate(made):
            if len(table.columns) >= wanted and draw(st.booleans()):
                reference = ForeignKey(table.names[:wanted], first.name, first.keys[0])
                made[place] = Table(
                    *(table.name, table.columns, HERE, table.keys, (reference,)),
                    *(table.checks, table.changes, table.generated),
                )
    levels = tuple(Level(n, first.name, (n,)) for n in first.names[:2])
    steps = ((draw(odd_names), tuple(level.name for level in levels)),) if len(levels) == 2 else ()
    dimensions = (Dimension(draw(odd_names), levels, steps, HERE),) if draw(st.booleans()) else ()
    options = tuple(sorted(draw(st.dictionaries(st.text(max_size=4), st.text(max_size=6), max_size=2)).items()))
    folded = {key.casefold() for key, _ in options}
    sources = (Source("s", "postgres", options if len(folded) == len(options) else (), tuple(names), HERE),)
    return Catalog(tuple(made), dimensions, sources if draw(st.booleans()) else ())


@settings(max_examples=120, deadline=None)
@given(catalogs())
def test_a_printed_catalog_reads_back_as_the_same(catalog: Catalog) -> None:
    again = catalog_of(catalog_sql(catalog))
    assert again == catalog
    assert catalog_sql(again) == catalog_sql(catalog)


# ---- spellings

KEYED = "CREATE TABLE u (k INT NOT NULL PRIMARY KEY, l INT UNIQUE);\n"
SPELLINGS = {
    "a key at a column": "CREATE TABLE t (a INT PRIMARY KEY, b INT)",
    "a key on its own": "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a))",
    "a named key": "CREATE TABLE t (a INT CONSTRAINT pk PRIMARY KEY, b INT)",
    "a named key on its own": "CREATE TABLE t (a INT, b INT, CONSTRAINT pk PRIMARY KEY (A))",
    "informational": "CREATE TABLE t (a INT NOT NULL, b INT, CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED RELY)",
    "informational at a column": "CREATE TABLE t (a INT PRIMARY KEY NOT ENFORCED NORELY, b INT)",
    "a time series": "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a TIMESERIES))",
    "later": "CREATE TABLE t (a INT, b INT); ALTER TABLE t ADD CONSTRAINT pk PRIMARY KEY (a) NOT ENFORCED",
    "with other words": "CREATE OR REPLACE TABLE IF NOT EXISTS t (a INT PRIMARY KEY COMMENT 'x', b INT DEFAULT 3) "
    "USING delta PARTITIONED BY (b) COMMENT 'z' TBLPROPERTIES ('p' = 'q') LOCATION 's3://x'",
    "collation": "CREATE TABLE t (a INT PRIMARY KEY, b INT GENERATED ALWAYS AS IDENTITY (START WITH 1 INCREMENT BY 1))",
}  # fmt: skip


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings_of_a_primary_key(spelling: str) -> None:
    (table,) = catalog_of(SPELLINGS[spelling]).tables
    assert table.keys == (("a",),)
    assert table.columns == (Column("a", "int", nullable=False), Column("b", "int"))


@pytest.mark.parametrize(
    "written",
    [
        "CREATE TABLE t (a INT REFERENCES u)",
        "CREATE TABLE t (a INT REFERENCES u (k) ON DELETE CASCADE)",
        "CREATE TABLE t (a INT CONSTRAINT f REFERENCES u (K) NOT ENFORCED RELY)",
        "CREATE TABLE t (a INT FOREIGN KEY REFERENCES u)",
        "CREATE TABLE t (a INT, FOREIGN KEY (a) REFERENCES u)",
        "CREATE TABLE t (a INT, CONSTRAINT f FOREIGN KEY (a) REFERENCES u (k) MATCH FULL ON UPDATE NO ACTION)",
        "CREATE TABLE t (a INT); ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (k) NOT ENFORCED",
    ],
)
def test_spellings_of_a_foreign_key(written: str) -> None:
    table = catalog_of(KEYED + written).table("t")
    assert table is not None
    assert table.foreign_keys == (ForeignKey(("a",), "u", ("k",)),)


@pytest.mark.parametrize(
    "written",
    [
        "CREATE TABLE t (a INT CHECK (a > 0))",
        "CREATE TABLE t (a INT, CHECK (A > 0))",
        "CREATE TABLE t (a INT, CONSTRAINT positive CHECK (a > 0) NOT ENFORCED)",
        "CREATE TABLE t (a INT, CONSTRAINT positive CHECK (a > 0) ENFORCED)",
        "CREATE TABLE t (a INT); ALTER TABLE t ADD CONSTRAINT c CHECK (a > 0)",
    ],
)
def test_spellings_of_a_check(written: str) -> None:
    (table,) = catalog_of(written).tables
    assert [scalar.text(check) for check in table.checks] == ["a > 0"]


def test_words_of_enforcement_may_be_names() -> None:
    (table,) = catalog_of(
        "CREATE TABLE t (rely INT, enforced INT NOT NULL, UNIQUE (rely, enforced) NOT ENFORCED RELY)"
    ).tables
    assert table.names == ("rely", "enforced")
    assert table.keys == (("rely", "enforced"),)


def test_not_null_may_come_later() -> None:
    (table,) = catalog_of("CREATE TABLE t (a INT, b INT); ALTER TABLE t ALTER COLUMN b SET NOT NULL").tables
    assert [column.nullable for column in table.columns] == [True, False]


MISSPELLED = {
    "CREATE TABLE t (amount INT, UNIQUE (amuont));": ("DF0104", "did you mean amount?"),
    "CREATE TABLE t (amount INT, CHECK (amuont > 1));": ("DF0104", "did you mean amount?"),
    "CREATE TABLE orders (a INT PRIMARY KEY, b INT REFERENCES order);": ("DF0108", "did you mean orders?"),
    "CREATE TABLE orders (a INT); ALTER TABLE order SET CHANGES (INSERT ONLY);": ("DF0110", "did you mean orders?"),
    "CREATE TABLE orders (a INT); ALTER TABLE order ADD UNIQUE (a);": ("DF0110", "did you mean orders?"),
    "CREATE TABLE t (day INT); ALTER TABLE t SET CHANGES (NEW VALUES OF dya);": ("DF0104", "did you mean day?"),
    "CREATE TABLE stores (id INT); CREATE DIMENSION d LEVEL l IS store.id;": ("DF0111", "did you mean stores?"),
    "CREATE TABLE stores (city INT); CREATE DIMENSION d LEVEL l IS stores.ctiy;": ("DF0104", "did you mean city?"),
    "CREATE TABLE t (a INT MATERIALIZED);": ("DF0107", "leave others out"),
    "CREATE TABLE t (a INT, CHECK (a + 1));": ("DF0307", "compare"),
    "CREATE TABLE t (a INT, CHECK (rand() > 1));": ("DF0113", "leave it out"),
    "CREATE TABLE t (a INT, CHECK (SUM(a) > 1));": ("DF0113", "leave it out"),
}  # fmt: skip


@pytest.mark.parametrize("written", MISSPELLED)
def test_misspelled_names_are_answered_with_the_nearest(written: str) -> None:
    with pytest.raises(InputError) as caught:
        compile_text(written)
    assert [(d.code, MISSPELLED[written][1] in d.remedy) for d in caught.value.diagnostics] == [
        (MISSPELLED[written][0], True)
    ]


# ---- tables that exist


def no_spark() -> SparkSession:
    raise AssertionError("Spark is not needed for this")


def test_delta_logs_and_states_are_read_without_spark(tmp_path: Path) -> None:
    field = {"name": "a", "type": "integer", "nullable": False, "metadata": {}}
    nested = {"type": "struct", "fields": [{"name": "x y", "type": {"type": "array", "elementType": "long"}}]}
    made = {"name": "g", "type": "integer", "nullable": True, "metadata": {"delta.generationExpression": "a + 1"}}
    fields = [field, {"name": "b c", "type": nested, "nullable": True, "metadata": {}}, made]
    schema = json.dumps({"type": "struct", "fields": fields})
    settings_ = {"delta.constraints.positive": "a > 0", "delta.constraints.odd": "odd_function(a) > 0"}
    log = tmp_path / "tables" / "d%20e" / "_delta_log"
    log.mkdir(parents=True)
    first = {"metaData": {"schemaString": json.dumps({"type": "struct", "fields": [field]}), "configuration": {}}}
    (log / f"{0:020}.json").write_text(json.dumps({"protocol": {}}) + "\n" + json.dumps(first))
    (log / f"{1:020}.json").write_text(json.dumps({"metaData": {"schemaString": schema, "configuration": settings_}}))
    (log / f"{2:020}.json").write_text(json.dumps({"add": {"path": "x"}}))
    state = {"version": 1, "tables": {"p": {"paths": ["tables/p"], "schema": {"type": "struct", "fields": [field]}}}}
    (tmp_path / "_deltafold" / "state").mkdir(parents=True)
    (tmp_path / "_deltafold" / "state" / "00000001.json").write_text(json.dumps(state))
    (tmp_path / "tables" / "p").mkdir()
    text = schema_text(str(tmp_path), no_spark)
    catalog = catalog_of(text)
    delta, parquet = catalog.tables
    assert (delta.name, parquet.name) == ("d e", "p")
    assert delta.columns == (
        Column("a", "int", nullable=False),
        Column("b c", "struct<`x y`:array<bigint>>"),
        Column("g", "int"),
    )
    assert [scalar.text(check) for check in delta.checks] == ["a > 0"]
    assert [scalar.text(column.expression) for column in delta.generated] == ["a + 1"]
    assert "-- not understood: odd_function(a" in text
    assert parquet.columns == (Column("a", "int", nullable=False),)


def test_a_folder_without_tables_is_an_error_in_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotRun, match="holds no tables"):
        schema_text(str(tmp_path), no_spark)
    command = [sys.executable, "-m", "deltafold.cli", "schema", str(tmp_path / "nowhere")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert "Traceback" not in finished.stderr


@pytest.mark.spark
def test_schemas_of_parquet_and_of_a_catalog(spark: SparkSession, tmp_path: Path) -> None:
    query = (
        "SELECT 1 AS a, 2.5BD AS `b c`, map('k', date'2020-01-01') AS m, array(named_struct('x', 1L)) AS s, 7 AS part"
    )
    spark.sql(query).write.partitionBy("part").parquet(str(tmp_path / "one.parquet"))
    text = schema_text(str(tmp_path), lambda: spark)
    expected = {
        "a": "int",
        "b c": "decimal(2,1)",
        "m": "map<string,date>",
        "s": "array<struct<x:bigint>>",
        "part": "int",
    }
    (table,) = catalog_of(text).tables
    assert table.name == "one"
    assert {column.name: column.type for column in table.columns} == expected
    spark.sql("CREATE DATABASE deltafold_schema")
    try:
        spark.sql("CREATE TABLE deltafold_schema.tu (a INT COMMENT 'x', b VARCHAR(5)) USING parquet PARTITIONED BY (b)")
        spark.sql("CREATE VIEW deltafold_schema.v AS SELECT a FROM deltafold_schema.tu")
        (shown,) = catalog_of(schema_text("catalog:deltafold_schema", lambda: spark)).tables
        assert (shown.name, shown.columns) == ("tu", (Column("a", "int"), Column("b", "string")))
    finally:
        spark.sql("DROP DATABASE deltafold_schema CASCADE")
    with pytest.raises(CannotRun, match="SCHEMA_NOT_FOUND"):
        schema_text("catalog:no_such_database", lambda: spark)


def test_the_view_files_of_the_documentation_compile() -> None:
    text = (Path(__file__).parent.parent / "docs" / "view-files.md").read_text(encoding="utf-8")
    blocks = [block.split("```")[0] for block in text.split("```sql\n")[1:]]
    assert len(blocks) == 2
    for block in blocks:
        compile_text(block)
