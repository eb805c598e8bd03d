"""What rules may ask of a relation: its columns, its keys, what determines what. Each answer is computed once.

Answers are kept by the identity of the relation, which stays alive as long as they do. The schema and the check of an
operator are computed from those of its inputs, which stand in for them as leaves: no answer walks a plan twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import (
    Column,
    GPivot,
    GroupBy,
    GUnpivot,
    Join,
    JoinKind,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    Values,
    with_inputs,
)
from ..compiler.catalog import Catalog
from ..compiler.properties import Key, keys, schema
from ..compiler.wellformed import check

Names = frozenset[str]


class Facts:
    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._schemas: dict[int, tuple[Rel, tuple[Column, ...]]] = {}
        self._keys: dict[int, tuple[Rel, tuple[Key, ...]]] = {}
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

    def keys(self, rel: Rel) -> tuple[Key, ...]:
        """The candidate keys that are known, NULLs compared as equal."""
        if id(rel) not in self._keys:
            self._keys[id(rel)] = (rel, keys(rel, self.catalog))
        return self._keys[id(rel)][1]

    def has_key_within(self, rel: Rel, names: Iterable[str]) -> bool:
        """Whether no two rows agree on these columns."""
        within = self.determined(rel, names)
        return any(key <= within for key in self.keys(rel))

    def determined(self, rel: Rel, names: Iterable[str]) -> Names:
        """The columns whose values follow from those of the given ones, NULLs compared as equal."""
        given = frozenset(names) & set(rel.names)
        if any(key <= given for key in self.keys(rel)):
            return frozenset(rel.names)
        match rel:
            case Select(input, condition):
                return self._to_fixpoint(given, lambda known: self.determined(input, known) | _equal(condition, known))
            case Project(input, items):
                plain = {item.name: item.expression.name for item in items if isinstance(item.expression, exp.Column)}
                below = self.determined(input, (plain[name] for name in given if name in plain))
                return given | {item.name for item in items if scalar.columns_of(item.expression) <= below}
            case Join(left, right, condition, JoinKind.INNER):
                return self._to_fixpoint(
                    given,
                    lambda known: (
                        self.determined(left, known) | self.determined(right, known) | _equal(condition, known)
                    ),
                )
            case Join(left, _, _, JoinKind.SEMI | JoinKind.ANTI | JoinKind.LEFT):
                return given | self.determined(left, given)
            case GroupBy(input, grouped, _):
                return given | (self.determined(input, given & set(grouped)) & set(grouped))
            case GPivot(input) | GUnpivot(input):
                return given | (self.determined(input, given & set(rel.keys)) & set(rel.keys))
        return given

    def _to_fixpoint(self, known: Names, step: Callable[[Names], Names]) -> Names:
        while (more := known | step(known)) != known:
            known = more
        return known


def _equal(condition: exp.Expr, known: Names) -> Names:
    """Columns that a true condition equates with a known column or with a constant."""
    found = set()
    for part in scalar.conjuncts(condition):
        match part:
            case exp.EQ(this=a, expression=b) | exp.NullSafeEQ(this=a, expression=b):
                for one, other in ((a, b), (b, a)):
                    if isinstance(one, exp.Column) and scalar.columns_of(other) <= known:
                        found.add(one.name)
    return frozenset(found)
