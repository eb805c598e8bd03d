"""The derives relation between summary tables. [summary-delta-1997, section 5.1]

A view v2 derives from v1, v2 ≺ v1, when v2 is one SELECT … GROUP BY over v1 joined with dimension tables:

1. both aggregate the same roots;
2. v1's WHERE follows from v2's, and what v2's says beyond it is over what v1 gives;
3. each grouping expression of v2 is over what v1 gives;
4. each stored part of v2 is a part of v1, or can be had from one (`ways`), or can be added to v1, hidden.

What v1 *gives* are its grouping expressions, the columns of arms whose foreign keys are among them (joined along the
edge), and attributes that its grouping columns determine and its own joins hold: those are added to v1 as hidden
grouping columns, which split no group (section 5.2). Departures from the paper: conditions 2 and 4; the join is
allowed only along foreign keys that are NOT NULL, and a determined attribute is never joined by itself, because a
dimension table has many rows for one city.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from .. import scalar
from ..algebra import Column
from ..catalog import Catalog, Table
from ..crosstabs import ONLY
from .cubes import Cube, CubePart, Term
from .implication import follows
from .star import Arm, attribute, path_of, root_columns, shared_attributes
from .ways import Way, way_of


@dataclass(frozen=True, slots=True)
class Need:
    """What it takes to have something from a view: arms joined along the edge, hidden grouping columns in the view."""

    joins: frozenset[str] = frozenset()
    hidden: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Edge:
    """`child` derives from `parent`."""

    parent: str
    child: str
    joins: tuple[Arm, ...]  # each after the one that its foreign key is in
    hidden: tuple[str, ...]  # attributes that the parent needs as hidden grouping columns
    parts: tuple[CubePart, ...]  # those that the parent needs as hidden aggregates
    rest: tuple[str, ...]  # conditions of the child beyond the parent's
    ways: Mapping[str, Way]  # how the child's parts are had from the parent's row, by text

    @property
    def tables(self) -> tuple[str, ...]:
        """The dimension tables joined along the edge."""
        return tuple(sorted({arm.table.name for arm in self.joins}))

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The tables whose columns the child has beyond the parent's own: the superscript of ≺ in the paper."""
        held = {path_of(name).rpartition(">")[2] for name in self.hidden}
        return tuple(sorted({*held, *self.tables}))


class Family:
    """The views over the same roots, and what each of them gives."""

    def __init__(self, cubes: Iterable[Cube], catalog: Catalog) -> None:
        self.catalog = catalog
        self._dependencies: dict[str, list[tuple[tuple[str, ...], tuple[str, ...]]]] = {}
        self.cubes = {cube.name: cube for cube in cubes}
        self.arms: dict[str, Arm] = {}
        for cube in self.cubes.values():
            for path, arm in cube.star.arms.items():
                self.arms.setdefault(path, arm)
        self.same = shared_attributes(self.arms, catalog)
        self.columns: dict[str, Column] = {}
        for cube in self.cubes.values():
            for name, column in root_columns(cube.star):
                self.columns[name] = Column(name, column.type, column.nullable)
        for arm in self.arms.values():
            for column in arm.table.columns:
                name = attribute(arm.path, column.name)
                self.columns[name] = Column(name, column.type, column.nullable)
        self._determined: dict[frozenset[str], frozenset[str]] = {}
        self.gives = {name: self._gives(cube) for name, cube in self.cubes.items()}
        self._reached = {name: frozenset(gives) for name, gives in self.gives.items()}

    def attribute(self, path: str, column: str) -> str:
        name = attribute(path, column)
        return self.same.get(name, name)

    def dependencies(self, table: Table) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
        if table.name not in self._dependencies:
            self._dependencies[table.name] = _dependencies(table, self.catalog)
        return self._dependencies[table.name]

    def _gives(self, cube: Cube) -> dict[str, Need]:
        """Every attribute that the grouping columns determine, with what it takes to have it."""
        gives = {t.expression.name: Need() for t in cube.keys.values() if isinstance(t.expression, exp.Column)}
        essential = cube.essential
        tables = self._tables(cube)
        joined: set[str] = set()
        size = -1
        while size != len(gives):
            size = len(gives)
            for path, table in tables.items():
                for known, determined in self.dependencies(table):
                    if all(self.attribute(path, column) in gives for column in known):
                        for held in determined:
                            name = self.attribute(path, held)
                            gives.setdefault(name, Need(hidden=frozenset((name,))))
            for path, arm in self.arms.items():
                keys = [self.attribute(arm.parent, column) for column in arm.foreign_key.columns]
                if path in joined or not all(key in gives for key in keys):
                    continue
                joined.add(path)
                joins = frozenset((path,)).union(*(gives[key].joins for key in keys))
                hidden = frozenset[str]().union(*(gives[key].hidden for key in keys))
                for column in arm.table.columns:
                    name = self.attribute(path, column.name)
                    own = path in essential
                    gives.setdefault(name, Need(hidden=frozenset((name,))) if own else Need(joins, hidden))
        return gives

    def determined(self, known: frozenset[str]) -> frozenset[str]:
        """The attributes that some attributes determine, by keys, hierarchies and foreign keys."""
        if known not in self._determined:
            found = set(known)
            tables = self._tables(next(iter(self.cubes.values()))) | {p: arm.table for p, arm in self.arms.items()}
            size = -1
            while size != len(found):
                size = len(found)
                for path, table in tables.items():
                    for columns, determined in self.dependencies(table):
                        if all(self.attribute(path, column) in found for column in columns):
                            found.update(self.attribute(path, column) for column in determined)
                for path, arm in self.arms.items():
                    if all(self.attribute(arm.parent, column) in found for column in arm.foreign_key.columns):
                        found.update(self.attribute(path, column.name) for column in arm.table.columns)
            self._determined[known] = frozenset(found)
        return self._determined[known]

    def _tables(self, cube: Cube) -> dict[str, Table]:
        found = {path: arm.table for path, arm in cube.star.arms.items()}
        for label, _ in cube.star.roots:
            table = self.catalog.table(label.partition("#")[0])
            if table is not None:
                found[label] = table
        return found

    def edge(self, parent: Cube, child: Cube) -> Edge | None:
        """How the child derives from the parent; None if it does not."""
        if any(part.part.function == ONLY for part in child.parts.values()):
            return None  # the only row of a cell cannot be told from sums
        for text, compared in parent.comparisons.items():
            if text not in child.conditions and not follows(compared, child.comparisons.values()):
                return None
        rest = [text for text in child.conditions if text not in parent.conditions]
        joins: set[str] = set()
        hidden: set[str] = set()
        for needed in (*child.keys.values(), *(child.conditions[text] for text in rest)):
            need = self.need(parent, needed)
            if need is None:
                return None
            joins |= need.joins
            hidden |= need.hidden
        added: dict[str, CubePart] = {}
        ways: dict[str, Way] = {}
        for text, part in child.parts.items():
            found = way_of(part, parent, lambda wanted: self.need(parent, wanted) is not None, self.columns)
            ways[text] = found.way
            added |= {wanted.text: wanted for wanted in found.added}
            for wanted in found.given:
                need = self.need(parent, wanted)
                assert need is not None
                joins |= need.joins
                hidden |= need.hidden
        arms = tuple(arm for path, arm in self.arms.items() if path in joins)
        parts = tuple(added[text] for text in sorted(added))
        return Edge(parent.name, child.name, arms, tuple(sorted(hidden)), parts, tuple(rest), ways)

    def need(self, parent: Cube, wanted: Term) -> Need | None:
        """What it takes to compute an expression over the parent's rows; None if it cannot be."""
        gives = self.gives[parent.name]
        if wanted.attributes <= self._reached[parent.name]:
            needs = [gives[name] for name in wanted.attributes]
        else:
            texts = {t.text for t in parent.keys.values()}
            outside = _outside(wanted.expression, texts)
            if not outside <= self._reached[parent.name]:
                return None
            needs = [gives[name] for name in outside]
        if not needs:
            return Need()
        return Need(
            frozenset[str]().union(*(need.joins for need in needs)),
            frozenset[str]().union(*(need.hidden for need in needs)),
        )


def _outside(expression: exp.Expr, texts: set[str]) -> set[str]:
    """The attributes of an expression outside of the parts that are grouping expressions by themselves."""
    if not isinstance(expression, exp.Column) and scalar.text(expression) in texts:
        return set()
    if isinstance(expression, exp.Column):
        return {expression.name}
    return {name for child in expression.iter_expressions() for name in _outside(child, texts)}


def _dependencies(table: Table, catalog: Catalog) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """What determines what within a table: its keys, and the hierarchies of dimensions over it.

    A level may hold NULL for several values of the next one, which would split a group: it determines where it is NOT
    NULL.
    """
    required = {column.name for column in table.columns if not column.nullable}
    found = [(key, table.names) for key in table.keys if set(key) <= required]
    for dimension in catalog.dimensions:
        levels = {level.name.casefold(): level for level in dimension.levels}
        for _, steps in dimension.hierarchies:
            for child, parent in itertools.pairwise(steps):
                below, above = levels[child.casefold()], levels[parent.casefold()]
                if below.table.casefold() == above.table.casefold() == table.name.casefold():
                    determining = _spelled(table, below.columns)
                    if set(determining) <= required:
                        found.append((determining, _spelled(table, above.columns)))
    return found


def _spelled(table: Table, names: tuple[str, ...]) -> tuple[str, ...]:
    by_folded = {name.casefold(): name for name in table.names}
    return tuple(by_folded[name.casefold()] for name in names)


def families(cubes: Iterable[Cube], catalog: Catalog) -> tuple[Family, ...]:
    """The views in groups of the same roots, in the order of their first."""
    groups: dict[object, list[Cube]] = {}
    for cube in cubes:
        groups.setdefault(cube.star.roots, []).append(cube)
    return tuple(Family(group, catalog) for group in groups.values())
