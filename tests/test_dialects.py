"""View files of other dialects: the same plans, places in the original text, changed meanings refused or warned of."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.source import Diagnostic, InputError
from deltafold.verify import author_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = """
CREATE TABLE stores (id INT NOT NULL PRIMARY KEY, city VARCHAR(20));
CREATE TABLE sales (store INT NOT NULL REFERENCES stores, day DATE, qty INT, price DECIMAL(10, 2), note VARCHAR(9));
"""
SAME = {
    "postgres": 'SELECT "city", SUM(qty)::bigint AS q, COUNT(*) AS n FROM sales JOIN stores s ON store = id GROUP BY 1',
    "duckdb": "FROM sales JOIN stores s ON store = s.id SELECT city, SUM(qty) AS q, COUNT(*) AS n GROUP BY city",
    "snowflake": "SELECT city, SUM(qty)::bigint AS q, COUNT(*) AS n FROM sales JOIN stores s ON store = id GROUP BY 1",
    "databricks": "SELECT city, CAST(SUM(qty) AS BIGINT) q, COUNT(*) n FROM sales JOIN stores ON store = id GROUP BY 1",
    "bigquery": "SELECT city, SUM(qty) AS q, COUNT(*) AS n FROM sales JOIN `stores` ON store = id GROUP BY city # x",
    "mysql": "SELECT `city`, SUM(qty) AS q, COUNT(*) AS n FROM sales JOIN stores s ON store = id GROUP BY 1",
    "tsql": "SELECT [city], SUM(qty) AS q, COUNT(*) AS n FROM sales JOIN stores s ON store = id GROUP BY city",
    "trino": 'SELECT city, SUM(qty) AS "q", COUNT(*) AS n FROM sales JOIN stores s ON store = id GROUP BY 1',
}


def diagnostics(query: str, dialect: str) -> tuple[Diagnostic, ...]:
    try:
        plan = compile_text(f"{TABLES}CREATE VIEW v AS {query};", dialect=dialect)
    except InputError as error:
        return error.diagnostics
    return tuple(warning for warning in plan.warnings if warning.code.startswith("DF07"))


@pytest.mark.parametrize("dialect", SAME)
def test_the_same_view_in_each_dialect_has_the_same_columns_and_strategy(dialect: str) -> None:
    plan = compile_text(f"{TABLES}CREATE VIEW v AS {SAME[dialect]};", dialect=dialect)
    (view,) = plan.views
    assert [(column.name, column.type) for column in view.columns] == [
        ("city", "string"),
        ("q", "bigint"),
        ("n", "bigint"),
    ]
    assert view.strategy == "summary-delta"
    spark = author_query(plan.definitions[0])
    assert compile_text(f"{TABLES}CREATE VIEW v AS {spark};").views[0].initial == view.initial


CHANGED = {  # dialect and query: the code, what is under the carets, what is said
    ("postgres", "SELECT store, ARRAY_AGG(qty ORDER BY day) AS q FROM sales GROUP BY 1"): (
        "DF0702",
        "ARRAY_AGG(qty ORDER BY day",
        "order of ARRAY_AGG",
    ),
    ("postgres", "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY qty) AS m FROM sales"): (
        "DF0702",
        "percentile_cont(0.5",
        "exact percentile",
    ),
    ("postgres", "SELECT CAST(price AS NUMERIC) AS p FROM sales"): ("DF0702", "price", "without precision"),
    ("oracle", "SELECT qty FROM sales, stores WHERE store = id (+)"): ("DF0701", "qty", "no translation"),
    ("duckdb", "SELECT CAST(price AS INT) AS p FROM sales"): ("DF0703", "price", "rounds in this cast"),
    ("duckdb", "SELECT store, AVG(price) AS p FROM sales GROUP BY store"): ("DF0703", "AVG(price", "scale"),
    ("postgres", "SELECT SUM(other) / SUM(qty) AS x FROM (SELECT qty, length(note) + day AS other FROM sales) t"): (
        "DF0703",
        "SUM(other) / SUM(qty",
        "truncates the quotient",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("dialect", "query"), CHANGED)
def test_what_changes_its_meaning_is_told_at_its_place(dialect: str, query: str) -> None:
    code, under, said = CHANGED[dialect, query]
    found = [d for d in diagnostics(query, dialect) if d.code == code]
    assert len(found) == 1
    assert said in found[0].message
    assert found[0].span.text.startswith(under)
    assert found[0].span.line == 4


@pytest.mark.parametrize(
    ("dialect", "query", "said"),
    [
        ("snowflake", "SELECT GREATEST(qty, 1) AS g FROM sales", "Spark skips the NULL"),
        ("duckdb", "SELECT store, SUM(qty) AS q FROM sales GROUP BY ROLLUP (store)", "no grand total"),
        ("duckdb", "SELECT store, LIST(qty) AS q FROM sales GROUP BY store", "keeps NULLs"),
        ("snowflake", "SELECT * FROM sales PIVOT (COUNT(qty) FOR store IN (1, 2))", "empty COUNT cell"),
    ],
)
def test_a_difference_is_told_whether_or_not_the_view_is_supported(dialect: str, query: str, said: str) -> None:
    from deltafold.compiler.read import read_text

    warnings = read_text(f"{TABLES}CREATE VIEW v AS {query};", dialect=dialect).warnings
    assert [w.code for w in warnings] == ["DF0703"]
    assert said in warnings[0].message


@pytest.mark.parametrize(
    ("dialect", "query", "expected"),
    [
        ("postgres", "SELECT store, SUM(qty) / COUNT(*) AS x FROM sales GROUP BY 1", "SUM(qty) DIV COUNT(*)"),
        ("postgres", "SELECT qty / 2 AS x FROM sales", "qty DIV 2"),
        ("postgres", "SELECT qty / 2.0 AS x FROM sales", "qty / 2.0"),
        ("postgres", "SELECT price / qty AS x FROM sales", "price / qty"),
        ("duckdb", "SELECT qty / 2 AS x FROM sales", "qty / 2"),
        ("duckdb", "SELECT qty // 2 AS x FROM sales", "qty DIV 2"),
        ("databricks", "SELECT qty / 2 AS x FROM sales", "qty / 2"),
    ],
)
def test_division_of_integers(dialect: str, query: str, expected: str) -> None:
    assert diagnostics(query, dialect) == ()
    plan = compile_text(f"{TABLES}CREATE VIEW v AS {query};", dialect=dialect)
    assert expected in author_query(plan.definitions[0])


def test_places_are_those_of_the_original_text() -> None:
    (wrong,) = diagnostics(
        "SELECT s.city::text AS c,\n  'é' || sales.nope AS d\nFROM sales JOIN stores s ON true", "postgres"
    )
    assert wrong.code == "DF0209"
    assert (wrong.span.text, wrong.span.line, wrong.span.column) == ("nope", 5, 16)
    again = diagnostics("SELECT qty, qty::text AS q, (qty || 'x')::qqq AS r FROM sales", "postgres")
    assert all(d.span.line == 4 for d in again)


def test_quotes_and_comments_are_those_of_the_dialect() -> None:
    table = "CREATE TABLE t (a INT, b VARCHAR(3)); -- it's; one\n"
    text = table + "CREATE VIEW v AS SELECT a FROM t WHERE b = $$x;'y$$ OR b = '\\';"
    plan = compile_text(text, dialect="postgres")
    assert [view.name for view in plan.views] == ["v"]
    with pytest.raises(InputError) as caught:
        compile_text("CREATE TABLE t (a INT);\nCREATE VIEW v AS SELECT a FROM t WHERE b = 'x;", dialect="postgres")
    assert [(d.code, d.span.line) for d in caught.value.diagnostics] == [("DF0002", 2)]


def test_an_included_file_may_have_its_own_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "schema.sql").write_text("CREATE TABLE t (a INT, `b c` STRING);", encoding="utf-8")
    text = "INCLUDE 'schema.sql' DIALECT spark;\nCREATE VIEW v AS SELECT \"b c\", a / 2 AS half FROM t;"
    assert "a DIV 2" in author_query(compile_text(text, dialect="postgres").definitions[0])


@pytest.mark.spark
def test_spark_gives_translated_queries_the_types_of_the_plan(spark: SparkSession) -> None:
    queries = {
        **SAME,
        "sqlite": "SELECT store, SUM(qty) / COUNT(*) AS mean, price || 'x' AS p FROM sales GROUP BY store, price",
        "presto": "SELECT store, qty / 2 AS half, COALESCE(note, 'none') AS note FROM sales WHERE qty > 0",
        "redshift": "SELECT store, NVL(qty, 0) AS q, day + 1 AS tomorrow FROM sales",
        "oracle": "SELECT store, NVL(qty, 0) AS q, UPPER(note) AS n FROM sales WHERE qty IS NOT NULL",
    }
    for table in compile_text(TABLES).catalog.tables:
        columns = ", ".join(f"{column.name} {column.type}" for column in table.columns)
        spark.createDataFrame([], columns).createOrReplaceTempView(table.name)
    for dialect, query in queries.items():
        plan = compile_text(f"{TABLES}CREATE VIEW v AS {query};", dialect=dialect)
        given = spark.sql(author_query(plan.definitions[0])).dtypes
        assert [(column.name, column.type) for column in plan.views[0].columns] == given, dialect


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltafold.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_the_option_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_text(f"{TABLES}CREATE VIEW v AS {SAME['tsql']};", encoding="utf-8")
    assert run("compile", "v.sql", "-o", "out", cwd=tmp_path).returncode == 2
    assert run("compile", "v.sql", "-o", "out", "--dialect", "tsql", cwd=tmp_path).returncode == 0
    assert run("diff", "v.sql", "out", "--dialect", "tsql", cwd=tmp_path).stdout == "no difference\n"
    unknown = run("explain", "v.sql", "--dialect", "postgre", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "did you mean postgres" in unknown.stderr
