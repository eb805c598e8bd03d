"""Whether a relation, computed twice over the same tables, gives the same rows.

A change that is made of "before" and "after" takes the rows of before out of the stored view: it must find them. It
does not where a result depends on the order in which rows happen to come:

| operator | depends on it |
|---|---|
| GroupBy | a sum of floating point numbers, moments; an aggregate that may choose, as FIRST or COLLECT_LIST |
| Window  | ROW_NUMBER, LAG and the like, ROWS frames, unless partition and order hold a key, or all columns |
| Limit   | unless the order holds a key, or all columns |
"""

from __future__ import annotations

from sqlglot import exp

from . import scalar
from .aggregates import FUNCTIONS, Kind
from .algebra import Column, GroupBy, Limit, Measure, Rel, Window
from .catalog import Catalog
from .properties import keys, schema
from .typing import type_of

OF_RANK = (exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist)


def not_reproducible(rel: Rel, catalog: Catalog) -> str:
    """What may come out differently when it is computed again; empty if nothing does."""
    for child in rel.inputs:
        if found := not_reproducible(child, catalog):
            return found
    match rel:
        case GroupBy(input, _, measures):
            columns = {column.name: column for column in schema(input)}
            for measure in measures:
                if not _is_exact(measure, columns):
                    return f"{measure.function.upper()} may give another value when it is computed again"
        case Limit(input, order, _, _):
            ordered = {key.expression.name for key in order if isinstance(key.expression, exp.Column)}
            if not _is_total(ordered, input, catalog):
                return "LIMIT picks among equals: its order holds no key"
        case Window(input, items):
            for item in items:
                if not _is_fixed(item.expression, input, catalog):
                    return f"{_function(item.expression)} picks among equals: its partition and order hold no key"
    return ""


def _is_exact(measure: Measure, columns: dict[str, Column]) -> bool:
    facts = FUNCTIONS[measure.function]
    if not facts.deterministic:
        return False
    exact = facts.kind is not Kind.ALGEBRAIC or facts.idempotent or bool(facts.parts)
    return exact and not (facts.parts[:1] == ("sum",) and _is_float(measure.argument, columns))


def _is_float(argument: exp.Expr | None, columns: dict[str, Column]) -> bool:
    return argument is not None and type_of(argument, columns).type in ("float", "double")


def _is_total(ordered: set[str], input: Rel, catalog: Catalog) -> bool:
    """Whether rows that agree on these columns are the same row, or equal ones."""
    return set(input.names) <= ordered or any(key <= ordered for key in keys(input, catalog))


def _is_fixed(call: exp.Expr, input: Rel, catalog: Catalog) -> bool:
    order = call.args.get("order")
    named = {column.name for column in call.args.get("partition_by") or []}
    named |= {key.this.name for key in (order.expressions if order else ()) if isinstance(key.this, exp.Column)}
    if _is_total(named, input, catalog):
        return True
    function, frame = call.this, call.args.get("spec")
    by_rows = frame is not None and str(frame.args.get("kind", "")).upper() == "ROWS"
    if isinstance(function, OF_RANK):
        return True
    if by_rows or not isinstance(function, exp.AggFunc) or isinstance(function, exp.RowNumber | exp.Lag | exp.Lead):
        return False
    if isinstance(function, exp.Sum | exp.Avg):
        return not _is_float(function.this, {column.name: column for column in schema(input)})
    return isinstance(function, exp.Count | exp.Min | exp.Max)


def _function(call: exp.Expr) -> str:
    return scalar.text(call.this).split("(")[0]
