"""How long it takes to relate many views over one star: python benchmarks/lattice.py [VIEWS…]

A fact table of sales, six dimension tables with hierarchies, and views that differ in grouping columns, filters and
aggregates; every eighth is a crosstab. Printed are the seconds of processor time that each stage takes, and in the
last column by what power of the number of views the whole grows: 1 is linear.
"""

from __future__ import annotations

import math
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from deltafold.codegen.emit import emit
from deltafold.compiler import pipeline

DIMENSIONS = {
    "stores": ("store_id", ("city", "region", "country"), ("format",)),
    "items": ("item_id", ("brand", "category", "department"), ("color",)),
    "customers": ("customer_id", ("town", "state", "land"), ("segment",)),
    "promotions": ("promotion_id", ("campaign", "medium"), ("sponsor",)),
    "carriers": ("carrier_id", ("fleet", "alliance"), ("mode",)),
    "days": ("day_id", ("month", "quarter", "year"), ("season",)),
}
MEASURES = ("qty", "price", "discount", "weight")
FILTERS = ("qty > 0", "qty > 10", "price >= 5", "discount IS NOT NULL", "season = 'summer'", "mode IN ('air', 'sea')")
STAGES = {
    "read": ("read_text",),
    "bind": ("bind_schema", "bind_views"),
    "normalise": ("normalise",),
    "relate": ("split_views", "with_hidden", "_summaries", "relate"),
    "decide": ("plan_view", "_check_steps"),
}


def schema() -> str:
    """The tables of the star and their hierarchies."""
    statements = []
    for table, (key, levels, others) in DIMENSIONS.items():
        columns = "".join(f", {name} STRING NOT NULL" for name in (*levels, *others))
        statements.append(f"CREATE TABLE {table} ({key} INT NOT NULL PRIMARY KEY{columns});")
        declared = " ".join(f"LEVEL {table}_{name} IS {table}.{name}" for name in (key, *levels))
        path = " CHILD OF ".join(f"{table}_{name}" for name in (key, *levels))
        statements.append(f"CREATE DIMENSION {table}_dim {declared} HIERARCHY {table}_path ({path});")
    keys = ", ".join(f"{key} INT NOT NULL REFERENCES {table}" for table, (key, _, _) in DIMENSIONS.items())
    measures = ", ".join(f"{name} INT" for name in MEASURES)
    statements.append(f"CREATE TABLE sales ({keys}, {measures});")
    return "\n".join(statements)


def views(count: int, seed: int = 1) -> str:
    """So many views, the same ones for the same seed."""
    draw = random.Random(seed)
    return "\n".join(_view(number, draw) for number in range(count))


def _view(number: int, draw: random.Random) -> str:
    tables = sorted(draw.sample(list(DIMENSIONS), draw.randint(1, 4)))
    keys = [draw.choice((DIMENSIONS[table][0], *DIMENSIONS[table][1], *DIMENSIONS[table][2])) for table in tables]
    chosen = draw.sample(MEASURES, draw.randint(1, 3))
    aggregates = [f"{draw.choice(('SUM', 'SUM', 'MIN', 'MAX', 'AVG', 'COUNT'))}({name}) AS {name}_" for name in chosen]
    where = sorted(draw.sample(FILTERS, draw.choice((0, 0, 1, 1, 2))))
    joined = [table for table in DIMENSIONS if table in tables or any(_is_of(table, part) for part in where)]
    joins = " ".join(f"JOIN {table} USING ({DIMENSIONS[table][0]})" for table in joined)
    condition = f" WHERE {' AND '.join(where)}" if where else ""
    if number % 8 == 7:
        pivoted = keys if "season" in keys else [*keys, "season"]
        joins = joins if "days" in joined else f"{joins} JOIN days USING (day_id)"
        inner = f"SELECT {', '.join(pivoted)}, {chosen[0]} FROM sales {joins}{condition}"
        cells = "FOR season IN ('spring' AS spring, 'summer' AS summer, 'autumn' AS autumn)"
        return f"CREATE VIEW v{number} AS SELECT * FROM ({inner}) PIVOT (SUM({chosen[0]}) {cells});"
    columns = ", ".join((*keys, "COUNT(*) AS count_", *aggregates))
    return f"CREATE VIEW v{number} AS SELECT {columns} FROM sales {joins}{condition} GROUP BY {', '.join(keys)};"


def _is_of(table: str, condition: str) -> bool:
    return any(name in condition for name in DIMENSIONS[table][2])


@contextmanager
def timed_stages(seconds: dict[str, float]) -> Iterator[None]:
    """Within, what the stages of the pipeline take is added up."""
    names = {name: stage for stage, functions in STAGES.items() for name in functions}
    before = {name: getattr(pipeline, name) for name in names}
    for name, stage in names.items():
        setattr(pipeline, name, _timed(before[name], stage, seconds))
    try:
        yield
    finally:
        for name, function in before.items():
            setattr(pipeline, name, function)


def _timed(function: Callable[..., Any], stage: str, seconds: dict[str, float]) -> Callable[..., Any]:
    def run(*arguments: Any, **named: Any) -> Any:
        started = time.process_time()
        try:
            return function(*arguments, **named)
        finally:
            seconds[stage] = seconds.get(stage, 0.0) + time.process_time() - started

    return run


def measure(count: int) -> tuple[dict[str, float], int]:
    """The seconds of each stage and of all, and how many views come from another one's summary-delta."""
    text, seconds = f"{schema()}\n{views(count)}", dict.fromkeys(STAGES, 0.0)
    started = time.process_time()
    with timed_stages(seconds):
        plan = pipeline.compile_text(text)
    compiled = time.process_time()
    emit(plan, "parquet")
    seconds["emit"] = time.process_time() - compiled
    seconds["all"] = time.process_time() - started
    return seconds, sum(view.parent is not None for view in plan.views)


def main(counts: Sequence[int]) -> None:
    measure(1)  # what is made once: parsers, tables of functions
    print(f"{'views':>6}{'derived':>9}" + "".join(f"{stage:>11}" for stage in (*STAGES, "emit", "all")) + "   growth")
    previous: tuple[int, float] | None = None
    for count in counts:
        seconds, derived = measure(count)
        growth = f"{math.log(seconds['all'] / previous[1]) / math.log(count / previous[0]):9.2f}" if previous else ""
        print(
            f"{count:>6}{derived:>9}" + "".join(f"{value:>9.2f} s" for value in seconds.values()) + growth, flush=True
        )
        previous = count, seconds["all"]


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [60, 200, 500])
