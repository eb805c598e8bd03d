"""The worked examples of the papers, with the rows that their texts give."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from deltafold.compiler.algebra import SIGN, Ref, State
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.plan import SHOWN
from deltafold.randomdata import Change
from oracle import bag
from store import Store, unequal

SALES_LOG = """
CREATE TABLE sales_log (sale_id STRING, store_id INT, date STRING, sale_price INT);
CREATE VIEW daily_sales AS
SELECT store_id, date, SUM(sale_price) AS daily_total, COUNT(*) AS total_count FROM sales_log GROUP BY store_id, date;
CREATE VIEW best_day AS SELECT store_id, MAX(daily_total) AS best FROM daily_sales GROUP BY store_id;
"""


def shown(store: Store, view: str, names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
    return bag([row for row in store.views[view] if row.get(SHOWN, True)], names)


def test_example_4_1_of_maintenance_expressions() -> None:
    sales = [
        ("0001", 555, "1 May 1996", 10),
        ("0002", 555, "1 May 1996", 20),
        ("0003", 555, "2 May 1996", 40),
        ("0004", 555, "3 July 1996", 100),
    ]
    store = Store(compile_text(SALES_LOG), {"sales_log": list(sales)})
    names = ("store_id", "date", "daily_total", "total_count")
    assert bag(store.views["daily_sales"], names) == Counter(
        [(555, "1 May 1996", 30, 2), (555, "2 May 1996", 40, 1), (555, "3 July 1996", 100, 1)]
    )
    store.apply(
        (
            Change("sales_log", sales[0], None),
            Change("sales_log", sales[3], None),
            Change("sales_log", None, ("0004", 555, "3 May 1996", 100)),
            Change("sales_log", None, ("0005", 555, "1 May 1996", 30)),
            Change("sales_log", None, ("0006", 555, "3 May 1996", 50)),
        )
    )
    prepared = store.relations[Ref("pc_daily_sales", State.STEP)]
    assert bag(prepared, ("store_id", "date", "sale_price", SIGN)) == Counter(
        [
            (555, "1 May 1996", 10, -1),
            (555, "3 July 1996", 100, -1),
            (555, "3 May 1996", 100, 1),
            (555, "1 May 1996", 30, 1),
            (555, "3 May 1996", 50, 1),
        ]
    )
    delta = store.relations[Ref("daily_sales", State.DELTA)]
    assert bag(delta, names) == Counter(
        [(555, "1 May 1996", 20, 0), (555, "3 July 1996", -100, -1), (555, "3 May 1996", 150, 2)]
    )
    changes = store.relations[Ref("daily_sales", State.CHANGES)]
    assert bag(changes, (*names, SIGN)) == Counter(
        [
            (555, "1 May 1996", 30, 2, -1),
            (555, "3 July 1996", 100, 1, -1),
            (555, "1 May 1996", 50, 2, 1),
            (555, "3 May 1996", 150, 2, 1),
        ]
    )
    assert shown(store, "best_day", ("store_id", "best")) == Counter([(555, 150)])
    assert unequal(store) == ""


def test_the_largest_daily_total_of_each_store_in_one_view() -> None:
    """The view of the paper's introduction: an aggregate over an aggregate."""
    sql = """
    CREATE TABLE sales_log (store_id INT, date STRING, sale_price INT);
    CREATE VIEW best_day AS SELECT store_id, MAX(daily_total) AS best
    FROM (SELECT store_id, date, SUM(sale_price) AS daily_total FROM sales_log GROUP BY store_id, date)
    GROUP BY store_id;
    """
    store = Store(compile_text(sql), {"sales_log": [(1, "mon", 3), (1, "tue", 4), (2, "mon", 9)]})
    store.apply((Change("sales_log", None, (1, "mon", 2)), Change("sales_log", (2, "mon", 9), None)))
    assert shown(store, "best_day", ("store_id", "best")) == Counter([(1, 5)])
    store.apply((Change("sales_log", (1, "mon", 3), None), Change("sales_log", None, (2, None, 7))))
    assert shown(store, "best_day", ("store_id", "best")) == Counter([(1, 4), (2, 7)])
    assert store.plan.views[-1].strategy == "summary-delta"


ITEMS = """
CREATE TABLE items (id INT NOT NULL, attribute STRING NOT NULL, value STRING, PRIMARY KEY (id, attribute));
CREATE TABLE payment (id INT NOT NULL PRIMARY KEY, price INT, shipping INT);
"""
PIVOTED = "items PIVOT (MAX(value) FOR attribute IN ('Manufacturer' AS manufacturer, 'Type' AS type))"


def test_figure_3_changes_through_a_pivot() -> None:
    """(2, Panasonic, ⊥) and (3, ⊥, VCR) become (2, Panasonic, DVD) and (3, Panasonic, VCR) in place."""
    plan = compile_text(f"{ITEMS} CREATE VIEW v AS SELECT id, manufacturer, type FROM {PIVOTED};")
    items = [(1, "Manufacturer", "Sony"), (1, "Type", "TV"), (2, "Manufacturer", "Panasonic"), (3, "Type", "VCR")]
    store = Store(plan, {"items": items, "payment": []})
    store.apply((Change("items", None, (2, "Type", "DVD")), Change("items", None, (3, "Manufacturer", "Panasonic"))))
    names = ("id", "manufacturer", "type")
    assert shown(store, "v", names) == Counter([(1, "Sony", "TV"), (2, "Panasonic", "DVD"), (3, "Panasonic", "VCR")])
    assert len(store.relations[Ref("v", State.DELTA)]) == 2
    assert plan.views[0].strategy in ("pivot", "pivot-of-aggregate")


def test_figures_24_to_26_a_pivot_joined_with_payments() -> None:
    """The pivot is pulled above the join, so the change of the items is joined once and merged in place."""
    plan = compile_text(
        f"{ITEMS} CREATE VIEW v AS SELECT i.id, manufacturer, type, price FROM (SELECT * FROM {PIVOTED}) i "
        "JOIN payment p ON i.id = p.id;"
    )
    items = [(1, "Manufacturer", "Sony"), (1, "Type", "TV"), (2, "Manufacturer", "Panasonic"), (3, "Type", "VCR")]
    store = Store(plan, {"items": items, "payment": [(1, 200, 10), (2, 250, 15), (3, 300, 20)]})
    store.apply((Change("items", None, (2, "Type", "DVD")), Change("items", None, (3, "Manufacturer", "Panasonic"))))
    assert shown(store, "v", ("id", "manufacturer", "type", "price")) == Counter(
        [(1, "Sony", "TV", 200), (2, "Panasonic", "DVD", 250), (3, "Panasonic", "VCR", 300)]
    )
    assert unequal(store) == ""


def test_figure_28_a_crosstab_row_dies_with_its_last_cell() -> None:
    """Panasonic's count of VCRs paid by credit reaches 0: sum and count become ⊥, and so the row goes."""
    plan = compile_text(
        "CREATE TABLE sales (manu STRING, type STRING, payment STRING, price INT);"
        "CREATE VIEW v AS SELECT * FROM sales PIVOT (SUM(price) AS total, COUNT(*) AS n FOR (type, payment) IN "
        "(('TV', 'Credit') AS tv_credit, ('VCR', 'Credit') AS vcr_credit, ('VCR', 'ByAir') AS vcr_byair));"
    )
    sales = [("Sony", "TV", "Credit", 200), ("Sony", "VCR", "ByAir", 20), ("Panasonic", "VCR", "Credit", 150)]
    store = Store(plan, {"sales": sales})
    assert plan.views[0].strategy == "pivot-of-aggregate"
    store.apply((Change("sales", sales[2], None), Change("sales", sales[1], None)))
    names = tuple(column.name for column in plan.views[0].columns)
    assert shown(store, "v", names) == Counter([("Sony", 200, 1, None, None, None, None)])
    store.apply((Change("sales", None, ("Panasonic", "DVD", "Credit", 90)),))
    assert shown(store, "v", names)[("Panasonic", None, None, None, None, None, None)] == 1
    assert unequal(store) == ""


@pytest.mark.parametrize("strategy", ["filtered-pivot", "partition-recompute"])
def test_figures_30_and_31_a_condition_above_a_pivot(strategy: str) -> None:
    """After the deletes auction 1 stays and 3 leaves; after the insert 2 comes in, with the type it had."""
    plan = compile_text(
        f"{ITEMS} -- deltafold: strategy={strategy}\n"
        f"CREATE VIEW v AS SELECT id, manufacturer, type FROM {PIVOTED} WHERE type = 'TV' OR manufacturer = 'Sony';"
    )
    items = [
        (1, "Manufacturer", "Sony"),
        (1, "Type", "TV"),
        (2, "Manufacturer", "Panasonic"),
        (2, "Type", "VCR"),
        (3, "Manufacturer", "Panasonic"),
        (3, "Type", "TV"),
    ]
    store = Store(plan, {"items": list(items), "payment": []})
    names = ("id", "manufacturer", "type")
    assert shown(store, "v", names) == Counter([(1, "Sony", "TV"), (3, "Panasonic", "TV")])
    store.apply(tuple(Change("items", items[place], None) for place in (1, 2, 5)))
    assert shown(store, "v", names) == Counter([(1, "Sony", None)])
    store.apply((Change("items", None, (2, "Manufacturer", "Sony")),))
    assert shown(store, "v", names) == Counter([(1, "Sony", None), (2, "Sony", "VCR")])
    assert unequal(store) == ""
