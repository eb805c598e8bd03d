"""Random queries of joins, subqueries, groups and set operations: bound and evaluated by the oracle, and by DuckDB."""

from __future__ import annotations

from typing import Any

import duckdb
import sqlglot
from binding_cases import TABLES
from deltafold.compiler.algebra import Ref, Rel
from deltafold.compiler.bind import bind_views
from deltafold.compiler.read import CreateView, read_text
from deltafold.compiler.schema import bind_schema
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import Row, bag, evaluate
from test_binding import SCHEMAS, random_tables

COMPARISONS = st.sampled_from(["=", "<", ">=", "<>"])
CONDITIONS = st.sampled_from(["q.k = a.k", "q.k < a.k", "q.k = a.k AND q.w = a.v", "q.w > 1", "q.k = a.k OR q.w = a.v"])
JOINS = st.sampled_from(["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "SEMI JOIN", "ANTI JOIN", "CROSS JOIN"])


@st.composite
def atoms(draw: st.DrawFn) -> str:
    """A condition over a, which has columns k and v; it may hold a subquery."""
    where = draw(CONDITIONS)
    column = draw(st.sampled_from(["a.k", "a.v"]))
    return draw(
        st.sampled_from(
            [
                f"{column} {draw(COMPARISONS)} {draw(st.integers(0, 3))}",
                f"{column} IS NULL",
                f"EXISTS (SELECT 1 FROM u q WHERE {where})",
                f"NOT EXISTS (SELECT 1 FROM u q WHERE {where})",
                f"{column} IN (SELECT q.w FROM u q WHERE {where})",
                f"{column} NOT IN (SELECT q.w FROM u q WHERE {where})",
                f"{column} {draw(COMPARISONS)} (SELECT max(q.w) FROM u q WHERE {where})",
                f"(SELECT count(*) FROM u q WHERE {where}) {draw(COMPARISONS)} 1",
            ]
        )
    )


CONDITION = st.recursive(
    atoms(),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} AND {pair[1]})"),
        st.tuples(inner, inner).map(lambda pair: f"({pair[0]} OR {pair[1]})"),
        inner.map(lambda one: f"NOT ({one})"),
    ),
    max_leaves=3,
)


@st.composite
def blocks(draw: st.DrawFn) -> str:
    """A query of two columns of integers."""
    join = draw(JOINS)
    on = (
        ""
        if join == "CROSS JOIN"
        else f" ON {draw(st.sampled_from(['a.k = b.k', 'a.k = b.k AND a.v > b.w', 'a.v < b.w']))}"
    )
    source = draw(st.sampled_from(["t a", f"t a {join} u b{on}", "(SELECT k, max(v) AS v FROM t GROUP BY k) a"]))
    where = draw(st.sampled_from(["", f" WHERE {draw(CONDITION)}"]))
    having = draw(st.sampled_from(["", " HAVING count(*) > 1", " HAVING max(a.v) > (SELECT min(w) FROM u)"]))
    return draw(
        st.sampled_from(
            [
                f"SELECT a.k, a.v FROM {source}{where}",
                f"SELECT DISTINCT a.k, a.v FROM {source}{where}",
                f"SELECT a.k, count(*) AS n FROM {source}{where} GROUP BY a.k{having}",
                f"SELECT a.k, sum(a.v) AS n FROM {source}{where} GROUP BY GROUPING SETS ((a.k), (a.k, a.v)){having}",
                f"SELECT count(*) AS n, max(a.v) AS m FROM {source}{where}",
                f"SELECT a.k, rank() OVER (PARTITION BY a.k ORDER BY a.v) AS r FROM {source}{where}",
                f"SELECT a.k, CASE WHEN {draw(CONDITION)} THEN 1 ELSE 0 END AS c FROM {source}{where}",
            ]
        )
    )


@st.composite
def queries(draw: st.DrawFn) -> str:
    operation = draw(st.sampled_from(["", "UNION", "UNION ALL", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]))
    first = draw(blocks())
    return f"{first} {operation} {draw(blocks())}" if operation else first


def bind_only(query: str) -> Rel:
    file = read_text(f"{TABLES}CREATE VIEW a_view (c1, c2) AS {query};")
    catalog, _ = bind_schema(file.statements)
    views, _, errors = bind_views(catalog, [s for s in file.statements if isinstance(s, CreateView)])
    assert not errors, errors
    return views[0].rel


def in_duckdb(query: str, tables: dict[str, list[Row]]) -> list[tuple[Any, ...]]:
    connection = duckdb.connect()
    for name, rows in tables.items():
        columns = [column.split(" ") for column in SCHEMAS[name].replace("STRING", "VARCHAR").split(", ")]
        connection.execute(f"CREATE TABLE {name} ({', '.join(' '.join(column) for column in columns)})")
        if rows:
            marks = ", ".join("?" for _ in columns)
            connection.executemany(f"INSERT INTO {name} VALUES ({marks})", [list(row.values()) for row in rows])
    translated = sqlglot.transpile(query, read="spark", write="duckdb")[0]
    return connection.execute(translated).fetchall()


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(query=queries(), seed=st.integers(0, 40))
def test_the_oracle_and_duckdb_agree_on_random_queries(query: str, seed: int) -> None:
    tables = random_tables(seed)
    rel = bind_only(query)
    found = bag(evaluate(rel, {Ref(name): rows for name, rows in tables.items()}), rel.names)
    wanted = bag([dict(zip(rel.names, row, strict=True)) for row in in_duckdb(query, tables)], rel.names)
    assert found == wanted
