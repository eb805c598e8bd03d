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
from .push_down import (
    push_gpivot_below_groupby,
    push_gpivot_below_join,
    push_gpivot_below_join_on_cells,
    push_gpivot_below_project,
    push_gpivot_below_select,
    push_gpivot_below_select_on_cells,
)
from .push_down_unpivot import cancel_gpivot_over_gunpivot, push_gpivot_below_gunpivot
from .self_join import pull_gpivot_through_select_on_cells
from .siblings import join_siblings
from .simplify import group_by_a_key, merge_projects, move_select_below_groupby, move_select_below_project
from .split import split_columns, split_measures, split_parts
from .unpivot_down import (
    push_gunpivot_below_groupby,
    push_gunpivot_below_join,
    push_gunpivot_below_project,
    push_gunpivot_below_select,
)
from .unpivot_up import (
    pull_gunpivot_through_groupby,
    pull_gunpivot_through_join,
    pull_gunpivot_through_project,
    pull_gunpivot_through_select,
)

RULES: tuple[Rule, ...] = (
    move_select_into_join,
    move_select_below_project,
    move_select_below_groupby,
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
    pull_gpivot_through_select_on_cells,
    push_gpivot_below_select,
    push_gpivot_below_select_on_cells,
    push_gpivot_below_project,
    push_gpivot_below_join,
    push_gpivot_below_join_on_cells,
    push_gpivot_below_groupby,
    cancel_gpivot_over_gunpivot,
    push_gpivot_below_gunpivot,
    split_measures,
    split_columns,
    split_parts,
    pull_gunpivot_through_select,
    pull_gunpivot_through_project,
    pull_gunpivot_through_join,
    pull_gunpivot_through_groupby,
    push_gunpivot_below_select,
    push_gunpivot_below_project,
    push_gunpivot_below_join,
    push_gunpivot_below_groupby,
)
