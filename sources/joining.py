"""Joins at the view site. A *wide row* has one entry for each node of the core: its row, or None where none is known
yet. Rows of a node carry the node's own columns only.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..compiler.joingraph import Core, Node
from .bag import Bag, Row, add, project, where
from .conditions import condition
from .messages import Change


@dataclass(frozen=True, eq=False)
class Dummy:
    """A value that links two rows taken from the view: equal to itself alone, shown as the value that it stands for."""

    value: Any


def visible(value: Any) -> Any:
    return value.value if isinstance(value, Dummy) else value


@dataclass(frozen=True)
class Joiner:
    """The joins of one core."""

    core: Core

    @cached_property
    def index(self) -> dict[str, int]:
        return {node.name: i for i, node in enumerate(self.core.nodes)}

    @cached_property
    def _tests(self) -> dict[str, Any]:
        return {node.name: condition(node.filters, node.columns) for node in self.core.nodes}

    def node_rows(self, node: Node, columns: tuple[str, ...], rows: Mapping[Row, int]) -> Bag:
        """A table's rows as a node sees them: its columns, where its conditions hold."""
        positions = tuple(columns.index(column) for column in node.columns)
        seen = project(rows, positions)
        return where(seen, self._tests[node.name]) if node.filters else seen

    def changed(self, node: Node, change: Change) -> Bag:
        return self.node_rows(node, change.columns, change.rows)

    def start(self, node: str, rows: Mapping[Row, int]) -> Bag:
        """Wide rows of one node."""
        place, width = self.index[node], len(self.core.nodes)
        return {tuple(row if i == place else None for i in range(width)): count for row, count in rows.items()}

    def extend(self, wide: Bag, known: Collection[str], node: str, rows: Mapping[Row, int]) -> Bag:
        """Wide rows joined with rows of one more node, on all that links it with known ones."""
        mine: list[int] = []
        theirs: list[tuple[int, int]] = []
        for other in known:
            for own, foreign in self.core.pairs(node, other):
                mine += self.core.by_name[node].positions((own,))
                theirs.append((self.index[other], self.core.by_name[other].columns.index(foreign)))
        partners: dict[Row, list[tuple[Row, int]]] = {}
        for row, count in rows.items():
            key = tuple(row[i] for i in mine)
            if None not in key:
                partners.setdefault(key, []).append((row, count))
        place = self.index[node]
        joined: Bag = {}
        for row, count in wide.items():
            for partner, times in partners.get(tuple(row[i][j] for i, j in theirs), ()):
                longer = (*row[:place], partner, *row[place + 1 :])
                joined[longer] = joined.get(longer, 0) + count * times
        return {row: count for row, count in joined.items() if count}

    def outputs(self, wide: Bag) -> Bag:
        """Whole wide rows as rows of the core."""
        places = [(self.index[o.node], self.core.by_name[o.node].columns.index(o.column)) for o in self.core.outputs]
        made: Bag = {}
        for row, count in wide.items():
            add(made, {tuple(visible(row[i][j]) for i, j in places): count})
        return made

    def whole(self, rows: Mapping[str, Mapping[Row, int]]) -> Bag:
        """The core from the rows of all nodes."""
        first, *others = self._walk()
        wide, known = self.start(first, rows[first]), [first]
        for name in others:
            wide = self.extend(wide, known, name, rows[name])
            known.append(name)
        return self.outputs(wide)

    def _walk(self) -> list[str]:
        found = [self.core.nodes[0].name]
        for name in found:
            found += [other for other in self.core.neighbours(name) if other not in found]
        return found
