"""What the tests of the rewrite rules share: the tables of their plans, random data for them, the rules by name."""

from __future__ import annotations

import inspect
import random
import re
import textwrap
from collections.abc import Callable
from typing import Any

from deltafold.compiler.algebra import Ref, Rel, scans
from deltafold.compiler.catalog import Catalog
from deltafold.compiler.read import read_text
from deltafold.compiler.schema import bind_schema
from deltafold.grammar.plan_reader import parse_rel
from deltafold.rewrites.catalogue import RULES
from deltafold.rewrites.engine import Rule
from oracle import NotAKey, Row, bag, evaluate

TABLES = """
-- the tables of the rules' own examples
CREATE TABLE sales (region STRING, store INT NOT NULL, month STRING NOT NULL, qty INT, PRIMARY KEY (store, month));
CREATE TABLE priced_sales (region STRING NOT NULL, store INT NOT NULL, month STRING NOT NULL, qty INT, price INT,
                           PRIMARY KEY (region, store, month));
CREATE TABLE kinds (region STRING, kind STRING NOT NULL, month STRING NOT NULL, qty INT);
CREATE TABLE regions (name STRING NOT NULL PRIMARY KEY, country STRING, size INT);
CREATE TABLE bounds (id INT NOT NULL PRIMARY KEY, low INT, high INT);
CREATE TABLE bound_sales (bound INT NOT NULL, month STRING NOT NULL, qty INT, PRIMARY KEY (bound, month));
CREATE TABLE wide (id INT NOT NULL PRIMARY KEY, region STRING, jan INT, feb INT);
CREATE TABLE grid (id INT NOT NULL PRIMARY KEY, region STRING, jan_qty INT, feb_qty INT, jan_price INT, feb_price INT);
-- those of random plans
CREATE TABLE v (k INT, g INT, a STRING, b STRING, x INT, y INT);
CREATE TABLE f (fk INT NOT NULL, fg INT, fa STRING NOT NULL, m INT NOT NULL, n INT, PRIMARY KEY (fk, fa));
CREATE TABLE w (wk INT, a STRING, b STRING, x INT, y INT NOT NULL);
CREATE TABLE t (id INT NOT NULL PRIMARY KEY, p INT, q STRING);
CREATE TABLE u (r INT, s STRING);
CREATE TABLE h (hk INT NOT NULL PRIMARY KEY, hs STRING, c1 INT, c2 INT, c3 INT, c4 INT);
CREATE TABLE hb (bk INT, d1 INT NOT NULL, d2 INT, d3 INT NOT NULL, d4 INT);
"""
# No two rows agree on these, NULLs compared as equal; more than what is declared, so that pivots are valid.
DISTINCT = {"kinds": ("region", "kind", "month"), "v": ("k", "g", "a", "b")}
STRINGS = {"region": ["north", "south"], "name": ["north", "south", "east"], "kind": ["tv", "pc", "hi"]}
MONTHS = ["jan", "feb", "mar"]
LETTERS = ["x", "y", "z"]

CATALOG: Catalog = bind_schema(read_text(TABLES, "tables.sql").statements)[0]
Database = dict[Ref, list[Row]]


def relations() -> dict[str, Any]:
    return {table.name: table.columns for table in CATALOG.tables}


def plan(text: str) -> Rel:
    return parse_rel(textwrap.dedent(text).strip("\n"), relations())


def random_database(chance: random.Random, rel: Rel) -> Database:
    """Rows for the tables that a plan reads, keys respected: NULLs, duplicates and empty tables among them."""
    made: Database = {}
    for scan in scans(rel):
        if scan.ref in made:
            continue
        table = CATALOG.table(scan.ref.name)
        assert table is not None
        unique = [tuple(key) for key in table.keys]
        unique += [DISTINCT[table.name]] if table.name in DISTINCT else []
        rows: list[Row] = []
        seen: set[tuple[Any, ...]] = set()
        for _ in range(chance.choice((0, 1, 2, 4, 7, 10))):
            row = {c.name: _value(chance, c.name, c.type, c.nullable) for c in table.columns}
            places = [(key, tuple(row[name] for name in key)) for key in unique]
            if not any(place in seen for place in places):
                seen.update(places)
                rows.append(row)
        made[scan.ref] = rows
    return made


def _value(chance: random.Random, name: str, kind: str, nullable: bool) -> Any:
    if nullable and chance.random() < 0.25:
        return None
    if kind == "int":
        return chance.randint(0, 2)
    return chance.choice(MONTHS if name == "month" else STRINGS.get(name, LETTERS))


def differ(before: Rel, after: Rel, database: Database) -> str | None:
    """How the two differ on the data; None if they do not, or if the data makes a pivot of `before` invalid."""
    try:
        expected = bag(evaluate(before, database), before.names)
    except NotAKey:
        return None
    try:
        found = bag(evaluate(after, database), before.names)
    except NotAKey as contended:
        return f"two rows contend for a cell: {contended}"
    if found == expected:
        return None
    return f"lost {dict(expected - found)}, gained {dict(found - expected)}"


def rules() -> list[Rule]:
    return list(RULES)


def example(rule: Callable[..., Any]) -> tuple[str, str]:
    """Before and After of a rule's docstring."""
    doc = inspect.getdoc(rule) or ""
    parts = re.split(r"^(Before|After):\n", doc, flags=re.MULTILINE)
    assert parts[1::2] == ["Before", "After"], f"{rule.__name__}: its docstring needs one Before and one After"
    blocks = [re.match(r"(?:    .*\n|\n)*", text) for text in (parts[2], parts[4])]
    return tuple(textwrap.dedent(block[0]).strip("\n") for block in blocks if block)  # type: ignore[return-value]
