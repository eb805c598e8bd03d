"""Each construct of SQL that a view may hold, as the algebra that it becomes: what docs/maintenance.md lists."""

from __future__ import annotations

from deltafold.compiler.algebra import Column
from deltafold.compiler.catalog import Catalog, ForeignKey, Table
from deltafold.compiler.source import SourceFile, Span
from deltafold.grammar.plan_reader import parse_rel
from deltafold.randomdata import Change
from random_views import RandomCase

_NOWHERE = Span(SourceFile("", ""), 0, 0)
D = Table("d", (Column("id", "int", nullable=False), Column("a", "string"), Column("b", "int")), _NOWHERE, (("id",),))
F = Table(
    "f",
    (
        Column("n", "int", nullable=False),
        Column("d", "int"),
        Column("k", "string"),
        Column("x", "int"),
        Column("y", "decimal(6,2)"),
    ),
    _NOWHERE,
    (("n",),),
    (ForeignKey(("d",), "d", ("id",)),),
)
CATALOG = Catalog((D, F))
_RELATIONS = {"d": D.columns, "f": F.columns}
_SUMS = "GroupBy [k] { s := sum(x), c := count(*) }\n  Scan f"

CONSTRUCTS: dict[str, str] = {
    "SELECT … WHERE": "Project { k, x2 := x + 1 }\n  Select [x > 1]\n    Scan f",
    "JOIN": "Project { a, x }\n  Join [d = id]\n    Scan f\n    Scan d",
    "JOIN, not on equality": "Project { a, x }\n  Join [x < b]\n    Scan f\n    Scan d",
    "a join with itself": "Join [x = z]\n  Project { k, x }\n    Scan f\n  Project { l := k, z := x }\n    Scan f",
    "LEFT JOIN": "Project { a, x }\n  Join left [d = id]\n    Scan f\n    Scan d",
    "RIGHT JOIN": "Project { a, x }\n  Join left [id = d]\n    Scan d\n    Scan f",
    "FULL JOIN": "Project { a, x }\n  Join full [x = b]\n    Scan f\n    Scan d",
    "EXISTS, IN, LEFT SEMI JOIN": "Project { k }\n  Join semi [x = b]\n    Scan f\n    Scan d",
    "NOT EXISTS, LEFT ANTI JOIN": "Project { k }\n  Join anti [x = b]\n    Scan f\n    Scan d",
    "NOT IN": "Project { k }\n  Join anti [NOT (x = b) IS FALSE]\n    Scan f\n    Scan d",
    "scalar subquery": "Project { k, m }\n  Join left [TRUE]\n    Scan f\n    GroupBy [] { m := max(b) }\n      Scan d",
    "UNION ALL": "UnionAll\n  Project { k }\n    Scan f\n  Project { k := a }\n    Scan d",
    "UNION": "GroupBy [k]\n  UnionAll\n    Project { k }\n      Scan f\n    Project { k := a }\n      Scan d",
    "EXCEPT ALL": "ExceptAll\n  Project { k }\n    Scan f\n  Project { k := a }\n    Scan d",
    "EXCEPT": "Join anti [k <=> a]\n  GroupBy [k]\n    Scan f\n  Scan d",
    "INTERSECT ALL": "IntersectAll\n  Project { k }\n    Scan f\n  Project { k := a }\n    Scan d",
    "INTERSECT": "Join semi [k <=> a]\n  GroupBy [k]\n    Scan f\n  Scan d",
    "DISTINCT": "GroupBy [k, x]\n  Scan f",
    "GROUP BY: COUNT, SUM, AVG": "GroupBy [k] { c := count(x), s := sum(y), m := avg(x) }\n  Scan f",
    "GROUP BY: MIN, MAX": "GroupBy [k] { lo := min(x), hi := max(y) }\n  Scan f",
    "aggregates without GROUP BY": "GroupBy [] { c := count(*), s := sum(x), hi := max(x) }\n  Scan f",
    "FILTER": "GroupBy [k] { s := sum(CASE WHEN x > 1 THEN x END) }\n  Scan f",
    "VARIANCE, STDDEV": "GroupBy [k] { v := var_pop(x), s := stddev_samp(x) }\n  Scan f",
    "COVAR, CORR, REGR": "GroupBy [k] { v := covar_pop(x, n), s := regr_slope(x, n) }\n  Scan f",
    "BOOL_AND, BOOL_OR, COUNT_IF": (
        "GroupBy [k] { v := bool_and(x > 1), o := bool_or(x > 1), c := count_if(x > 1) }\n  Scan f"
    ),
    "HAVING": f"Select [s > 1]\n  {_SUMS.replace(chr(10), chr(10) + '  ')}",
    "COUNT(DISTINCT), SUM(DISTINCT)": "GroupBy [k] { c := count(DISTINCT x), s := sum(DISTINCT x) }\n  Scan f",
    "MEDIAN, PERCENTILE": "GroupBy [k] { m := median(x) }\n  Scan f",
    "MIN_BY, MAX_BY": "GroupBy [k] { m := max_by(x, n) }\n  Scan f",
    "GROUPING SETS, CUBE, ROLLUP": (
        "GroupBy [k, d, g] { s := sum(x) }\n"
        "  Expand { k, d, x, g := 0 } { k, d := CAST(NULL AS INT), x, g := 1 }\n"
        "    Scan f"
    ),
    "an aggregate of aggregates": "GroupBy [] { m := max(s) }\n  GroupBy [k] { s := sum(x) }\n    Scan f",
    "an aggregate joined": "Join [k = a]\n  GroupBy [k] { s := sum(x) }\n    Scan f\n  Project { a, b }\n    Scan d",
    "a window with PARTITION BY": "Window { r := RANK() OVER (PARTITION BY k ORDER BY x) }\n  Scan f",
    "the first rows of each group": (
        "Select [r <= 1]\n  Window { r := ROW_NUMBER() OVER (PARTITION BY k ORDER BY x, n) }\n    Scan f"
    ),
    "a window without PARTITION BY": "Window { r := RANK() OVER (ORDER BY x) }\n  Scan f",
    "ORDER BY … LIMIT": "Limit [x ASC NULLS FIRST, n ASC NULLS FIRST] 2\n  Scan f",
    "PIVOT": "GPivot [d] { one := s @ (1), two := s @ (2) }\n  GroupBy [k, d] { s := sum(x) }\n    Scan f",
    "PIVOT … WHERE": (
        "Select [one > 1]\n"
        "  GPivot [d] { one := s @ (1), two := s @ (2) }\n"
        "    GroupBy [k, d] { s := sum(x) }\n"
        "      Scan f"
    ),
    "GPIVOT of rows": "GPivot [n] { one := x @ (1), two := x @ (2) }\n  Project { k, n, x }\n    Scan f",
    "UNPIVOT": "GUnpivot [name] { d := v @ ('d'), x := v @ ('x') }\n  Project { k, d, x }\n    Scan f",
}

TABLES = {
    "d": [(0, "p", 1), (1, "q", 2), (2, None, None)],
    "f": [
        (1, 0, "p", 1, None),
        (2, 0, "p", 2, None),
        (3, 1, None, 2, None),
        (4, None, "q", None, None),
        (5, 1, "q", 5, None),
    ],
}
BATCHES = {
    "insert": (
        Change("f", None, (6, 2, "r", 1, None)),
        Change("f", None, (7, 0, "p", 9, None)),
        Change("d", None, (3, "r", 5)),
    ),
    "delete": (Change("f", TABLES["f"][0], None), Change("f", TABLES["f"][4], None), Change("d", TABLES["d"][2], None)),
    "update": (
        Change("f", TABLES["f"][1], (2, 1, None, 7, None)),
        Change("f", TABLES["f"][3], (4, 0, "p", 2, None)),
        Change("d", TABLES["d"][1], (1, "p", None)),
    ),
    "mixed": (
        Change("f", None, (6, 0, "p", 2, None)),
        Change("f", TABLES["f"][4], None),
        Change("f", TABLES["f"][1], (2, None, "q", 5, None)),
        Change("d", TABLES["d"][2], (2, "r", 2)),
        Change("d", None, (3, "p", 9)),
        Change("f", None, (8, 3, "s", None, None)),
        Change("f", (8, 3, "s", None, None), None),
    ),
}


def case(kind: str) -> RandomCase:
    """All constructs as views over the same tables, and one batch."""
    views = tuple((f"v{place}", parse_rel(text, _RELATIONS)) for place, text in enumerate(CONSTRUCTS.values(), start=1))
    return RandomCase(CATALOG, views, ((TABLES, (BATCHES[kind],)),))
