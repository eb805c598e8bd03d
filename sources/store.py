"""The core as the view site holds it: rows with their multiplicity, found by the values of some of its columns."""

from __future__ import annotations

from collections.abc import Mapping

from .bag import Bag, Row


class Store:
    """A bag of rows with an index for each set of columns it was ever searched by."""

    def __init__(self, rows: Mapping[Row, int]) -> None:
        self.rows: Bag = dict(rows)
        self._indexes: dict[tuple[int, ...], dict[Row, set[Row]]] = {}

    def find(self, positions: tuple[int, ...], key: Row) -> Bag:
        """The rows with these values."""
        index = self._indexes.get(positions)
        if index is None:
            index = self._indexes[positions] = {}
            for row in self.rows:
                index.setdefault(tuple(row[i] for i in positions), set()).add(row)
        return {row: self.rows[row] for row in index.get(key, ())}

    def add(self, change: Mapping[Row, int]) -> None:
        for row, count in change.items():
            left = self.rows.get(row, 0) + count
            if left < 0:
                raise ValueError(f"{-left} more copies of {row} go than there are: the changes contradict the core")
            if left:
                self.rows[row] = left
            else:
                del self.rows[row]
            for positions, index in self._indexes.items():
                rows = index.setdefault(tuple(row[i] for i in positions), set())
                if left:
                    rows.add(row)
                else:
                    rows.discard(row)
