"""Measures messages an update: python -m deltafold.sources.measure [UPDATES]

A chain of n tables; each update inserts or deletes a row that joins, so that no sweep ends early. *Apart*: each update
is applied before the next commits. *At once*: all commit before the first is delivered, as concurrent as can be.
Messages are sub-queries; each has one answer.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from ..compiler.joingraph import Core, Link, Node, Output
from .bag import Row
from .nested import NestedSweep
from .simulation import Machine, Network, build, expected
from .versions import Sweep, VersionNumbers

COLUMNS = ("k", "x", "y")


def chain(n: int, tables_a_source: int, keyed: bool) -> Core:
    """T1.x = T2.k, T2.x = T3.k, …; with keys, all of them are in the view."""
    names = [f"T{i}" for i in range(1, n + 1)]
    nodes = tuple(
        Node(name, name, f"S{i // tables_a_source + 1}", COLUMNS, (("k",),) if keyed else ())
        for i, name in enumerate(names)
    )
    links = tuple(Link(a, b, (("x", "k"),)) for a, b in pairwise(names))
    shown = [Output(f"{name}_{column}", name, column) for name in names for column in ("ky" if keyed else "y")]
    return Core("v", nodes, links, tuple(shown))


def messages(n: int, machine: Callable[..., Machine], updates: int, at_once: bool = False, **shape: Any) -> float:
    """Sub-queries an update."""
    core = chain(n, shape.get("tables_a_source", 1), shape.get("keyed", False))
    columns = dict.fromkeys((node.table for node in core.nodes), COLUMNS)
    sources = build(core, columns, {node.table: {(0, 0, 0): 1, (1, 1, 0): 1} for node in core.nodes})
    ones = dict.fromkeys(core.sources, 1)
    site = machine(core, expected(core, columns, sources, ones), ones, {node.name: 1 for node in core.nodes})
    network = Network(site, sources, random.Random(n))
    for i in range(updates):
        node = core.nodes[i % n]
        network.commit(node.source, {node.table: _change(shape.get("keyed", False), i // n)})
        if not at_once:
            network.settle()
    network.settle()
    return network.queries / updates


def _change(keyed: bool, turn: int) -> Mapping[Row, int]:
    if keyed:
        return {(0, 0, turn % 2): -1, (0, 0, (turn + 1) % 2): 1}
    return {(0, 0, 1): -1 if turn % 2 else 1}


SERIES: tuple[tuple[str, Callable[[int, int], float]], ...] = (
    ("SWEEP", lambda n, u: messages(n, Sweep, u)),
    ("SWEEP at once", lambda n, u: messages(n, Sweep, u, at_once=True)),
    ("Nested SWEEP", lambda n, u: messages(n, NestedSweep, u)),
    ("Nested SWEEP at once", lambda n, u: messages(n, NestedSweep, u, at_once=True)),
    ("versions", lambda n, u: messages(n, VersionNumbers, u)),
    ("versions at once", lambda n, u: messages(n, VersionNumbers, u, at_once=True)),
    ("versions, two tables a source", lambda n, u: messages(n, VersionNumbers, u, tables_a_source=2)),
    ("versions, modified by key", lambda n, u: messages(n, VersionNumbers, u, keyed=True)),
)


def main() -> None:
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else 48
    print("| n | " + " | ".join(name for name, _ in SERIES) + " | C-strobe's bound (n-1)! |")
    print("|---" * (len(SERIES) + 2) + "|")
    for n in range(2, 9):
        found = " | ".join(f"{measure(n, updates):.2f}" for _, measure in SERIES)
        print(f"| {n} | {found} | {math.factorial(n - 1)} |")


if __name__ == "__main__":
    main()
