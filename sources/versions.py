"""The version-number algorithm, and SWEEP as a case of it, as state machines: a message in, messages out.

| version number | where it is kept |
|---|---|
| of a base relation      | `Change.relation_version`, counted by the source |
| of a data source        | `Update.version`, counted by the source |
| highest processing      | `highest`, by node: the newest change for which work was begun |
| initial, of an update   | `Task.required`: the state of every node that its computation must see |
| queried, of an answer   | `Answer.versions` |
| refreshed               | `refreshed`, by node: the state that the stored core reflects |

An answer that was read at a later version than required contains interfering updates; they are undone by taking their
rows from it, deleted ones coming back (lemmas 5 to 7). The view may answer at an earlier version than required; the
updates that it misses are done to what it said (lemmas 2 to 4), or, where it does not tell enough, the source is asked.
Compensation follows the order of the path (theorem 1). Work is begun for the updates of a source in the order of their
versions, and their results are applied in the order in which work was begun (theorem 2), so that any number of them
may be under way. No sub-query is ever sent to compensate another.

A *unit* is what is applied at once: one transaction for complete consistency; for strong and convergent, all those of a
source that have arrived meanwhile. Convergent applies the changes of each table as soon as they are worked out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ..compiler.joingraph import Core
from ..compiler.querypath import Kind, Path, SubQuery, full_path, plan_path, sub_queries
from .bag import Bag, Row, add, keys_of
from .classify import Classified, classify
from .inbox import Inbox
from .joining import Dummy, Joiner
from .messages import Answer, Apply, Ask, Incoming, Outgoing, Query, ReadLog, Update
from .selfmaintain import answer_from_view, change_by_key
from .store import Store


class Consistency(StrEnum):
    COMPLETE = "complete"  # every state of every source, in order
    STRONG = "strong"  # states of the sources in order, some left out
    CONVERGENT = "convergent"  # the last state; in between, transactions may be seen in part


@dataclass(eq=False)
class Task:
    """The incremental computation of a change of one node along one path."""

    path: Path
    rows: Bag
    required: Mapping[str, int]
    parts: dict[str, Bag]
    to_send: list[SubQuery]
    modified: Mapping[Row, Row] = field(default_factory=dict)
    sent: dict[int, SubQuery] = field(default_factory=dict)
    known: set[str] = field(default_factory=set)  # nodes whose part is whole
    empty: bool = False

    @property
    def is_done(self) -> bool:
        return self.empty or not (self.to_send or self.sent)


@dataclass(eq=False)
class Step:
    """The change of one node: it brings the core to the node's `version`."""

    node: str
    version: int
    tasks: list[Task]


@dataclass(eq=False)
class Unit:
    """Changes of one source that are applied together, step by step."""

    source: str
    version: int
    steps: list[Step]

    @property
    def is_done(self) -> bool:
        return all(task.is_done for step in self.steps for task in step.tasks)


class VersionNumbers:
    """Keeps one core up to date: give it every message that arrives and send what it gives back."""

    def __init__(
        self,
        core: Core,
        rows: Mapping[Row, int],
        versions: Mapping[str, int],
        relation_versions: Mapping[str, int],
        consistency: Consistency = Consistency.COMPLETE,
        in_flight: int = 64,
    ) -> None:
        """From a stored core, the data source version by source and the base relation version by node it reflects."""
        self.core = core
        self.joiner = Joiner(core)
        self.view = Store(rows)
        self.consistency = consistency
        self.in_flight = in_flight if consistency is Consistency.COMPLETE else 1
        self.inbox = Inbox(core, self.joiner, versions)
        self.versions = dict(versions)
        self.highest = dict(relation_versions)
        self.refreshed = dict(relation_versions)
        self.queries_sent = 0
        self._units: deque[Unit] = deque()
        self._asked: dict[int, tuple[Task, Query]] = {}
        self._held: dict[int, Answer] = {}
        self._number = 0
        self._asked_before_tick: set[int] = set()
        self._heard_since_tick: set[str] = set()
        self._paths: dict[tuple[str, Kind, bool], Path] = {}

    @property
    def is_idle(self) -> bool:
        return not self._units

    def receive(self, message: Incoming) -> list[Outgoing]:
        """What to send and apply on account of a message."""
        out: list[Outgoing] = []
        self._heard_since_tick.add(message.source)
        match message:
            case Update():
                if self.inbox.put(message):
                    self._begin(out)
                    for answer in list(self._held.values()):
                        self._take(answer, out)
            case Answer():
                self._take(message, out)
        self._apply_finished(out)
        return out

    def tick(self) -> list[Outgoing]:
        """Some time has passed: asks again what was not answered, and silent sources for their updates."""
        waiting = set(self._asked)
        again = sorted(waiting & self._asked_before_tick - set(self._held))
        out: list[Outgoing] = [self._asked[number][1] for number in again]
        lacking = {self._asked[number][1].source for number in self._held}
        silent = set(self.core.sources) - self._heard_since_tick
        gaps = {source for source in self.core.sources if self.inbox.has_gap(source)}
        out += [ReadLog(source, self.inbox.taken[source]) for source in sorted(silent | lacking | gaps)]
        self._asked_before_tick, self._heard_since_tick = waiting, set()
        return out

    # --- beginning work ----------------------------------------------------------------------------------------------

    def _begin(self, out: list[Outgoing]) -> None:
        while len(self._units) < self.in_flight:
            source = self.inbox.next_source()
            if source is None:
                return
            taken = [self.inbox.take(source)]
            while self.consistency is not Consistency.COMPLETE and (more := self.inbox.take(source)):
                taken.append(more)
            unit = self._unit(source, [update for update in taken if update])
            self._units.append(unit)
            for step in unit.steps:
                for task in step.tasks:
                    self._advance(task, out)

    def _unit(self, source: str, updates: list[Update]) -> Unit:
        reached = {table: change.relation_version for update in updates for table, change in update.changes.items()}
        touched = [self.core.by_name[name] for name in self.core.update_order]
        touched = [node for node in touched if node.source == source and node.table in reached]
        changed = {node.name for node in touched}
        steps = []
        for node in touched:
            before, after = self.highest[node.name], reached[node.table]
            if before < after:  # a convergent core may have had this table's changes before it was stopped
                self.highest[node.name] = after
                rows = self.inbox.between(node.name, before, after)
                steps.append(Step(node.name, after, self._tasks(node.name, rows, changed)))
        return Unit(source, updates[-1].version, steps)

    def _tasks(self, node: str, rows: Bag, changed: Collection[str]) -> list[Task]:
        """A node's change as the cheapest tasks: each kind of row along its own path."""
        if not rows:
            return []
        kinds = classify(self.core, node, rows)
        tasks = []
        rest: Bag = {}
        for kind, part in self._relevant(node, kinds, changed):
            path = self._path(node, kind, whole=True)
            if path.by_key is None:
                add(rest, part)
            else:
                modified = kinds.modified if kind is Kind.MODIFY else {}
                tasks.append(self._task(path, part, modified))
        if rest:
            tasks.append(self._task(self._path(node, Kind.INSERT, whole=True), rest, {}))
        return tasks

    def _relevant(self, node: str, kinds: Classified, changed: Collection[str]) -> list[tuple[Kind, Bag]]:
        """The rows of each kind without those that referential integrity makes irrelevant."""
        found = []
        for kind, part, fresh in (
            (Kind.DELETE, kinds.deleted, kinds.lost_keys),
            (Kind.INSERT, kinds.inserted, kinds.new_keys),
            (Kind.MODIFY, kinds.modified_rows, frozenset[Row]()),
        ):
            unchanged = any(r not in changed for r in self.core.referring(node))
            if self._path(node, kind, whole=False).skipped and (kind is Kind.INSERT or unchanged):
                part = {row: count for row, count in part.items() if row not in fresh}
            if part:
                found.append((kind, part))
        return found

    def _path(self, node: str, kind: Kind, whole: bool) -> Path:
        found = self._paths.get((node, kind, whole))
        if found is None:
            found = full_path(self.core, node, kind) if whole else plan_path(self.core, node, kind)
            self._paths[node, kind, whole] = found
        return found

    def _task(self, path: Path, rows: Bag, modified: Mapping[Row, Row]) -> Task:
        task = Task(path, rows, dict(self.highest), {path.node: rows}, list(path.queries), modified)
        task.known.add(path.node)
        return task

    # --- asking ------------------------------------------------------------------------------------------------------

    def _advance(self, task: Task, out: list[Outgoing]) -> None:
        """Sends the sub-queries whose keys are known, several at a time where they do not need each other."""
        while query := next((each for each in task.to_send if each.needs <= task.known), None):
            task.to_send.remove(query)
            asks = self._asks(task, query)
            if not any(ask.keys for ask in asks):  # the view has told it all, or there is nothing to ask for
                self._add_parts(task, asks, None)
                continue
            self._number += 1
            message = Query(self._number, query.source, asks)
            task.sent[message.number] = query
            self._asked[message.number] = task, message
            self.queries_sent += 1
            out.append(message)

    def _asks(self, task: Task, query: SubQuery) -> tuple[Ask, ...]:
        asks = []
        for name, parent in zip(query.nodes, query.parents, strict=True):
            pairs = self.core.pairs(parent, name)
            above, below = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
            node, since = self.core.by_name[name], task.required[name]
            if parent in query.nodes:
                asks.append(Ask(node, below, since, parent=parent, parent_columns=above))
                continue
            keys = keys_of(task.parts[parent], self.core.by_name[parent].positions(above))
            keys = frozenset(key for key in keys if not any(isinstance(value, Dummy) for value in key))
            for answer in task.path.answers:
                if answer.node == name:
                    keys -= answer_from_view(self, task, answer, keys)
            asks.append(Ask(node, below, since, keys))
        return tuple(asks)

    # --- answers -----------------------------------------------------------------------------------------------------

    def queried(self, answer: Answer, node: str) -> int:
        """The base relation version at which the answer saw a node."""
        return answer.versions[self.core.by_name[node].table]

    def _take(self, answer: Answer, out: list[Outgoing]) -> None:
        if answer.number not in self._asked:
            return  # an answer that came twice
        task, asked = self._asked[answer.number]
        query = task.sent[answer.number]
        if not all(self.inbox.knows(n, task.required[n], self.queried(answer, n)) for n in query.nodes):
            self._held[answer.number] = answer  # an interfering update is late or lost: without it there is no answer
            return
        self._held.pop(answer.number, None)
        del self._asked[answer.number], task.sent[answer.number]
        self._add_parts(task, asked.asks, answer)
        self._advance(task, out)

    def _add_parts(self, task: Task, asks: tuple[Ask, ...], answer: Answer | None) -> None:
        """Keeps of each node what was asked for or joins its parent, as required, beside what the view told of it."""
        told: dict[str, Bag] = {}
        for ask in asks:
            keys, name = ask.keys, ask.node.name
            if ask.parent is not None:
                keys = keys_of(told[ask.parent], self.core.by_name[ask.parent].positions(ask.parent_columns))
            own = ask.node.positions(ask.columns)
            found = answer.rows[name] if answer else {}
            told[name] = {row: count for row, count in found.items() if tuple(row[i] for i in own) in keys}
            if answer:
                seen = self.queried(answer, name)
                add(told[name], self.inbox.matching(name, task.required[name], seen, own, keys), -1)
            task.parts[name] = add(dict(told[name]), task.parts.get(name, {}))
            task.known.add(name)
            if not task.parts[name]:
                self._end(task)
                return

    def _end(self, task: Task) -> None:
        """A node has no partner at all: nothing changes, and nothing more needs to be asked."""
        task.empty = True
        for number in task.sent:
            del self._asked[number]
            self._held.pop(number, None)
        task.sent.clear()
        task.to_send.clear()

    # --- applying ----------------------------------------------------------------------------------------------------

    def _apply_finished(self, out: list[Outgoing]) -> None:
        while self._units and self._units[0].is_done:
            unit = self._units.popleft()
            together: Bag = {}
            for step in unit.steps:
                for task in step.tasks:
                    change = self._change(task)
                    self.view.add(change)
                    add(together, change)
                self.refreshed[step.node] = step.version
                if self.consistency is Consistency.CONVERGENT and step is not unit.steps[-1]:
                    out.append(Apply(together, dict(self.versions), dict(self.refreshed)))
                    together = {}
            self.versions[unit.source] = unit.version
            out.append(Apply(together, dict(self.versions), dict(self.refreshed)))
            self.inbox.forget(self.refreshed)
            self._begin(out)

    def _change(self, task: Task) -> Bag:
        if task.empty:
            return {}
        if task.path.by_key is not None:
            return change_by_key(self, task, task.path.by_key)
        wide, known = self.joiner.start(task.path.node, task.rows), [task.path.node]
        for query in task.path.queries:
            for name in query.nodes:
                wide = self.joiner.extend(wide, known, name, task.parts[name])
                known.append(name)
        return self.joiner.outputs(wide)


class Sweep(VersionNumbers):
    """SWEEP [sweep-1997, section 5]: one node a sub-query, n - 1 of them, and no version numbers in answers.

    Notifications and answers of a source arrive in the order in which they were sent, so an answer has seen exactly
    the updates of its source that arrived before it. The branches of the join graph are swept in parallel; with
    `in_flight` above 1, several updates are.
    """

    def __init__(
        self,
        core: Core,
        rows: Mapping[Row, int],
        versions: Mapping[str, int],
        relation_versions: Mapping[str, int],
        in_flight: int = 1,
    ) -> None:
        super().__init__(core, rows, versions, relation_versions, in_flight=in_flight)

    def _path(self, node: str, kind: Kind, whole: bool) -> Path:
        return Path(node, kind, sub_queries(self.core, node, one_table=True))

    def queried(self, answer: Answer, node: str) -> int:
        return max(self.inbox.arrived.get(node, 0), self.refreshed[node])
