"""A node's change by kind: rows that are new, gone, or modified without touching a join column."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..compiler.joingraph import Core
from .bag import Bag, Row


@dataclass(frozen=True)
class Classified:
    deleted: Bag
    inserted: Bag
    modified: Mapping[Row, Row]  # old to new
    lost_keys: frozenset[Row]  # deleted rows whose key is gone
    new_keys: frozenset[Row]  # inserted rows whose key was not there

    @property
    def modified_rows(self) -> Bag:
        return dict.fromkeys(self.modified, -1) | dict.fromkeys(self.modified.values(), 1)


def classify(core: Core, node: str, rows: Mapping[Row, int]) -> Classified:
    """Without a declared key nothing can be paired: all rows come or go."""
    owner = core.by_name[node]
    deleted = {row: count for row, count in rows.items() if count < 0}
    inserted = {row: count for row, count in rows.items() if count > 0}
    if not owner.keys:
        return Classified(deleted, inserted, {}, frozenset(), frozenset())
    key = owner.positions(owner.keys[0])
    joins = owner.positions(tuple(sorted(core.join_columns(node))))
    old_of = {tuple(row[i] for i in key): row for row in deleted}
    new_of = {tuple(row[i] for i in key): row for row in inserted}
    both = old_of.keys() & new_of.keys()
    modified = {
        old_of[k]: new_of[k]
        for k in sorted(both, key=repr)
        if all(old_of[k][i] == new_of[k][i] for i in joins) and rows[old_of[k]] == -1 and rows[new_of[k]] == 1
    }
    lost = frozenset(row for k, row in old_of.items() if k not in both)
    fresh = frozenset(row for k, row in new_of.items() if k not in both)
    kept = set(modified) | set(modified.values())
    return Classified(
        {row: count for row, count in deleted.items() if row not in kept},
        {row: count for row, count in inserted.items() if row not in kept},
        modified,
        lost,
        fresh,
    )
