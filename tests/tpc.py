"""TPC-H and TPC-DS as view files. Queries and schemas come from DuckDB's extensions when the tests run.

A query becomes a view: translated to Spark's SQL, with a name for every output column. Keys are added as TPC declares
them, since DuckDB's tables carry none.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cache

import duckdb
import duckdb_extensions
import sqlglot
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.plan import Plan
from deltafold.compiler.source import Diagnostic, InputError
from sqlglot import exp

PRIMARY_KEYS = {
    "tpch": {
        "customer": "c_custkey",
        "lineitem": "l_orderkey, l_linenumber",
        "nation": "n_nationkey",
        "orders": "o_orderkey",
        "part": "p_partkey",
        "partsupp": "ps_partkey, ps_suppkey",
        "region": "r_regionkey",
        "supplier": "s_suppkey",
    },
    "tpcds": {
        "call_center": "cc_call_center_sk",
        "catalog_page": "cp_catalog_page_sk",
        "catalog_returns": "cr_item_sk, cr_order_number",
        "catalog_sales": "cs_item_sk, cs_order_number",
        "customer": "c_customer_sk",
        "customer_address": "ca_address_sk",
        "customer_demographics": "cd_demo_sk",
        "date_dim": "d_date_sk",
        "household_demographics": "hd_demo_sk",
        "income_band": "ib_income_band_sk",
        "inventory": "inv_date_sk, inv_item_sk, inv_warehouse_sk",
        "item": "i_item_sk",
        "promotion": "p_promo_sk",
        "reason": "r_reason_sk",
        "ship_mode": "sm_ship_mode_sk",
        "store": "s_store_sk",
        "store_returns": "sr_item_sk, sr_ticket_number",
        "store_sales": "ss_item_sk, ss_ticket_number",
        "time_dim": "t_time_sk",
        "warehouse": "w_warehouse_sk",
        "web_page": "wp_web_page_sk",
        "web_returns": "wr_item_sk, wr_order_number",
        "web_sales": "ws_item_sk, ws_order_number",
        "web_site": "web_site_sk",
    },
}
# A column of TPC-DS refers to the table that the end of its name says.
_REFERRED = {
    "date_sk": "date_dim",
    "time_sk": "time_dim",
    "item_sk": "item",
    "customer_sk": "customer",
    "cdemo_sk": "customer_demographics",
    "hdemo_sk": "household_demographics",
    "addr_sk": "customer_address",
    "store_sk": "store",
    "promo_sk": "promotion",
    "call_center_sk": "call_center",
    "catalog_page_sk": "catalog_page",
    "ship_mode_sk": "ship_mode",
    "warehouse_sk": "warehouse",
    "reason_sk": "reason",
    "web_page_sk": "web_page",
    "web_site_sk": "web_site",
    "income_band_sk": "income_band",
}
_FOREIGN_KEYS: dict[str, dict[str, dict[tuple[str, ...], str]]] = {
    "tpch": {
        "customer": {("c_nationkey",): "nation"},
        "lineitem": {("l_orderkey",): "orders", ("l_partkey", "l_suppkey"): "partsupp"},
        "nation": {("n_regionkey",): "region"},
        "orders": {("o_custkey",): "customer"},
        "partsupp": {("ps_partkey",): "part", ("ps_suppkey",): "supplier"},
        "supplier": {("s_nationkey",): "nation"},
    },
    "tpcds": {
        "store_returns": {("sr_item_sk", "sr_ticket_number"): "store_sales"},
        "catalog_returns": {("cr_item_sk", "cr_order_number"): "catalog_sales"},
        "web_returns": {("wr_item_sk", "wr_order_number"): "web_sales"},
    },
}
_MAKE = {"tpch": "CALL dbgen(sf = {scale}, schema = 'tpch')", "tpcds": "CALL dsdgen(sf = {scale}, schema = 'tpcds')"}


@dataclass(frozen=True, slots=True)
class Query:
    benchmark: str
    number: int
    text: str  # of the query, in Spark's SQL
    columns: tuple[str, ...]  # names for the view's columns, where the query's own do not serve

    @property
    def name(self) -> str:
        return f"{self.benchmark}_q{self.number}"

    @property
    def view(self) -> str:
        listed = f" ({', '.join(self.columns)})" if self.columns else ""
        return f"CREATE VIEW {self.name}{listed} AS\n{self.text};\n"


def connect(scale: float = 0) -> duckdb.DuckDBPyConnection:
    """A database that holds the tables of both benchmarks, each in a schema of its own; empty ones at scale 0."""
    connection = duckdb.connect()
    for benchmark, make in _MAKE.items():
        duckdb_extensions.import_extension(benchmark)
        connection.execute(f"LOAD {benchmark}; CREATE SCHEMA {benchmark}")
        connection.execute(make.format(scale=scale))
    return connection


@cache
def tables(benchmark: str) -> str:
    """The CREATE TABLE statements of a benchmark."""
    columns: dict[str, list[str]] = {}
    for table, name, kind, nullable in (
        connect()
        .execute(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            f" WHERE table_schema = '{benchmark}' ORDER BY table_name, ordinal_position"
        )
        .fetchall()
    ):
        in_key = name in PRIMARY_KEYS[benchmark][table].split(", ")
        required = " NOT NULL" if in_key or nullable == "NO" else ""
        columns.setdefault(table, []).append(f"{name} {kind.replace('VARCHAR', 'STRING')}{required}")
    return "".join(
        f"CREATE TABLE {table} ({', '.join(listed)}, PRIMARY KEY ({PRIMARY_KEYS[benchmark][table]}));\n"
        for table, listed in columns.items()
    )


@cache
def foreign_keys(benchmark: str) -> dict[str, dict[tuple[str, ...], str]]:
    """By table: columns and the table whose primary key they refer to."""
    found = {table: dict(keys) for table, keys in _FOREIGN_KEYS[benchmark].items()}
    if benchmark == "tpcds":
        for table, name in (
            connect()
            .execute("SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'tpcds'")
            .fetchall()
        ):
            end = next((target for end, target in _REFERRED.items() if name.endswith(f"_{end}")), table)
            if end != table:
                found.setdefault(table, {})[name,] = end
    return found


@cache
def queries(benchmark: str) -> tuple[Query, ...]:
    """The queries of a benchmark, in order."""
    found = connect().execute(f"SELECT query_nr, query FROM {benchmark}_queries() ORDER BY query_nr").fetchall()
    return tuple(_query(benchmark, number, text) for number, text in found)


def _query(benchmark: str, number: int, text: str) -> Query:
    parsed = sqlglot.parse_one(text, dialect="duckdb")
    first = parsed
    while isinstance(first, exp.SetOperation | exp.Subquery):
        first = first.this
    named = []
    for place, item in enumerate(first.expressions, 1):
        nameless = not item.output_name and not item.is_star
        named.append(exp.alias_(item, f"column_{place}") if nameless else item)
    first.set("expressions", named)
    names = [item.output_name for item in named]
    columns: tuple[str, ...] = ()
    if len(set(names)) != len(names):
        columns = tuple(f"{name}_{place}" if name in names[:place] else name for place, name in enumerate(names))
    return Query(benchmark, number, parsed.sql(dialect="spark", pretty=True), columns)


@dataclass(frozen=True, slots=True)
class Result:
    """What compiling all queries of a benchmark as one view file gives."""

    plan: Plan  # of those that bind
    refused: dict[str, tuple[Diagnostic, ...]]  # by name of the query


@cache
def compiled(benchmark: str) -> Result:
    """Compiles the queries of a benchmark, then those again that were not refused."""
    refused: dict[str, tuple[Diagnostic, ...]] = {}
    try:
        return Result(compile_text(_file(benchmark, refused)), refused)
    except InputError as error:
        for diagnostic in error.diagnostics:
            name = _query_at(benchmark, diagnostic)
            refused[name] = (*refused.get(name, ()), diagnostic)
    return Result(compile_text(_file(benchmark, refused)), refused)


def _file(benchmark: str, refused: dict[str, tuple[Diagnostic, ...]]) -> str:
    return tables(benchmark) + "".join(q.view for q in queries(benchmark) if q.name not in refused)


def _query_at(benchmark: str, diagnostic: Diagnostic) -> str:
    """The query whose text a diagnostic of the whole file points at."""
    starts = [len(tables(benchmark))]
    for query in queries(benchmark):
        starts.append(starts[-1] + len(query.view))
    place = bisect_right(starts, diagnostic.span.start)
    if not 1 <= place < len(starts) or diagnostic.span.end > starts[place]:
        raise AssertionError(f"not in a query:\n{diagnostic.render()}")
    return queries(benchmark)[place - 1].name
