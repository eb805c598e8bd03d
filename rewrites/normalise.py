"""The order of the rules that bring a bound view into the form in which it is maintained.

Termination: conditions only move down and projections only merge or move up; each pivot passes an operator above it,
meets another pivot or an unpivot and disappears in it, or stays; a crosstab becomes a pivot once, and no rule makes
aggregates of CASE. So the sum, over the operators that are no projections, of the pivots below them falls with each
step of the pivot rules, and the others run out between two of those.
"""

from __future__ import annotations

from ..compiler import scalar
from ..compiler.algebra import GPivot, Join, JoinKind, Rel, Select
from ..compiler.catalog import Catalog
from .combine import cancel_gunpivot_over_gpivot, compose_gpivots, pull_gpivot_through_gunpivot
from .crosstab import drop_select_below_gpivot, recognise_crosstab
from .engine import Outcome, Rewritten, Rule, run
from .facts import Facts
from .pull_up import (
    pull_gpivot_through_groupby,
    pull_gpivot_through_join,
    pull_gpivot_through_project,
    pull_gpivot_through_project_of_keys,
    pull_gpivot_through_select,
)
from .shapes import select
from .siblings import join_siblings
from .simplify import group_by_a_key, merge_projects, move_select_below_groupby, move_select_below_project


def move_select_into_join(rel: Rel, facts: Facts) -> Outcome:
    """A condition above an inner join becomes a condition of its sides, or of the join.

    Before:
        Select [qty > 1 AND region = name]
          Join [TRUE]
            Scan sales
            Scan regions
    After:
        Join [region = name]
          Select [qty > 1]
            Scan sales
          Scan regions

    Sound because an inner join keeps the pairs for which the condition is true, and a conjunction is true when all of
    its parts are.
    """
    match rel:
        case Select(input=Join(left=left, right=right, condition=joined, kind=JoinKind.INNER), condition=condition):
            parts = scalar.conjuncts(condition)
            on_left = tuple(p for p in parts if scalar.columns_of(p) and scalar.columns_of(p) <= set(left.names))
            on_right = tuple(p for p in parts if scalar.columns_of(p) and scalar.columns_of(p) <= set(right.names))
            rest = tuple(p for p in parts if p not in on_left and p not in on_right)
            both = tuple(p for p in (*scalar.conjuncts(joined), *rest) if p != scalar.TRUE)
            return Join(select(left, on_left), select(right, on_right), scalar.conjunction(both))
    return None


CONDITIONS: tuple[Rule, ...] = (
    move_select_into_join,  # comma joins get their conditions; deltas are filtered before they are joined
)

UP: tuple[Rule, ...] = (
    move_select_into_join,  # first, so that joins say what they join on
    move_select_below_project,  # conditions go down as far as they can, before pivots come up through them
    move_select_below_groupby,
    merge_projects,  # then a pivot has at most one projection over it, and every rule sees it
    join_siblings,  # before a pivot passes the join in which it meets its sibling
    group_by_a_key,  # a PIVOT is bound with a GROUP BY below it, which a key makes needless
    recognise_crosstab,  # new pivots, before any moves
    cancel_gunpivot_over_gpivot,  # a pivot less
    compose_gpivots,  # a pivot less
    drop_select_below_gpivot,  # needs the condition above the pivot, so before that moves
    pull_gpivot_through_select,  # conditions on carried columns go down, those on cells come along
    pull_gpivot_through_project,  # cells that nothing reads go before they are aggregated or joined
    pull_gpivot_through_project_of_keys,  # a smaller key, where the rest determines it
    pull_gpivot_through_join,
    pull_gpivot_through_groupby,
    pull_gpivot_through_gunpivot,
)


def normalise(rel: Rel, catalog: Catalog) -> Rewritten:
    """The view in the form in which it is maintained: with pivots, if it has any, combined and on top."""
    return run(UP if _has_pivot(rel) else CONDITIONS, rel, Facts(catalog))


def pull_pivots_up(rel: Rel, catalog: Catalog) -> Rewritten:
    """The view with its pivots, and what is a pivot though not written as one, combined and on top."""
    return run(UP, rel, Facts(catalog))


def _has_pivot(rel: Rel) -> bool:
    return isinstance(rel, GPivot) or any(_has_pivot(child) for child in rel.inputs)
