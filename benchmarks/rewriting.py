"""How long rewriting takes: python benchmarks/rewriting.py [VIEWS]

A view of 40 operators: pivots under joins, selections, projections and groupings, which the rules pull up and combine.
Then many views of the size of the paper's figure 2. Times are processor time, the best of a
few runs, parsing and binding left out.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from deltafold.compiler.algebra import Rel
from deltafold.compiler.read import read_text
from deltafold.compiler.schema import bind_schema
from deltafold.grammar.plan_reader import parse_rel
from deltafold.rewrites.cost import optimise
from deltafold.rewrites.normalise import pull_pivots_up

DIMENSIONS = 17
REFERENCES = "".join(f"f{n} INT NOT NULL, " for n in range(DIMENSIONS))
TABLES = f"CREATE TABLE payment (id INT NOT NULL, kind STRING NOT NULL, {REFERENCES}price INT, PRIMARY KEY (id, kind));"
TABLES += (
    "CREATE TABLE bill (id INT NOT NULL, kind STRING NOT NULL, f0 INT, f1 INT, price INT, PRIMARY KEY (id, kind));"
)
TABLES += "".join(
    f"CREATE TABLE d{n} (key{n} INT NOT NULL PRIMARY KEY, a{n} STRING NOT NULL, b{n} INT);" for n in range(DIMENSIONS)
)
CATALOG = bind_schema(read_text(TABLES, "tables.sql").statements)[0]
COLUMNS = {table.name: table.columns for table in CATALOG.tables}


def deep_view() -> Rel:
    """A pivot at the bottom, seventeen joins above it, a selection, a grouping and a pivot on top."""
    text = "GPivot [kind] { c := price @ ('c'), d := price @ ('d') }\n  Scan payment"
    for n in range(DIMENSIONS):
        text = f"Join [f{n} = key{n}]\n{_indent(text)}\n  Scan d{n}"
    text = f"Project {{ a0, a1, c, d }}\n  Select [b1 > 1]\n{_indent(_indent(text))}"
    text = f"GroupBy [a0, a1] {{ sc := sum(c), sd := sum(d) }}\n{_indent(text)}"
    text = f"GPivot [a1] {{ xc := sc @ ('x'), yc := sc @ ('y'), xd := sd @ ('x'), yd := sd @ ('y') }}\n{_indent(text)}"
    return parse_rel(text, COLUMNS)


def small_view() -> Rel:
    """Figure 2 of gpivot-2005."""
    total = """GroupBy [a0, a1] { sc := sum(c), sd := sum(d) }
  Join [f1 = key1]
    Join [f0 = key0]
      GPivot [kind] { c := price @ ('c'), d := price @ ('d') }
        Scan bill
      Scan d0
    Scan d1"""
    left = (
        f"GPivot [a1] {{ xc := sc @ ('x'), yc := sc @ ('y') }}\n  Project {{ a0, a1, sc }}\n{_indent(_indent(total))}"
    )
    right = (
        f"GPivot [a1] {{ xd := sd @ ('x'), yd := sd @ ('y') }}\n  Project {{ a0, a1, sd }}\n{_indent(_indent(total))}"
    )
    text = f"Join [a0 = z0]\n{_indent(left)}\n  Project {{ z0 := a0, xd, yd }}\n{_indent(_indent(right))}"
    return parse_rel(text, COLUMNS)


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.split("\n"))


def operators(rel: Rel) -> int:
    return 1 + sum(map(operators, rel.inputs))


def best(work: Callable[[], object], runs: int = 5) -> float:
    times = []
    for _ in range(runs):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def main() -> None:
    views = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    deep, small = deep_view(), small_view()
    pulled = pull_pivots_up(deep, CATALOG)
    seconds = best(lambda: pull_pivots_up(deep, CATALOG))
    print(f"a view of {operators(deep)} operators, {len(pulled.steps)} steps: {seconds * 1000:.0f} ms")
    seconds = best(lambda: optimise(small, CATALOG), 2)
    print(f"a view of {operators(small)} operators, optimised by cost: {seconds * 1000:.0f} ms")
    started = time.process_time()
    for _ in range(views):
        steps = len(pull_pivots_up(small, CATALOG).steps)
    took = time.process_time() - started
    print(f"{views} views of {operators(small)} operators, {steps} steps each: {took:.1f} s")


if __name__ == "__main__":
    main()
