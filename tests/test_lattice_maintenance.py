"""Sets of views that derive from each other, on the oracle: shared maintenance equals every view from scratch."""

from __future__ import annotations

import random

from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.plan import Plan
from deltafold.randomdata import make_case
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import bag
from store import Store

SCHEMA = """
CREATE TABLE regions (id INT NOT NULL PRIMARY KEY, zone STRING);
CREATE TABLE stores (id INT NOT NULL PRIMARY KEY, city STRING NOT NULL, county STRING, size INT, region INT NOT NULL
  REFERENCES regions);
CREATE TABLE items (id INT NOT NULL PRIMARY KEY, category STRING, cost DECIMAL(6,2) NOT NULL);
CREATE TABLE pos (store INT NOT NULL REFERENCES stores, item INT NOT NULL REFERENCES items,
  other INT REFERENCES items, date DATE, qty INT, price DECIMAL(6,2), n INT NOT NULL);
CREATE DIMENSION geo LEVEL store IS stores.id LEVEL city IS stores.city LEVEL county IS stores.county
  HIERARCHY places (store CHILD OF city CHILD OF county);
"""
COLUMNS = {
    "pos": ["pos.store", "pos.item", "pos.date", "pos.qty", "pos.n + pos.store AS y", "pos.other"],
    "stores": ["stores.id AS store_id", "stores.city", "stores.county", "stores.size", "stores.region"],
    "regions": ["regions.zone"],
    "items": ["items.category", "items.cost"],
}
AGGREGATES = {
    "pos": [
        "COUNT(*) AS c",
        "SUM(pos.qty) AS s",
        "COUNT(pos.qty) AS cq, AVG(pos.qty) AS aq",
        "MIN(pos.date) AS first, MAX(pos.qty) AS most",
        "SUM(pos.price) AS sp, MIN(pos.price) AS lo",
        "SUM(pos.n) AS sn, MAX(pos.n) AS hi",
        "COUNT(pos.date) AS cd",
        "MIN(pos.qty + pos.n) AS lo_both",
    ],
    "stores": ["MIN(stores.size) AS smallest", "SUM(stores.size) AS sizes"],
    "regions": ["MAX(regions.zone) AS last_zone"],
    "items": ["SUM(items.cost) AS costs", "SUM(items.cost * pos.n) AS paid"],
}
JOINS = {
    "pos": "pos",
    "stores": "JOIN stores ON pos.store = stores.id",
    "regions": "JOIN regions ON stores.region = regions.id",
    "items": "JOIN items ON items.id = pos.item",
}
FILTERS = {
    "pos": ["pos.qty > 1", "pos.n >= 0", "pos.n >= 2", "pos.store = 3", "pos.date IS NOT NULL", "pos.store IN (1, 3)"],
    "stores": ["stores.city = 'a'", "stores.size IS NOT NULL"],
    "regions": ["regions.zone <> 'b'"],
    "items": ["items.category IN ('a', 'b')"],
}


@st.composite
def views(draw: st.DrawFn) -> str:
    """A view over a random part of the star."""
    tables = ["pos"]
    for table, needs in (("stores", "pos"), ("regions", "stores"), ("items", "pos")):
        if needs in tables and draw(st.booleans()):
            tables.append(table)
    columns = [column for table in tables for column in COLUMNS[table]]
    keys = draw(st.lists(st.sampled_from(columns), max_size=4, unique=True))
    aggregates = draw(
        st.lists(
            st.sampled_from([a for table in tables for a in AGGREGATES[table]]), min_size=1, max_size=3, unique=True
        )
    )
    filters = draw(st.lists(st.sampled_from([f for table in tables for f in FILTERS[table]]), max_size=2, unique=True))
    where = f" WHERE {' AND '.join(filters)}" if draw(st.booleans()) and filters else ""
    by = f" GROUP BY {', '.join(key.partition(' AS ')[0] for key in keys)}" if keys else ""
    return f"SELECT {', '.join([*keys, *aggregates])} FROM {' '.join(JOINS[t] for t in tables)}{where}{by}"


@st.composite
def view_files(draw: st.DrawFn) -> str:
    chosen = draw(st.lists(views(), min_size=2, max_size=5))
    insert_only = draw(st.sampled_from(["", "stores", "items", "pos", "pos stores items regions"]))
    changes = "".join(f"ALTER TABLE {table} SET CHANGES (INSERT ONLY);\n" for table in insert_only.split())
    # small dimension tables and few values: parents look cheap, so that most views come from another
    sizes = "".join(
        f"ALTER TABLE {table} SET STATISTICS (ROWS 3, CHANGES 1);\n" for table in ("stores", "items", "regions")
    )
    return SCHEMA + changes + sizes + "".join(f"CREATE VIEW v{i} AS {sql};\n" for i, sql in enumerate(chosen))


def check(plan: Plan, rows: int, batches: int, chance: random.Random) -> None:
    case = make_case(plan.catalog, plan.tables, rows, batches, chance)
    store = Store(plan, {name: list(found) for name, found in case.tables.items()})
    for batch in ((), *case.batches):
        store.apply(batch)
        for name, expected in store.expected().items():
            view = plan.view(name)
            assert view is not None
            public = tuple(column.name for column in view.columns)
            assert bag(store.views[name], public) == bag(expected, public), name


@settings(max_examples=25, deadline=None, derandomize=True)
@given(view_files(), st.integers(0, 10**9), st.sampled_from((0, 3, 8, 14)))
def test_shared_maintenance_equals_the_views_from_scratch(text: str, seed: int, rows: int) -> None:
    check(compile_text(text), rows, 3, random.Random(seed))
