"""Table 1 of summary-delta-1997, counted: tuples read and written by recomputation, individual and shared maintenance.

    python benchmarks/table1.py [--small]

Makes the data of the paper's table 3 (1 000 000 rows of pos, 10 000 changed ones), compiles examples/retail.sql, runs
its plan on the plain-Python evaluator and counts rows as appendix A does: what propagate reads of changes, of
summary-deltas and, when views are recomputed, of tables and views; and what is written to the views. Rows of dimension
tables and look-ups of stored groups are not counted there, so they are not here. docs/lattice.md has the result.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from deltafold.compiler.affected import equated  # noqa: E402
from deltafold.compiler.algebra import SIGN, Join, Ref, Rel, Scan, State, scans, with_inputs  # noqa: E402
from deltafold.compiler.columns import schema  # noqa: E402
from deltafold.compiler.pipeline import compile_text  # noqa: E402
from deltafold.compiler.plan import Plan, ViewPlan  # noqa: E402
from oracle import Row, evaluate  # noqa: E402

PRINTED = {
    "SID_sales": (1_100_000, 11_000, 11_000),
    "sCD_sales": (110_000, 10_100, 1_100),
    "SiC_sales": (102_000, 11_000, 2_000),
    "sR_sales": (2_010, 10_010, 110),
}
STORES, DATES, ITEMS_A_DAY, COPIES = 100, 100, 10, 10
FIRST = dt.date(1997, 1, 1)
CHANGED_DAY = 50
DECLARED = """
ALTER TABLE stores SET CHANGES (INSERT ONLY);
ALTER TABLE items SET CHANGES (INSERT ONLY);
ALTER TABLE pos SET STATISTICS (ROWS 1000000, CHANGES 10000, DISTINCT date 1);
ALTER TABLE stores SET STATISTICS (ROWS 100, DISTINCT city 100, DISTINCT region 10);
ALTER TABLE items SET STATISTICS (ROWS 1000, DISTINCT category 20);
"""


def sales(day: int) -> Iterator[tuple[int, int]]:
    """Which item is sold in which store: ten items a day everywhere, so that 100 days sell all 1000."""
    for store in range(STORES):
        for place in range(ITEMS_A_DAY):
            yield store, (day * ITEMS_A_DAY + place) % 1000


def row(store: int, item: int, day: int) -> Row:
    date = FIRST + dt.timedelta(days=day)
    return {"storeID": store, "itemID": item, "date": date, "qty": 1 + item % 3, "price": Decimal("1.00")}


def tables(copies: int) -> dict[str, list[Row]]:
    stores = [{"storeID": s, "city": f"city {s}", "region": f"region {s % 10}"} for s in range(STORES)]
    items = [{"itemID": i, "name": f"item {i}", "category": f"c{i % 20}", "cost": Decimal(1)} for i in range(1000)]
    pos = [row(s, i, day) for day in range(DATES) for s, i in sales(day) for _ in range(copies)]
    return {"stores": stores, "items": items, "pos": pos}


def changes() -> list[Row]:
    """Six insertions and four deletions in each of the thousand groups of one day."""
    signs = [1] * 6 + [-1] * 4
    return [row(s, i, CHANGED_DAY) | {SIGN: sign} for s, i in sales(CHANGED_DAY) for sign in signs]


def run(rel: Rel, relations: dict[Ref, list[Row]]) -> list[Row]:
    """The evaluator of the tests, with joins on equality by hashing: theirs tries every pair."""
    if isinstance(rel, Scan):
        return evaluate(rel, relations)
    inputs = [run(child, relations) for child in rel.inputs]
    if isinstance(rel, Join) and (on := equated(rel.condition, rel.left, rel.right)):
        by_value: dict[tuple[Any, ...], list[Row]] = {}
        for other in inputs[1]:
            by_value.setdefault(tuple(other[b] for _, b in on), []).append(other)
        return [one | other for one in inputs[0] for other in by_value.get(tuple(one[a] for a, _ in on), [])]
    places = [Scan(Ref(str(number), State.STEP), schema(child)) for number, child in enumerate(rel.inputs)]
    named = {place.ref: rows for place, rows in zip(places, inputs, strict=True)}
    return evaluate(with_inputs(rel, tuple(places)), named)


COUNTED = (State.CHANGES, State.DELTA, State.CURRENT, State.STORED)


def read_by(rel: Rel, relations: dict[Ref, list[Row]], dimensions: set[str]) -> int:
    refs = {scan.ref for scan in scans(rel) if scan.ref.state in COUNTED and scan.ref.name not in dimensions}
    return sum(len(relations[ref]) for ref in refs)


def summary_delta(view: ViewPlan, relations: dict[Ref, list[Row]], dimensions: set[str]) -> tuple[int, list[Row]]:
    """Rows read up to the groups that change, and those."""
    read = 0
    for step in view.steps:
        if step.name.startswith(("pc_", "net_", "groups_")) or step is view.steps[-1]:
            last = step.name.startswith("sd_") and any(s.name.startswith("groups_") for s in view.steps)
            if last:
                break  # the rest looks groups up
            read += read_by(step.rel, relations, dimensions)
            relations[Ref(step.name, State.STEP)] = run(step.rel, relations)
            found = relations[Ref(step.name, State.STEP)]
    return read, found


def count(plan: Plan, shared: Plan, data: dict[str, list[Row]]) -> dict[str, tuple[int, int, int]]:
    dimensions = {"stores", "items"}
    relations: dict[Ref, list[Row]] = {Ref(name): rows for name, rows in data.items()}
    relations |= {Ref(name, State.NEW): rows for name, rows in data.items()}
    relations[Ref("pos", State.CHANGES)] = changes()
    relations[Ref("pos", State.OLD)] = []  # joined with no changes of a dimension table only
    for name in dimensions:
        relations[Ref(name, State.CHANGES)] = []
        relations[Ref(name, State.SIGNED)] = [one | {SIGN: 1} for one in data[name]]
    result: dict[str, list[int]] = {view.name: [] for view in shared.views}
    for view in shared.views:
        rel = view.from_parent or view.initial
        rows = run(rel, relations)
        result[view.name].append(read_by(rel, relations, dimensions) + len(rows))
        relations[Ref(view.name, State.STORED)] = rows
    for chosen in (plan, shared):
        for view in chosen.views:
            read, delta = summary_delta(view, relations, dimensions)
            relations[Ref(view.name, State.DELTA)] = delta
            result[view.name].append(read + len(delta))
    return {name: (counts[0], counts[1], counts[2]) for name, counts in result.items()}


def alone(text: str) -> Plan:
    """The plan in which each view is maintained by itself: each compiled in a file of its own."""
    head, *views = text.split("CREATE VIEW")
    plans = [compile_text(f"{head}CREATE VIEW{view}{DECLARED}") for view in views]
    return Plan("alone", plans[0].catalog, tuple(view for plan in plans for view in plan.views))


def main(arguments: list[Any]) -> int:
    text = (ROOT / "examples" / "retail.sql").read_text(encoding="utf-8")
    copies = 1 if "--small" in arguments else COPIES
    result = count(alone(text), compile_text(text + DECLARED), tables(copies))
    heads = ("recomputation", "individual", "reuse deltas")
    print(f"{'':<12}" + "".join(f"{head:>16}{'printed':>12}{'off':>8}" for head in heads))
    totals = [0] * 6
    for name, counted in result.items():
        line = f"{name:<12}"
        for place, (own, printed) in enumerate(zip(counted, PRINTED[name], strict=True)):
            line += f"{own:>16,}{printed:>12,}{(own - printed) / printed:>8.1%}"
            totals[2 * place] += own
            totals[2 * place + 1] += printed
        print(line)
    pairs = zip(totals[::2], totals[1::2], strict=True)
    print(
        f"{'total':<12}"
        + "".join(f"{own:>16,}{printed:>12,}{(own - printed) / printed:>8.1%}" for own, printed in pairs)
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
