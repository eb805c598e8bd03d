"""Random plans around pivots and unpivots, for the rewrite rules. Everything comes from one `random.Random`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import lru_cache

from deltafold.compiler import scalar
from deltafold.compiler.algebra import (
    Cell,
    Column,
    GPivot,
    GroupBy,
    GUnpivot,
    Item,
    Join,
    JoinKind,
    Measure,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    UnionAll,
    col,
)
from deltafold.compiler.properties import schema
from rule_cases import CATALOG, LETTERS
from sqlglot import exp


@lru_cache(maxsize=20_000)
def _canonical(text: str) -> exp.Expr:
    return scalar.canonical(scalar.parse(text))


def sql(text: str) -> exp.Expr:
    """A scalar expression; reading one again and again is what would cost most here."""
    return _canonical(text).copy()


class Plans:
    """Builds random plans; each method makes an operator over given or random inputs."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.named = 0

    def name(self) -> str:
        self.named += 1
        return f"n{self.named}"

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def some(self, things: Sequence[str], least: int = 1) -> list[str]:
        count = self.chance.randint(min(least, len(things)), len(things))
        return sorted(self.chance.sample(list(things), count), key=list(things).index)

    def scan(self, name: str) -> Rel:
        table = CATALOG.table(name)
        assert table is not None
        return Scan(Ref(name), table.columns)

    # conditions and other scalars

    def condition(self, columns: Sequence[Column], depth: int = 1) -> exp.Expr:
        if depth and self.maybe(0.4):
            word = self.chance.choice(("AND", "AND", "OR"))
            sides = [scalar.text(self.condition(columns, depth - 1)) for _ in range(2)]
            return sql(f"({sides[0]}) {word} ({sides[1]})") if word == "OR" else _both(*sides)
        column = self.chance.choice(list(columns))
        name = scalar.quote(column.name)
        if column.type == "string":
            forms = [f"{name} = 'x'", f"{name} IN ('x', 'y')", f"{name} <=> 'x'", f"{name} IS NULL", f"'z' = {name}"]
            forms += [f"NOT {name} = 'x'"]
            others = [c.name for c in columns if c.type == "string"]
            forms += [f"{name} = {scalar.quote(self.chance.choice(others))}"]
        else:
            forms = [f"{name} > 0", f"{name} = 1", f"{name} IS NULL", f"NOT {name} IS NULL", f"{name} IN (1, 2)"]
            forms += [f"COALESCE({name}, 1) = 1", f"{name} <=> NULL", f"{name} + 1 < 3", f"NOT {name} > 1"]
            others = [c.name for c in columns if c.type != "string"]
            forms += [f"{name} <= {scalar.quote(self.chance.choice(others))}"] * 2
        return sql(self.chance.choice(forms))

    def value(self, columns: Sequence[Column]) -> exp.Expr:
        column = self.chance.choice(list(columns))
        if column.type == "string" or self.maybe(0.5):
            return col(column.name)
        name = scalar.quote(column.name)
        other = scalar.quote(self.chance.choice([c.name for c in columns if c.type != "string"]))
        forms = [f"{name} + 1", f"COALESCE({name}, 0)", f"{name} + {other}", f"CASE WHEN {name} > 0 THEN {other} END"]
        return sql(self.chance.choice(forms))

    # relations without a pivot

    def base(self) -> Rel:
        """Rows that can be pivoted by a, b or fa."""
        if self.maybe(0.06):  # one key, and none of its columns left: a pivot of it has no key columns
            return Project(Select(self.scan("f"), sql("`fk` = 1")), tuple(Item(n, col(n)) for n in ("fa", "m")))
        rel: Rel = self.scan("w" if self.maybe(0.08) else self.chance.choice(("v", "v", "f")))
        if rel.names[0] == "fk" and self.maybe(0.4):
            rel = Join(rel, self.scan("t"), sql("`fk` = `id`"))
        if self.maybe(0.25):
            rel = Select(rel, self.condition(schema(rel)))
        if self.maybe(0.25):
            rel = Select(rel, self._listed(rel))
        return rel

    def _listed(self, rel: Rel) -> exp.Expr:
        name = self.chance.choice([n for n in ("a", "b", "fa") if n in rel.names])
        return sql(f"`{name}` IN ({', '.join(repr(v) for v in self.some(LETTERS))})")

    def listed(self) -> Rel:
        """Rows of some values of the columns to pivot by, and now and then of less."""
        rel = self.scan(self.chance.choice(("v", "f", "f", "w")))
        condition = self._listed(rel)
        if self.maybe(0.2):
            condition = _both(scalar.text(condition), scalar.text(self.condition(schema(rel), 0)))
        return Select(rel, condition)

    def with_flat(self) -> Rel:
        """Rows that can be pivoted, each with columns that can be unpivoted; mostly determined by their key."""
        if self.maybe(0.2):
            return self.base()
        sides = (self.scan("f"), self.scan("h"))
        joined = Join(*sides, sql("`fk` = `hk`" if self.maybe(0.8) else "`m` = `c1`"))
        kept = [n for n in joined.names if n in ("fk", "fa", "hk", "n", "c1", "c2") or self.maybe(0.3)]
        return Project(joined, tuple(Item(n, col(n)) for n in kept))

    def flat(self) -> Rel:
        """Rows that can be unpivoted."""
        rel: Rel = self.scan(self.chance.choice(("h", "h", "hb")))
        if self.maybe(0.3):
            rel = Select(rel, self.condition(schema(rel)))
        return rel

    # one operator

    def gpivot(self, rel: Rel | None = None) -> GPivot:
        rel = self.base() if rel is None else rel
        columns = schema(rel)
        likely = [n for n in ("a", "b", "fa") if n in rel.names] or [c.name for c in columns if c.type == "string"]
        by = self.some(likely or [rel.names[0]])
        kinds = {c.name: c.type for c in columns}
        left = [c.name for c in columns if c.name not in by]
        likely_measures = [n for n in ("x", "y", "m", "n") if n in left]
        likely_measures = likely_measures if likely_measures and self.maybe(0.9) else left
        measures = self.some(likely_measures[-2:] or left)
        places = []
        for _ in range(self.chance.randint(1, 4)):
            values = tuple(self._constant(kinds[name]) for name in by)
            places += [(m, values) for m in (measures if self.maybe(0.7) else [self.chance.choice(measures)])]
        cells = tuple(Cell(self.name(), measure, values) for measure, values in dict.fromkeys(places))
        return GPivot(rel, tuple(by), cells)

    def _constant(self, kind: str) -> exp.Expr:
        if self.maybe(0.05):
            return exp.Null()
        if kind == "string":
            return exp.Literal.string(self.chance.choice(LETTERS))
        return exp.Literal.number(self.chance.randint(0, 2))

    def gunpivot(self, rel: Rel | None = None) -> GUnpivot:
        rel = self.flat() if rel is None else rel
        numbers = [c.name for c in schema(rel) if c.type in ("int", "bigint")]
        likely = [name for name in numbers if name[0] in "cd"]
        numbers = likely if likely and self.maybe(0.8) else numbers
        wide = self.maybe(0.5)
        measures = [self.name() for _ in range(2 if wide and len(numbers) > 1 else 1)]
        by = tuple(self.name() for _ in range(self.chance.choice((1, 1, 2))))
        gathered = self.chance.sample(numbers, self.chance.randint(len(measures), len(numbers)))
        if self.maybe(0.7):
            gathered = [n for n in numbers if n in gathered]
        cells, at = [], 0
        while at < len(gathered):
            values = (
                exp.Literal.string(f"v{at}"),
                *tuple(exp.Literal.string(self.chance.choice("xy")) for _ in by[1:]),
            )
            for measure, name in zip(measures, gathered[at : at + len(measures)], strict=False):
                cells.append(Cell(name, measure, values))
            at += len(measures)
        return GUnpivot(rel, by, tuple(cells), self.maybe(0.15))

    def undo(self, pivot: GPivot) -> GUnpivot:
        """An unpivot of all, or most, cells of a pivot."""
        measures = {m: self.name() for m in pivot.measures}
        by = tuple(self.name() for _ in pivot.by)
        cells = [Cell(c.name, measures[c.measure], c.values) for c in pivot.cells]
        if self.maybe(0.2):
            cells = cells[:-1] or cells
        if self.maybe(0.1):
            renamed = exp.Literal.string("other")
            cells[0] = Cell(cells[0].name, cells[0].measure, (renamed, *cells[0].values[1:]))
        if self.maybe(0.1) and len(measures) > 1:
            swap = dict(zip(measures.values(), reversed(list(measures.values())), strict=True))
            cells[-1] = Cell(cells[-1].name, swap[cells[-1].measure], cells[-1].values)
        if self.maybe(0.1):
            extra = [c.name for c in schema(pivot) if c.name in pivot.keys and c.type != "string"][:1]
            cells += [Cell(name, cells[0].measure, tuple(exp.Literal.string("k") for _ in by)) for name in extra]
        return GUnpivot(pivot, by, tuple(cells), self.maybe(0.1))

    def redo(self, lower: GUnpivot) -> GPivot:
        """A pivot of all, or most, that an unpivot gathered."""
        cells = [Cell(self.name(), c.measure, c.values) for c in lower.cells if self.maybe(0.8)]
        if self.maybe(0.3):
            cells.append(Cell(self.name(), lower.measures[0], tuple(exp.Literal.string("x") for _ in lower.by)))
        if self.maybe(0.1):
            cells.append(Cell(self.name(), lower.measures[0], tuple(exp.Literal.number(1) for _ in lower.by)))
        by = lower.by
        if self.maybe(0.2) and len(by) > 1:
            by = by[:1]
            cells = [Cell(c.name, c.measure, c.values[:1]) for c in cells]
        return GPivot(lower, by, tuple(cells))

    def totals(self) -> GUnpivot:
        """Aggregates, unpivoted."""
        rel = self.flat()
        numbers = [c.name for c in schema(rel) if c.type == "int"]
        functions = [self.chance.choice(("sum", "sum", "max", "min", "count", "avg"))] * 4
        if self.maybe(0.2):
            functions = [self.chance.choice(("sum", "max", "min", "count", "sum")) for _ in range(4)]
        keys = tuple(n for n in rel.names if self.maybe(0.25))
        names = self.some(numbers)[:4]
        measures = [Measure(self.name(), f, (col(n),), False) for n, f in zip(names, functions, strict=False)]
        if self.maybe(0.1):
            measures.append(Measure(self.name(), "count"))
        grouped = GroupBy(rel, keys, tuple(measures))
        cells = [Cell(m.name, "value", (exp.Literal.string(m.name),)) for m in measures if self.maybe(0.95)]
        if self.maybe(0.1) and keys:
            cells.append(Cell(keys[0], "value", (exp.Literal.string("key"),)))
        return GUnpivot(grouped, ("name",), tuple(cells), self.maybe(0.1))

    def select(self, rel: Rel) -> Rel:
        return Select(rel, self.condition(schema(rel), 2))

    def project(self, rel: Rel) -> Rel:
        columns = schema(rel)
        kept = self.some(rel.names) if self.maybe(0.5) else list(rel.names)
        items = [Item(self.name() if self.maybe(0.2) else name, col(name)) for name in kept]
        if self.maybe(0.4):
            items.append(Item(self.name(), self.value(columns)))
        if self.maybe(0.3):
            self.chance.shuffle(items)
        return Project(rel, tuple(items))

    def plain(self, rel: Rel) -> Rel:
        """Columns dropped, renamed, in another order."""
        kept = [n for n in rel.names if self.maybe(0.8)] or [rel.names[0]]
        if self.maybe(0.3):
            self.chance.shuffle(kept)
        return Project(rel, tuple(Item(self.name() if self.maybe(0.2) else name, col(name)) for name in kept))

    def join(self, rel: Rel, other: Rel | None = None) -> Rel:
        if other is None:
            other = self.scan(self.chance.choice(("t", "t", "u")))
            if self.maybe(0.1):
                other = self.gpivot()
        clash = set(rel.names) & set(other.names)
        if clash:
            other = Project(other, tuple(Item(self.name() if n in clash else n, col(n)) for n in other.names))
        kind = self.chance.choice([JoinKind.INNER] * 5 + list(JoinKind))
        sides = (rel, other) if self.maybe(0.7) else (other, rel)
        ours, theirs = (schema(side) for side in sides)
        parts = []
        for _ in range(self.chance.choice((1, 1, 2))):
            kind_of = self.chance.choice(("int", "int", "string"))
            left = [c.name for c in ours if (c.type == "string") == (kind_of == "string")]
            right = [c.name for c in theirs if (c.type == "string") == (kind_of == "string")]
            if left and right:
                operator = self.chance.choice(("=", "=", "=", "<=>", "<="))
                one = self.chance.choice((left[0], self.chance.choice(left)))
                parts.append(f"{scalar.quote(one)} {operator} {scalar.quote(self.chance.choice(right))}")
        if self.maybe(0.3):
            parts.append(scalar.text(self.condition((*ours, *theirs), 0)))
        condition = "TRUE" if not parts else parts[0] if len(parts) == 1 else _joined(parts, self.maybe(0.85))
        return Join(*sides, sql(condition), kind)

    def group_by(self, rel: Rel, functions: Sequence[str] = ("sum", "sum", "count", "min", "max", "avg")) -> Rel:
        columns = schema(rel)
        made = {c.name for c in columns if c.name[1:].isdigit() and c.name[0] == "n"}
        keys = [n for n in rel.names if self.maybe(0.1 if n in made else 0.4)]
        numbers = [c for c in columns if c.type != "string" and (c.name not in keys or self.maybe(0.2))]
        numbers = [c for c in numbers if c.name in made or self.maybe(0.15)] or numbers
        measures = []
        for _ in range(self.chance.randint(0 if self.maybe(0.1) else 1, 3)):
            if not numbers or self.maybe(0.08):
                measures.append(Measure(self.name(), "count"))
                continue
            argument = col(self.chance.choice(numbers).name) if self.maybe(0.7) else self.value(numbers)
            measures.append(Measure(self.name(), self.chance.choice(functions), (argument,), self.maybe(0.1)))
        return GroupBy(rel, tuple(keys), tuple(measures))

    def key_group(self) -> Rel:
        """A grouping by a key and more, or by less."""
        rel = self.base()
        key = [n for n in ("fk", "fa", "id") if n in rel.names and self.maybe(0.9)]
        rest = [n for n in rel.names if n not in key]
        measures = []
        for _ in range(self.chance.randint(1, 3)):
            numbers = [c for c in schema(rel) if c.type == "int"]
            function = self.chance.choice(("sum", "count", "min", "max", "max", "avg"))
            measures.append(Measure(self.name(), function, (self.value(numbers),), self.maybe(0.1)))
        return GroupBy(rel, tuple(key + [n for n in rest if self.maybe(0.2)]), tuple(measures))

    def again(self, lower: Rel) -> GPivot:
        """A pivot of all, or most, cells of a pivot."""
        columns = schema(lower)
        cells = [c.name for c in columns if c.name[1:].isdigit()]
        by = self.chance.choice([c for c in columns if c.name not in cells])
        measures = [name for name in cells if self.maybe(0.95)]
        measures += [c.name for c in columns if c.name not in cells and c is not by and self.maybe(0.03)]
        values = list(dict.fromkeys((self._constant(by.type),) for _ in range(self.chance.randint(1, 3))))
        return GPivot(lower, (by.name,), tuple(Cell(self.name(), m, v) for v in values for m in measures))

    def pivot_of_totals(self) -> GPivot:
        """A pivot of aggregates."""
        rel = self.scan(self.chance.choice(("f", "f", "v")))
        by = "fa" if "fa" in rel.names else "b"
        keys = [n for n in rel.names if n == by or self.maybe(0.25)]
        numbers = [c for c in schema(rel) if c.type == "int" and (c.name not in keys or self.maybe(0.1))]
        measures = []
        for _ in range(self.chance.randint(1, 2)):
            argument = col(self.chance.choice(numbers).name) if self.maybe(0.9) else self.value(numbers)
            function = self.chance.choice(("sum", "sum", "max", "min", "avg", "count"))
            measures.append(Measure(self.name(), function, (argument,), self.maybe(0.1)))
        values = list(dict.fromkeys((self._constant("string"),) for _ in range(2)))
        cells = [Cell(self.name(), m.name, v) for m in measures for v in values if self.maybe(0.9)]
        return GPivot(GroupBy(rel, tuple(keys), tuple(measures)), (by,), tuple(cells))

    def dropping(self, rel: Rel) -> Rel:
        """Some columns dropped, the others as they are."""
        return Project(rel, tuple(Item(n, col(n)) for n in rel.names if self.maybe(0.75)))

    def union(self, rel: Rel) -> Rel:
        return UnionAll((rel, self.chance.choice((rel, Select(rel, self.condition(schema(rel)))))))

    def crosstab(self) -> Rel:
        rel = self.base()
        columns = schema(rel)
        strings = [c.name for c in columns if c.type == "string"]
        by = self.some(strings)[:2]
        numbers = [c for c in columns if c.type == "int"]
        measures = []
        for _ in range(self.chance.randint(1, 4)):
            these = by if self.maybe(0.9) else self.some(strings)[:2]
            places = [f"`{b}` {self.chance.choice(('=', '=', '<=>'))} '{self.chance.choice(LETTERS)}'" for b in these]
            if self.maybe(0.06):
                places[0] = f"`{these[0]}` <=> 1"
            other = self.chance.choice(("", "", "", " ELSE 0", " ELSE NULL", " ELSE 1"))
            value = scalar.text(self.value(numbers)) if self.maybe(0.8) else "1"
            case = sql(f"CASE WHEN {' AND '.join(places)} THEN {value}{other} END")
            function = self.chance.choice(("sum", "sum", "sum", "count", "min", "max", "avg"))
            measures.append(Measure(self.name(), function, (case,), self.maybe(0.1)))
        if self.maybe(0.15):
            measures.append(Measure(self.name(), "count"))
        keys = [c.name for c in columns if self.maybe(0.4) and (c.name not in by or self.maybe(0.1))]
        return GroupBy(rel, tuple(keys), tuple(measures))

    def siblings(self) -> Rel:
        """Two looks at the same rows, joined on columns of both."""
        base = self.base() if self.maybe(0.8) else self.scan("t")
        if self.maybe(0.3):
            base = self.group_by(base)
        pivots = self.maybe(0.7)
        sides = []
        for at in range(2):
            kept = self.plain(base) if self.maybe(0.3) else base
            rel: Rel = self.gpivot(kept) if pivots and self.maybe(0.95) else kept
            if at:
                rel = Project(rel, tuple(Item(self.name(), col(name)) for name in rel.names))
            sides.append(rel)
        if pivots and self.maybe(0.8) and isinstance(sides[0], GPivot):
            lower = sides[0]
            cells = tuple(Cell(self.name(), c.measure, c.values) for c in lower.cells if self.maybe(0.8))
            second = (
                GPivot(lower.input, lower.by, cells) if {c.measure for c in cells} == set(lower.measures) else lower
            )
            sides[1] = Project(second, tuple(Item(self.name(), col(name)) for name in second.names))
        left, right = (schema(side) for side in sides)
        parts = []
        for at, column in enumerate(left):
            if at < len(right) and column.type == right[at].type and self.maybe(0.85 if at < 4 else 0.2):
                parts.append(f"`{column.name}` {self.chance.choice(('=', '<=>', '<=>'))} `{right[at].name}`")
        condition = " AND ".join(parts) or "TRUE"
        kind = self.chance.choice([JoinKind.INNER] * 5 + list(JoinKind))
        return Join(sides[0], sides[1], sql(condition), kind)

    def wrap(self, rel: Rel, share: float = 0.3) -> Rel:
        """A pivot, now and then with a Select and a Project over it."""
        if self.maybe(share / 2):
            rel = self.select(rel)
        return self.project(rel) if self.maybe(share) else rel

    def view(self, operators: int) -> Rel:
        """A whole view of at most so many operators over its base."""
        rel: Rel = self.flat() if self.maybe(0.2) else self.base()
        steps: list[Callable[[Rel], Rel]] = [self.select, self.project, self.join, self.group_by, self.gpivot]
        steps += [self.gpivot, self.gpivot, self.gunpivot]
        for _ in range(self.chance.randint(1, operators)):
            made = self.chance.choice(steps)(rel)
            rel = made if len(made.names) < 16 else rel
        return rel


def _both(a: str, b: str) -> exp.Expr:
    return scalar.canonical(scalar.conjunction((scalar.parse(a), scalar.parse(b))))


def _joined(parts: list[str], conjunction: bool) -> str:
    return " AND ".join(f"({part})" for part in parts) if conjunction else " OR ".join(f"({part})" for part in parts)


SHAPES: dict[str, Callable[[Plans], Rel]] = {
    "move_select_into_join": lambda p: p.select(p.join(p.base())),
    "move_select_below_project": lambda p: p.select(p.project(p.base())),
    "move_select_below_groupby": lambda p: p.select(p.group_by(p.base())),
    "merge_projects": lambda p: p.project(p.project(p.base())),
    "group_by_a_key": lambda p: p.key_group(),
    "join_siblings": lambda p: p.siblings(),
    "compose_gpivots": lambda p: p.again(p.wrap(p.gpivot(), 0.2)),
    "recognise_crosstab": lambda p: p.crosstab(),
    "drop_select_below_gpivot": lambda p: p.select(p.gpivot(p.listed())),
    "pull_gpivot_through_select": lambda p: p.select(p.wrap(p.gpivot())),
    "pull_gpivot_through_project": lambda p: p.project(p.gpivot()),
    "pull_gpivot_through_project_of_keys": lambda p: p.dropping(p.gpivot(p.with_flat())),
    "pull_gpivot_through_join": lambda p: p.join(p.wrap(p.gpivot())),
    "pull_gpivot_through_groupby": lambda p: p.group_by(p.wrap(p.gpivot(), 0.1)),
    "cancel_gunpivot_over_gpivot": lambda p: p.undo(p.gpivot()),
    "pull_gpivot_through_gunpivot": lambda p: p.gunpivot(p.gpivot(p.with_flat())),
    "pull_gpivot_through_select_on_cells": lambda p: p.select(p.gpivot()),
    "push_gpivot_below_select": lambda p: p.gpivot(p.select(p.base())),
    "push_gpivot_below_select_on_cells": lambda p: p.gpivot(p.listed()),
    "push_gpivot_below_project": lambda p: p.gpivot(p.plain(p.with_flat())),
    "push_gpivot_below_join": lambda p: p.gpivot(p.join(p.base())),
    "push_gpivot_below_join_on_cells": lambda p: p.gpivot(p.join(p.listed())),
    "push_gpivot_below_groupby": lambda p: p.pivot_of_totals(),
    "cancel_gpivot_over_gunpivot": lambda p: p.redo(p.gunpivot()),
    "push_gpivot_below_gunpivot": lambda p: p.gpivot(p.gunpivot(p.with_flat())),
    "split_measures": lambda p: p.gpivot(),
    "split_columns": lambda p: p.gpivot(),
    "split_parts": lambda p: p.gpivot(p.union(p.base())),
    "pull_gunpivot_through_select": lambda p: p.select(p.gunpivot()),
    "pull_gunpivot_through_project": lambda p: p.dropping(p.gunpivot()),
    "pull_gunpivot_through_join": lambda p: p.join(p.gunpivot()),
    "pull_gunpivot_through_groupby": lambda p: p.group_by(p.gunpivot()),
    "push_gunpivot_below_select": lambda p: p.gunpivot(p.select(p.flat())),
    "push_gunpivot_below_project": lambda p: p.gunpivot(p.project(p.flat())),
    "push_gunpivot_below_join": lambda p: p.gunpivot(p.join(p.flat())),
    "push_gunpivot_below_groupby": lambda p: p.totals(),
}
