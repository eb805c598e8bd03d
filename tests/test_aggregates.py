"""The facts about aggregates, against Spark's own answers."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from deltafold.compiler.aggregates import FUNCTIONS, Kind, aggregate_type, call_of, is_aggregate
from deltafold.compiler.algebra import col
from deltafold.compiler.moments import algebra_of
from deltafold.compiler.scalar import parse, text
from deltafold.compiler.types import ScalarType
from sqlglot import exp

TYPES = {
    "b": "boolean",
    "ti": "tinyint",
    "i": "int",
    "l": "bigint",
    "g": "double",
    "d": "decimal(10,2)",
    "w": "decimal(38,10)",
    "s": "string",
}

# calls, and the name and arguments that they are read as
CALLS = {
    "count(*)": "count()",
    "count(i)": "count(i)",
    "count(DISTINCT i, s)": "count(distinct i, s)",
    "mean(d)": "avg(d)",
    "every(b)": "bool_and(b)",
    "some(b)": "bool_or(b)",
    "any(b)": "bool_or(b)",
    "std(i)": "stddev_samp(i)",
    "stddev(i)": "stddev_samp(i)",
    "variance(i)": "var_samp(i)",
    "first_value(i)": "first(i)",
    "first(i, true)": "first(i, TRUE)",
    "last(i) IGNORE NULLS": "last(i, TRUE)",
    "array_agg(i)": "collect_list(i)",
    "string_agg(DISTINCT s, ',')": "listagg(distinct s, ',')",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY i)": "percentile(i, 0.5)",
    "approx_percentile(i, 0.5, 100)": "percentile_approx(i, 0.5, 100)",
    "max_by(s, i)": "max_by(s, i)",
    "regr_slope(i, d)": "regr_slope(i, d)",
    "hll_sketch_agg(i)": "hll_sketch_agg(i)",
}


@pytest.mark.parametrize(("sql", "read"), CALLS.items())
def test_calls_are_taken_apart(sql: str, read: str) -> None:
    node = parse(sql)
    call = call_of(node)
    assert is_aggregate(node)
    assert call is not None
    arguments = ", ".join(text(argument) for argument in call.arguments)
    assert f"{call.function}({'distinct ' if call.distinct else ''}{arguments})" == read


@pytest.mark.parametrize(
    "sql", ["sum(i, l)", "percentile_cont(0.5) WITHIN GROUP (ORDER BY i DESC)", "listagg(s) WITHIN GROUP (ORDER BY i)"]
)
def test_forms_that_are_not_known_are_aggregates_still(sql: str) -> None:
    try:
        node = parse(sql)
    except Exception:
        return
    assert is_aggregate(node)
    assert call_of(node) is None


@pytest.mark.parametrize("sql", ["grouping(i)", "i + 1", "upper(s)", "row_number()", "i = ANY (SELECT 1)"])
def test_other_calls_are_no_aggregates(sql: str) -> None:
    assert not is_aggregate(parse(sql))


def test_facts_agree_with_each_other() -> None:
    for facts in FUNCTIONS.values():
        assert facts.arguments[0] <= facts.arguments[1]
        assert not facts.deletable or facts.insertable
        assert not (facts.kind is Kind.HOLISTIC and facts.insertable)
        assert not facts.parts or facts.insertable
        least = facts.arguments[0]
        assert facts.deletable <= (
            bool(facts.parts) or bool(algebra_of(facts.name, [col("x")] * least, ["int"] * least))
        )


# Each function with arguments of the types that it takes; the text is Spark's.
TYPED = [
    *(f"{f}({c})" for f in ("sum", "avg", "try_sum", "try_avg", "median") for c in ("ti", "i", "l", "g", "d", "w")),
    *(f"{f}({c})" for f in ("count", "min", "max", "any_value", "first", "last", "mode") for c in ("i", "d", "s")),
    *(f"{f}({c})" for f in ("collect_list", "collect_set", "approx_count_distinct") for c in ("i", "d", "s")),
    *(f"{f}({c})" for f in ("bit_and", "bit_or", "bit_xor") for c in ("ti", "i", "l")),
    *(f"{f}({c})" for f in ("hll_sketch_agg", "bitmap_construct_agg") for c in ("i", "l")),
    *(f"{f}({c})" for f in ("var_pop", "var_samp", "stddev_pop", "stddev_samp", "skewness", "kurtosis") for c in "id"),
    *(f"{f}({c}, i)" for f in ("covar_pop", "covar_samp", "corr") for c in "idg"),
    *(f"regr_{f}(d, i)" for f in ("count", "avgx", "avgy", "sxx", "sxy", "syy", "slope", "intercept", "r2")),
    *(f"regr_{f}(i, d)" for f in ("avgx", "avgy")),
    "bool_and(b)",
    "bool_or(b)",
    "count_if(b)",
    "min_by(s, i)",
    "max_by(d, i)",
    "listagg(s)",
    "listagg(s, ',')",
    "percentile(i, 0.5)",
    "percentile(d, array(0.5, 0.9))",
    "percentile_approx(i, 0.5)",
    "percentile_approx(d, array(0.5, 0.9))",
    "histogram_numeric(i, 5)",
    "histogram_numeric(d, 5)",
    "count(*)",
]


def test_every_function_is_compared() -> None:
    named = {sql.partition("(")[0] for sql in TYPED}
    assert set(FUNCTIONS) - named == {"hll_union_agg", "bitmap_or_agg"}  # they take sketches


@pytest.fixture(scope="module")
def empty(spark: Any) -> Any:
    return spark.createDataFrame([], ", ".join(f"{name} {type_}" for name, type_ in TYPES.items()))


@pytest.mark.spark
def test_types_are_what_spark_derives(empty: Any) -> None:
    wrong = {}
    for sql in TYPED:
        [field] = empty.selectExpr(sql).schema
        name, _, rest = sql.partition("(")
        arguments = [TYPES.get(a.strip(), _literal_type(a)) for a in rest.removesuffix(")").split(",", 1)]
        star = rest == "*)"
        ours = aggregate_type(name, *([] if star else [ScalarType(a, True) for a in arguments]))
        if (ours.type, ours.nullable) != (field.dataType.simpleString(), field.nullable):
            wrong[sql] = (ours, field.dataType.simpleString(), field.nullable)
    assert not wrong


def _literal_type(sql: str) -> str:
    return "array<decimal(2,1)>" if "array" in sql else "string" if "'" in sql else "decimal(1,1)"


@pytest.mark.spark
def test_values_follow_from_parts(spark: Any) -> None:
    """Over groups of none to a few rows, with NULLs, equal values and single rows."""
    rows = _rows(random.Random(7))
    spark.createDataFrame(rows, "k int, b boolean, i int, l bigint, g double, d decimal(10,2)").createOrReplaceTempView(
        "t"
    )
    calls = [(f, ("b",)) for f in ("count_if", "bool_and", "bool_or")]
    one, two = ("var_pop", "var_samp", "stddev_pop", "stddev_samp"), ("covar_pop", "covar_samp")
    regression = [f"regr_{f}" for f in ("count", "sxx", "sxy", "syy", "slope", "intercept", "r2")]
    calls += [(f, (c,)) for f in one for c in "ilgd"]
    calls += [(f, pair) for f in (*two, *regression) for pair in (("i", "d"), ("g", "i"), ("l", "l"))]
    calls += [("corr", ("i", "d")), ("corr", ("g", "i"))]  # Spark fails where all values of a group are the same
    direct, parted = [], []
    for at, (function, arguments) in enumerate(calls):
        algebra = algebra_of(function, [parse(a) for a in arguments], [TYPES[a] for a in arguments])
        assert algebra is not None
        varies = " FILTER (WHERE k <> 2)" if function == "corr" else ""
        direct.append(f"{function}({', '.join(arguments)}){varies} AS c{at}")
        names = {part.name: f"{part.function}({text(part.argument)})" for part in algebra.parts}
        value = algebra.value.transform(lambda n, names=names: parse(names[n.name]) if isinstance(n, exp.Column) else n)
        parted.append(f"{text(value)} AS c{at}")
    expected, found = (
        spark.sql(f"SELECT k, {', '.join(items)} FROM t GROUP BY k ORDER BY k").collect() for items in (direct, parted)
    )
    wrong = [
        (row.k, *calls[at], row[at + 1], other[at + 1])
        for row, other in zip(expected, found, strict=True)
        for at in range(len(calls))
        if not _close(row[at + 1], other[at + 1])
    ]
    assert not wrong


def _close(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-6)
    return bool(a == b)


def _rows(draw: random.Random) -> list[tuple[Any, ...]]:
    from decimal import Decimal

    rows: list[tuple[Any, ...]] = [(0, None, None, None, None, None), (1, True, 2000000000, 7, 0.5, Decimal("-3.25"))]
    rows += [(2, False, 5, 5, 1.5, Decimal("2.00"))] * 3
    for key in range(3, 12):
        for _ in range(draw.randrange(1, 7)):
            values: tuple[Any, ...] = (
                draw.random() < 0.5,
                draw.randrange(-5, 2_000_000_000),
                draw.randrange(-9, 9),
                draw.uniform(-2, 2),
                Decimal(draw.randrange(-10_000, 10_000)) / 100,
            )
            rows.append((key, *(None if draw.random() < 0.2 else value for value in values)))
    return rows
