"""The derives relation and the lattice, on the paper's examples and on the traps. [summary-delta-1997, section 5]"""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest
from deltafold.codegen.emit import emit
from deltafold.codegen.lattice_pictures import dot, mermaid, svg
from deltafold.codegen.lattice_text import lattice_lines
from deltafold.compiler.bind import BoundView
from deltafold.compiler.decide import stored_summary
from deltafold.compiler.lattice.advise import advise
from deltafold.compiler.lattice.cubes import cube_of
from deltafold.compiler.lattice.derives import Edge, families
from deltafold.compiler.pipeline import compile_file, compile_text
from deltafold.compiler.plan import Lattice, LatticeNode, Plan
from golden import Case, Golden

ROOT = Path(__file__).parent.parent
RETAIL = (ROOT / "examples" / "retail.sql").read_text()
SCHEMA = RETAIL[: RETAIL.index("CREATE VIEW")]
SIZES = """
ALTER TABLE pos SET STATISTICS (ROWS 1000000, CHANGES 10000, DISTINCT date 10);
ALTER TABLE stores SET STATISTICS (ROWS 10, DISTINCT city 5, DISTINCT region 2);
ALTER TABLE items SET STATISTICS (ROWS 10, DISTINCT category 2);
"""


def derivations(plan: Plan) -> dict[tuple[str, str], Edge]:
    """Every pair of a view and one that it derives from."""
    cubes = []
    for view in plan.views:
        statement = SimpleNamespace(pragmas=())
        summary = stored_summary(BoundView(view.name, view.definition, statement), plan.catalog)  # type: ignore[arg-type]
        assert summary is not None
        cubes.append(cube_of(summary, plan.catalog))
    found = {}
    for family in families(cubes, plan.catalog):
        for parent, child in itertools.permutations(family.cubes.values(), 2):
            if edge := family.edge(parent, child):
                found[child.name, parent.name] = edge
    return found


def derives(*views: str, schema: str = SCHEMA) -> dict[str, tuple[str, ...]]:
    """Of views a, b, …: which derive from which, as `b<a`, with the dimension tables that it takes."""
    names = "abcdef"
    text = schema + "".join(f"CREATE VIEW {name} AS {sql};\n" for name, sql in zip(names, views, strict=False))
    return {f"{child}<{parent}": edge.dimensions for (child, parent), edge in derivations(compile_text(text)).items()}


def test_example_5_1() -> None:
    found = derivations(compile_file(ROOT / "examples" / "retail.sql"))
    assert {pair: edge.dimensions for pair, edge in found.items()} == {
        ("sCD_sales", "SID_sales"): ("stores",),
        ("SiC_sales", "SID_sales"): ("items",),
        ("sR_sales", "SID_sales"): ("stores",),
        ("sR_sales", "sCD_sales"): ("stores",),
        ("sR_sales", "SiC_sales"): ("stores",),
    }


def test_figure_9() -> None:
    """After optimisation: region is added to sCD_sales, and only there, so that sR_sales needs no join."""
    plan = compile_file(ROOT / "examples" / "retail.sql")
    assert {(e.parent, e.child, e.joins, e.chosen) for e in plan.lattice.edges} == {
        ("SID_sales", "sCD_sales", ("stores",), True),
        ("SID_sales", "SiC_sales", ("items",), True),
        ("sCD_sales", "sR_sales", (), True),
        ("SiC_sales", "sR_sales", ("stores",), False),
    }
    hidden = {view.name: [c.name for c in view.hidden if not c.name.startswith("__count")] for view in plan.views}
    assert hidden == {"SID_sales": [], "sCD_sales": ["__region"], "SiC_sales": [], "sR_sales": []}


LEVELS = (("storeID", "city", "region", None), ("itemID", "category", None), ("date", None))
NAMES = {"storeID": "S", "itemID": "I", "date": "D", "city": "c", "region": "r", "category": "t"}


def cube_views() -> str:
    """The 24 views of figure 5, each joined with the dimension tables that its columns are of."""
    views = []
    for point in itertools.product(*LEVELS):
        columns = [level for level in point if level]
        tables = ["pos"] + ["stores"] * (point[0] in ("city", "region")) + ["items"] * (point[1] == "category")
        on = [f"pos.{t[:-1]}ID = {t}.{t[:-1]}ID" for t in tables[1:]]
        where = f" WHERE {' AND '.join(on)}" if on else ""
        by = f" GROUP BY {', '.join(columns)}" if columns else ""
        aggregates = ["COUNT(*) AS n", "SUM(qty) AS q"]
        name = "".join(NAMES[column] for column in columns) or "none"
        select = f"SELECT {', '.join([*columns, *aggregates])} FROM {', '.join(tables)}"
        views.append(f"CREATE VIEW `{name}` AS {select}{where}{by};\n")
    return SCHEMA + SIZES + "".join(views)


def test_figure_5_is_the_direct_product_of_the_hierarchies() -> None:
    plan = compile_text(cube_views())
    expected = set()
    for above in itertools.product(*LEVELS):
        for place, level in enumerate(above):
            if level is None:
                continue
            step = LEVELS[place][LEVELS[place].index(level) + 1]
            below = (*above[:place], step, *above[place + 1 :])
            names = ["".join(NAMES[c] for c in point if c) or "none" for point in (above, below)]
            joins = {("storeID", "city"): ("stores",), ("itemID", "category"): ("items",)}.get((level, step), ())
            expected.add((names[0], names[1], joins))
    assert len(plan.lattice.nodes) == 24
    assert {(e.parent, e.child, e.joins) for e in plan.lattice.edges} == expected
    assert sum(edge.chosen for edge in plan.lattice.edges) == 23


FINE = "SELECT storeID, date, COUNT(*) AS n, SUM(qty) AS q FROM pos GROUP BY storeID, date"


def test_a_filter_must_follow_and_the_rest_be_over_what_the_parent_gives() -> None:
    where = "SELECT date, COUNT(*) AS n FROM pos WHERE {} GROUP BY date"
    assert derives(FINE, where.format("storeID = 3")) == {"b<a": ()}
    assert derives(FINE, where.format("qty > 3")) == {}
    narrow = FINE.replace(" GROUP", " WHERE qty > 3 GROUP")
    assert derives(narrow, where.format("TRUE")) == {}
    assert derives(narrow, where.format("qty > 3 AND storeID = 1")) == {"b<a": ()}
    assert derives(narrow, where.format("qty >= 3")) == {}
    beyond = FINE.replace(" GROUP", " WHERE storeID > 3 GROUP")
    assert derives(beyond, where.format("storeID > 5")) == {"b<a": ()}
    assert derives(beyond, where.format("storeID IN (4, 7)")) == {"b<a": ()}
    assert derives(beyond, where.format("storeID IN (3, 7)")) == {}
    assert derives(beyond, where.format("storeID >= 3")) == {}


def test_a_filter_over_a_dimension_is_joined_along_the_edge() -> None:
    by_city = "SELECT date, COUNT(*) AS n FROM pos JOIN stores USING (storeID) WHERE city = 'x' GROUP BY date"
    assert derives(FINE, by_city) == {"b<a": ("stores",)}


@pytest.mark.parametrize(
    "foreign_key", ["INT REFERENCES stores", "INT NOT NULL", "INT NOT NULL REFERENCES stores"], ids=str
)
def test_only_total_foreign_keys_are_joined_along_an_edge(foreign_key: str) -> None:
    schema = f"""CREATE TABLE stores (storeID INT NOT NULL PRIMARY KEY, city STRING);
    CREATE TABLE pos (storeID {foreign_key}, date DATE, qty INT);\n"""
    city = "SELECT city, COUNT(*) AS n FROM pos JOIN stores USING (storeID) GROUP BY city"
    total = "NOT NULL REFERENCES" in foreign_key
    assert derives(FINE, city, schema=schema) == ({"b<a": ("stores",)} if total else {})


@pytest.mark.parametrize("city", ["STRING", "STRING NOT NULL"])
def test_a_level_that_may_be_null_determines_nothing(city: str) -> None:
    schema = f"""CREATE TABLE stores (storeID INT NOT NULL PRIMARY KEY, city {city}, region STRING);
    CREATE DIMENSION d LEVEL city IS stores.city LEVEL region IS stores.region HIERARCHY h (city CHILD OF region);
    CREATE TABLE pos (storeID INT NOT NULL REFERENCES stores, qty INT);\n"""
    views = [
        f"SELECT {by}, COUNT(*) AS n FROM pos JOIN stores USING (storeID) GROUP BY {by}" for by in ("city", "region")
    ]
    assert derives(*views, schema=schema) == ({"b<a": ("stores",)} if "NOT NULL" in city else {})


def test_joins_that_are_not_along_foreign_keys_must_be_the_same() -> None:
    schema = "CREATE TABLE t (k INT, x INT, y INT); CREATE TABLE u (k INT, z INT);"
    fine = "SELECT x, z, COUNT(*) AS n FROM t JOIN u ON t.k = u.k GROUP BY x, z"
    coarse = "SELECT z, COUNT(*) AS n FROM u JOIN t ON u.k = t.k GROUP BY z"
    other = "SELECT z, COUNT(*) AS n FROM u JOIN t ON u.k = t.x GROUP BY z"
    assert derives(fine, coarse, other, schema=schema) == {"b<a": ()}


def test_views_that_derive_from_each_other_are_one_node() -> None:
    plan = compile_text(
        f"{SCHEMA}{SIZES}CREATE VIEW one AS {FINE}; CREATE VIEW two AS SELECT date, storeID, MAX(price) AS p FROM pos "
        "GROUP BY date, storeID; CREATE VIEW three AS SELECT stores.storeID AS s, date, AVG(price) AS a "
        "FROM pos JOIN stores ON pos.storeID = stores.storeID GROUP BY stores.storeID, date;"
    )
    (node,) = plan.lattice.nodes
    assert sorted(node.names) == ["one", "three", "two"]
    parents = {view.name: view.parent for view in plan.views}
    assert parents[node.names[0]] is None
    assert {parents[name] for name in node.names[1:]} == {node.names[0]}


def test_a_sum_of_wide_decimals_is_not_multiplied() -> None:
    """A decimal times a count may lose digits: the sum is added to the parent instead."""
    schema = "CREATE TABLE t (k INT, x DECIMAL(30,10), y DECIMAL(12,2));"
    fine = "SELECT k, x, y, COUNT(*) AS n FROM t GROUP BY k, x, y"
    plan = compile_text(
        f"{schema}CREATE VIEW a AS {fine}; CREATE VIEW b AS SELECT k, SUM(x) AS s, SUM(y) AS t FROM t GROUP BY k;"
    )
    parts = derivations(plan)["b", "a"].parts
    assert [part.part.function for part in parts] == ["count", "sum"]
    assert all("y" not in part.text.partition("\x1f")[2] for part in parts)


MONTHS = """
CREATE TABLE sales (store INT NOT NULL, month STRING, qty INT, n INT NOT NULL);
ALTER TABLE sales SET STATISTICS (ROWS 100000, DISTINCT store 10, DISTINCT month 12);
CREATE VIEW plain AS SELECT store, month, COUNT(*) AS c FROM sales GROUP BY store, month;
"""


@pytest.mark.parametrize(
    ("view", "hidden"),
    [
        (
            "SELECT * FROM (SELECT store, month, qty FROM sales) PIVOT (SUM(qty) FOR month IN ('jan', 'feb'))",
            ["__count_qty", "__sum_qty"],
        ),
        (
            "SELECT store, MIN(qty) FILTER (WHERE month = 'jan') AS lo FROM sales GROUP BY store",
            ["__count_qty", "__min_qty"],
        ),
        ("SELECT store, SUM(CASE WHEN month = 'jan' THEN n ELSE 0 END) AS s FROM sales GROUP BY store", ["__sum_n"]),
        ("SELECT store, SUM(CASE month WHEN 'jan' THEN n END) AS s FROM sales GROUP BY store", ["__sum_n"]),
        ("SELECT store, COUNT(*) FILTER (WHERE month = 'jan') AS c FROM sales GROUP BY store", []),
        ("SELECT DISTINCT store FROM sales", []),
        ("SELECT store, COUNT(*) AS c FROM sales GROUP BY store HAVING SUM(n) > 3", ["__sum_n"]),
    ],
    ids=["pivot", "filter", "else", "case of", "count", "distinct", "having"],
)
def test_conditions_over_what_the_parent_gives_leave_its_aggregates_plain(view: str, hidden: list[str]) -> None:
    """What is added to the parent is the aggregate without the condition, which serves all of them."""
    parent, child = compile_text(f"{MONTHS} CREATE VIEW child AS {view};").views
    assert child.parent == "plain"
    assert sorted(column.name for column in parent.hidden) == hidden


def test_an_extreme_of_branches_that_are_coerced_is_added_as_a_whole() -> None:
    """MIN(qty) orders as a number, the CASE with a string in it as a string."""
    view = "SELECT store, MIN(CASE WHEN month = 'jan' THEN qty ELSE month END) AS lo FROM sales GROUP BY store"
    (added, *_) = derivations(compile_text(f"{MONTHS} CREATE VIEW child AS {view};"))["child", "plain"].parts[::-1]
    assert added.part.function == "min"
    assert added.text.startswith("min(CASE")


def test_hidden_columns_are_there_only_for_chosen_children() -> None:
    def hidden(text: str) -> list[str]:
        view = compile_text(text).view("sCD_sales")
        assert view is not None
        return [column.name for column in view.hidden]

    assert hidden(RETAIL) == ["__region", "__count_qty"]
    assert hidden(RETAIL[: RETAIL.index("CREATE VIEW sR_sales")]) == ["__count_qty"]


STATISTICS = """
ALTER TABLE pos SET STATISTICS (ROWS 1000000, CHANGES 10000, DISTINCT date 2);
ALTER TABLE stores SET STATISTICS (ROWS 100, DISTINCT city 50, DISTINCT region 10);
ALTER TABLE items SET STATISTICS (ROWS 1000, DISTINCT category 20);
"""
INSERT_ONLY = "".join(f"ALTER TABLE {table} SET CHANGES (INSERT ONLY);\n" for table in ("stores", "items"))


def test_goldens(golden: Golden) -> None:
    def run(case: Case) -> str:
        moving = compile_text(RETAIL + STATISTICS)
        match case.directive, case.arguments:
            case "text", _:
                return "\n".join(lattice_lines(moving.lattice))
            case "mermaid", _:
                return mermaid(moving.lattice)
            case "dot", _:
                return dot(moving.lattice)
            case "propagate", ("insert-only",):
                return functions(compile_text(RETAIL + STATISTICS + INSERT_ONLY), "propagate.py", "def sd_")
            case "propagate", (view,):
                return functions(moving, "propagate.py", f"def pc_{view}(", f"def sd_{view}(")
            case "initialize", (view,):
                return functions(moving, "initialize.py", f"def initial_{view}(")
        raise AssertionError(case.directive)

    golden("lattice.txt", run)


def functions(plan: Plan, file: str, *heads: str) -> str:
    blocks = emit(plan, "parquet")[file].split("\n\n\n")
    return "\n\n".join(block for block in blocks if block.startswith(heads))


def test_pictures() -> None:
    plan = compile_text(cube_views())
    picture = ElementTree.fromstring(svg(plan.lattice))
    names = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {node.names[0] for node in plan.lattice.nodes} <= set(names)
    paths = [path.get("class") for path in picture.iter("{http://www.w3.org/2000/svg}path")]
    assert paths.count("chosen") == 23
    assert len(paths) == len(plan.lattice.edges)
    hostile = Lattice((LatticeNode(('a"<b>\\', "c"), ("k]",), 1, 1),), ())
    ElementTree.fromstring(svg(hostile))
    assert '"a\\"<b>\\\\ = c' in dot(hostile)
    assert "<b>" not in mermaid(hostile)


def test_advice_is_the_greedy_choice() -> None:
    """Within its budget, best gain for a stored row first, and nothing that is stored already."""
    plan = compile_text(RETAIL + STATISTICS)
    found = advise(plan.summaries, plan.catalog, budget=20_000)
    assert found
    assert sum(advice.rows for advice in found) <= 20_000
    stored = {(("pos", "date"), ("stores", "city")), (("stores", "region"),)}
    assert not stored & {advice.columns for advice in found}
    rates = [advice.gain / advice.rows for advice in found]
    assert rates[0] == max(rates)
    assert advise(plan.summaries, plan.catalog, budget=1) == ()
