"""Types of scalar expressions, against Spark's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tpc
from deltafold.compiler.algebra import Column
from deltafold.compiler.pipeline import compile_file
from deltafold.compiler.properties import schema
from deltafold.compiler.scalar import canonical, parse, text
from deltafold.compiler.types import type_name
from deltafold.compiler.typing import NotDeterministic, UnknownType, type_of, window_type
from deltafold.verify import expected_views
from sqlglot import exp

COLUMNS = {
    column.name: column
    for column in (
        Column("ti", "tinyint"),
        Column("si", "smallint"),
        Column("i", "int"),
        Column("n", "int", nullable=False),
        Column("l", "bigint"),
        Column("f", "float"),
        Column("g", "double"),
        Column("d10", "decimal(10,2)"),
        Column("d38", "decimal(38,10)"),
        Column("d20", "decimal(20,4)", nullable=False),
        Column("s", "string"),
        Column("z", "string", nullable=False),
        Column("b", "boolean"),
        Column("d", "date"),
        Column("ts", "timestamp"),
        Column("tn", "timestamp_ntz"),
        Column("arr", "array<int>"),
        Column("sa", "array<string>"),
        Column("st", "struct<x:int,y:array<string>>"),
        Column("mp", "map<string,int>"),
        Column("bin", "binary"),
    )
}

EXPRESSIONS = """
i | n | l | d10 | 1 | -1 | 3000000000 | -2147483648 | 1.5 | -0.05 | 1.50 | 100.0 | 1e3 | 99999999999999999999 | 'x'
TRUE | NULL | DATE '2020-01-01' | TIMESTAMP '2020-01-01 00:00:00' | 10L | 1.5D | X'AB' | i + 1 | i + l | ti + si
si * i | i / 2 | i DIV 2 | l % 3 | -i | i + f | l + g | f + f | f + l | f * 2 | f + d10 | d10 + 1 | d10 + i | d10 + l
d10 * 2 | d10 * i | d10 * d10 | d38 * d38 | d38 + d10 | d10 / 3 | d10 / i | d38 / d38 | d10 - 0.5 | d10 % 3 | d10 * g
d10 / 1.5 | i * 0.5 | i / 0.5 | l * 1.5 | d20 * d20 | d20 * 1000000 | d10 DIV 2 | -d10 | d10 * (2) | d10 * -2
d10 * (-2) | i + '1' | g + '1' | d10 + '1' | i / l | d10 * 10L | pmod(i, 3) | n / 2 | n % 2 | n + 1 | i + NULL
d10 + NULL | d38 % d10 | d38 - d38 | d20 / d38 | i > 1 | n > 1 | s = 'a' | i <=> l | i IS NULL | i IS NOT NULL | NOT b
b AND n > 1 | n > 1 OR n < 0 | i IN (1, 2) | n IN (1, 2) | i NOT IN (1, NULL) | n BETWEEN 1 AND 2 | s LIKE 'a%'
z LIKE 'a%' | s RLIKE 'a' | b IS TRUE | i IS DISTINCT FROM n | CASE WHEN i > 1 THEN 1 ELSE 2 END
CASE WHEN i > 1 THEN 1 END | CASE i WHEN 1 THEN 'a' ELSE 'b' END | CASE WHEN b THEN 1 ELSE 1.5 END
CASE WHEN b THEN i ELSE d10 END | CASE WHEN b THEN d ELSE ts END | CASE WHEN b THEN NULL ELSE 1 END
CASE WHEN b THEN d10 ELSE 0 END | CASE WHEN b THEN d38 ELSE l END | IF(b, 1, 2) | IF(b, i, l) | IF(b, f, i)
IF(b, '1', 2) | IF(b, 'a', NULL) | IF(b, d10, 1.555) | IF(b, f, d10) | IF(b, tn, d) | COALESCE(i, 0) | COALESCE(i, l)
COALESCE(d10, 0) | COALESCE(s, 'x') | NVL(i, 1.5) | IFNULL(d, DATE '2020-01-01') | NULLIF(i, 0) | NULLIF(n, 0)
NVL2(i, 1, 2) | COALESCE(i, 2.5) | NULLIF(d10, 0) | COALESCE(d38, d20) | CAST(i AS BIGINT) | CAST(s AS INT)
CAST(z AS INT) | CAST(i AS DECIMAL) | CAST(i AS DECIMAL(12, 3)) | TRY_CAST(z AS INT) | CAST(d AS STRING)
CAST(s AS DATE) | CAST(ts AS DATE) | CAST(d AS TIMESTAMP) | CAST(i AS DOUBLE) | CAST(n AS FLOAT)
CAST(s AS VARCHAR(3)) | CAST(n AS SMALLINT) | CAST(d AS TIMESTAMP_NTZ) | CAST(s AS BINARY) | INT(s) | STRING(n)
DATE(s) | BIGINT(i) | CONCAT(s, 'a') | CONCAT(z, 'a') | s || 'a' | CONCAT(s, i) | CONCAT_WS('-', s, z) | UPPER(s)
LOWER(z) | TRIM(s) | LTRIM(s) | SUBSTRING(s, 1, 2) | SUBSTR(z, 2) | LEFT(s, 2) | RIGHT(s, 2) | LENGTH(z)
CHAR_LENGTH(s) | REPLACE(s, 'a', 'b') | INITCAP(s) | LPAD(s, 3, 'x') | INSTR(s, 'a') | REVERSE(s) | REPEAT(s, 2)
ASCII(s) | STARTSWITH(s, 'a') | MD5(s) | REGEXP_REPLACE(s, 'a', 'b') | ABS(i) | ABS(d10) | ROUND(d10) | ROUND(d10, 1)
ROUND(d10, 5) | ROUND(d10, -1) | ROUND(g, 1) | ROUND(i, 1) | ROUND(d38, 2) | FLOOR(g) | FLOOR(d10) | CEIL(d10)
CEIL(i) | FLOOR(d38) | GREATEST(i, l) | LEAST(n, 1) | GREATEST(i, n) | GREATEST(d10, i) | POWER(i, 2) | SQRT(g)
EXP(g) | LN(g) | LOG10(g) | SIGN(i) | BROUND(d10, 1) | i & 1 | ~i | YEAR(d) | MONTH(ts) | DAY(d) | QUARTER(d)
DAYOFWEEK(d) | DAYOFYEAR(d) | WEEKOFYEAR(d) | HOUR(ts) | MINUTE(ts) | SECOND(ts) | EXTRACT(YEAR FROM d)
EXTRACT(SECOND FROM ts) | DATE_ADD(d, 1) | DATE_SUB(d, 1) | DATEDIFF(d, d) | ADD_MONTHS(d, 1) | TRUNC(d, 'MM')
DATE_TRUNC('MONTH', ts) | DATE_TRUNC('MONTH', d) | TO_DATE(s) | TO_DATE(s, 'yyyy-MM-dd') | TO_TIMESTAMP(s)
LAST_DAY(d) | NEXT_DAY(d, 'MON') | d + 1 | d - 1 | d - d | d + INTERVAL 1 DAY | d - INTERVAL '1' MONTH
ts + INTERVAL 1 HOUR | ts + INTERVAL 1 DAY | DATE_FORMAT(d, 'yyyy') | MONTHS_BETWEEN(d, d) | MAKE_DATE(2020, 1, 1)
d + INTERVAL 2 HOUR | HASH(i) | UNIX_TIMESTAMP(ts) | FROM_UNIXTIME(l) | DATEADD(day, 1, d) | DATEDIFF(day, d, d)
arr[0] | mp['a'] | (st).x | (st).y[0] | element_at(arr, 1) | element_at(mp, 'a') | size(arr) | cardinality(mp) | array(1, 2)
array(i, l) | array_contains(arr, 1) | sort_array(arr) | array_distinct(arr) | array_max(arr) | array_join(sa, ',')
array_position(arr, 1) | array_union(arr, arr) | array_intersect(arr, arr) | arrays_overlap(arr, arr) | array_remove(arr, 1)
array_append(arr, 1) | flatten(array(arr)) | slice(arr, 1, 2) | sequence(1, 3) | split(s, ',') | split(z, ',')[0] | reverse(arr)
split_part(s, ',', 1) | concat(arr, arr) | array_repeat(i, 2) | map('a', 1) | map_keys(mp) | map_values(mp) | reverse(s)
map_contains_key(mp, 'a') | named_struct('p', i, 'q', s) | struct(i, s) | map_from_arrays(sa, arr) | get_json_object(s, '$.a')
to_json(st) | btrim(s) | octet_length(s) | find_in_set('a', s) | format_number(g, 2) | format_string('%d', i) | unbase64(s)
base64(bin) | hex(i) | unhex(s) | encode(s, 'UTF-8') | decode(bin, 'UTF-8') | regexp_extract_all(s, 'a') | regexp_count(s, 'a')
regexp_substr(s, 'a') | regexp_instr(s, 'a') | s LIKE ANY ('a', 'b') | date_part('year', d) | date_part('second', ts)
to_timestamp(s, 'yyyy') | unix_seconds(ts) | unix_date(d) | timestamp_seconds(l) | from_utc_timestamp(ts, 'UTC')
make_timestamp(2020, 1, 1, 0, 0, 0) | try_to_timestamp(s) | to_char(d10, '999') | ts - ts | d - ts | ts - INTERVAL 3 DAYS
INTERVAL 1 DAY | INTERVAL '1-2' YEAR TO MONTH | INTERVAL 2 MONTHS | INTERVAL 1 WEEK | (d - d) > INTERVAL 1 DAY | ts + (ts - ts)
INTERVAL 1 DAY * 2 | INTERVAL 1 YEAR / 2 | (i, s) IN ((1, 'a')) | sin(g) | atan2(g, g) | degrees(g) | pi() | e() | log1p(g)
factorial(i) | hypot(g, g) | positive(i) | shiftleft(i, 1) | i ^ 1 | rint(g) | width_bucket(g, 0, 1, 4) | try_divide(d10, 2)
ceil(d10, 1) | floor(d10, 1) | conv(s, 10, 16) | bin(l) | bit_count(i) | CASE WHEN b THEN arr ELSE array(1) END
CASE WHEN i = 1 THEN d10 WHEN i = 2 THEN 1.234 ELSE 0 END | coalesce(d, ts) | CAST(arr AS ARRAY<BIGINT>) | CAST(ts AS BIGINT)
str_to_map(s) | parse_url(s, 'HOST') | url_encode(s) | luhn_check(s) | typeof(i) | mask(s) | elt(1, s, z) | try_element_at(arr, 1)
"""


def _expressions() -> list[str]:
    return [part.strip() for line in EXPRESSIONS.strip().splitlines() for part in line.replace("||", "\0").split("|")]


# Spark gives a literal that it casts as nullable; the cast of a well-formed literal is not.
SURER_THAN_SPARK = (
    "DATE '2020-01-01'",
    "TIMESTAMP '2020-01-01 00:00:00'",
    "IFNULL(d, DATE '2020-01-01')",
    "d20 * 1000000",
    "IF(b, '1', 2)",
)

# sqlglot reads 10L as CAST(10 AS BIGINT), which Spark takes for a number of up to 20 digits, not of two.
WIDER_WHEN_PRINTED = ("d10 * 10L",)

SQL = [sql.replace("\0", "||") for sql in _expressions()]


@pytest.fixture(scope="module")
def table(spark: Any) -> Any:
    from pyspark.sql.types import StructType, _parse_datatype_string

    schema = StructType()
    for column in COLUMNS.values():
        schema.add(column.name, _parse_datatype_string(column.type), column.nullable)
    return spark.createDataFrame([], schema)


@pytest.mark.spark
@pytest.mark.parametrize("sql", SQL)
def test_type_is_what_spark_derives(sql: str, table: Any) -> None:
    expression = canonical(parse(sql))
    [field] = table.selectExpr(text(expression)).schema
    [written] = table.selectExpr(sql).schema
    ours = type_of(expression, COLUMNS)
    assert field.dataType == written.dataType or sql in WIDER_WHEN_PRINTED, "printing changes the type"
    assert ours.type == field.dataType.simpleString()
    assert ours.nullable or not field.nullable or sql in SURER_THAN_SPARK


WINDOWS = """
row_number() | rank() | dense_rank() | ntile(4) | percent_rank() | cume_dist() | lag(i) | lag(i, 1, 0) | lead(n, 2)
first_value(n) | first_value(i) IGNORE NULLS | last_value(s) | nth_value(i, 2) | sum(d10) | sum(n) | avg(i) | avg(d38)
count(*) | count(i) | max(d) | min(s) | stddev(i) | sum(i) FILTER (WHERE b) | collect_list(i) | any_value(i) | corr(i, l)
"""


@pytest.mark.spark
def test_windows_have_the_types_that_spark_derives(table: Any) -> None:
    wrong = []
    for sql in (part.strip() for line in WINDOWS.strip().splitlines() for part in line.split("|")):
        call = f"{sql} OVER (PARTITION BY i ORDER BY l)"
        [field] = table.selectExpr(call).schema
        expression = canonical(parse(call))
        assert isinstance(expression, exp.Window)
        ours = window_type(expression, COLUMNS)
        if ours.type != field.dataType.simpleString() or (field.nullable and not ours.nullable):
            wrong.append((sql, ours, field))
    assert not wrong


VIEW_FILES = sorted([*Path(__file__).parent.glob("views/*.sql"), *Path(__file__).parents[1].glob("examples/*.sql")])


@pytest.mark.spark
@pytest.mark.parametrize("name", [*(path.name for path in VIEW_FILES), "tpch", "tpcds"])
def test_views_have_the_columns_that_spark_gives_them(name: str, spark: Any) -> None:
    from pyspark.sql.types import StructType, _parse_datatype_string

    path = next((path for path in VIEW_FILES if path.name == name), None)
    plan = compile_file(path) if path else tpc.compiled(name).plan
    tables = {}
    for table in plan.catalog.tables:
        shape = StructType()
        for column in table.columns:
            shape.add(column.name, _parse_datatype_string(column.type), column.nullable)
        tables[table.name] = spark.createDataFrame([], shape)
    wrong = []
    for view_name, frame in expected_views(spark, plan, tables).items():
        view = plan.view(view_name)
        assert view is not None
        for ours, field in zip(schema(view.definition), frame.schema, strict=True):
            same = (ours.name, ours.type) == (field.name, field.dataType.simpleString())
            if not same or (field.nullable and not ours.nullable):
                wrong.append((view_name, ours, field))
    assert not wrong


@pytest.mark.parametrize(
    "sql",
    [
        "rand()",
        "uuid()",
        "current_date()",
        "current_timestamp()",
        "now()",
        "i + rand()",
        "IF(rand() > 0, 1, 2)",
        "unix_timestamp()",
    ],
)
def test_changing_values_are_refused(sql: str) -> None:
    with pytest.raises(NotDeterministic):
        type_of(parse(sql), COLUMNS)


@pytest.mark.parametrize("sql", ["no_such_function(i)", "i + missing", "SUM(i)", "IF(b, 1, d)"])
def test_the_unknown_is_refused(sql: str) -> None:
    with pytest.raises(UnknownType) as refused:
        type_of(parse(sql), COLUMNS)
    assert refused.value.message


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        ("INTEGER", "int"),
        ("LONG", "bigint"),
        ("DECIMAL", "decimal(10,0)"),
        ("DECIMAL(12, 3)", "decimal(12,3)"),
        ("NUMERIC(5)", "decimal(5,0)"),
        ("VARCHAR(20)", "string"),
        ("STRING", "string"),
        ("TIMESTAMP", "timestamp"),
        ("TIMESTAMP_NTZ", "timestamp_ntz"),
        ("REAL", "float"),
        ("ARRAY<INT>", "array<int>"),
    ],
)
def test_type_names(sql: str, name: str) -> None:
    assert type_name(exp.DataType.build(sql, dialect="spark")) == name
