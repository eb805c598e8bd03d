"""Updates of the sources as they arrive: put in order, used once, gaps noticed.

A source numbers its transactions without gaps. Whatever the network does to the notifications, the next one to be
used is the one whose number comes next; a number that is missing while a later one is known was lost or is late
[version-numbers-2000, section 5].
"""

from __future__ import annotations

from collections.abc import Mapping

from ..compiler.joingraph import Core
from .bag import Bag, Row, add, total
from .joining import Joiner
from .messages import Update

_Index = dict[Row, list[tuple[int, Row, int]]]


class Inbox:
    """What is known of the changes of all sources since the state that the core reflects."""

    def __init__(self, core: Core, joiner: Joiner, versions: Mapping[str, int]) -> None:
        self.core = core
        self.joiner = joiner
        self.taken = dict(versions)  # the data source version up to which updates were handed out
        self._waiting: dict[str, dict[int, Update]] = {source: {} for source in core.sources}
        self._changes: dict[str, dict[int, Bag]] = {node.name: {} for node in core.nodes}
        self._known_to: dict[str, int] = {}  # by node: all changes up to here are known
        self._forgotten: dict[str, int] = {}
        self._indexes: dict[str, dict[tuple[int, ...], _Index]] = {node.name: {} for node in core.nodes}
        self._seen = dict(versions)
        self.arrived: dict[str, int] = {}  # the highest base relation version heard of, by node
        self.order: list[str] = []  # sources, one entry for each update not handed out, as they arrived

    def put(self, update: Update) -> bool:
        """Keeps an update; False for one that is known already."""
        waiting = self._waiting[update.source]
        if update.version <= self.taken[update.source] or update.version in waiting:
            return False
        waiting[update.version] = update
        self.order.append(update.source)
        self._seen[update.source] = max(self._seen[update.source], update.version)
        for node in self.core.nodes:
            change = update.changes.get(node.table)
            if change is not None and node.source == update.source:
                self._changes[node.name][change.relation_version] = self.joiner.changed(node, change)
                for positions, index in self._indexes[node.name].items():
                    self._enter(index, positions, node.name, change.relation_version)
                self.arrived[node.name] = max(self.arrived.get(node.name, 0), change.relation_version)
        return True

    def next_source(self) -> str | None:
        """The source whose next update is there; the one heard of first, where there are several."""
        return next((s for s in self.order if self.taken[s] + 1 in self._waiting[s]), None)

    def take(self, source: str) -> Update | None:
        """The next update of a source, in the order of its versions."""
        update = self._waiting[source].pop(self.taken[source] + 1, None)
        if update is not None:
            self.taken[source] += 1
            self.order.remove(source)
        return update

    def has_gap(self, source: str) -> bool:
        """Whether an update is missing though a later one has come."""
        return bool(self._waiting[source]) and self.taken[source] + 1 not in self._waiting[source]

    def knows(self, node: str, after: int, to: int) -> bool:
        """Whether all that changed a node from one base relation version to another has arrived."""
        known = max(after, self._known_to.get(node, 0))
        while known + 1 in self._changes[node]:
            known += 1
        self._known_to[node] = known
        return known >= to

    def matching(self, node: str, after: int, to: int, positions: tuple[int, ...], keys: frozenset[Row]) -> Bag:
        """Of what changed a node from one version to another, the rows with these values at these positions.

        Found by an index: a view that has fallen behind has many changes to undo, few of which concern an answer.
        """
        index = self._indexes[node].get(positions)
        if index is None:
            index = self._indexes[node][positions] = {}
            for version in self._changes[node]:
                self._enter(index, positions, node, version)
        found: Bag = {}
        for key in keys:
            for version, row, count in index.get(key, ()):
                if after < version <= to:
                    add(found, {row: count})
        return found

    def _enter(self, index: _Index, positions: tuple[int, ...], node: str, version: int) -> None:
        for row, count in self._changes[node][version].items():
            index.setdefault(tuple(row[i] for i in positions), []).append((version, row, count))

    def between(self, node: str, after: int, to: int) -> Bag:
        """All that changed a node from one base relation version to another."""
        return total(self._changes[node][version] for version in range(after + 1, to + 1))

    def forget(self, refreshed: Mapping[str, int]) -> None:
        """Drops what the core reflects: no answer needs to be brought to an older state any more."""
        for node, version in refreshed.items():
            changes = self._changes[node]
            # The first time: of the changes that are known, no more than all can be reflected by now.
            for old in range(self._forgotten.get(node, version - len(changes)) + 1, version + 1):
                for row in changes.pop(old, ()):
                    self._leave(node, row, old)
            self._forgotten[node] = version

    def _leave(self, node: str, row: Row, version: int) -> None:
        for positions, index in self._indexes[node].items():
            key = tuple(row[i] for i in positions)
            left = [entry for entry in index.get(key, ()) if entry[0] != version]
            if left:
                index[key] = left
            else:
                index.pop(key, None)
