"""Stores that move, alone and as whole cities, together with changed sales, on the paper's retail warehouse."""

from __future__ import annotations

import random
from datetime import date
from pathlib import Path

from deltafold.compiler.pipeline import compile_file
from deltafold.randomdata import Batch, Change
from store import Store, unequal

RETAIL = Path(__file__).parent.parent / "examples" / "retail.sql"
CITIES, REGIONS = ("a", "b", "c", "d"), ("north", "south", None)


def test_stores_move_while_sales_change() -> None:
    plan = compile_file(RETAIL)
    for seed in range(150):
        chance = random.Random(seed)
        region = {city: chance.choice(REGIONS) for city in CITIES}
        stores = {number: chance.choice(CITIES) for number in range(1, 6)}
        items = [(number, f"i{number}", chance.choice(("x", "y", None)), None) for number in (1, 2, 3)]
        tables = {
            "stores": [(number, city, region[city]) for number, city in stores.items()],
            "items": items,
            "pos": [sale(chance) for _ in range(chance.randint(0, 15))],
        }
        store = Store(plan, tables)
        for _ in range(3):
            store.apply(moves(chance, store, stores, region))
            assert not unequal(store), seed


def sale(chance: random.Random) -> tuple[object, ...]:
    day = chance.choice((None, date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 3)))
    return (chance.randint(1, 5), chance.randint(1, 3), day, chance.choice((None, 1, 2, 5)), None)


def moves(chance: random.Random, store: Store, stores: dict[int, str], region: dict[str, str | None]) -> Batch:
    """Some stores go to another city, some cities to another region; some sales come and go."""
    for number in chance.sample(sorted(stores), chance.randint(0, 3)):
        stores[number] = chance.choice(CITIES)
    for city in chance.sample(CITIES, chance.randint(0, 2)):
        region[city] = chance.choice(REGIONS)
    moved = [Change("stores", row, (row[0], stores[row[0]], region[stores[row[0]]])) for row in store.tables["stores"]]
    changed = [change for change in moved if change.before != change.after]
    sold = store.tables["pos"]
    gone = [Change("pos", row, None) for row in chance.sample(sold, chance.randint(0, min(4, len(sold))))]
    return (*changed, *gone, *(Change("pos", None, sale(chance)) for _ in range(chance.randint(0, 4))))
