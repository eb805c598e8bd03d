"""Views of every kind over one star, maintained together on the oracle: DISTINCT, HAVING, PIVOT, FILTER, ROLLUP."""

from __future__ import annotations

import random

from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.plan import Plan
from deltafold.randomdata import make_case
from store import Store, unequal

SCHEMA = """
CREATE TABLE stores (id INT NOT NULL PRIMARY KEY, city STRING NOT NULL, region STRING);
CREATE TABLE pos (store INT NOT NULL REFERENCES stores, item INT, month STRING, qty INT, n INT NOT NULL);
CREATE DIMENSION geo LEVEL store IS stores.id LEVEL city IS stores.city LEVEL region IS stores.region
  HIERARCHY places (store CHILD OF city CHILD OF region);
ALTER TABLE stores SET STATISTICS (ROWS 3, CHANGES 1);
"""
STARS = {
    "pos": ["store", "item", "month"],
    "pos JOIN stores ON pos.store = stores.id": ["store", "item", "month", "city", "region"],
}
CONDITIONS = ["month = 'a'", "month = 'b'", "item > 1", "item IS NULL", "month IN ('a', 'c') OR item = 2"]
AGGREGATES = ["COUNT(*)", "COUNT(qty)", "SUM(qty)", "MIN(qty)", "MAX(qty)", "SUM(n)", "MAX(n)", "AVG(n)"]
CASES = ["CASE WHEN {0} THEN {1} END", "CASE WHEN {0} THEN {1} ELSE 0 END", "CASE WHEN {0} THEN {1} ELSE qty END"]


class Views:
    """Random views over the star; small and quick, so that many sets of them can be tried."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance

    def view(self) -> str:
        star = self.chance.choice(list(STARS))
        columns = self.chance.sample(STARS[star], self.chance.randint(1, 3))
        where = f" WHERE {self.chance.choice(CONDITIONS)}" if self.chance.randrange(4) == 0 else ""
        by = ", ".join(columns)
        match self.chance.randrange(7):
            case 0:
                return f"SELECT DISTINCT {by} FROM {star}{where}"
            case 1:
                having = self.chance.choice(["COUNT(*) > 1", "SUM(n) > 2", "MIN(qty) IS NOT NULL", "AVG(qty) < 3"])
                return f"SELECT {by}, {self.aggregates()} FROM {star}{where} GROUP BY {by} HAVING {having}"
            case 2:
                keys = [column for column in columns if column != "month"]
                aggregate = self.chance.choice(AGGREGATES)
                measured = [column for column in ("qty", "n") if f"({column})" in aggregate]
                inner = f"SELECT {', '.join([*keys, 'month', *measured])} FROM {star}{where}"
                return f"SELECT * FROM ({inner}) PIVOT ({aggregate} FOR month IN ('a', 'b', 'z'))"
            case 3:
                return f"SELECT {by}, {self.aggregates()} FROM {star}{where} GROUP BY ROLLUP ({by})"
            case 4:
                return f"SELECT {self.aggregates()} FROM {star}{where}"
        return f"SELECT {by}, {self.aggregates()} FROM {star}{where} GROUP BY {by}"

    def aggregates(self) -> str:
        return ", ".join(f"{self.aggregate()} AS a{place}" for place in range(self.chance.randint(1, 3)))

    def aggregate(self) -> str:
        plain, condition = self.chance.choice(AGGREGATES), self.chance.choice(CONDITIONS)
        match self.chance.randrange(3):
            case 0:
                return plain
            case 1:
                return f"{plain} FILTER (WHERE {condition})"
        function, _, argument = plain.removesuffix(")").partition("(")
        case = self.chance.choice(CASES).format(condition, "1" if argument == "*" else argument)
        return f"{function}({case})"

    def file(self) -> str:
        changes = self.chance.choice(["", "", "", "pos", "stores", "pos stores"])
        declared = "".join(f"ALTER TABLE {table} SET CHANGES (INSERT ONLY);\n" for table in changes.split())
        views = [f"CREATE VIEW v{place} AS {self.view()};\n" for place in range(self.chance.randint(2, 5))]
        return SCHEMA + declared + "".join(views)


def check(plan: Plan, chance: random.Random) -> None:
    case = make_case(plan.catalog, plan.tables, chance.choice((0, 3, 8, 12)), 3, chance)
    store = Store(plan, {name: list(rows) for name, rows in case.tables.items()})
    for batch in ((), *case.batches):
        store.apply(batch)
        assert not unequal(store)


def cases(start: int, count: int) -> None:
    for seed in range(start, start + count):
        chance = random.Random(seed)
        text = Views(chance).file()
        try:
            check(compile_text(text), chance)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}\n{text}") from error


def test_views_of_all_kinds_equal_the_views_from_scratch() -> None:
    cases(0, 100)


if __name__ == "__main__":
    import sys

    cases(int(sys.argv[1]), int(sys.argv[2]))
