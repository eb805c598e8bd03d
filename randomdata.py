"""Random tables and batches that honour the declared types, keys and foreign keys, with NULLs and duplicates.

Values come from small domains, so that groups collide and extremes are deleted. A batch inserts, deletes and updates
rows of several tables, dimension tables included, and now and then inserts and deletes the same row.
"""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .compiler.algebra import Column
from .compiler.catalog import Catalog, Table

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Change:
    """One change: `before` goes, `after` comes; an insert has no before, a delete no after."""

    table: str
    before: Row | None
    after: Row | None


Batch = tuple[Change, ...]
Database = dict[str, list[Row]]


@dataclass(frozen=True, slots=True)
class Case:
    """A database and the batches that change it."""

    tables: dict[str, tuple[Row, ...]]
    batches: tuple[Batch, ...]


def make_case(catalog: Catalog, names: tuple[str, ...], rows: int, batches: int, chance: random.Random) -> Case:
    """A random case for the named tables and those they reference."""
    maker = _Maker(catalog, chance)
    tables = _referenced_first(catalog, names)
    for table in tables:
        size = rows if table.foreign_keys else max(2, rows // 4)
        for _ in range(size):
            maker.insert(table)
    start = {name: tuple(rows) for name, rows in maker.database.items()}
    made = []
    for _ in range(batches):
        changes: list[Change] = []
        maker.before = {name: list(rows) for name, rows in maker.database.items()}
        for table in tables:
            changes += maker.changes(table, max(3, rows // 4))
        made.append(tuple(changes))
    return Case(start, tuple(made))


def _referenced_first(catalog: Catalog, names: tuple[str, ...]) -> list[Table]:
    ordered: dict[str, Table] = {}

    def visit(name: str, path: tuple[str, ...] = ()) -> None:
        table = catalog.table(name)
        if table is None or table.name in ordered or table.name in path:
            return
        for foreign_key in table.foreign_keys:
            visit(foreign_key.table, (*path, table.name))
        ordered[table.name] = table

    for name in names:
        visit(name)
    return list(ordered.values())


class _Maker:
    def __init__(self, catalog: Catalog, chance: random.Random) -> None:
        self.catalog = catalog
        self.chance = chance
        self.database: Database = {}
        self.before: Database = {}  # the rows before the batch that is being made

    def rows(self, table: Table) -> list[Row]:
        return self.database.setdefault(table.name, [])

    def insert(self, table: Table) -> Change | None:
        """Adds a row that breaks no constraint; None when the domain is used up."""
        rows = self.rows(table)
        if rows and not table.keys and not table.changes.new_values_of and _odds(self.chance, 15):
            row = self.chance.choice(rows)  # a duplicate
        else:
            made = self._row(table)
            if made is None:
                return None
            row = made
        rows.append(row)
        return Change(table.name, None, row)

    def changes(self, table: Table, count: int) -> list[Change]:
        changes: list[Change] = []
        if _odds(self.chance, 15 if table.foreign_keys else 40):
            return changes  # this table does not change in this batch
        for _ in range(self.chance.randint(1, count)):
            kind = (
                "insert" if table.changes.insert_only else self.chance.choice(("insert", "delete", "update", "flicker"))
            )
            match kind:
                case "insert":
                    change = self.insert(table)
                    changes += [change] if change else []
                case "delete":
                    changes += self._delete(table)
                case "update":
                    changes += self._update(table)
                case "flicker":  # inserted and deleted in one batch
                    change = self.insert(table)
                    if change and change.after is not None:
                        self.rows(table).remove(change.after)
                        changes += [change, Change(table.name, change.after, None)]
        return changes

    def _delete(self, table: Table) -> list[Change]:
        free = [row for row in self.rows(table) if not self._is_referenced(table, row)]
        if not free:
            return []
        row = self.chance.choice(free)
        self.rows(table).remove(row)
        return [Change(table.name, row, None)]

    def _update(self, table: Table) -> list[Change]:
        rows = self.rows(table)
        if not rows:
            return []
        before = self.chance.choice(rows)
        fixed = {name for key in table.keys for name in key}
        fresh = self._row(table, ignore_keys=True)
        if fresh is None:
            return []
        kept = [c.name in fixed or _odds(self.chance, 50) for c in table.columns]
        in_foreign_key = {name for fk in table.foreign_keys for name in fk.columns}
        move = _odds(self.chance, 50)
        after = tuple(
            old if keep and not (c.name in in_foreign_key and c.name not in fixed and move) else new
            for old, new, keep, c in zip(before, fresh, kept, table.columns, strict=True)
        )
        if any(len(fk.columns) > 1 for fk in table.foreign_keys):
            after = tuple(
                old if c.name in in_foreign_key else new
                for old, new, c in zip(before, after, table.columns, strict=True)
            )
        values = dict(zip(table.names, after, strict=True))
        self._keep_hierarchies(table, values)
        after = tuple(values.values())
        rows.remove(before)
        rows.append(after)
        return [Change(table.name, before, after)]

    def _is_referenced(self, table: Table, row: Row) -> bool:
        for other in self.catalog.tables:
            for foreign_key in other.foreign_keys:
                if foreign_key.table != table.name:
                    continue
                value = tuple(row[table.names.index(name)] for name in foreign_key.referenced)
                places = [other.names.index(name) for name in foreign_key.columns]
                if any(tuple(r[p] for p in places) == value for r in self.rows(other)):
                    return True
        return False

    def _row(self, table: Table, ignore_keys: bool = False) -> Row | None:
        for _ in range(200):
            values = {column.name: self._value(column) for column in table.columns}
            for foreign_key in table.foreign_keys:
                partners = self.database.get(foreign_key.table, [])
                referenced = self.catalog.table(foreign_key.table)
                nullable = all(self._nullable(table, name) for name in foreign_key.columns)
                if nullable and (not partners or _odds(self.chance, 15)):
                    values |= dict.fromkeys(foreign_key.columns)
                elif partners and referenced is not None:
                    partner = self.chance.choice(partners)
                    for name, other in zip(foreign_key.columns, foreign_key.referenced, strict=True):
                        values[name] = partner[referenced.names.index(other)]
                else:
                    return None
            self._keep_hierarchies(table, values)
            row = tuple(values[name] for name in table.names)
            if ignore_keys or self._is_new(table, row):
                return row
        return None

    def _nullable(self, table: Table, name: str) -> bool:
        column = table.column(name)
        return column is not None and column.nullable

    def _is_new(self, table: Table, row: Row) -> bool:
        for name in table.changes.new_values_of:
            place = table.names.index(name)
            if any(r[place] == row[place] for r in self.before.get(table.name, [])):
                return False
        for key in table.keys:
            places = [table.names.index(name) for name in key]
            value = tuple(row[p] for p in places)
            if None not in value and any(tuple(r[p] for p in places) == value for r in self.rows(table)):
                return False
        return True

    def _keep_hierarchies(self, table: Table, values: dict[str, Any]) -> None:
        """A child level determines its parent: the parent's value is a function of the child's, unless that is NULL."""
        for dimension in self.catalog.dimensions:
            levels = {level.name.casefold(): level for level in dimension.levels}
            for _, steps in dimension.hierarchies:
                for child_name, parent_name in itertools.pairwise(steps):
                    child, parent = levels[child_name.casefold()], levels[parent_name.casefold()]
                    if child.table.casefold() == parent.table.casefold() == table.name.casefold():
                        self._derive(table, values, child.columns, parent.columns)

    def _derive(self, table: Table, values: dict[str, Any], child: tuple[str, ...], parent: tuple[str, ...]) -> None:
        keyed = {name for key in table.keys for name in key}
        names = {name.casefold(): name for name in table.names}
        if any(names[name.casefold()] in keyed for name in (*child, *parent)):
            return  # a key determines everything anyway
        held = [values[names[name.casefold()]] for name in child]
        if None in held:
            return
        seed = repr(held)
        for name in parent:
            column = table.column(name)
            assert column is not None
            values[column.name] = _domain_value(column, random.Random(f"{table.name}.{column.name}.{seed}"))

    def _value(self, column: Column) -> Any:
        return _domain_value(column, self.chance)


def _odds(chance: random.Random, percent: int) -> bool:
    """Whether something happens that does so in so many of a hundred cases; the simplest case is that it does not."""
    return chance.randrange(100) >= 100 - percent


def _domain_value(column: Column, chance: random.Random) -> Any:
    if column.nullable and _odds(chance, 20):
        return None
    kind = column.type
    match kind.split("(")[0]:
        case "tinyint" | "smallint" | "int" | "bigint":
            return chance.choice((-3, -1, 0, 1, 2, 3, 5, 8, 13, 40, chance.randint(-100, 100)))
        case "decimal":
            precision, scale = (int(n) for n in kind[8:-1].split(",")) if "(" in kind else (10, 0)
            whole = chance.randint(-(10 ** min(precision, 3)) + 1, 10 ** min(precision, 3) - 1)
            return Decimal(whole).scaleb(-scale) if _odds(chance, 80) else Decimal(0).scaleb(-scale)
        case "float" | "double":
            return chance.choice((0.0, 0.5, -1.25, 3.75, 100.0))
        case "boolean":
            return _odds(chance, 50)
        case "date":
            return dt.date(2024, 1, 1) + dt.timedelta(days=chance.randint(0, 6))
        case "timestamp":
            return dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=chance.randint(0, 6))
        case "timestamp_ntz":
            return dt.datetime(2024, 1, 1) + dt.timedelta(hours=chance.randint(0, 6))
        case "binary":
            return bytes([chance.randint(0, 3)])
        case "string" | "varchar" | "char":
            return chance.choice(("a", "b", "c", "", "d'e", "ü"))
    raise ValueError(f"verify makes no values of type {kind} (column {column.name})")


def apply_batch(database: Database, batch: Batch) -> Database | None:
    """The database after a batch; None when the batch deletes a row that is not there."""
    counts = {name: Counter(rows) for name, rows in database.items()}
    for change in batch:
        table = counts.setdefault(change.table, Counter())
        if change.before is not None:
            table[change.before] -= 1
        if change.after is not None:
            table[change.after] += 1
    if any(count < 0 for table in counts.values() for count in table.values()):
        return None
    return {name: list(table.elements()) for name, table in counts.items()}
