"""Nested SWEEP as a state machine [sweep-1997, section 6]: updates that interfere are taken along, not put off.

A *frame* works out the change of a connected part of the join, starting with the change of one node and adding the
others one by one. `consumed` is the base relation version of each node that the result will reflect; every answer is
brought back to it. When the answer for a node j contains an interfering change of j, that change is consumed as well:
what it makes of the part covered so far, all at their consumed versions, is worked out by a frame of its own, whose
result is added. By induction a frame's result is the change of its part between the two consumed states:

    R_j old ⋈ ΔS  +  ΔR_j ⋈ S new  =  R_j new ⋈ S new  -  R_j old ⋈ S old

The paper sweeps a chain to the left and to the right; here the part covered is any connected part of the join graph,
of which a stretch of a chain is a case, so no Cartesian product is ever asked for. A transaction may touch several
tables of a source: the composite ends only when every transaction of which something was consumed is consumed whole.
Updates that keep interfering could go on for ever; after `patience` of them the rest of the composite is SWEEP, which
compensates and leaves them for the next one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from ..compiler.joingraph import Core
from ..compiler.querypath import sub_queries
from .bag import Bag, Row, add
from .inbox import Inbox
from .joining import Joiner
from .messages import Answer, Apply, Ask, Incoming, Outgoing, Query, Update
from .store import Store


@dataclass(eq=False)
class Frame:
    """A part of the join: wide rows of the nodes covered, and the walk through those that are left."""

    wide: Bag
    covered: list[str]
    walk: deque[tuple[str, str]]  # (node, parent)


class NestedSweep:
    """Keeps one core up to date, strongly consistent, over channels that are reliable and in order."""

    def __init__(
        self,
        core: Core,
        rows: Mapping[Row, int],
        versions: Mapping[str, int],
        relation_versions: Mapping[str, int],
        patience: int = 32,
    ) -> None:
        self.core = core
        self.joiner = Joiner(core)
        self.view = Store(rows)
        self.inbox = Inbox(core, self.joiner, versions)
        self.versions = dict(versions)
        self.consumed = dict(relation_versions)
        self.patience = patience
        self.queries_sent = 0
        self._pending: deque[Update] = deque()
        self._target: dict[str, int] = {}
        self._nested = 0
        self._frames: list[Frame] = []
        self._change: Bag = {}
        self._asked: Query | None = None

    @property
    def is_idle(self) -> bool:
        return not self._target

    def receive(self, message: Incoming) -> list[Outgoing]:
        """What to send and apply on account of a message."""
        out: list[Outgoing] = []
        match message:
            case Update():
                if self.inbox.put(message):
                    self._pending.append(message)
            case Answer() if self._asked is not None and message.number == self._asked.number:
                self._take(message)
        self._run(out)
        return out

    def tick(self) -> list[Outgoing]:
        """Some time has passed: asks again what was not answered."""
        return [self._asked] if self._asked else []

    def _run(self, out: list[Outgoing]) -> None:
        """Goes on until an answer is needed or nothing is left to do."""
        while self._asked is None:
            if self._frames:
                self._step(self._frames[-1], out)
            elif not self._target:
                if not self._pending:
                    return
                first = self._pending[0]
                self._target[first.source] = first.version
            elif not self._close():
                self._finish(out)

    def _step(self, frame: Frame, out: list[Outgoing]) -> None:
        if frame.walk and frame.wide:
            node, parent = frame.walk[0]
            pairs = self.core.pairs(parent, node)
            place = self.joiner.index[parent]
            columns = self.core.by_name[parent].positions(tuple(a for a, _ in pairs))
            keys = frozenset(tuple(row[place][i] for i in columns) for row in frame.wide)
            keys = frozenset(key for key in keys if None not in key)
            if keys:
                ask = Ask(self.core.by_name[node], tuple(b for _, b in pairs), self.consumed[node], keys)
                self.queries_sent += 1
                self._asked = Query(self.queries_sent, self.core.by_name[node].source, (ask,))
                out.append(self._asked)
                return
        whole: Bag = {} if frame.walk else frame.wide
        self._frames.pop()
        add(self._frames[-1].wide if self._frames else self._change, whole)

    def _take(self, answer: Answer) -> None:
        self._asked = None
        frame = self._frames[-1]
        node, _ = frame.walk.popleft()
        seen = max(self.inbox.arrived.get(node, 0), self.consumed[node])
        interfering = self.inbox.between(node, self.consumed[node], seen)
        rows = add(dict(answer.rows[node]), interfering, -1)
        frame.wide = self.joiner.extend(frame.wide, frame.covered, node, rows)
        frame.covered.append(node)
        if seen > self.consumed[node] and self._nested < self.patience:
            self._nested += 1
            self._consume(node, seen, frame.covered)

    def _consume(self, node: str, to: int, scope: list[str]) -> None:
        """Begins a frame for the changes of a node that are not consumed yet, over the nodes of `scope`."""
        rows = self.inbox.between(node, self.consumed[node], to)
        self.consumed[node] = to
        owner = self.core.by_name[node]
        for update in self._pending:
            change = update.changes.get(owner.table)
            if update.source == owner.source and change is not None and change.relation_version <= to:
                self._target[update.source] = max(self._target.get(update.source, 0), update.version)
        walk = [
            (query.nodes[0], query.parents[0]) for query in sub_queries(self.core, node, list(scope), one_table=True)
        ]
        self._frames.append(Frame(self.joiner.start(node, rows), [node], deque(walk)))

    def _close(self) -> bool:
        """Begins a frame for a node that lacks changes of a transaction that was begun; False if there is none."""
        for name in self.core.update_order:
            node = self.core.by_name[name]
            wanted = self.consumed[name]
            for update in self._pending:
                change = update.changes.get(node.table)
                if update.source == node.source and change and update.version <= self._target.get(node.source, 0):
                    wanted = max(wanted, change.relation_version)
            if wanted > self.consumed[name]:
                self._consume(name, wanted, [each.name for each in self.core.nodes])
                return True
        return False

    def _finish(self, out: list[Outgoing]) -> None:
        rows = self.joiner.outputs(self._change)
        self.view.add(rows)
        self.versions |= self._target
        for source, version in self._target.items():
            while self.inbox.taken[source] < version:
                self.inbox.take(source)
        left = (u for u in self._pending if u.version > self._target.get(u.source, 0))
        self._pending = deque(left)
        self.inbox.forget(self.consumed)
        out.append(Apply(rows, dict(self.versions), dict(self.consumed)))
        self._target, self._change, self._nested = {}, {}, 0
