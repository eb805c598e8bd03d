"""Rules that make the way up shorter: projections merge, grouping by a key is a projection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import Column, GroupBy, Item, Measure, Project, Rel, Select
from ..compiler.typing import type_of
from .engine import Outcome, Refused
from .facts import Facts
from .shapes import columns, over, select, substituted


def merge_projects(rel: Rel, facts: Facts) -> Outcome:
    """A projection of a projection is one projection; one that changes nothing goes.

    Before:
        Project { region, total := double + 1 }
          Project { region, double := qty + qty }
            Scan sales
    After:
        Project { region, total := (qty + qty) + 1 }
          Scan sales

    Sound because both give one row for each row, and their expressions are deterministic.
    """
    match rel:
        case Project(input=Project() as lower, items=items):
            return over(lower, (), items)
        case Project(input=input, items=items) if items == columns(input.names):
            return input
    return None


def move_select_below_groupby(rel: Rel, facts: Facts) -> Outcome:
    """Select by grouping columns before grouping.

    Before:
        Select [region = 'north' AND total > 1]
          GroupBy [region] { total := sum(qty) }
            Scan sales
    After:
        Select [total > 1]
          GroupBy [region] { total := sum(qty) }
            Select [region = 'north']
              Scan sales

    Sound because all rows of a group agree on the grouping columns. Provided
    1. there are grouping columns: without them there is a row even of no rows.
    """
    match rel:
        case Select(input=GroupBy(input=input, keys=keys) as grouped, condition=condition):
            parts = scalar.conjuncts(condition)
            below = tuple(part for part in parts if scalar.columns_of(part) <= set(keys))
            if not below:
                return None
            if not keys:
                return Refused("without grouping columns there is a row even of no rows")
            rest = tuple(part for part in parts if part not in below)
            return select(replace(grouped, input=select(input, below)), rest)
    return None


def move_select_below_project(rel: Rel, facts: Facts) -> Outcome:
    """Select before projecting.

    Before:
        Select [next > 1]
          Project { region, next := store + 1 }
            Scan sales
    After:
        Project { region, next := store + 1 }
          Select [(store + 1) > 1]
            Scan sales

    Sound because a projection gives one row for each row, and its expressions are deterministic.
    """
    match rel:
        case Select(input=Project(input=input, items=items), condition=condition):
            shown = {item.name: item.expression for item in items}
            return Project(Select(input, substituted(condition, shown)), items)
    return None


def group_by_a_key(rel: Rel, facts: Facts) -> Outcome:
    """Grouping by a key is a projection: every group is one row.

    Before:
        GroupBy [store, month] { s := sum(qty), n := count(qty), first := min(qty) }
          Scan sales
    After:
        Project {
            store,
            month,
            s := CAST(qty AS BIGINT),
            n := CAST(CASE WHEN NOT qty IS NULL THEN 1 ELSE 0 END AS BIGINT),
            first := qty
          }
          Scan sales

    Sound because the aggregate of one value is that value, or NULL if it is NULL. Provided
    1. the grouping columns hold a key,
    2. each aggregate is a sum, a count, or an extreme.
    """
    match rel:
        case GroupBy(input=input, keys=keys, measures=measures) if keys and measures:
            if not facts.has_key_within(input, keys):
                return Refused("the grouping columns hold no key")
            types, given = facts.columns(rel), facts.columns(input)
            items = list(columns(keys))
            for measure in measures:
                single = _of_one_row(measure, types[measure.name].type, given)
                if single is None:
                    return Refused(f"{measure.function} of one row is not simply its value")
                items.append(Item(measure.name, single))
            return over(input, (), tuple(items))
    return None


def _of_one_row(measure: Measure, type_: str, given: Mapping[str, Column]) -> exp.Expr | None:
    match measure.function, measure.arguments:
        case "count", ():
            return scalar.parse(f"CAST(1 AS {type_})")
        case "count", (argument,):
            inner = argument.copy() if isinstance(argument, exp.Column) else exp.Paren(this=argument.copy())
            there = exp.Not(this=exp.Is(this=inner, expression=exp.Null()))
            one = exp.Case(ifs=[exp.If(this=there, true=exp.Literal.number(1))], default=exp.Literal.number(0))
            return scalar.canonical(exp.cast(one, type_, dialect="spark"))
        case "sum", (argument,) if type_of(argument, given).type == type_:
            return argument
        case "sum", (argument,):
            return scalar.canonical(exp.cast(argument.copy(), type_, dialect="spark"))
        case "min" | "max", (argument,):
            return argument
    return None
