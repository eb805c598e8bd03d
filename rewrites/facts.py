"""What rules may ask of a relation: its columns, its keys, what determines what. Each answer is computed once.

Answers are kept by the identity of the relation, which stays alive as long as they do. The schema and the check of an
operator are computed from those of its inputs, which stand in for them as leaves: no answer walks a plan twice.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..compiler.algebra import Column, Ref, Rel, Scan, Values, with_inputs
from ..compiler.catalog import Catalog
from ..compiler.columns import schema
from ..compiler.dependencies import Columns, closure
from ..compiler.properties import Key, Properties, properties
from ..compiler.wellformed import check


class Facts:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._schemas: dict[int, tuple[Rel, tuple[Column, ...]]] = {}
        self._properties: dict[int, tuple[Rel, Properties]] = {}
        self._checked: dict[int, Rel] = {}

    def schema(self, rel: Rel) -> tuple[Column, ...]:
        if id(rel) not in self._schemas:
            self._schemas[id(rel)] = (rel, schema(self._on_leaves(rel)))
        return self._schemas[id(rel)][1]

    def columns(self, rel: Rel) -> dict[str, Column]:
        return {column.name: column for column in self.schema(rel)}

    def check(self, rel: Rel) -> None:
        """Raises unless the relation is well formed."""
        if id(rel) not in self._checked:
            for child in rel.inputs:
                self.check(child)
            check(self._on_leaves(rel))
            self._checked[id(rel)] = rel

    def _on_leaves(self, rel: Rel) -> Rel:
        if isinstance(rel, Scan | Values):
            return rel
        return with_inputs(rel, tuple(Scan(Ref("input"), self.schema(child)) for child in rel.inputs))

    def properties(self, rel: Rel) -> Properties:
        if id(rel) not in self._properties:
            self._properties[id(rel)] = (rel, properties(rel, self.catalog))
        return self._properties[id(rel)][1]

    def keys(self, rel: Rel) -> tuple[Key, ...]:
        """The candidate keys that are known, NULLs compared as equal."""
        return self.properties(rel).keys

    def has_key_within(self, rel: Rel, names: Iterable[str]) -> bool:
        """Whether no two rows agree on these columns."""
        within = self.determined(rel, names)
        return any(key <= within for key in self.keys(rel))

    def determined(self, rel: Rel, names: Iterable[str]) -> Columns:
        """The columns whose values follow from those of the given ones, NULLs compared as equal."""
        known = self.properties(rel)
        return closure(names, known.dependencies, known.not_null)
