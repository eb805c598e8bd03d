"""GUNPIVOT down through select, project, join and group by. [gpivot-2005, section 5.4]"""

from __future__ import annotations

from dataclasses import replace

from ..compiler import scalar
from ..compiler.algebra import GroupBy, GUnpivot, Item, Join, JoinKind, Measure, Project, Rel, Select, col
from .aggregation import leaves_out_nulls, null_on_empty
from .engine import Outcome, Refused
from .facts import Facts
from .shapes import columns, equal_columns, fresh, over, select, source_of


def push_gunpivot_below_select(rel: Rel, facts: Facts) -> Outcome:
    """Unpivot before selecting; by columns that are gathered, through a look-up of the key.

    Before:
        GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          Select [region = 'north' AND jan = 1]
            Scan wide
    After:
        Join semi [id <=> id_found AND region <=> region_found]
          Select [region = 'north']
            GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
              Scan wide
          Project { id_found := id, region_found := region }
            Select [jan = 1]
              Scan wide

    Sound because all output rows of an input row carry its key. Provided
    1. the carried columns hold a key, if the condition reads what is gathered.
    [gpivot-2005, eq. 16]
    """
    match rel:
        case GUnpivot(input=Select(input=input, condition=condition)):
            parts = scalar.conjuncts(condition)
            carried = tuple(part for part in parts if scalar.columns_of(part) <= set(rel.keys))
            rest = tuple(part for part in parts if part not in carried)
            made = select(replace(rel, input=input), carried)
            if not rest:
                return made
            if not facts.has_key_within(input, rel.keys):
                return Refused("the carried columns hold no key: the rows that are selected cannot be found again")
            found = {key: fresh(f"{key}_found", rel.names) for key in rel.keys}
            keys = over(input, rest, tuple(Item(found[key], col(key)) for key in rel.keys))
            return Join(made, keys, equal_columns(found.items()), JoinKind.SEMI)
    return None


def push_gunpivot_below_project(rel: Rel, facts: Facts) -> Outcome:
    """Unpivot before dropping, renaming and computing columns.

    Before:
        GUnpivot [month] { january := qty @ ('jan') }
          Project { key := id + 1, january := jan }
            Scan wide
    After:
        Project { key := id + 1, month, qty }
          GUnpivot [month] { jan := qty @ ('jan') }
            Scan wide

    Sound because the projection gives one row for each row. Provided
    1. it does not compute what is gathered,   2. nor use it for what is carried,
    3. no column below is named like one that the unpivot makes.
    [gpivot-2005, section 5.4.2]
    """
    match rel:
        case GUnpivot(input=Project(input=input, items=items)):
            shown = {item.name: item.expression for item in items}
            sources = {cell.name: source_of(shown[cell.name]) for cell in rel.cells}
            if None in sources.values():
                return Refused("a column that is gathered is computed by the projection")
            gathered = {source or "" for source in sources.values()}
            if any(scalar.columns_of(shown[key]) & gathered for key in rel.keys):
                return Refused("a column that is gathered is shown beside as well")
            if (set(input.names) - gathered) & {*rel.by, *rel.measures}:
                return Refused("a column below is named like one that the unpivot makes")
            cells = tuple(replace(cell, name=sources[cell.name] or "") for cell in rel.cells)
            made = replace(rel, input=input, cells=cells)
            return over(made, (), tuple(Item(name, shown.get(name, col(name))) for name in rel.names))
    return None


def push_gunpivot_below_join(rel: Rel, facts: Facts) -> Outcome:
    """Unpivot before joining; where the join reads what is gathered, through a look-up of the key.

    Before:
        GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
          Join [jan = size]
            Scan wide
            Scan regions
    After:
        Project { id, region, name, country, size, month, qty }
          Join [id <=> id_found AND region <=> region_found]
            GUnpivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }
              Scan wide
            Project { id_found := id, region_found := region, name, country, size }
              Join [jan = size]
                Scan wide
                Scan regions

    Sound because all output rows of an input row carry its key, and join as it does. Provided
    1. all that is gathered comes from one side,
    2. the join is inner, or reads carried columns only and keeps no rows of the other side,
    3. the carried columns of that side hold a key, if the join reads what is gathered.
    [gpivot-2005, eq. 17]
    """
    match rel:
        case GUnpivot(input=Join(left=left, right=right, condition=condition, kind=kind)):
            gathered = {cell.name for cell in rel.cells}
            on_left = gathered <= set(left.names)
            if not (on_left or gathered <= set(right.names)):
                return Refused("what is gathered comes from both sides of the join")
            side, other = (left, right) if on_left else (right, left)
            reads = bool(scalar.columns_of(condition) & gathered)
            if kind is not JoinKind.INNER and (reads or kind is JoinKind.FULL or not on_left):
                return Refused(f"a {kind} join fills up or keeps rows as a whole")
            made = replace(rel, input=side)
            if not reads:
                joined = Join(made, other, condition, kind) if on_left else Join(other, made, condition, kind)
                return over(joined, (), columns(rel.names))
            if not facts.has_key_within(side, made.keys):
                return Refused("the carried columns hold no key: the rows that are joined cannot be found again")
            found = {key: fresh(f"{key}_found", (*rel.names, *side.names)) for key in made.keys}
            shown = tuple(Item(found[key], col(key)) for key in made.keys) + columns(other.names)
            pairs = over(Join(left, right, condition), (), shown)
            return over(Join(made, pairs, equal_columns(found.items())), (), columns(rel.names))
    return None


def push_gunpivot_below_groupby(rel: Rel, facts: Facts) -> Outcome:
    """Unpivot before aggregating: the names become grouping columns.

    Before:
        GUnpivot [month] { jan_total := total @ ('jan'), feb_total := total @ ('feb') }
          GroupBy [region] { jan_total := sum(jan), feb_total := sum(feb) }
            Scan wide
    After:
        GroupBy [region, month] { total := sum(total) }
          GUnpivot [month] { jan_total := total @ ('jan'), feb_total := total @ ('feb') }
            Project { region, jan_total := jan, feb_total := feb }
              Scan wide

    Sound because an aggregate is NULL exactly if its group has no value, and then neither side has a row. Provided
    1. the unpivot leaves out NULLs, 2. and gathers all aggregates and no grouping column,
    3. each value column gathers one function of one type of argument,
    4. which leaves out NULLs and is NULL of no rows: COUNT gives 0 where the other side has no row.
    [gpivot-2005, eq. 18]
    """
    match rel:
        case GUnpivot(input=GroupBy(input=input, keys=keys, measures=measures)):
            if rel.include_nulls:
                return Refused("the unpivot keeps NULLs: a group has a row for each value list")
            by_name = {measure.name: measure for measure in measures}
            if {cell.name for cell in rel.cells} != set(by_name):
                return Refused("it does not gather all aggregates, or gathers a grouping column")
            types = facts.columns(input)
            made: dict[str, Measure] = {}
            kinds: dict[str, str] = {}
            for cell in rel.cells:
                measure = by_name[cell.name]
                source = source_of(measure.arguments[0]) if len(measure.arguments) == 1 else None
                if source is None:
                    return Refused(f"{measure.name} does not aggregate a column")
                if not leaves_out_nulls(measure) or not null_on_empty(measure):
                    return Refused(f"{measure.function} is not NULL of no rows, or looks at NULLs")
                again = Measure(cell.measure, measure.function, (col(cell.measure),), measure.distinct)
                if made.setdefault(cell.measure, again) != again:
                    return Refused("a value column gathers different functions")
                if kinds.setdefault(cell.measure, types[source].type) != types[source].type:
                    return Refused("a value column gathers aggregates of different types")
            arguments = tuple(Item(m.name, m.arguments[0]) for m in measures)
            lower = GUnpivot(over(input, (), columns(keys) + arguments), rel.by, rel.cells)
            return GroupBy(lower, (*keys, *rel.by), tuple(made[name] for name in rel.measures))
    return None
