"""Partial self-maintenance: what the stored core itself tells about a change.

`answer_from_view` reads the rows of a node, and of what it determines, in the core instead of at their sources. The
core may not yet reflect every update that must be seen; those updates are *missing* from what it tells, and are done
to it: a deleted row is dropped (lemma 2), a modified one gets its new values (lemma 4). A row that was inserted is not
in the core, so it is asked of its source (lemma 3 by way of lemmas 5 to 7). Where a missing update cannot be
recognised in the core, because the key of its table is not there, the source is asked too.

`change_by_key` finds the stored rows that a deletion or modification concerns by a key. It runs when the change's turn
has come, so the core is at the very state that the change is to be made to, and nothing is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..compiler.querypath import Kind, ViewAnswer
from .bag import Bag, Row, add
from .classify import classify
from .joining import Dummy

if TYPE_CHECKING:
    from .versions import Task, VersionNumbers


def answer_from_view(machine: VersionNumbers, task: Task, answer: ViewAnswer, keys: frozenset[Row]) -> frozenset[Row]:
    """Adds to the task's parts what the view tells for some of the keys; gives those keys."""
    core = machine.core
    pairs = core.pairs(answer.parent, answer.node)
    columns = tuple(below for _, below in pairs)
    places = tuple(core.in_view(answer.node, column) for column in columns)
    if any(place is None for place in places):
        return frozenset()
    answered = set()
    for key in keys:
        stored = machine.view.find(tuple(place for place in places if place is not None), key)
        if stored:
            rows = _rows(machine, task, answer, next(iter(stored)))
            if rows is not None:
                answered.add(key)
                for name, row in rows.items():
                    add(task.parts.setdefault(name, {}), {row: 1})
    return frozenset(answered)


def _rows(machine: VersionNumbers, task: Task, answer: ViewAnswer, stored: Row) -> dict[str, Row] | None:
    """A row for the node and each one behind it, as required; none at all where one was deleted; None: ask."""
    core = machine.core
    linked: dict[tuple[str, str], Any] = {}
    for name, parent in answer.behind:
        for above, below in core.pairs(parent, name):
            place = core.in_view(name, below)
            value = linked.get((parent, above), Dummy(None if place is None else stored[place]))
            linked[parent, above] = linked[name, below] = value
    made: dict[str, Row] = {}
    for name in (answer.node, *(name for name, _ in answer.behind)):
        shown = [core.in_view(name, column) for column in core.by_name[name].columns]
        values = tuple(None if place is None else stored[place] for place in shown)
        current = _with_missing(machine, task, name, values)
        if current is None:
            return None
        if not current:
            return {}
        columns = core.by_name[name].columns
        made[name] = tuple(linked.get((name, column), value) for column, value in zip(columns, current, strict=True))
    return made


def _with_missing(machine: VersionNumbers, task: Task, node: str, values: Row) -> Row | None:
    """A node's row with the updates that the view misses: () where it is gone, None where the view cannot tell."""
    before, after = machine.refreshed[node], task.required[node]
    missing = machine.inbox.between(node, before, after) if before < after else {}
    if not missing:
        return values
    owner = machine.core.by_name[node]
    key = machine.core.key_in_view(node)
    if key is None or not owner.keys or key != owner.keys[0]:
        return None
    places = owner.positions(key)
    mine = tuple(values[i] for i in places)
    concerned = {row: count for row, count in missing.items() if tuple(row[i] for i in places) == mine}
    if not concerned:
        return values
    kinds = classify(machine.core, node, concerned)
    if kinds.modified and not kinds.deleted and not kinds.inserted:
        return next(iter(kinds.modified.values()))
    if kinds.deleted and not kinds.inserted and not kinds.modified:
        return ()
    return None


def change_by_key(machine: VersionNumbers, task: Task, holder: str) -> Bag:
    """What becomes of the stored rows that hold the key of a changed row, or of a row that determines it."""
    core = machine.core
    key = core.key_in_view(holder)
    assert key is not None
    places = tuple(place for place in (core.in_view(holder, column) for column in key) if place is not None)
    own = core.by_name[holder].positions(key)
    olds = set(task.modified) if task.path.kind is Kind.MODIFY else set(task.rows)
    wide, known = machine.joiner.start(task.path.node, dict.fromkeys(olds, 1)), [task.path.node]
    for query in task.path.queries:
        for name in query.nodes:
            wide = machine.joiner.extend(wide, known, name, task.parts[name])
            known.append(name)
    changed, found = machine.joiner.index[task.path.node], machine.joiner.index[holder]
    made: Bag = {}
    for row in wide:
        for stored, count in machine.view.find(places, tuple(row[found][i] for i in own)).items():
            add(made, {stored: -count})
            if task.path.kind is Kind.MODIFY:
                add(made, {_modified(machine, stored, task.path.node, task.modified[row[changed]]): count})
    return made


def _modified(machine: VersionNumbers, stored: Row, node: str, new: Row) -> Row:
    columns = machine.core.by_name[node].columns
    values = list(stored)
    for place, output in enumerate(machine.core.outputs):
        if output.node == node:
            values[place] = new[columns.index(output.column)]
    return tuple(values)
