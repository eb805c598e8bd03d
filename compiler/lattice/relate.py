"""Which parent each summary-delta is computed from, and what that adds to the parents. [sections 5.3 to 5.5]

1. Every pair of views over the same roots is asked whether one derives from the other.
2. Views that derive from each other are one node; the one that needs the least added stands for it.
3. Each node takes its cheapest parent, or the changed rows themselves: rows of the parent's summary-delta, rows of
   the dimension tables joined along the edge, and the stored parent as often as one of those tables changes. Ties are
   broken by name. The costs of nodes do not depend on each other's choices, so the whole is cheapest too.
4. From the leaves up, each view gets the hidden columns that its chosen children need and no others, which is where
   joins, aggregates and projections end up as low as they can be. [appendix B]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import networkx as nx

from ..catalog import Catalog
from ..deltas import Deltas
from ..plan import Lattice, LatticeEdge, LatticeNode
from ..summary import Summary
from .cubes import Cube, CubePart, cube_of
from .derives import Edge, Family, families
from .estimate import Sizes
from .extend import can_extend, extend

_COLUMN_COST = 0.1  # of a hidden column, in reads of the summary-delta that carries it


@dataclass(frozen=True, slots=True)
class Related:
    """A view as it is stored, and the edge that its summary-delta comes along, if any."""

    cube: Cube
    family: Family
    edge: Edge | None
    insert_only: bool

    @property
    def summary(self) -> Summary:
        return self.cube.summary


@dataclass(frozen=True, slots=True)
class Relation:
    """All summary tables of a file."""

    views: Mapping[str, Related]
    lattice: Lattice

    def parent(self, name: str) -> str | None:
        related = self.views.get(name)
        return related.edge.parent if related and related.edge else None


def relate(summaries: Iterable[Summary], catalog: Catalog) -> Relation:
    """The derives lattice of summary tables, with a parent chosen for each."""
    views: dict[str, Related] = {}
    nodes: list[LatticeNode] = []
    edges: list[LatticeEdge] = []
    for family in families((cube_of(summary, catalog) for summary in summaries), catalog):
        choice = _Choice(family)
        views |= choice.related()
        nodes += choice.nodes()
        edges += choice.edges(views)
    return Relation(views, Lattice(tuple(nodes), tuple(edges)))


class _Choice:
    """The choice of parents in one family."""

    def __init__(self, family: Family) -> None:
        self.family = family
        self.sizes = Sizes(family)
        self.rows = {name: self.sizes.rows(cube) for name, cube in family.cubes.items()}
        self.delta_rows = {name: self.sizes.delta_rows(cube) for name, cube in family.cubes.items()}
        self.possible: dict[str, dict[str, Edge]] = {name: {} for name in family.cubes}  # by child, by parent
        for parent in family.cubes.values():
            for child in family.cubes.values():
                edge = family.edge(parent, child) if parent is not child else None
                if edge is not None and self._can_serve(parent, edge):
                    self.possible[child.name][parent.name] = edge
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.graph.add_nodes_from(family.cubes)
        self.graph.add_edges_from((p, c) for c, found in self.possible.items() for p in found)
        self.classes = self._classes()
        self.chosen = {name: self._cheapest(name) for name in family.cubes}

    def _can_serve(self, parent: Cube, edge: Edge) -> bool:
        arguments = (part.argument for part in edge.parts)
        needed = frozenset(edge.hidden).union(*(a.attributes for a in arguments if a))
        return can_extend(parent, needed)

    def _classes(self) -> dict[str, tuple[str, ...]]:
        """For each view the views of its node, the one that stands for it first."""
        found: dict[str, tuple[str, ...]] = {}
        for names in nx.strongly_connected_components(self.graph):
            ordered = tuple(sorted(names, key=lambda name: (self._added(name, names), name)))
            found |= dict.fromkeys(ordered, ordered)
        return found

    def _added(self, name: str, names: set[str]) -> int:
        """How much would be added to a view if the others of its node came from it."""
        edges = [self.possible[other][name] for other in names if other != name and name in self.possible[other]]
        return len({added for edge in edges for added in (*edge.hidden, *(part.text for part in edge.parts))})

    def _cheapest(self, name: str) -> Edge | None:
        own = self.classes[name]
        candidates = [
            (self.cost(edge), parent)
            for parent, edge in self.possible[name].items()
            if parent not in own or (parent == own[0] and name != own[0])
        ]
        best = min(candidates, default=None)
        if best is None or best[0] >= self.cost_from_changes(self.family.cubes[name]):
            return None
        return self.possible[name][best[1]]

    def cost(self, edge: Edge) -> float:
        read = self.delta_rows[edge.parent]
        cost = read * (1 + _COLUMN_COST * (len(edge.hidden) + len(edge.parts)))
        for arm in edge.joins:
            cost += self.sizes.table_rows(arm.table) + self.sizes.moves(arm.table) * self.rows[edge.parent]
        return cost

    def cost_from_changes(self, cube: Cube) -> float:
        cost = self.sizes.root_changes(cube)
        for arm in cube.star.arms.values():
            cost += self.sizes.table_rows(arm.table) + self.sizes.moves(arm.table) * self.sizes.root_rows(cube)
        return cost

    def related(self) -> dict[str, Related]:
        """Every view with what its chosen children need, from the leaves up."""
        tree: nx.DiGraph[str] = nx.DiGraph()
        tree.add_nodes_from(self.family.cubes)
        tree.add_edges_from((edge.parent, name) for name, edge in self.chosen.items() if edge)
        hidden: dict[str, set[str]] = {name: set() for name in tree}
        parts: dict[str, dict[str, CubePart]] = {name: {} for name in tree}  # by text
        extended: dict[str, Cube] = {}
        edges: dict[str, Edge | None] = {}
        downward = list(nx.lexicographical_topological_sort(tree))
        for name in reversed(downward):
            wanted = tuple(parts[name][text] for text in sorted(parts[name]))
            cube = extend(self.family.cubes[name], self.family, tuple(sorted(hidden[name])), wanted)
            extended[name], edges[name] = cube, None
            if (edge := self.chosen[name]) is not None:
                parent = self.family.cubes[edge.parent]
                along = self.family.edge(parent, cube)
                assert along is not None
                edges[name] = along
                hidden[edge.parent].update(along.hidden)
                parts[edge.parent] |= {part.text: part for part in along.parts}
        found: dict[str, Related] = {}
        for name in downward:
            found[name] = Related(extended[name], self.family, edges[name], self._insert_only(name, edges, extended))
        return found

    def _insert_only(self, name: str, edges: Mapping[str, Edge | None], extended: Mapping[str, Cube]) -> bool:
        """Whether nothing is ever deleted from what the summary-delta is computed from."""
        edge = edges[name]
        if edge is None:
            return Deltas(name, self.family.catalog).only_inserts(extended[name].summary.core)
        joined = all(arm.table.changes.insert_only for arm in edge.joins)
        return joined and self._insert_only(edge.parent, edges, extended)

    def nodes(self) -> list[LatticeNode]:
        found = []
        for name in self.family.cubes:
            names = self.classes[name]
            if name == names[0]:
                keys = tuple(self.family.cubes[name].keys)
                found.append(LatticeNode(names, keys, self.rows[name], self.delta_rows[name]))
        return found

    def edges(self, related: Mapping[str, Related]) -> list[LatticeEdge]:
        """The edges between nodes that no path of others stands for, and the chosen ones."""
        heads = {name: names[0] for name, names in self.classes.items()}
        order = {name: place for place, name in enumerate(self.family.cubes)}
        below = {
            name: sum({1 << order[heads[child]] for child in self.graph.successors(name) if heads[child] != name})
            for name in set(heads.values())
        }
        found = []
        for parent in sorted(below, key=order.__getitem__):
            indirect = 0
            children = [name for name in below if below[parent] >> order[name] & 1]
            for child in children:
                indirect |= below[child]
            for child in sorted(children, key=order.__getitem__):
                chosen = related[child].edge
                is_chosen = chosen is not None and heads[chosen.parent] == parent
                if is_chosen or not indirect >> order[child] & 1:
                    along = chosen if chosen and chosen.parent == parent else self.possible[child][parent]
                    found.append(LatticeEdge(parent, child, along.tables, is_chosen))
        return found
