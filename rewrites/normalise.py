"""Rules that bring a bound view into normal form: conditions as low as they go, joins that say what they join on."""

from __future__ import annotations

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Join, JoinKind, Rel, Select
from .engine import Outcome, Rewrite, run


def move_select_into_join(rel: Rel) -> Outcome:
    """A condition above an inner join becomes a condition of its sides, or of the join.

    Before:
        Select [qty > 1 AND storeID = stores_storeID]
          Join [TRUE]
            Scan pos
            Scan stores
    After:
        Join [storeID = stores_storeID]
          Select [qty > 1]
            Scan pos
          Scan stores

    Sound because an inner join keeps the pairs for which the condition is true, and a conjunction is true when all of
    its parts are. Ends because each step moves conjuncts down.
    """
    match rel:
        case Select(input=Join(left=left, right=right, condition=joined, kind=JoinKind.INNER), condition=condition):
            parts = scalar.conjuncts(condition)
            on_left = tuple(p for p in parts if scalar.columns_of(p) and scalar.columns_of(p) <= set(left.names))
            on_right = tuple(p for p in parts if scalar.columns_of(p) and scalar.columns_of(p) <= set(right.names))
            rest = tuple(p for p in parts if p not in on_left and p not in on_right)
            both = tuple(p for p in (*scalar.conjuncts(joined), *rest) if p != scalar.TRUE)
            return Join(_select(left, on_left), _select(right, on_right), _all(both))
    return None


def _select(rel: Rel, parts: tuple[exp.Expr, ...]) -> Rel:
    return Select(rel, _all(parts)) if parts else rel


def _all(parts: tuple[exp.Expr, ...]) -> exp.Expr:
    return scalar.canonical(scalar.conjunction(parts))


NORMALISE = (
    move_select_into_join,  # comma joins get their conditions; deltas are filtered before they are joined
)


def normalise(rel: Rel) -> tuple[Rel, tuple[Rewrite, ...]]:
    return run(NORMALISE, rel)
