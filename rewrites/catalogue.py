"""Every rule, in the order of the documentation. Which of them run, and in what order, the lists elsewhere say."""

from __future__ import annotations

from .combine import cancel_gunpivot_over_gpivot, compose_gpivots, pull_gpivot_through_gunpivot
from .crosstab import drop_select_below_gpivot, recognise_crosstab
from .engine import Rule
from .normalise import move_select_into_join
from .pull_up import (
    pull_gpivot_through_groupby,
    pull_gpivot_through_join,
    pull_gpivot_through_project,
    pull_gpivot_through_project_of_keys,
    pull_gpivot_through_select,
)
from .siblings import join_siblings
from .simplify import group_by_a_key, merge_projects

RULES: tuple[Rule, ...] = (
    move_select_into_join,
    merge_projects,
    group_by_a_key,
    join_siblings,
    compose_gpivots,
    recognise_crosstab,
    drop_select_below_gpivot,
    pull_gpivot_through_select,
    pull_gpivot_through_project,
    pull_gpivot_through_project_of_keys,
    pull_gpivot_through_join,
    pull_gpivot_through_groupby,
    cancel_gunpivot_over_gpivot,
    pull_gpivot_through_gunpivot,
)
