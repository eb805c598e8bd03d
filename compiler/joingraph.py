"""The join graph of a view's select-project-join core: what lives where, what is joined with what, what follows.

A view over sources is split in two. The *core* is a join of columns of base tables on equality, with conditions on
single tables: it is maintained from the sources' changes [sweep-1997, version-numbers-2000]. Whatever stands above
it is maintained from the core's changes, like any other view. A *node* is one occurrence of a table in the FROM
clause, so that a table joined with itself is two nodes; a *link* is all that two nodes are joined on.

Facts that query paths are made of:

| fact | holds when |
|---|---|
| p determines c          | a link of p and c covers a key of c: at most one row of c for a row of p |
| a column is in the view | it, or a column that links make equal to it, is an output of the core |
| r refers to n           | r and n are of one source, which enforces a foreign key of r on which they are joined |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import networkx as nx
from sqlglot import exp

Pairs = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Node:
    """An occurrence of a table: the columns that the core needs of it, keys included, where its conditions hold."""

    name: str
    table: str
    source: str
    columns: tuple[str, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    filters: tuple[exp.Expr, ...] = ()

    def __post_init__(self) -> None:
        missing = [column for key in self.keys for column in key if column not in self.columns]
        if missing:
            raise ValueError(f"{self.name}: key columns {missing} are not among its columns")

    def positions(self, columns: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(self.columns.index(column) for column in columns)


@dataclass(frozen=True, slots=True)
class Link:
    """`left` and `right` are joined on the equality of all pairs of columns."""

    left: str
    right: str
    pairs: Pairs


@dataclass(frozen=True, slots=True)
class Output:
    """A column of the core: where it comes from."""

    name: str
    node: str
    column: str


@dataclass(frozen=True)
class Core:
    """A connected join of nodes, and the columns kept of it, with their multiplicity."""

    name: str
    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    outputs: tuple[Output, ...]
    references: tuple[tuple[str, str], ...] = ()  # (r, n): r refers to n by an enforced foreign key that is a link

    def __post_init__(self) -> None:
        if not nx.is_connected(self.graph):
            raise ValueError(f"{self.name}: the join graph is not connected, which makes a Cartesian product")

    @cached_property
    def graph(self) -> nx.Graph[str]:
        graph: nx.Graph[str] = nx.Graph()
        graph.add_nodes_from(node.name for node in self.nodes)
        graph.add_edges_from((link.left, link.right) for link in self.links)
        return graph

    @cached_property
    def by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(node.source for node in self.nodes))

    def neighbours(self, name: str) -> Iterator[str]:
        """The nodes linked with one, in the order of the core."""
        linked = set(self.graph.adj[name])
        return (node.name for node in self.nodes if node.name in linked)

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], Pairs]:
        found: dict[tuple[str, str], Pairs] = {}
        for link in self.links:
            found[link.left, link.right] = found.get((link.left, link.right), ()) + link.pairs
            turned = tuple((b, a) for a, b in link.pairs)
            found[link.right, link.left] = found.get((link.right, link.left), ()) + turned
        return found

    def pairs(self, first: str, second: str) -> Pairs:
        """What two nodes are joined on, columns of the first first; none where they are not linked."""
        return self._pairs.get((first, second), ())

    def determines(self, parent: str, child: str) -> bool:
        """Whether a row of the parent joins at most one row of the child."""
        linked = {column for _, column in self.pairs(parent, child)}
        return any(set(key) <= linked for key in self.by_name[child].keys)

    @cached_property
    def _equal(self) -> nx.Graph[tuple[str, str]]:
        graph: nx.Graph[tuple[str, str]] = nx.Graph()
        graph.add_nodes_from((node.name, column) for node in self.nodes for column in node.columns)
        for link in self.links:
            graph.add_edges_from(((link.left, a), (link.right, b)) for a, b in link.pairs)
        return graph

    @cached_property
    def _in_view(self) -> dict[tuple[str, str], int]:
        places = {(output.node, output.column): i for i, output in reversed(list(enumerate(self.outputs)))}
        found: dict[tuple[str, str], int] = {}
        for group in nx.connected_components(self._equal):
            shown = [places[member] for member in group if member in places]
            found.update({member: places.get(member, min(shown)) for member in group} if shown else {})
        return found

    def in_view(self, node: str, column: str) -> int | None:
        """The output in which a column's value can be read, directly or by equality."""
        return self._in_view.get((node, column))

    def key_in_view(self, node: str) -> tuple[str, ...] | None:
        """A key of the node, all of whose columns can be read in the core."""
        for key in self.by_name[node].keys:
            if all(self.in_view(node, column) is not None for column in key):
                return key
        return None

    def referring(self, node: str) -> tuple[str, ...]:
        """The nodes that must refer to a row of this one for it to matter.

        None where the node has conditions: a row that begins or ceases to fulfil them was referred to all along.
        """
        if self.by_name[node].filters:
            return ()
        return tuple(r for r, referred in self.references if referred == node)

    def join_columns(self, node: str) -> frozenset[str]:
        """The columns of a node that links use."""
        return frozenset(column for other in self.neighbours(node) for column, _ in self.pairs(node, other))

    @cached_property
    def update_order(self) -> tuple[str, ...]:
        """The nodes in the order in which one transaction's changes are taken: those referred to first."""
        order: nx.DiGraph[int] = nx.DiGraph()
        order.add_nodes_from(range(len(self.nodes)))
        index = {node.name: i for i, node in enumerate(self.nodes)}
        for referring, referred in self.references:
            order.add_edge(index[referred], index[referring])
        if not nx.is_directed_acyclic_graph(order):
            return tuple(index)
        return tuple(self.nodes[i].name for i in nx.lexicographical_topological_sort(order))
