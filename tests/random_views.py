"""Random views as algebra, over random schemas with keys and foreign keys, with random rows and batches.

Everything is drawn from one `random.Random`: with hypothesis's own, failing cases shrink; with a seeded one, a case
has a number. Values come from tiny domains, so that joins meet, groups collide and rows repeat.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from deltafold.compiler import scalar
from deltafold.compiler.algebra import (
    Cell,
    Column,
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
    scans,
)
from deltafold.compiler.auxiliary import with_hidden
from deltafold.compiler.bind import BoundView
from deltafold.compiler.catalog import Catalog, Changes, ForeignKey, Table
from deltafold.compiler.decide import plan_view
from deltafold.compiler.plan import Plan
from deltafold.compiler.properties import schema
from deltafold.compiler.source import SourceFile, Span
from deltafold.randomdata import Batch, Change
from sqlglot import exp

INTS = (0, 1, 2, None)
STRINGS = ("a", "b", None)
NO_SPAN = Span(SourceFile("", ""), 0, 0)


@dataclass(frozen=True)
class RandomCase:
    catalog: Catalog
    views: tuple[tuple[str, Rel], ...]
    databases: tuple[tuple[dict[str, list[tuple[Any, ...]]], tuple[Batch, ...]], ...]  # each with its batches

    def plan(self, strategy: str = "") -> Plan:
        """All views planned, the first ones as read by the later ones."""
        pragmas = (SimpleNamespace(name="strategy", value=strategy, span=NO_SPAN),) if strategy else ()
        statement = SimpleNamespace(name_span=NO_SPAN, span=NO_SPAN, pragmas=pragmas)
        bound = [BoundView(name, rel, statement) for name, rel in self.views]  # type: ignore[arg-type]
        bound = [part for view in bound for part in with_hidden(view, self.catalog)]
        read = {scan.ref.name for view in bound for scan in scans(view.rel)}
        return Plan("", self.catalog, tuple(plan_view(v, self.catalog, v.name in read) for v in bound))


class Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.columns = 0

    def case(self, operators: int, batches: int, databases: int = 1) -> RandomCase:
        catalog = self.catalog()
        relations = [Scan(Ref(table.name), table.columns) for table in catalog.tables]
        views: list[tuple[str, Rel]] = []
        while operators > 0 or not views:
            used = min(operators, self.chance.randint(1, 8)) if views else operators
            split = self.chance.randrange(4) == 3 and operators > 2 and not views
            used = operators // 2 if split else used
            rel = self.rel(used, relations)
            views.append((f"v{len(views) + 1}", rel))
            relations.append(Scan(Ref(views[-1][0]), schema(rel)))
            operators -= max(used, 1)
        return RandomCase(catalog, tuple(views), tuple(self.data(catalog, batches) for _ in range(databases)))

    def warehouse(self, views: int, batches: int) -> RandomCase:
        """Many views over the same tables; now and then one reads another."""
        catalog = self.catalog()
        relations = [Scan(Ref(table.name), table.columns) for table in catalog.tables]
        made: list[tuple[str, Rel]] = []
        for number in range(1, views + 1):
            rel = self.rel(self.chance.randint(1, 6), relations)
            made.append((f"v{number}", rel))
            if number % 4 == 0:
                relations.append(Scan(Ref(f"v{number}"), schema(rel)))
        return RandomCase(catalog, tuple(made), (self.data(catalog, batches),))

    # ---- schema and rows

    def catalog(self) -> Catalog:
        d = Table(
            "d",
            (Column("id", "int", nullable=False), Column("a", "string"), Column("b", "int")),
            NO_SPAN,
            keys=(("id",),),
        )
        reference = Column("d", "int", nullable=self.chance.randrange(2) == 0)
        f = Table(
            "f",
            (reference, Column("k", "string"), Column("x", "int"), Column("z", "int", nullable=False)),
            NO_SPAN,
            keys=(("z",),) if self.chance.randrange(3) == 2 else (),
            foreign_keys=(ForeignKey(("d",), "d", ("id",)),) if self.chance.randrange(2) else (),
        )
        t = Table("t", (Column("p", "int"), Column("q", "string")), NO_SPAN)
        return Catalog(tuple(replace(table, changes=Changes(self.chance.randrange(4) == 3)) for table in (d, f, t)))

    def data(self, catalog: Catalog, batches: int) -> tuple[dict[str, list[tuple[Any, ...]]], tuple[Batch, ...]]:
        database: dict[str, list[tuple[Any, ...]]] = {table.name: [] for table in catalog.tables}
        for table in catalog.tables:
            for _ in range(self.chance.randrange(6)):
                if row := self.row(table, database):
                    database[table.name].append(row)
        start = {name: list(rows) for name, rows in database.items()}
        return start, tuple(self.batch(catalog, database) for _ in range(batches))

    def batch(self, catalog: Catalog, database: dict[str, list[tuple[Any, ...]]]) -> Batch:
        changes: list[Change] = []
        for table in catalog.tables:
            for _ in range(self.chance.randrange(4)):
                kind = self.chance.randrange(4)
                rows = database[table.name]
                free = [row for row in rows if not _is_referenced(catalog, table, row, database)]
                before = self.chance.choice(free) if free and kind and not table.changes.insert_only else None
                if before is not None:
                    rows.remove(before)
                after = None if kind == 2 and before is not None else self.row(table, database)
                if (
                    kind == 3 and before is None and after is not None and not table.changes.insert_only
                ):  # comes and goes again
                    changes += [Change(table.name, None, after), Change(table.name, after, None)]
                    continue
                if after is not None:
                    rows.append(after)
                if before is not None or after is not None:
                    changes.append(Change(table.name, before, after))
        return tuple(changes)

    def row(self, table: Table, database: dict[str, list[tuple[Any, ...]]]) -> tuple[Any, ...] | None:
        values = {}
        for column in table.columns:
            domain = STRINGS if column.type == "string" else INTS
            values[column.name] = self.chance.choice(domain if column.nullable else domain[:-1])
        for key in table.foreign_keys:
            there = [row[0] for row in database[key.table]]
            nullable = [None] if table.columns[0].nullable else []
            if not there + nullable:
                return None
            values[key.columns[0]] = self.chance.choice(there + nullable)
        row = tuple(values[name] for name in table.names)
        for unique in table.keys:
            place = table.names.index(unique[0])
            if any(other[place] == row[place] for other in database[table.name]):
                return None
        return row

    # ---- relations

    def fresh(self) -> str:
        self.columns += 1
        return f"c{self.columns}"

    def rel(self, operators: int, relations: list[Scan]) -> Rel:
        if operators <= 0:
            scan = self.chance.choice(relations)
            return Project(scan, tuple(Item(self.fresh(), col(name)) for name in scan.names))
        binary = (self.join, self.join, self.join, self.set_operation)
        unary: tuple[Callable[[Rel], Rel], ...] = (
            *(self.select, self.project, self.group, self.group, self.distinct),
            *(self.window, self.pivot, self.unpivot, self.expand, self.limit),
        )
        if operators > 1 and self.chance.randrange(5) > 2:
            left = self.chance.randint(0, operators - 1)
            sides = self.rel(left, relations), self.rel(operators - 1 - left, relations)
            return self.chance.choice(binary)(*sides)
        return self.chance.choice(unary)(self.rel(operators - 1, relations))

    def some(self, rel: Rel, kinds: tuple[str, ...] = ("int", "bigint", "string", "double")) -> list[Column]:
        return [column for column in schema(rel) if column.type in kinds]

    def literal(self, column: Column) -> str:
        return self.chance.choice(("'a'", "'b'")) if column.type == "string" else str(self.chance.choice((0, 1, 2)))

    def condition(self, rel: Rel) -> str:
        column = self.chance.choice(self.some(rel))
        form = self.chance.randrange(6)
        if form == 0:
            return f"{column.name} IS NULL"
        if form == 1:
            return f"COALESCE({column.name}, {self.literal(column)}) = {self.literal(column)}"
        if form == 2:
            return f"({self.condition(rel)}) {self.chance.choice(('OR', 'AND'))} NOT ({self.condition(rel)})"
        operator = self.chance.choice(("=", "<>", "<", ">=", "<=>"))
        return f"{column.name} {operator} {self.literal(column)}"

    def select(self, rel: Rel) -> Rel:
        return Select(rel, sql(self.condition(rel)))

    def project(self, rel: Rel) -> Rel:
        items = []
        for column in self.some(rel):
            if self.chance.randrange(4) == 3:
                continue
            number = column.type != "string" and self.chance.randrange(3) == 2
            items.append(Item(self.fresh(), sql(f"{column.name} + 1") if number else col(column.name)))
        return Project(rel, tuple(items) or (Item(self.fresh(), sql("1")),))

    def join(self, left: Rel, right: Rel) -> Rel:
        if {*left.names} & {*right.names}:  # a view read twice
            right = Project(right, tuple(Item(self.fresh(), col(name)) for name in right.names))
        pairs = [(a, b) for a in self.some(left) for b in self.some(right) if a.type == b.type]
        parts = []
        if pairs and self.chance.randrange(8) < 7:
            a, b = self.chance.choice(pairs)
            form = self.chance.choice(
                ("{} = {}", "{} = {}", "{} = {}", "{} <=> {}", "{} < {}", "NOT ({} = {}) IS FALSE")
            )
            parts.append(form.format(a.name, b.name))
        if self.chance.randrange(4) == 3:
            parts.append(f"({self.condition(self.chance.choice((left, right)))})")
        kind = self.chance.choice((JoinKind.INNER, JoinKind.LEFT, JoinKind.FULL, JoinKind.SEMI, JoinKind.ANTI))
        return Join(left, right, sql(" AND ".join(parts) or "TRUE"), kind)

    def set_operation(self, left: Rel, right: Rel) -> Rel:
        """Both sides with as many columns of the same types; a string is made of a number where that lacks."""
        width = min(len(left.names), len(right.names), 2)
        kinds = [column.type if column.type != "int" else "bigint" for column in schema(left)][:width]
        names = [self.fresh() for _ in kinds]

        def side(rel: Rel) -> Rel:
            items = []
            for name, kind in zip(names, kinds, strict=True):
                like = [c for c in self.some(rel) if (c.type == "string") == (kind == "string")]
                text = self.chance.choice(like).name if like else "NULL"
                items.append(Item(name, sql(f"CAST({text} AS {kind.upper()})")))
            return Project(rel, tuple(items))

        made = side(left), side(right)
        which = self.chance.randrange(3)
        return UnionAll(made) if which == 0 else ExceptAll(*made) if which == 1 else IntersectAll(*made)

    def measure(self, rel: Rel) -> Measure:
        numbers = self.some(rel, ("int", "bigint"))
        if not numbers or self.chance.randrange(4) == 0:
            return Measure(self.fresh(), "count")
        function = self.chance.choice(("sum", "count", "min", "max", "avg"))
        distinct = function in ("sum", "count") and self.chance.randrange(6) == 5
        return Measure(self.fresh(), function, (col(self.chance.choice(numbers).name),), distinct)

    def group(self, rel: Rel) -> Rel:
        keys = tuple(c.name for c in self.some(rel) if self.chance.randrange(3) == 0)[:2]
        grouped = GroupBy(rel, keys, tuple(self.measure(rel) for _ in range(self.chance.randint(1, 2))))
        if self.chance.randrange(3):
            return grouped
        kept = tuple(name for name in grouped.names if self.chance.randrange(4)) or grouped.names
        return Project(grouped, tuple(Item(name, col(name)) for name in kept))

    def distinct(self, rel: Rel) -> Rel:
        return GroupBy(rel, tuple(column.name for column in self.some(rel)[:2]), ())

    def window(self, rel: Rel) -> Rel:
        columns = self.some(rel)
        by = [c.name for c in columns if self.chance.randrange(3) == 0][:1]
        order = ", ".join(c.name for c in schema(rel))
        partition = f"PARTITION BY {', '.join(by)} " if by else ""
        calls = [f"ROW_NUMBER() OVER ({partition}ORDER BY {order})", f"COUNT(*) OVER ({partition.strip()})"]
        calls.append(f"RANK() OVER ({partition}ORDER BY {columns[0].name} DESC)")
        name = self.fresh()
        window = Window(rel, (Item(name, sql(self.chance.choice(calls))),))
        if self.chance.randrange(2):
            return window
        return Select(window, sql(f"{name} <= 1"))

    def pivot(self, rel: Rel) -> Rel:
        columns = self.some(rel, ("int", "string"))
        if not columns:
            return self.select(rel)
        by = self.chance.choice(columns)
        keys = [c.name for c in columns if c.name != by.name][:1]
        measure = self.measure(rel)
        grouped = GroupBy(rel, (*keys, by.name), (measure,))
        values = ("'a'", "'b'") if by.type == "string" else ("0", "1")
        cells = tuple(Cell(self.fresh(), measure.name, (sql(value),)) for value in values)
        return GPivot(grouped, (by.name,), cells)

    def unpivot(self, rel: Rel) -> Rel:
        kinds = {column.type for column in self.some(rel)}
        kind = self.chance.choice(sorted(kinds))
        columns = self.some(rel, (kind,))[:2]
        measure = self.fresh()
        cells = tuple(Cell(c.name, measure, (sql(f"'{c.name}'"),)) for c in columns)
        return GUnpivot(rel, (self.fresh(),), cells, self.chance.randrange(2) == 1)

    def expand(self, rel: Rel) -> Rel:
        columns = self.some(rel)[:2]
        names = [self.fresh() for _ in columns]
        rows = []
        for without in range(len(columns) + 1):
            texts = [
                f"CAST(NULL AS {c.type.upper()})" if place == without else c.name for place, c in enumerate(columns)
            ]
            rows.append(tuple(Item(name, sql(text)) for name, text in zip(names, texts, strict=True)))
        expanded = Expand(rel, tuple((*items, Item(f"{names[0]}_set", sql(str(at)))) for at, items in enumerate(rows)))
        if self.chance.randrange(2):
            return expanded
        return GroupBy(expanded, expanded.names, (Measure(self.fresh(), "count"),))

    def limit(self, rel: Rel) -> Rel:
        order = tuple(SortKey(col(name), self.chance.randrange(2) == 1, True) for name in rel.names)
        return Limit(rel, order, self.chance.randint(1, 3), self.chance.randrange(2))


def _is_referenced(
    catalog: Catalog, table: Table, row: tuple[Any, ...], database: dict[str, list[tuple[Any, ...]]]
) -> bool:
    for other in catalog.tables:
        for key in other.foreign_keys:
            if key.table == table.name and any(referring[0] == row[0] for referring in database[other.name]):
                return True
    return False


_PARSED: dict[str, exp.Expr] = {}


def sql(text: str) -> exp.Expr:
    if text not in _PARSED:
        _PARSED[text] = scalar.canonical(scalar.parse(text))
    return _PARSED[text]
