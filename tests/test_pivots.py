"""PIVOT, UNPIVOT and GPIVOT in every form: the oracle and Spark give the same rows under the same names."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from deltafold.compiler.algebra import GPivot, GUnpivot, Ref, Rel
from deltafold.compiler.bind import bind_views
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.properties import schema
from deltafold.compiler.read import CreateView, read_text
from deltafold.compiler.schema import bind_schema
from deltafold.compiler.source import InputError
from deltafold.verify import author_query
from oracle import evaluate

TABLES = """
CREATE TABLE f (k INT, a INT, b STRING, d DATE, p DECIMAL(4,1), t BOOLEAN, v INT, w DECIMAL(6,2), s STRING);
CREATE TABLE j (a INT, name STRING);
CREATE TABLE wide (id INT, q1 INT, q2 INT, q3 BIGINT, r1 STRING, r2 STRING, r3 STRING);
CREATE TABLE g (k INT NOT NULL, m STRING NOT NULL, n INT NOT NULL, x INT, y STRING, PRIMARY KEY (k, m, n));
"""

PIVOTS = """
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v) FOR a IN (1, 2))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v) AS total FOR a IN (1 AS one, 2, -1, NULL, 3 AS `a b`))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (count(*) FOR a IN (1, NULL AS none))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (count(v) AS n, sum(v) FOR a IN (1, 2 AS two))
SELECT * FROM (SELECT k, a, v, w FROM f) PIVOT (sum(v), avg(w), min(v) AS least, count(*), count(DISTINCT v) FOR a IN (1, 2))
SELECT * FROM (SELECT k, a, b, v FROM f) PIVOT (sum(v) FOR (a, b) IN ((1, 'x') AS p, (2, 'y'), (1, NULL), (NULL, 'x')))
SELECT * FROM (SELECT k, a, b, v FROM f) PIVOT (max(v) AS m, count(*) AS n FOR (b, a) IN (('x', 1), ('y', 2) AS q))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v) + 1 FOR a IN (1, 2))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v) + 1, coalesce(sum(v), 0), sum(v) - count(*) AS diff FOR a IN (1, 2))
SELECT * FROM (SELECT k, a, w FROM f) PIVOT (ceil(sum(w)), floor(min(w)) FOR a IN (1, 2))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (CASE WHEN count(*) > 1 THEN max(v) ELSE -1 END AS c FOR a IN (1, 2))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v) FILTER (WHERE v > 1), sum(v) AS s FOR a IN (1, 2))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v * 2) AS twice, sum(v) > 2 AS many FOR a IN (1 + 1, 2 * 2 - 3))
SELECT * FROM (SELECT k, b, v FROM f) PIVOT (sum(v) FOR b IN ('x', upper('y'), 'it''s', "say ""x", 'z' || 'z', concat('a', 1)))
SELECT * FROM (SELECT k, d, v FROM f) PIVOT (sum(v) FOR d IN (DATE'2024-01-01', '2024-01-02', NULL))
SELECT * FROM (SELECT k, p, v FROM f) PIVOT (sum(v) FOR p IN (1, 1.5, -2.50, CAST('3' AS DECIMAL(3,1))))
SELECT * FROM (SELECT k, t, v FROM f) PIVOT (sum(v), count(*) AS n FOR t IN (true, false, NULL))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v) FOR a IN ('1', 2L, CAST('3' AS INT)))
SELECT * FROM (SELECT k, a, s FROM f) PIVOT (max(s) FOR a IN (1, 2))
SELECT * FROM (SELECT k, a, s, v FROM f) PIVOT (max(s) AS m, count(*) AS n, sum(v) AS t, coalesce(sum(v), 0) AS z FOR a IN (1, 2, NULL))
SELECT * FROM (SELECT k, a, d FROM f) PIVOT (min(d) FOR a IN (1, 2))
SELECT * FROM (SELECT a, v FROM f) PIVOT (sum(v), count(*) FOR a IN (1, 9))
SELECT * FROM (SELECT a, v, s FROM f) PIVOT (max(s), count(v) FOR a IN (1, 9))
SELECT * FROM (SELECT K, a AS A, v FROM f) PIVOT (SUM(V), MAX(v) FOR A IN (1))
SELECT k, `1` AS one, x.b FROM (SELECT k, a, b, v FROM f) x PIVOT (sum(v) FOR a IN (1, 2)) WHERE `1` > 0
SELECT * FROM f PIVOT (sum(v) FOR a IN (1, 2))
SELECT k, a, x, y FROM (SELECT k, a, v FROM f) JOIN j USING (a) PIVOT (sum(v) FOR name IN ('x', 'y'))
SELECT * FROM (SELECT k, a, v FROM f) f1 JOIN (SELECT a AS a2, name FROM j) j1 ON a = a2 PIVOT (sum(v) FOR name IN ('x', 'y'))
SELECT * FROM (SELECT k, a, v FROM f) f1, (SELECT name FROM j) j1 PIVOT (count(v) FOR name IN ('x', 'y'))
SELECT p.*, name FROM (SELECT k AS a, a AS c, v FROM f) PIVOT (sum(v) FOR c IN (1, 2)) p JOIN j ON p.a = j.a
SELECT * FROM (SELECT k, a, b, v FROM f) PIVOT (sum(v) AS s FOR a IN (1, 2)) PIVOT (sum(`1`) AS s1, max(`2`) AS s2 FOR b IN ('x', 'y'))
SELECT * FROM (SELECT * FROM (SELECT k, a, b, v FROM f) PIVOT (sum(v) FOR a IN (1 AS one))) PIVOT (count(one) FOR b IN ('x', NULL))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v) AS k FOR a IN (1 AS k1, 2 AS k2))
SELECT * FROM (SELECT k, a, v, w FROM f) PIVOT (max(v) AS v, max(w) AS w FOR a IN (1, 2))
"""

UNPIVOTS = """
SELECT * FROM wide UNPIVOT (v FOR n IN (q1, q2))
SELECT * FROM wide UNPIVOT (v FOR n IN (q1 AS first, q2 AS `the second`, q3))
SELECT * FROM wide UNPIVOT INCLUDE NULLS (v FOR n IN (q1, Q2))
SELECT * FROM wide UNPIVOT EXCLUDE NULLS ((v, t) FOR n IN ((q1, q3), (q2, q2) AS two))
SELECT * FROM wide UNPIVOT INCLUDE NULLS ((v, t) FOR n IN ((q1, r1), (q2, r2), (q3, r3) AS three))
SELECT u.id, n, v FROM wide UNPIVOT (v FOR n IN (q1, q2)) AS u WHERE v > 1
SELECT * FROM wide UNPIVOT (v FOR n IN (r1, r2, r3)) JOIN (SELECT a, name FROM j) ON v = name
SELECT * FROM (SELECT id, q1, q2 FROM wide) UNPIVOT (v FOR n IN (q1, q2)) PIVOT (sum(v) FOR n IN ('q1', 'q2'))
SELECT * FROM (SELECT k, a, v FROM f) PIVOT (sum(v) FOR a IN (1 AS x, 2 AS y)) UNPIVOT (v FOR a IN (x, y))
"""

GPIVOTS = """
SELECT * FROM (SELECT k, m, n, x FROM g) GPIVOT (x FOR (m, n) IN (('x', 1), ('y', 2) AS q))
SELECT * FROM g GPIVOT (x, y FOR m IN ('x' AS p, 'y'))
SELECT * FROM g GPIVOT (x AS ex, y FOR m IN ('x', 'y')) WHERE n < 3
"""


def _views(listed: str) -> list[str]:
    return [line for line in listed.strip().splitlines() if line]


QUERIES = _views(PIVOTS) + _views(UNPIVOTS) + _views(GPIVOTS)


def _bound(*queries: str) -> dict[str, Rel]:
    """The views as they are bound, before any rewriting; the first one is called v0."""
    views = "".join(f"CREATE VIEW v{n} AS {query};\n" for n, query in enumerate(queries))
    file = read_text(TABLES + views)
    catalog, _ = bind_schema(file.statements)
    bound, _, errors = bind_views(catalog, (s for s in file.statements if isinstance(s, CreateView)))
    if file.errors or errors:
        raise InputError([*file.errors, *errors])
    return {view.name: view.rel for view in bound}


@pytest.mark.parametrize("query", QUERIES)
def test_binds(query: str) -> None:
    found = list(_bound(query).values())
    for node in found:
        found.extend(node.inputs)
    assert any(isinstance(node, GPivot | GUnpivot) for node in found)


def test_the_example_of_the_documents_binds() -> None:
    text = (Path(__file__).parents[1] / "docs" / "gpivot.md").read_text(encoding="utf-8")
    [view] = compile_text(text.split("```sql\n")[1].split("```")[0]).views
    assert view.definition.names == ("sensor", "jan_a_low", "jan_a_unit", "feb_a_low", "feb_a_unit")


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("SELECT * FROM f PIVOT (sum(v) FOR a IN (k))", "DF0321", "k"),
        ("SELECT * FROM f PIVOT (sum(v) FOR a IN (1, 1))", "DF0322", "twice"),
        ("SELECT * FROM f PIVOT (sum(v) FOR a IN ('1', 1))", "DF0322", "twice"),
        ("SELECT * FROM f PIVOT (sum(v) FOR a IN ('x'))", "DF0321", "not a value of type INT"),
        ("SELECT * FROM f PIVOT (sum(v) FOR a IN (rand()))", "DF0321", "RAND"),
        ("SELECT * FROM f PIVOT (sum(v) FOR (a, b) IN (1))", "DF0322", "1 values for 2"),
        ("SELECT * FROM f PIVOT (v FOR a IN (1))", "DF0306", "v is not aggregated"),
        ("SELECT * FROM f PIVOT (sum(max(v)) FOR a IN (1))", "DF0305", "aggregate"),
        ("SELECT * FROM f PIVOT (sum(v) FOR missing IN (1))", "DF0209", "missing"),
        ("SELECT * FROM f PIVOT (sum(v), array_agg(s) FOR a IN (1))", "DF0210", "name"),
        ("SELECT * FROM wide UNPIVOT (v FOR n IN (q1, r1))", "DF0323", "types"),
        ("SELECT * FROM wide UNPIVOT ((v, w) FOR n IN (q1, r1))", "DF0323", "2 columns"),
        ("SELECT * FROM wide UNPIVOT (v FOR n IN (q1 AS x, q2 AS x))", "DF0323", "called x"),
        ("SELECT * FROM f GPIVOT (v FOR a IN (1))", "DF0324", "key"),
        ("SELECT * FROM g GPIVOT (sum(x) FOR m IN ('x'))", "DF0004", "GPIVOT"),
    ],
)
def test_what_is_wrong_is_said_at_its_place(query: str, code: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        _bound(query)
    [diagnostic] = refused.value.diagnostics
    assert diagnostic.code == code
    assert said in diagnostic.render()
    assert diagnostic.span.line == 6 and diagnostic.span.column > len("CREATE VIEW v0 AS ")


def random_tables(draw: random.Random) -> dict[str, list[dict[str, Any]]]:
    """Few values, so that groups, cells and duplicates meet; NULLs everywhere but in keys."""

    def one(*values: Any) -> Any:
        return draw.choice([*values, None])

    days = [dt.date(2024, 1, day) for day in (1, 2, 3)]
    f = [
        {
            "k": one(1, 2, 3),
            "a": one(1, 2, 3, -1),
            "b": one("x", "y", "Y", "zz", "it's"),
            "d": one(*days),
            "p": one(Decimal("1.0"), Decimal("1.5"), Decimal("-2.5"), Decimal("3.0")),
            "t": one(True, False),
            "v": one(0, 1, 2, 5),
            "w": one(Decimal("0.25"), Decimal("-1.50"), Decimal("7.00")),
            "s": one("s", "t"),
        }
        for _ in range(draw.randrange(25))
    ]
    j = [{"a": one(1, 2), "name": one("x", "y")} for _ in range(draw.randrange(5))]
    wide = [
        {
            "id": one(1, 2),
            **{q: one(1, 2) for q in ("q1", "q2", "q3")},
            **{r: one("x", "z") for r in ("r1", "r2", "r3")},
        }
        for _ in range(draw.randrange(6))
    ]
    keys = {(draw.randrange(3), draw.choice("xyz"), draw.randrange(4)) for _ in range(draw.randrange(15))}
    g = [{"k": k, "m": m, "n": n, "x": one(1, 2), "y": one("u", "v")} for k, m, n in sorted(keys)]
    return {"f": f, "j": j, "wide": wide, "g": g}


@pytest.mark.spark
@pytest.mark.parametrize("seed", [0, 2])
def test_the_oracle_and_spark_agree(seed: int, spark: Any) -> None:
    """Every view over the same random rows; without a seed, those without a key over empty tables."""
    from pyspark.sql.types import _parse_datatype_string

    queries = QUERIES if seed else [query for query in QUERIES if "(SELECT a, v" in query]
    plan = compile_text(TABLES + "".join(f"CREATE VIEW v{n} AS {query};\n" for n, query in enumerate(queries)))
    tables = random_tables(random.Random(seed)) if seed else {name: [] for name in ("f", "j", "wide", "g")}
    for table in plan.catalog.tables:
        shape = _parse_datatype_string(", ".join(f"{c.name} {c.type}" for c in table.columns))
        rows = [tuple(row[c.name] for c in table.columns) for row in tables[table.name]]
        spark.createDataFrame(rows, shape).createOrReplaceTempView(table.name)
    relations = {Ref(name): rows for name, rows in tables.items()}
    wrong = []
    bound = _bound(*queries)
    for definition, query in zip(plan.definitions, queries, strict=True):
        rel = bound[definition.name]
        frame = spark.sql(author_query(definition))
        columns = schema(rel)
        types = [(field.name, field.dataType.simpleString()) for field in frame.schema]
        if types != [(column.name, column.type) for column in columns]:
            wrong.append((query, "columns", types, columns))
            continue
        expected = _bag([tuple(row) for row in frame.collect()])
        found = _bag([tuple(row.values()) for row in evaluate(rel, relations)])
        if expected != found:
            wrong.append((query, "rows", expected - found, found - expected))
    assert not wrong, "\n".join(map(str, wrong))


def _bag(rows: list[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    """The rows with their number of copies; the oracle's averages are floats, Spark's may be decimals."""
    return Counter(tuple(round(float(v), 5) if isinstance(v, Decimal | float) else v for v in row) for row in rows)
