"""Advice: views worth adding, by the greedy choice of Harinarayan, Rajaraman and Ullman. [hru-1996]

Candidates are the points of the direct product of the fact table's dimensions: for each arm that some view uses its
levels (the foreign key, then the hierarchy of CREATE DIMENSION, or the columns that views group by), for each other
grouping column itself or nothing. A candidate with an aggregate of every view's, not stored yet, makes cheaper

- queries: each view of the file, and each point of the product, is answered from the smallest view above it;
- maintenance: views whose summary-delta would be computed from the candidate's.

In each round the candidate with the greatest gain in rows read for each row that it stores is taken, as long as the
budget lasts. Nothing is changed: advice only proposes.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp

from ..algebra import col
from ..catalog import Catalog
from ..summary import Summary
from .cubes import Cube, Term, cube_of, term
from .derives import Family, families
from .estimate import Sizes, met
from .star import column_of, path_of

MOST_POINTS = 4096


@dataclass(frozen=True, slots=True)
class Advice:
    """A view to add: its grouping columns as (table, column), what it would hold, what reading it would save."""

    columns: tuple[tuple[str, str], ...]
    rows: int
    queries: int  # rows that queries at the points of the product would read less
    maintained: tuple[str, ...]  # views whose summary-delta would come from its
    saved: int  # rows that propagate would read less in a batch

    @property
    def gain(self) -> int:
        return self.queries + self.saved


def advise(summaries: tuple[Summary, ...], catalog: Catalog, budget: int) -> tuple[Advice, ...]:
    """Views to add, best first, that hold no more rows together than the budget."""
    found: list[Advice] = []
    for family in families((cube_of(summary, catalog) for summary in summaries), catalog):
        found += _Greedy(family).choose(budget - sum(advice.rows for advice in found))
    return tuple(found)


Point = frozenset[str]


class _Greedy:
    def __init__(self, family: Family) -> None:
        self.family = family
        self.sizes = Sizes(family)
        self.points = tuple(self._points())
        self.rows = {point: self._met(point, self._root()) for point in self.points}
        self.delta = {point: self._met(point, self._changes()) for point in self.points}
        self.below = {p: [q for q in self.points if q <= family.determined(p)] for p in self.points}
        self.views = {
            name: frozenset(t.expression.name for t in cube.keys.values())
            for name, cube in family.cubes.items()
            if not cube.conditions and all(isinstance(t.expression, exp.Column) for t in cube.keys.values())
        }

    def _any(self) -> Cube:
        return next(iter(self.family.cubes.values()))

    def _root(self) -> float:
        return self.sizes.root_rows(self._any())

    def _changes(self) -> float:
        return self.sizes.root_changes(self._any())

    def _met(self, point: Point, rows: float) -> int:
        return met(self.sizes.possible_groups(_terms(point)), rows)

    def _points(self) -> Iterator[Point]:
        """The direct product of the dimensions' levels."""
        grouped = {name for cube in self.family.cubes.values() for t in cube.keys.values() for name in t.attributes}
        by_path: dict[str, list[str]] = {}
        for name in sorted(grouped):
            by_path.setdefault(self._dimension(name), []).append(name)
        choices = [self._levels(names) for _, names in sorted(by_path.items())]
        for combination in itertools.islice(itertools.product(*choices), MOST_POINTS):
            yield frozenset(name for name in combination if name is not None)

    def _dimension(self, name: str) -> str:
        """The foreign key that leads to an attribute's arm; a column of the root by itself."""
        path = path_of(name)
        while path in self.family.arms:
            arm = self.family.arms[path]
            keys = [self.family.attribute(arm.parent, column) for column in arm.foreign_key.columns]
            path = arm.parent
            if path not in self.family.arms and len(keys) == 1:
                return keys[0]
        return name

    def _levels(self, names: list[str]) -> list[str | None]:
        key = self._dimension(names[0])
        return [*dict.fromkeys([key, *names] if path_of(names[0]) != path_of(key) else names), None]

    def choose(self, budget: int) -> list[Advice]:
        """The greedy choice: most gain for each row stored, while the budget lasts."""
        stored = {point for point in self.views.values() if point in self.rows}
        answered = {point: self._root() for point in self.points}
        for point in stored:
            self._answer(point, answered)
        read = {name: min(self._read(p, stored - {p}), self._changes()) for name, p in self.views.items()}
        chosen: list[Advice] = []
        while True:
            best: tuple[float, tuple[str, ...], Point] | None = None
            for point in self.points:
                if point in stored or self.rows[point] > budget:
                    continue
                gain = self._gain(point, answered) + self._net(point, stored, read)
                rate = (-gain / self.rows[point], tuple(sorted(point)), point)
                if gain > 0 and (best is None or rate[:2] < best[:2]):
                    best = rate
            if best is None:
                return chosen
            point = best[2]
            saved = self._saved(point, read)
            net = self._net(point, stored, read)
            columns = tuple((self._table(name), column_of(name)) for name in sorted(point))
            gain = round(self._gain(point, answered))
            chosen.append(Advice(columns, self.rows[point], gain, tuple(sorted(saved)), round(net)))
            budget -= self.rows[point]
            stored.add(point)
            self._answer(point, answered)
            for name in saved:
                read[name] = self.delta[point]

    def _table(self, name: str) -> str:
        arm = self.family.arms.get(path_of(name))
        return arm.table.name if arm else path_of(name).partition("#")[0]

    def _answer(self, point: Point, answered: dict[Point, float]) -> None:
        for other in self.below[point]:
            answered[other] = min(answered[other], self.rows[point])

    def _gain(self, point: Point, answered: dict[Point, float]) -> float:
        return sum(max(0.0, answered[other] - self.rows[point]) for other in self.below[point])

    def _read(self, point: Point, stored: set[Point]) -> float:
        """What the summary-delta at a point reads: the smallest one above it."""
        above = [self.delta[other] for other in stored if other in self.below and point in self.below[other]]
        return min(above, default=self._changes())

    def _net(self, point: Point, stored: set[Point], read: dict[str, float]) -> float:
        """What propagate would read less in a batch, the view's own summary-delta counted in."""
        return sum(self._saved(point, read).values()) - self._read(point, stored)

    def _saved(self, point: Point, read: dict[str, float]) -> dict[str, float]:
        """For each view below the point, how much less its summary-delta would read."""
        below = set(self.below[point])
        return {
            name: read[name] - self.delta[point]
            for name, own in self.views.items()
            if own in below and own != point and self.delta[point] < read[name]
        }


def _terms(point: Point) -> tuple[Term, ...]:
    return tuple(term(col(name)) for name in sorted(point))
