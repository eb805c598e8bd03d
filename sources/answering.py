"""How a source answers a sub-query, in plain Python: what the SQL of a real one computes in one statement."""

from __future__ import annotations

from collections.abc import Callable

from ..compiler.joingraph import Node
from .bag import Bag, Row, keys_of
from .messages import Query

Matching = Callable[[Node, tuple[str, ...], frozenset[Row]], Bag]
Since = Callable[[Node, int], list[Row]]


def answer_rows(query: Query, matching: Matching, changed_since: Since) -> dict[str, Bag]:
    """The rows of each node: those with the keys asked for, and those that join rows found for its parent.

    A parent's rows that were deleted since the required version are followed as well, as `Ask` says.
    """
    found: dict[str, Bag] = {}
    reach: dict[str, set[Row]] = {}
    nodes = {ask.node.name: ask.node for ask in query.asks}
    for ask in query.asks:
        keys = ask.keys
        if ask.parent is not None:
            keys = keys_of(reach[ask.parent], nodes[ask.parent].positions(ask.parent_columns))
        own = ask.node.positions(ask.columns)
        rows = matching(ask.node, ask.columns, keys)
        gone = {row for row in changed_since(ask.node, ask.since) if tuple(row[i] for i in own) in keys}
        found[ask.node.name] = rows
        reach[ask.node.name] = gone.union(rows)
    return found
