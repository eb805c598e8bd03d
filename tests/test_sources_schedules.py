"""Random schedules over a simulated network: after each applied change the core is one over valid source states.

A schedule is made by one number: the join graph, where its tables live, keys, foreign keys, outputs, first rows, the
moments at which transactions commit, the delays. A failure names the number; run `schedule(number, algorithm)` again.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from deltafold.compiler.joingraph import Core, Link, Node, Output
from deltafold.compiler.scalar import parse
from deltafold.sources.measure import messages
from deltafold.sources.nested import NestedSweep
from deltafold.sources.simulation import Machine, Network, build, expected, expected_at
from deltafold.sources.versions import Consistency, Sweep, VersionNumbers

ALGORITHMS: dict[str, Callable[..., Machine]] = {
    "version-numbers": VersionNumbers,
    "version-numbers, strong": lambda *start: VersionNumbers(*start, consistency=Consistency.STRONG),
    "version-numbers, convergent": lambda *start: VersionNumbers(*start, consistency=Consistency.CONVERGENT),
    "sweep": Sweep,
    "sweep, pipelined": lambda *start: Sweep(*start, in_flight=4),
    "nested-sweep": NestedSweep,
    "nested-sweep, impatient": lambda *start: NestedSweep(*start, patience=1),
}
IN_ORDER = {name for name in ALGORITHMS if "sweep" in name}
COMPLETE = {"version-numbers", "sweep", "sweep, pipelined"}
VALUES = 3
FILTER = parse("y IS NULL OR y < 2")


class World:
    """A random core and random transactions that keep its declared keys and foreign keys."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        count = rng.randint(2, 4)
        snowflake = rng.random() < 0.5  # joined on keys, one behind the other: what the view can answer for
        names = [f"T{i}" for i in range(count)]
        tables = [name if i == 0 or rng.random() < 0.9 else rng.choice(names[:i]) for i, name in enumerate(names)]
        source_of = {table: str(rng.randint(1, rng.randint(1, 3))) for table in names}
        self.keyed = {table: rng.random() < (0.9 if snowflake else 0.6) for table in names}
        self.columns = dict.fromkeys(names, ("k", "x", "y"))
        nodes = tuple(
            Node(
                name,
                table,
                source_of[table],
                ("k", "x", "y"),
                (("k",),) if self.keyed[table] else (),
                (FILTER,) if rng.random() < 0.15 else (),
            )
            for name, table in zip(names, tables, strict=True)
        )
        links, references = [], []
        self.foreign: dict[str, list[tuple[str, str]]] = {table: [] for table in names}
        for i in range(1, count):
            other = i - 1 if snowflake and rng.random() < 0.8 else rng.randrange(i)
            a, b = ("k", "x") if snowflake and rng.random() < 0.9 else (rng.choice("xk"), rng.choice("xky"))
            pairs = ((a, b),) if rng.random() < 0.85 else ((a, b), ("y", "y"))
            links.append(Link(names[i], names[other], pairs))
            for (r, column), (n, key) in (((i, a), (other, b)), ((other, b), (i, a))):
                referring, referred = tables[r], tables[n]
                same = source_of[referring] == source_of[referred] and referring != referred
                if same and key == "k" and column != "k" and self.keyed[referred] and rng.random() < 0.7:
                    references.append((names[r], names[n]))
                    self.foreign[referring].append((column, referred))
        if count > 2 and rng.random() < 0.2:
            links.append(Link(names[0], names[-1], (("y", "y"),)))
        if self._circular():
            references, self.foreign = [], {table: [] for table in names}
        outputs = [(name, column) for name in names for column in "kxy" if rng.random() < 0.4] or [("T0", "x")]
        outputs += [("T0", "x")] if snowflake and ("T0", "x") not in outputs else []
        self.core = Core(
            "v",
            nodes,
            tuple(links),
            tuple(Output(f"{node}{column}", node, column) for node, column in outputs),
            tuple(dict.fromkeys(references)),
        )
        self.tables: dict[str, dict[tuple[object, ...], int]] = {table: {} for table in dict.fromkeys(tables)}
        for table in self._referred_first():
            for _ in range(rng.randint(0, 4)):
                self._insert(table, self.tables, {})
        self.first = {table: dict(rows) for table, rows in self.tables.items()}

    def _circular(self) -> bool:
        return len(self._referred_first(all_of=True)) < len(self.foreign)

    def _referred_first(self, all_of: bool = False) -> list[str]:
        found: list[str] = []
        wanted = list(self.foreign) if all_of else list(self.tables)
        for _ in wanted:
            ready = [t for t in wanted if t not in found and all(to in found for _, to in self.foreign[t])]
            found += ready[:1]
        return found

    def transaction(self) -> tuple[str, dict[str, dict[tuple[object, ...], int]]]:
        """Changes of one or more tables of one source."""
        source = self.rng.choice(self.core.sources)
        own = [t for t in self.tables if any(n.table == t and n.source == source for n in self.core.nodes)]
        changes: dict[str, dict[tuple[object, ...], int]] = {}
        for _ in range(self.rng.choice((1, 1, 1, 2, 3))):
            table = self.rng.choice(own)
            act = self.rng.choice((self._insert, self._insert, self._delete, self._modify, self._replace, self._purge))
            act(table, self.tables, changes)
        return source, {table: net for table, rows in changes.items() if (net := {r: n for r, n in rows.items() if n})}

    def _put(self, table: str, row: tuple[object, ...], count: int, tables: dict, changes: dict) -> None:  # type: ignore[type-arg]
        left = tables[table].get(row, 0) + count
        tables[table][row] = left
        if not left:
            del tables[table][row]
        rows = changes.setdefault(table, {})
        rows[row] = rows.get(row, 0) + count

    def _value(self) -> int | None:
        return None if self.rng.random() < 0.08 else self.rng.randrange(VALUES)

    def _fits(self, table: str, row: tuple[object, ...], tables: dict) -> bool:  # type: ignore[type-arg]
        named = dict(zip("kxy", row, strict=True))
        for column, referred in self.foreign[table]:
            if named[column] is not None and not any(other[0] == named[column] for other in tables[referred]):
                return False
        return True

    def _insert(self, table: str, tables: dict, changes: dict) -> None:  # type: ignore[type-arg]
        used = {row[0] for row in tables[table]}
        key: int | None = self.rng.randrange(2 * VALUES) if self.keyed[table] else self._value()
        row = (key, self._value(), self._value())
        if (not self.keyed[table] or key not in used) and self._fits(table, row, tables):
            self._put(table, row, 1, tables, changes)

    def _delete(self, table: str, tables: dict, changes: dict) -> None:  # type: ignore[type-arg]
        if not tables[table]:
            return
        row = self.rng.choice(sorted(tables[table], key=repr))
        for other, keys in self.foreign.items():
            for column, referred in keys:
                if referred == table and other in tables:
                    at = "kxy".index(column)
                    if any(r[at] == row[0] for r in tables[other]):
                        return
        self._put(table, row, -1, tables, changes)

    def _replace(self, table: str, tables: dict, changes: dict) -> None:  # type: ignore[type-arg]
        """A row goes and another one with its key comes."""
        if not tables[table]:
            return
        old = self.rng.choice(sorted(tables[table], key=repr))
        new = (old[0], self._value(), self._value())
        if new != old and self._fits(table, new, tables):
            self._put(table, old, -1, tables, changes)
            self._put(table, new, 1, tables, changes)

    def _purge(self, table: str, tables: dict, changes: dict) -> None:  # type: ignore[type-arg]
        """A row goes together with all that refer to it."""
        if not tables[table]:
            return
        row = self.rng.choice(sorted(tables[table], key=repr))
        for other, keys in self.foreign.items():
            for column, referred in keys:
                if (
                    referred == table
                    and other in tables
                    and not any(to == other for k in self.foreign.values() for _, to in k)
                ):
                    for gone in [r for r in tables[other] if r["kxy".index(column)] == row[0]]:
                        self._put(other, gone, -tables[other][gone], tables, changes)
        self._delete(table, tables, changes)

    def _modify(self, table: str, tables: dict, changes: dict) -> None:  # type: ignore[type-arg]
        if not tables[table]:
            return
        old = self.rng.choice(sorted(tables[table], key=repr))
        new = (old[0], old[1] if self.rng.random() < 0.6 else self._value(), self._value())
        if new != old and self._fits(table, new, tables):
            self._put(table, old, -1, tables, changes)
            self._put(table, new, 1, tables, changes)


def schedule(number: int, algorithm: str) -> None:
    """Runs one schedule and checks every state that the core went through."""
    rng = random.Random(number)
    world = World(rng)
    core, columns = world.core, world.columns
    sources = build(core, columns, world.first)
    ones = dict.fromkeys(core.sources, 1)
    start = expected(core, columns, sources, ones)
    machine = ALGORITHMS[algorithm](core, start, ones, {node.name: 1 for node in core.nodes})
    in_order = algorithm in IN_ORDER
    faults = 0.0 if in_order else rng.choice((0.0, 0.1, 0.3))
    network = Network(machine, sources, rng, in_order=in_order, lost=faults, doubled=faults)
    left = rng.randint(1, 8)
    pace = rng.choice((0.1, 0.3, 0.7))
    while left:
        if rng.random() < pace:
            source, changes = world.transaction()
            if changes:
                network.commit(source, changes)
            left -= 1
        elif not in_order and rng.random() < 0.1:
            network.tick()
        network.deliver_one()
    network.settle()

    state, before = dict(start), ones
    for applied in network.applied:
        for row, count in applied.rows.items():
            state[row] = state.get(row, 0) + count
        state = {row: count for row, count in state.items() if count}
        steps = [applied.versions[source] - before[source] for source in core.sources]
        assert min(steps) >= 0, "a core never goes back"
        if algorithm in COMPLETE:
            assert sorted(steps) == [0] * (len(steps) - 1) + [1], "every state of every source, in order"
        before = applied.versions
        if "convergent" not in algorithm:
            assert state == expected(core, columns, sources, applied.versions), (number, applied.versions)
        assert state == expected_at(core, columns, sources, applied.refreshed), (number, applied.refreshed)
    assert state == machine.view.rows == expected(core, columns, sources, before)
    assert before == {name: len(source.log) + 1 for name, source in sources.items()}, "no update is lost"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_sample_of_schedules(algorithm: str) -> None:
    for number in range(80):
        schedule(number, algorithm)


@pytest.mark.spark
def test_ten_thousand_schedules() -> None:
    names = list(ALGORITHMS)
    for number in range(80, 10_080):
        schedule(number, names[number % len(names)])


@pytest.mark.parametrize("n", range(2, 9))
def test_messages_an_update(n: int) -> None:
    assert messages(n, Sweep, 2 * n) == messages(n, Sweep, 2 * n, at_once=True) == n - 1
    assert messages(n, NestedSweep, 2 * n) == n - 1
    assert messages(n, NestedSweep, 2 * n, at_once=True) < n - 1 or n == 2
    assert messages(n, VersionNumbers, 2 * n) == messages(n, VersionNumbers, 2 * n, at_once=True) == n - 1
    assert messages(n, VersionNumbers, 2 * n, tables_a_source=2) <= (n + 1) // 2
    assert messages(n, VersionNumbers, 2 * n, keyed=True) == 0
