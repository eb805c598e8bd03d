"""How large tables, views and summary-deltas are: declared by ALTER TABLE … SET STATISTICS, else guessed.

A view has as many rows as there are groups: with D possible groups, n rows meet D * (1 - (1 - 1/D)^n) of them
(Cardenas); a summary-delta likewise, with the changed rows. D is the product of the distinct values of the grouping
columns, those left out that others determine. Guesses, where nothing is declared:

| what | guess |
|---|---|
| rows of a table | 1 000 if a foreign key refers to it, else 1 000 000 |
| changed rows in a batch | one in a hundred |
| how often a dimension table changes | in one batch of ten; never, if its changes only insert |
| distinct values | of a key all rows, of a foreign key the rows it refers to, of a level a tenth of the level below |
"""

from __future__ import annotations

import math

from sqlglot import exp

from ..catalog import Table
from .cubes import Cube, Term
from .derives import Family
from .implication import Comparison
from .star import column_of, path_of

_FACT_ROWS, _DIMENSION_ROWS = 1_000_000, 1_000
_CHANGED_SHARE = 0.01
_DIMENSION_CHANGES = 0.1
_PASSES = 1 / 3  # the share of rows that a condition lets pass, where nothing better is known


class Sizes:
    """Estimates for the views of one family."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.catalog = family.catalog
        self._referenced = {fk.table.casefold() for table in self.catalog.tables for fk in table.foreign_keys}
        self._distinct: dict[str, float] = {}

    def table_rows(self, table: Table | None) -> float:
        if table is None:
            return _FACT_ROWS
        guess = _DIMENSION_ROWS if table.name.casefold() in self._referenced else _FACT_ROWS
        return float(table.statistics.rows if table.statistics.rows is not None else guess)

    def changed_rows(self, table: Table | None) -> float:
        if table is not None and table.statistics.changes is not None:
            return float(table.statistics.changes)
        return self.table_rows(table) * _CHANGED_SHARE

    def moves(self, table: Table) -> float:
        """In what share of the batches rows of a dimension table that others refer to change."""
        if table.changes.insert_only:
            return 0.0  # a new row has no row that refers to it yet
        return _DIMENSION_CHANGES if table.statistics.changes is None else float(min(1, table.statistics.changes))

    def root_rows(self, cube: Cube) -> float:
        return max(self.table_rows(self._root_table(label)) for label, _ in cube.star.roots)

    def root_changes(self, cube: Cube) -> float:
        return max(self.changed_rows(self._root_table(label)) for label, _ in cube.star.roots)

    def _root_table(self, label: str) -> Table | None:
        return self.catalog.table(label.partition("#")[0])

    def rows(self, cube: Cube) -> int:
        return self._groups(cube, self.root_rows(cube))

    def delta_rows(self, cube: Cube) -> int:
        return self._groups(cube, self.root_changes(cube))

    def _groups(self, cube: Cube, rows: float) -> int:
        passing = rows
        for compared in cube.comparisons.values():
            passing *= self._share(compared)
        return met(self.possible_groups(tuple(cube.keys.values())), passing)

    def _share(self, compared: Comparison | None) -> float:
        if compared is None or compared.operator != "=":
            return _PASSES
        return min(1.0, len(compared.values) / self.distinct(compared.attribute))

    def possible_groups(self, keys: tuple[Term, ...]) -> float:
        """The product of the keys' distinct values: for each table at most its rows, once for what determines."""
        plain = {t.expression.name for t in keys if isinstance(t.expression, exp.Column)}
        by_path: dict[str, float] = {}
        for name in sorted(plain - self._determined(plain)):
            by_path[path_of(name)] = by_path.get(path_of(name), 1.0) * self.distinct(name)
        groups = 1.0
        for path, count in by_path.items():
            arm = self.family.arms.get(path)
            groups *= min(count, self.table_rows(arm.table)) if arm else count
        for t in keys:
            if not isinstance(t.expression, exp.Column):
                groups *= max(1.0, math.prod(self.distinct(name) for name in t.attributes) / 10)
        return groups

    def _determined(self, plain: set[str]) -> set[str]:
        """Attributes that the others determine within their table, or through a foreign key to it."""
        found: set[str] = set()
        for name in sorted(plain):
            others = plain - found - {name}
            if name in self.family.determined(frozenset(others)):
                found.add(name)
        return found

    def distinct(self, name: str) -> float:
        if name not in self._distinct:
            self._distinct[name] = max(1.0, self._distinct_values(name))
        return self._distinct[name]

    def _distinct_values(self, name: str) -> float:
        path, column = path_of(name), column_of(name)
        arm = self.family.arms.get(path)
        table = arm.table if arm else self._root_table(path)
        rows = self.table_rows(table)
        if table is None:
            return rows / 10
        declared = dict(table.statistics.distinct)
        if column in declared:
            return float(min(declared[column], rows))
        if (column,) in table.keys:
            return rows
        for foreign_key in table.foreign_keys:
            if foreign_key.columns == (column,):
                return min(rows, self.table_rows(self.catalog.table(foreign_key.table)))
        kind = self.family.columns[name].type if name in self.family.columns else ""
        if kind == "boolean":
            return 2.0
        if kind == "date":
            return min(rows, 1_000.0)
        guess: float = rows / 10 ** self._depth(table, column)
        return guess if arm else min(guess, 1_000.0)

    def _depth(self, table: Table, column: str) -> int:
        """How many levels of a hierarchy are below the column, one where none is declared."""
        deepest = 1
        for dimension in self.catalog.dimensions:
            columns = {level.name.casefold(): level for level in dimension.levels}
            for _, steps in dimension.hierarchies:
                for depth, step in enumerate(steps):
                    level = columns[step.casefold()]
                    folded = [name.casefold() for name in level.columns]
                    if level.table.casefold() == table.name.casefold() and column.casefold() in folded:
                        deepest = max(deepest, depth)
        return deepest


def met(groups: float, rows: float) -> int:
    """How many of so many groups so many random rows fall into."""
    if groups <= 1.0:
        return 1
    if groups > rows * 1e6:
        return max(1, round(rows))
    return max(1, round(-math.expm1(rows * math.log1p(-1 / groups)) * groups))
