"""Sources and a network in one process, for tests and measurements: every delay is a choice of the caller's.

Updates may commit at any moment. Channels are in order and reliable, as SWEEP needs them, or not: then messages are
delivered in any order, some twice, some never.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ..compiler.joingraph import Core, Node
from .answering import answer_rows
from .bag import Bag, Row, add
from .joining import Joiner
from .messages import Answer, Apply, Change, Incoming, Outgoing, Query, ReadLog, Update
from .nested import NestedSweep
from .versions import VersionNumbers

Machine = VersionNumbers | NestedSweep
Columns = Mapping[str, tuple[str, ...]]
_Sent = TypeVar("_Sent", Incoming, Query | ReadLog)
_Any = TypeVar("_Any")


class Source:
    """A database with a version, tables with versions, and a log."""

    def __init__(self, name: str, columns: Columns, tables: Mapping[str, Mapping[Row, int]], joiner: Joiner) -> None:
        self.name = name
        self.columns = columns
        self.tables: dict[str, Bag] = {table: dict(rows) for table, rows in tables.items()}
        self.joiner = joiner
        self.versions = dict.fromkeys(self.tables, 1)
        self.log: list[Update] = []

    def commit(self, changes: Mapping[str, Mapping[Row, int]]) -> Update:
        """A transaction on one or more tables."""
        made = {}
        for table, rows in changes.items():
            add(self.tables[table], rows)
            self.versions[table] += 1
            made[table] = Change(self.versions[table], self.columns[table], dict(rows))
        update = Update(self.name, len(self.log) + 2, made)
        self.log.append(update)
        return update

    def answer(self, query: Query) -> Answer:
        versions = {ask.node.table: self.versions[ask.node.table] for ask in query.asks}
        return Answer(query.number, self.name, versions, answer_rows(query, self._matching, self._changed))

    def _matching(self, node: Node, columns: tuple[str, ...], keys: frozenset[Row]) -> Bag:
        rows = self.joiner.node_rows(node, self.columns[node.table], self.tables[node.table])
        own = node.positions(columns)
        return {row: count for row, count in rows.items() if tuple(row[i] for i in own) in keys}

    def _changed(self, node: Node, since: int) -> list[Row]:
        changes = (update.changes.get(node.table) for update in self.log)
        newer = (change for change in changes if change is not None and change.relation_version > since)
        return [row for change in newer for row in self.joiner.changed(node, change)]

    def table_at(self, table: str, relation_version: int) -> Bag:
        """A table as it was at a version of its own."""
        rows = dict(self.tables[table])
        for update in self.log:
            change = update.changes.get(table)
            if change is not None and change.relation_version > relation_version:
                add(rows, change.rows, -1)
        return rows

    def at(self, version: int) -> dict[str, Bag]:
        """The tables as they were."""
        tables = {table: dict(rows) for table, rows in self.tables.items()}
        for update in self.log[version - 1 :]:
            for table, change in update.changes.items():
                add(tables[table], change.rows, -1)
        return tables


def build(core: Core, columns: Columns, tables: Mapping[str, Mapping[Row, int]]) -> dict[str, Source]:
    """The sources of a core, all at version 1."""
    joiner = Joiner(core)
    made = {}
    for name in core.sources:
        own = {node.table for node in core.nodes if node.source == name}
        made[name] = Source(name, columns, {table: tables[table] for table in sorted(own)}, joiner)
    return made


def expected(core: Core, columns: Columns, sources: Mapping[str, Source], versions: Mapping[str, int]) -> Bag:
    """The core over the sources as they were at these versions, from nothing."""
    joiner = Joiner(core)
    tables = {name: source.at(versions[name]) for name, source in sources.items()}
    rows = {n.name: joiner.node_rows(n, columns[n.table], tables[n.source][n.table]) for n in core.nodes}
    return joiner.whole(rows)


def expected_at(core: Core, columns: Columns, sources: Mapping[str, Source], refreshed: Mapping[str, int]) -> Bag:
    """The core over nodes at these versions of their own, whether or not their source was ever like that."""
    joiner = Joiner(core)
    rows = {}
    for node in core.nodes:
        table = sources[node.source].table_at(node.table, refreshed[node.name])
        rows[node.name] = joiner.node_rows(node, columns[node.table], table)
    return joiner.whole(rows)


@dataclass
class Network:
    """Messages under way between one view site and its sources."""

    machine: Machine
    sources: Mapping[str, Source]
    rng: random.Random
    in_order: bool = True
    lost: float = 0.0  # the share of messages that never arrive
    doubled: float = 0.0
    applied: list[Apply] = field(default_factory=list)
    queries: int = 0
    _to_site: list[Incoming] = field(default_factory=list)
    _to_sources: list[Query | ReadLog] = field(default_factory=list)

    @property
    def is_quiet(self) -> bool:
        return not (self._to_site or self._to_sources)

    def commit(self, source: str, changes: Mapping[str, Mapping[Row, int]]) -> None:
        """A transaction commits, and its notification is sent."""
        self._to_site += self._fate(self.sources[source].commit(changes))

    def deliver_one(self) -> None:
        """One message arrives: any, or in order one that no other of its channel precedes."""
        waiting = len(self._to_site) + len(self._to_sources)
        if not waiting:
            return
        choice = self.rng.randrange(waiting)
        if choice < len(self._to_site):
            message = self._picked(self._to_site, choice)
            self._act(self.machine.receive(message))
        else:
            request = self._picked(self._to_sources, choice - len(self._to_site))
            source = self.sources[request.source]
            if isinstance(request, Query):
                self._to_site += self._fate(source.answer(request))
            else:
                for update in source.log[request.after - 1 :]:
                    self._to_site += self._fate(update)

    def tick(self) -> None:
        self._act(self.machine.tick())

    def settle(self, limit: int = 100_000) -> None:
        """Delivers until every update is applied. Messages are no longer lost: the network works again."""
        self.lost = self.doubled = 0.0
        current = {name: len(source.log) + 1 for name, source in self.sources.items()}
        for _ in range(limit):
            if self.is_quiet:
                if self.machine.versions == current and self.machine.is_idle:
                    return
                self.tick()
            self.deliver_one()
        raise RuntimeError("the view site does not come to rest")

    def _picked(self, messages: list[_Sent], choice: int) -> _Sent:
        if self.in_order:
            channel = messages[choice].source
            choice = next(i for i, message in enumerate(messages) if message.source == channel)
        return messages.pop(choice)

    def _act(self, out: list[Outgoing]) -> None:
        for message in out:
            match message:
                case Apply():
                    self.applied.append(message)
                case Query():
                    self.queries += 1
                    self._to_sources += self._fate(message)
                case ReadLog():
                    self._to_sources.append(message)

    def _fate(self, message: _Any) -> list[_Any]:
        chance = self.rng.random()
        return [] if chance < self.lost else [message, message] if chance < self.lost + self.doubled else [message]
