"""Query paths: which sub-queries a change of a node needs, of which sources, in which order, and which it does not.

A path starts at the changed node and walks the join graph, so that no sub-query is ever a Cartesian product. All
unqueried nodes of one source that are reached together go into one sub-query; sub-queries that do not need each
other's answers are sent in parallel, which is what a *wave* is [version-numbers-2000, section 4.1]. Fewer are sent when

1. **an insert is irrelevant**: another table of the same source must refer to the new row's key, and cannot yet;
2. **a delete is irrelevant**: it could not have gone while it was referred to;
3. **the view is changed by key**: the key of the changed node is in the view, or the key of a node that determines it
   is, and the path is walked only that far. For deletes, and for modifications that touch no join column;
4. **the view answers**: a node is reached by a key that is in the view, and determines all that is asked through it.

Departures from the paper. For 4 the paper asks only that the key be in the view; a node that is reached by other
columns may have rows that the view does not hold, so here the link itself must cover the key. Cases 1 and 2 are used
only for tables without conditions in the view, for rows whose key is not also deleted or inserted in the same change,
and 2 only if the referring table did not change in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

import networkx as nx

from .joingraph import Core


class Kind(StrEnum):
    INSERT = "insert"
    DELETE = "delete"
    MODIFY = "modify"  # the key stays, and so do all join columns


@dataclass(frozen=True, slots=True)
class SubQuery:
    """One message: these nodes of one source, each reached from its parent, all in one statement."""

    source: str
    nodes: tuple[str, ...]
    parents: tuple[str, ...]
    wave: int

    @property
    def needs(self) -> frozenset[str]:
        """The nodes whose rows must be known before it can be sent."""
        return frozenset(self.parents) - frozenset(self.nodes)


@dataclass(frozen=True, slots=True)
class ViewAnswer:
    """Where the view holds the key by which `node` is reached, it answers for the node and all that is behind it."""

    node: str
    parent: str
    behind: tuple[tuple[str, str], ...]  # (node, parent) in the order of the path


@dataclass(frozen=True, slots=True)
class Path:
    """How a change of one kind is turned into a change of the core."""

    node: str
    kind: Kind
    queries: tuple[SubQuery, ...]
    skipped: str = ""  # why nothing needs to be done
    by_key: str | None = None  # the node by whose key the stored rows are found
    answers: tuple[ViewAnswer, ...] = ()

    @property
    def messages(self) -> int:
        """Sub-queries sent when neither the view nor an empty answer saves one."""
        return 0 if self.skipped else len(self.queries)

    @property
    def waves(self) -> int:
        """Round trips, one after another."""
        return 0 if self.skipped else max((query.wave for query in self.queries), default=0)


def sub_queries(
    core: Core, start: str, within: Iterable[str] | None = None, one_table: bool = False
) -> tuple[SubQuery, ...]:
    """The walk from a node to all others, or to those of `within`; `one_table` asks for each node by itself."""
    remaining = dict.fromkeys(name for name in (within or core.by_name) if name != start)
    found: list[SubQuery] = []
    reached: list[tuple[tuple[str, ...], int]] = [((start,), 1)]
    for roots, wave in reached:
        for source in core.sources:
            nodes: dict[str, str] = {}
            walk = list(roots)
            for root in walk:
                linked = [name for name in core.neighbours(root) if name in remaining and name not in nodes]
                here = {name: root for name in linked if core.by_name[name].source == source}
                nodes |= here
                walk += [] if one_table else here
            for name in nodes:
                del remaining[name]
            groups = [{name: parent} for name, parent in nodes.items()] if one_table else [nodes] if nodes else []
            for group in groups:
                found.append(SubQuery(source, tuple(group), tuple(group.values()), wave))
                reached.append((tuple(group), wave + 1))
    if remaining:
        raise ValueError(f"{', '.join(remaining)} cannot be reached from {start}")
    return tuple(sorted(found, key=lambda query: query.wave))


def plan_path(core: Core, node: str, kind: Kind) -> Path:
    """The cheapest path for a change of a node."""
    referring = core.referring(node)
    if referring and kind is Kind.INSERT:
        return Path(node, kind, (), f"no row of {referring[0]} can refer to a row that was not there")
    if referring and kind is Kind.DELETE:
        return Path(node, kind, (), f"a row that {referring[0]} refers to could not have been deleted")
    return full_path(core, node, kind)


def full_path(core: Core, node: str, kind: Kind) -> Path:
    """The path of a change that referential integrity does not make irrelevant."""
    if kind is not Kind.INSERT:
        keyed = _by_key(core, node)
        if keyed is not None:
            chain, queries = keyed
            return Path(node, kind, queries, by_key=chain)
    queries = sub_queries(core, node)
    return Path(node, kind, queries, answers=_view_answers(core, queries))


def _by_key(core: Core, node: str) -> tuple[str, tuple[SubQuery, ...]] | None:
    """The nearest node whose key is in the view and that determines the changed one, and the way to it."""
    back: nx.DiGraph[str] = nx.DiGraph()
    back.add_nodes_from(core.by_name)
    back.add_edges_from((a, b) for a in core.by_name for b in core.neighbours(a) if core.determines(b, a))
    ways = nx.single_source_shortest_path(back, node)
    for target, way in sorted(ways.items(), key=lambda item: len(item[1])):
        if core.key_in_view(target) is not None:
            return target, sub_queries(core, node, way)
    return None


def _view_answers(core: Core, queries: tuple[SubQuery, ...]) -> tuple[ViewAnswer, ...]:
    """Where the view may answer: never inside of a cycle of the join graph, where one link does not tell all."""
    parent_of = {name: parent for query in queries for name, parent in zip(query.nodes, query.parents, strict=True)}
    if core.graph.number_of_edges() > len(parent_of):
        return ()
    found: list[ViewAnswer] = []
    covered: set[str] = set()
    for name, parent in parent_of.items():
        if parent in covered:
            covered.add(name)
            continue
        behind = _behind(parent_of, name)
        linked = {column for _, column in core.pairs(parent, name)}
        key = core.key_in_view(name)
        determined = all(core.determines(above, below) for below, above in behind)
        onward = {column for below, above in behind if above == name for column, _ in core.pairs(name, below)}
        if key is not None and set(key) <= linked and determined and not linked & onward:
            found.append(ViewAnswer(name, parent, behind))
            covered.add(name)
    return tuple(found)


def _behind(parent_of: dict[str, str], top: str) -> tuple[tuple[str, str], ...]:
    below = {top}
    found = []
    for name, parent in parent_of.items():
        if parent in below:
            below.add(name)
            found.append((name, parent))
    return tuple(found)
