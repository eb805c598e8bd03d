"""The PySpark text of every operator gives what the oracle gives, on random rows with NULLs and duplicates."""

from __future__ import annotations

import random
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from deltafold.codegen.frames import expression, literal
from deltafold.compiler.algebra import Column, Ref
from deltafold.grammar.plan_reader import parse_rel
from oracle import evaluate

RELATIONS = {
    "t": (Column("k", "int"), Column("a", "int"), Column("b", "string"), Column("v", "int")),
    "u": (Column("k", "int"), Column("a", "int"), Column("b", "string"), Column("v", "int")),
    "wide": (Column("k", "int"), Column("jan", "int"), Column("feb", "int"), Column("odd name", "int")),
}

PLANS = """
GPivot [a] { one := v @ (1), `two 2` := v @ (2), none := v @ (NULL) }
  GroupBy [k, a] { v := max(v) }
    Scan t
----
GPivot [a, b] { x := n @ (1, 'x'), y := m @ (1, 'x'), z := n @ (NULL, 'y') }
  GroupBy [k, a, b] { n := count(*), m := min(v) }
    Scan t
----
GPivot [a] { one := n @ (1), two := n @ (2) }
  GroupBy [a] { n := count(v) }
    Scan t
----
GUnpivot [month] { jan := v @ ('jan'), feb := v @ ('feb') }
  Scan wide
----
GUnpivot nulls [month, n] { jan := v @ ('jan', 1), feb := w @ ('jan', 1), `odd name` := v @ ('it\\'s', 2) }
  Scan wide
----
GUnpivot [month] { jan := v @ ('jan'), feb := w @ ('jan'), `odd name` := v @ ('feb') }
  Scan wide
----
GroupBy [k, a, g] { n := count(*), s := sum(v) }
  Expand { k, a, v, g := 0 } { k, a := NULL, v, g := 1 } { k := NULL, a := NULL, v, g := 3 }
    Scan t
----
Expand { k, w := v } { k, w := NULL } { k := a, w := v + 1 }
  Scan t
----
Values [a int not null, b string, c decimal(4,2)] { (1, 'x', 1.5), (2, NULL, NULL), (1, 'x', 1.5) }
----
Values [a int, b string] { }
----
Join [k = c]
  Scan t
  Values [c int] { (1), (1), (NULL) }
----
Window { r := RANK() OVER (PARTITION BY k ORDER BY v), d := DENSE_RANK() OVER (PARTITION BY k ORDER BY v DESC) }
  Scan t
----
Window { s := SUM(v) OVER (PARTITION BY k, a), n := COUNT(*) OVER (PARTITION BY k, a ORDER BY v, b) }
  Scan t
----
Window { s := SUM(v) OVER (ORDER BY v), m := MAX(b) OVER (ORDER BY v) }
  Scan t
----
Limit [k ASC NULLS LAST, a DESC NULLS FIRST, b ASC NULLS FIRST, v ASC NULLS FIRST] 3 offset 2
  Scan t
----
Limit [v DESC NULLS LAST, k ASC NULLS FIRST, a ASC NULLS FIRST, b ASC NULLS FIRST] all offset 4
  Scan t
----
Limit [] 0
  Scan t
----
ExceptAll
  Scan t
  Scan u
----
IntersectAll
  Scan t
  Scan u
----
ExceptAll
  UnionAll
    Scan t
    Scan t
  Select [v > 1]
    Scan u
----
Join full [k = x AND a <=> y]
  Scan t
  Project { x := k, y := a, z := v }
    Scan u
----
Join left [k < x]
  Scan t
  GroupBy [x]
    Project { x := k }
      Scan u
----
Join anti [NOT (k = x) IS FALSE]
  Scan t
  Project { x := a }
    Scan u
----
Join semi [b = x]
  Scan t
  Project { x := b }
    Scan u
----
GroupBy [] { n := count(*), s := sum(v), m := max(b), d := count(DISTINCT a) }
  Scan t
----
GroupBy [k]
  Scan t
"""


def _rows(draw: random.Random) -> dict[str, list[dict[str, Any]]]:
    def one(*values: Any) -> Any:
        return draw.choice([*values, None])

    def some(most: int, *values: tuple[str, tuple[Any, ...]]) -> list[dict[str, Any]]:
        return [{name: one(*among) for name, among in values} for _ in range(draw.randrange(most))]

    shape = (("k", (1, 2)), ("a", (1, 2)), ("b", ("x", "y")), ("v", (1, 2, 3)))
    numbers = tuple((column.name, (1, 2)) for column in RELATIONS["wide"])
    return {"t": some(14, *shape), "u": some(14, *shape), "wide": some(8, *numbers)}


@pytest.mark.spark
@pytest.mark.parametrize("seed", [0, 5])
def test_text_of_every_operator(seed: int, spark: Any) -> None:
    from pyspark.sql import functions as F

    tables = _rows(random.Random(seed)) if seed else {name: [] for name in RELATIONS}
    frames = {}
    for name, columns in RELATIONS.items():
        rows = [tuple(row[c.name] for c in columns) for row in tables[name]]
        frames[name] = spark.createDataFrame(rows, ", ".join(f"`{c.name}` {c.type}" for c in columns))
    wrong = []
    for plan in PLANS.split("----\n"):
        rel = parse_rel(plan, RELATIONS)
        text = "\n".join(expression(rel, lambda scan: f"frames[{literal(scan.ref.name)}]"))
        frame = eval(text, {"F": F, "frames": frames, "w": SimpleNamespace(spark=spark)})
        found = Counter(tuple(row) for row in frame.collect())
        rows_of = evaluate(rel, {Ref(name): rows for name, rows in tables.items()})
        expected = Counter(tuple(row[name] for name in rel.names) for row in rows_of)
        if tuple(frame.columns) != rel.names or found != expected:
            wrong.append(f"{plan}\n{text}\n{frame.columns}\nmissing {expected - found}\nextra {found - expected}")
    assert not wrong, "\n\n".join(wrong)


def test_every_plan_is_read_and_evaluated() -> None:
    tables = _rows(random.Random(5))
    for plan in PLANS.split("----\n"):
        rel = parse_rel(plan, RELATIONS)
        evaluate(rel, {Ref(name): rows for name, rows in tables.items()})
