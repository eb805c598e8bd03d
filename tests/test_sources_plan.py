"""Views over sources, compiled: the split into a core and the rest, what explain prints, and what is refused."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from deltafold.codegen.emit import emit
from deltafold.codegen.plan_text import cores_text
from deltafold.codegen.sources_json import read_description, sources_json
from deltafold.compiler.algebra import Ref
from deltafold.compiler.cores import is_simple
from deltafold.compiler.pipeline import compile_file, compile_text
from deltafold.compiler.plan import Plan
from deltafold.compiler.scalar import parse
from deltafold.compiler.source import InputError
from deltafold.grammar.notation import print_rel
from deltafold.sources.bag import bag as rows_as_bag
from deltafold.sources.conditions import condition
from deltafold.sources.joining import Joiner
from oracle import bag, evaluate, value

SCHEMA = """
CREATE TABLE r1 (a INT NOT NULL PRIMARY KEY, b STRING, c INT);
CREATE TABLE r2 (c INT NOT NULL PRIMARY KEY, d INT, e INT REFERENCES r3);
CREATE TABLE r3 (e INT NOT NULL PRIMARY KEY, f INT, g INT);
CREATE SOURCE s1 TYPE postgres OPTIONS (url '${A}') TABLES (r1);
CREATE SOURCE s2 TYPE postgres OPTIONS (url '${B}') TABLES (R2, r3);
"""
VIEWS = {
    "joins, conditions, expressions": "SELECT b, r1.c, f + 1 AS f1 FROM r1 JOIN r2 ON r1.c = r2.c, r3 "
    "WHERE r2.e = r3.e AND a > 1 AND f < d AND (g IN (1, 2) OR g IS NULL)",
    "a group by": "SELECT b, SUM(f) AS total, COUNT(*) AS n FROM r1 JOIN r2 USING (c) JOIN r3 USING (e) GROUP BY b",
    "a table with itself": "SELECT p.a, q.b FROM r1 p JOIN r1 q ON p.c = q.a WHERE p.b <> 'x'",
    "a subquery": "SELECT x, d FROM (SELECT c AS k, a + 1 AS x FROM r1 WHERE b = 'x') t JOIN r2 ON k = r2.c AND x < d",
    "nothing but a count": "SELECT COUNT(*) AS n FROM r1 JOIN r2 ON r1.c = r2.c",
    "one table": "SELECT b, a FROM r1 WHERE NOT (c >= 1 AND c <= 2)",
}


def compiled(query: str, *pragmas: str) -> Plan:
    lines = "".join(f"-- deltafold: {pragma}\n" for pragma in pragmas)
    return compile_text(f"{SCHEMA}{lines}CREATE VIEW v AS {query};")


def whole(query: str) -> Plan:
    """The same view over tables of the warehouse."""
    tables = "\n".join(line for line in SCHEMA.splitlines() if not line.startswith("CREATE SOURCE"))
    return compile_text(f"{tables}\nCREATE VIEW v AS {query};")


@pytest.mark.parametrize("query", VIEWS.values(), ids=VIEWS)
def test_the_rest_over_the_core_is_the_view(query: str) -> None:
    plan = compiled(query)
    (view,) = plan.cores
    original = whole(query).views[0].definition
    names = tuple(column.name for column in plan.views[0].columns)
    joiner = Joiner(view.core)
    for seed in range(30):
        rng = random.Random(seed)

        def row(table: str, key: int, rng: random.Random = rng) -> dict[str, object]:
            def small() -> int | None:
                return rng.choice((None, 0, 1, 2, 3))

            first, second, third = {"r1": "abc", "r2": "cde", "r3": "efg"}[table]
            return {first: key, second: rng.choice(("x", "y", None)) if table == "r1" else small(), third: small()}

        tables = {table: [row(table, key) for key in rng.sample(range(5), 4)] for table in ("r1", "r2", "r3")}
        expected = evaluate(original, {Ref(table): rows for table, rows in tables.items()})
        parts = {}
        for node in view.core.nodes:
            columns = {"r1": tuple("abc"), "r2": tuple("cde"), "r3": tuple("efg")}[node.table]
            rows = rows_as_bag(tuple(r[c] for c in columns) for r in tables[node.table])
            parts[node.name] = joiner.node_rows(node, columns, rows)
        core = [
            dict(zip((output.name for output in view.core.outputs), r, strict=True))
            for r, count in joiner.whole(parts).items()
            for _ in range(count)
        ]
        found = evaluate(plan.views[0].definition, {Ref(view.core.name): core})
        assert bag(found, names) == bag(expected, names), print_rel(plan.views[0].definition)


def test_a_core_keeps_only_what_is_read_above_it() -> None:
    (view,) = compiled(VIEWS["a group by"]).cores
    assert [output.name for output in view.core.outputs] == ["b", "f"]
    assert view.core.references == (("r2", "r3"),)


CONDITIONS = [
    "x > 3",
    "x = -2",
    "NOT x = 1",
    "x IN (1, 2)",
    "x NOT IN (1, 3)",
    "x BETWEEN 1 AND 2",
    "x IS NULL",
    "x IS NOT NULL AND (y <= x OR s = 'b')",
    "s > 'B'",
    "x <> y",
]


@pytest.mark.parametrize("text", CONDITIONS)
def test_conditions_of_a_core_are_what_the_oracle_says(text: str) -> None:
    columns = ("x", "y", "s")
    types = {c.name: c for c in compile_text("CREATE TABLE t (x INT, y INT, s STRING);").catalog.tables[0].columns}
    parsed = parse(text)
    assert is_simple(parsed, types)
    test = condition((parsed,), columns)
    for x in (None, -2, 0, 1, 2, 3, 4):
        for y in (None, 1, 3):
            for s in (None, "a", "b", "ä", "B"):
                given = dict(zip(columns, (x, y, s), strict=True))
                oracle = _listed(text, given) if " IN " in text or "BETWEEN" in text else value(parsed, given)
                assert test((x, y, s)) == (oracle is True), (text, given)


def _listed(text: str, row: dict[str, object]) -> bool:
    """IN and BETWEEN, which the oracle writes out."""
    spelled = {
        "x IN (1, 2)": "x = 1 OR x = 2",
        "x NOT IN (1, 3)": "x <> 1 AND x <> 3",
        "x BETWEEN 1 AND 2": "x >= 1 AND x <= 2",
    }
    return value(parse(spelled[text]), row) is True


@pytest.mark.parametrize("text", ["x + 1 > 3", "s > 3", "x = '3'", "upper(s) = 'A'", "d < 1.5", "s LIKE 'a%'"])
def test_other_conditions_stay_above_the_core(text: str) -> None:
    types = {c.name: c for c in compile_text("CREATE TABLE t (x INT, s STRING, d DOUBLE);").catalog.tables[0].columns}
    assert not is_simple(parse(text), types)


def test_sources_json_reads_back() -> None:
    plan = compiled(VIEWS["joins, conditions, expressions"], "consistency = strong")
    read = read_description(sources_json(plan))
    assert read.cores[0].core == plan.cores[0].core and read.cores[0].consistency == "strong"
    assert read.cores[0].table.columns == plan.cores[0].table.columns
    assert [s.options for s in read.catalog.sources] == [s.options for s in plan.catalog.sources]
    files = emit(plan, "parquet")
    assert "sources.json" in files and "sources.json" not in emit(whole(VIEWS["one table"]), "parquet")
    assert "s2.r2" in files["plan.txt"]


PATHS = """\
  core     core_v, complete: version numbers, every transaction by itself
    s1.r1 (a, b, c); a > 3
    s2.r2 (c, e)
    s2.r3 (e, f)
    joined on r1.c = r2.c
    joined on r2.e = r3.e
  a change of r1
    insert or delete or modify: 1 message
      1. ask s2 for r2 with r3, by r1.c = r2.c, r2.e = r3.e
      but where the view holds r2.c, it answers for r2, r3 itself
  a change of r2
    insert: 2 messages in 1 round trip
      1. ask s1 for r1, by r2.c = r1.c
      1. ask s2 for r3, by r2.e = r3.e
    delete: 0 messages
      then the stored rows with the r2.c concerned are taken out
    modify: 0 messages
      then the stored rows with the r2.c concerned are changed
      if it touches a join column, it is a delete and an insert
  a change of r3
    insert: 0 messages: irrelevant, no row of r2 can refer to a row that was not there
    insert of a key that is deleted in the same transaction: 2 messages
      1. ask s2 for r2, by r3.e = r2.e
      2. ask s1 for r1, by r2.c = r1.c
    delete: 0 messages: irrelevant, a row that r2 refers to could not have been deleted
    delete with changes of what refers to it in the same transaction: 1 message
      1. ask s2 for r2, by r3.e = r2.e
      then the stored rows with the r2.c concerned are taken out
    modify: 1 message
      1. ask s2 for r2, by r3.e = r2.e
      then the stored rows with the r2.c concerned are changed
      if it touches a join column, it is a delete and an insert"""


def test_explain_prints_the_query_path_of_every_change() -> None:
    plan = compiled("SELECT b, r1.c, f FROM r1 JOIN r2 ON r1.c = r2.c JOIN r3 ON r2.e = r3.e WHERE a > 3")
    assert "\n".join(cores_text(plan, "v")) == PATHS
    data = Counter(path["messages"] for path in _paths(plan))
    assert data == {1: 4, 0: 4, 2: 1}


def test_a_condition_on_a_table_keeps_referential_integrity_out() -> None:
    """A row that begins to fulfil it is an insertion for the view, of a key that was referred to all along."""
    plan = compiled("SELECT b, f FROM r1 JOIN r2 ON r1.c = r2.c JOIN r3 ON r2.e = r3.e WHERE g > 3")
    assert not any(path["skipped"] for path in _paths(plan))


def _paths(plan: Plan) -> list[dict[str, int]]:
    from deltafold.codegen.plan_text import plan_data

    found: list[dict[str, int]] = plan_data(plan)["views"][0]["core"]["paths"]
    return found


def test_a_type_that_is_not_exact_does_not_link() -> None:
    text = """
    CREATE TABLE t (x DOUBLE, y INT);
    CREATE TABLE u (x DOUBLE, y INT);
    CREATE SOURCE s TYPE postgres TABLES (t, u);
    CREATE VIEW v AS SELECT t.y FROM t JOIN u ON t.x = u.x;
    """
    with pytest.raises(InputError, match="DF0805"):
        compile_text(text)


def test_the_page_on_sources_shows_what_explain_prints() -> None:
    top = Path(__file__).parents[1]
    plan = compile_file(top / "examples" / "sources.sql")
    shown = (top / "docs" / "sources.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    assert shown == "\n".join(cores_text(plan, "sales")) + "\n"


def test_views_with_the_same_join_share_a_core_and_the_lattice_sees_it() -> None:
    join = "FROM r1 JOIN r2 ON r1.c = r2.c JOIN r3 ON r2.e = r3.e"
    turned = "FROM r3 JOIN r2 ON r3.e = r2.e JOIN r1 ON r2.c = r1.c"
    plan = compile_text(
        f"{SCHEMA}CREATE VIEW fine AS SELECT b, d, COUNT(*) AS n, SUM(f) AS f {join} GROUP BY b, d;\n"
        f"CREATE VIEW coarse AS SELECT b, COUNT(*) AS n, SUM(f) AS f {turned} GROUP BY b;\n"
        f"CREATE VIEW other AS SELECT b, COUNT(*) AS n {join} WHERE a > 1 GROUP BY b;\n"
        f"CREATE TABLE core_other (x INT);\n"
    )
    assert [core.views for core in plan.cores] == [("fine", "coarse"), ("other",)]
    assert [core.core.name for core in plan.cores] == ["core_fine", "core_other_"]
    coarse = plan.view("coarse")
    assert coarse is not None and coarse.parent == "fine"
    assert cores_text(plan, "coarse") == ["  core     core_fine, that of fine"]
