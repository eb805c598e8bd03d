"""Random plans over random tables that honour their constraints, for checking derived properties against data.

    python -m tests.constrained_plans [--count 5000] [--seed 1]

Prints the first plan whose derived key, dependency or NOT NULL its rows contradict; exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from random import Random
from typing import Any

import sqlglot
from deltafold.compiler.algebra import (
    Cell,
    ExceptAll,
    Expand,
    GPivot,
    GroupBy,
    GUnpivot,
    IntersectAll,
    Item,
    Join,
    JoinKind,
    Limit,
    Measure,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    SortKey,
    UnionAll,
    Window,
    col,
)
from deltafold.compiler.catalog import Catalog, Table
from deltafold.compiler.properties import properties
from deltafold.compiler.read import read_text
from deltafold.compiler.schema import bind_schema
from deltafold.grammar.notation import print_rel
from sqlglot import exp

try:
    from oracle import Row, evaluate, value
except ImportError:  # run as a module of the repository
    from tests.oracle import Row, evaluate, value

SCHEMA = """
CREATE TABLE keyed (k INT NOT NULL PRIMARY KEY, a INT, b INT, c INT NOT NULL CHECK (c IS NOT NULL));
CREATE TABLE sparse (u INT UNIQUE, v INT, w INT NOT NULL);
CREATE TABLE place (p INT NOT NULL, city INT, region INT, land INT, UNIQUE (p, land));
CREATE TABLE plain (m INT, n INT, o INT CHECK (o IS NOT NULL), g INT GENERATED ALWAYS AS (m + 1));
CREATE DIMENSION geo LEVEL p IS place.p LEVEL city IS place.city LEVEL region IS place.region LEVEL land IS place.land
  HIERARCHY h (p CHILD OF city CHILD OF region);
"""


def catalog() -> Catalog:
    file = read_text(SCHEMA)
    made, errors = bind_schema(file.statements)
    assert not errors and not file.errors
    return made


CATALOG = catalog()


def rows_of(table: Table, chance: Random) -> list[Row]:
    """Rows of a table: few values, many NULLs; those that a constraint forbids are left out."""
    parents: dict[tuple[str, Any], Any] = {}
    made: list[Row] = []
    for _ in range(chance.choice([0, 1, 3, 6, 9])):
        row: Row = {}
        for column in table.columns:
            row[column.name] = chance.randrange(3)
            if column.nullable and chance.random() < 0.3:
                row[column.name] = None
        for made_of in table.generated:
            row[made_of.column] = value(made_of.expression, row)
        if any(value(condition, row) is False for condition in table.checks):
            continue
        if table.name == "place":
            for child, parent in (("p", "city"), ("city", "region")):
                if row[child] is not None:
                    row[parent] = parents.setdefault((child, row[child]), row[parent])
        for key in table.keys:
            values = [row[name] for name in key]
            if None not in values and any([other[name] for name in key] == values for other in made):
                break
        else:
            made.append(row)
    return made


class Maker:
    """Makes plans; column names are numbered, so that any two relations can be joined."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.number = 0

    def fresh(self, hint: str) -> str:
        self.number += 1
        return f"{hint.rstrip('0123456789')}{self.number}"

    def pick(self, names: tuple[str, ...], most: int = 3) -> tuple[str, ...]:
        wanted = self.chance.randrange(min(most, len(names)) + 1)
        chosen = set(self.chance.sample(names, wanted))
        return tuple(name for name in names if name in chosen)

    def plan(self, depth: int) -> Rel:
        if depth == 0:
            table = self.chance.choice(CATALOG.tables)
            scan = Scan(Ref(table.name), table.columns)
            return Project(scan, tuple(Item(self.fresh(name), col(name)) for name in scan.names))
        makers: list[Callable[[int], Rel]] = [
            *(self.select, self.project, self.join, self.join, self.join, self.group, self.union, self.expand),
            *(self.pivot, self.unpivot, self.window, self.limit, self.bags),
        ]
        return self.chance.choice(makers)(depth - 1)

    def number_of(self, names: tuple[str, ...]) -> str:
        """A column that holds numbers, or a number."""
        return self.chance.choice([name for name in names if not name.startswith(("tag", "name"))] or ["1"])

    def condition(self, names: tuple[str, ...], others: tuple[str, ...] = ()) -> exp.Expr:
        one, two = self.number_of(names), self.number_of(others or names)
        text = self.chance.choice(
            [f"{one} = {two}"] * 4
            + [
                f"{one} = 1",
                f"{one} <=> {two}",
                f"{one} IS NULL",
                f"NOT {one} IS NULL",
                f"{one} <=> 2",
                f"{one} > {two}",
            ]
            + [f"{one} = {two} + 1", f"{one} = 1 OR {one} = {two}", f"COALESCE({one}, 1) = {two}", f"NOT {one} = {two}"]
            + [f"{one} IN (1, 2)", "TRUE", f"{one} = 0 AND {two} IS NULL"]
        )
        if self.chance.random() < 0.3:
            return exp.And(this=_parsed(text), expression=exp.Paren(this=self.condition(names, others)))
        return _parsed(text)

    def select(self, depth: int) -> Rel:
        below = self.plan(depth)
        return Select(below, self.condition(below.names))

    def items(self, names: tuple[str, ...]) -> tuple[Item, ...]:
        made = [Item(self.fresh(name), col(name)) for name in self.pick(names, len(names))]
        if not made or self.chance.random() < 0.6:
            one, two = self.number_of(names), self.number_of(names)
            text = self.chance.choice(
                [one, "7", f"{one} + {two}", f"COALESCE({one}, {two}, 0)", f"{one} * 0", "NULL + 1"]
            )
            made.append(Item(self.fresh("e"), _parsed(text)))
        return tuple(made)

    def project(self, depth: int) -> Rel:
        below = self.plan(depth)
        return Project(below, self.items(below.names))

    def join(self, depth: int) -> Rel:
        left, right = self.plan(depth), self.plan(self.chance.randrange(depth + 1))
        kind = self.chance.choice(
            [JoinKind.INNER, JoinKind.LEFT, JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI]
        )
        return Join(left, right, self.condition(left.names, right.names), kind)

    def group(self, depth: int) -> Rel:
        below = self.plan(depth)
        functions = [
            ("count", ()),
            ("sum", (_parsed(self.number_of(below.names)),)),
            ("min", (_parsed(self.number_of(below.names)),)),
        ]
        measures = [Measure(self.fresh("m"), f, a) for f, a in self.chance.sample(functions, self.chance.randrange(3))]
        keys = self.pick(below.names)
        return GroupBy(below, keys, tuple(measures) if keys or measures else (Measure(self.fresh("m"), "count"),))

    def tagged(self, rel: Rel, tag: str, names: tuple[str, ...]) -> Project:
        values = [_parsed(self.number_of(rel.names)) for _ in names[1:]]
        return Project(
            rel, (Item(names[0], _parsed(tag)), *(Item(n, v) for n, v in zip(names[1:], values, strict=True)))
        )

    def union(self, depth: int) -> Rel:
        names = (self.fresh("tag"), *(self.fresh("c") for _ in range(self.chance.randrange(1, 4))))
        tags = self.chance.choice([("1", "2"), ("1", "1"), ("'1'", "'2'"), ("1", "NULL")])
        first = self.plan(depth)
        second = first if self.chance.random() < 0.3 else self.plan(self.chance.randrange(depth + 1))
        return UnionAll((self.tagged(first, tags[0], names), self.tagged(second, tags[1], names)))

    def expand(self, depth: int) -> Rel:
        below = self.plan(depth)
        kept = self.pick(below.names, len(below.names))
        names, gid = tuple(self.fresh(name) for name in kept), self.fresh("gid")
        branches = []
        for tag in range(self.chance.randrange(1, 3)):
            grouped = [_parsed("NULL") if self.chance.random() < 0.3 else col(name) for name in kept]
            values = tuple(Item(name, value) for name, value in zip(names, grouped, strict=True))
            branches.append((*values, Item(gid, _parsed(str(tag)))))
        return Expand(below, tuple(branches))

    def pivot(self, depth: int) -> Rel:
        below = self.plan(depth)
        numbers = [name for name in below.names if self.number_of((name,)) == name]
        if not numbers:
            return below
        by = self.chance.choice(numbers)
        keys = [name for name in self.pick(below.names) if name != by]
        measure = self.fresh("q")
        grouped = GroupBy(below, (*keys, by), (Measure(measure, "sum", (col(by),)),))
        cells = [
            Cell(self.fresh("cell"), measure, (_parsed(value),)) for value in self.chance.choice([("1",), ("0", "2")])
        ]
        return GPivot(grouped, (by,), tuple(cells))

    def unpivot(self, depth: int) -> Rel:
        below = self.plan(depth)
        numbers = tuple(name for name in below.names if self.number_of((name,)) == name)
        if not numbers:
            return below
        chosen = self.pick(numbers, 2) or numbers[:1]
        values = self.chance.choice([("'a'", "'b'"), ("1", "2")])
        gathered = self.fresh("q")
        cells = tuple(Cell(name, gathered, (_parsed(v),)) for name, v in zip(chosen, values, strict=False))
        return GUnpivot(below, (self.fresh("name"),), cells, include_nulls=self.chance.random() < 0.3)

    def window(self, depth: int) -> Rel:
        below = self.plan(depth)
        partition, one = self.pick(below.names, 2), self.number_of(below.names)
        order = self.number_of(below.names)
        over = f"PARTITION BY {', '.join(partition)} " if partition else ""
        calls = ["ROW_NUMBER() OVER ({}ORDER BY {})", "RANK() OVER ({}ORDER BY {})", "SUM({1}) OVER ({0})"]
        calls += [f"SUM({one}) OVER ({{}}ORDER BY {{}})", "LAG({1}) OVER ({0}ORDER BY {1})", "COUNT(*) OVER ({})"]
        text = self.chance.choice(calls).format(over, order)
        return Window(below, (Item(self.fresh("w"), _parsed(text)),))

    def limit(self, depth: int) -> Rel:
        below = self.plan(depth)
        key = SortKey(col(below.names[0]), descending=False, nulls_first=True)
        return Limit(below, (key,), self.chance.choice([0, 1, 2, None]))

    def bags(self, depth: int) -> Rel:
        left = self.plan(depth)
        right = Select(left, self.condition(left.names))
        kind = self.chance.choice([ExceptAll, IntersectAll])
        return kind(left, right) if self.chance.random() < 0.7 else kind(right, left)


def _parsed(text: str) -> exp.Expr:
    def quoted(node: exp.Expr) -> exp.Expr:
        return exp.Identifier(this=node.this, quoted=True) if isinstance(node, exp.Identifier) else node

    return sqlglot.parse_one(text, dialect="spark").transform(quoted)


def contradiction(rel: Rel, tables: dict[Ref, list[Row]]) -> str | None:
    """A derived property that the rows contradict."""
    derived, rows = properties(rel, CATALOG), evaluate(rel, tables)
    for key in derived.keys:
        if len({tuple(row[name] for name in sorted(key)) for row in rows}) != len(rows):
            return f"key ({', '.join(sorted(key))})"
    for name in derived.not_null:
        if any(row[name] is None for row in rows):
            return f"{name} NOT NULL"
    for dependency in derived.dependencies:
        seen: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for row in rows:
            left = tuple(row[name] for name in sorted(dependency.left))
            right = tuple(row[name] for name in sorted(dependency.right))
            if (not dependency.lax or None not in left) and seen.setdefault(left, right) != right:
                return str(dependency)
    return None


def parts(rel: Rel) -> list[Rel]:
    return [rel, *(part for child in rel.inputs for part in parts(child))]


def check(chance: Random) -> str | None:
    """Makes a plan and tables, and checks every relation in it; gives what is wrong, with the smallest plan."""
    rel = Maker(chance).plan(chance.randrange(1, 5))
    tables = {Ref(table.name): rows_of(table, chance) for table in CATALOG.tables}
    for part in reversed(parts(rel)):
        if (wrong := contradiction(part, tables)) is not None:
            shown = "\n".join(f"{ref.name}: {rows}" for ref, rows in tables.items())
            return f"{wrong} does not hold of\n{print_rel(part)}\nover\n{shown}"
    return None


def search(seed: int, count: int) -> str | None:
    for number in range(count):
        if (wrong := check(Random(seed * 1_000_003 + number))) is not None:
            return f"case {number}: {wrong}"
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Checks derived properties of random plans against their rows.")
    parser.add_argument("--count", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = search(options.seed, options.count)
    print(wrong or f"{options.count} plans, every derived property holds")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
