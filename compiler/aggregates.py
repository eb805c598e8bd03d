"""The table of facts about aggregate functions. Rules ask for facts, never for a function's name.

An aggregate is maintained through *parts*: distributive aggregates of the same argument that are stored, hidden where
the author did not ask for them. COUNT(*) of each group is always a part. The value that the author sees is a scalar
expression over the parts. [summary-delta-1997, section 3.1]

| part | grows by | NULL when | under deletion |
|---|---|---|---|
| count(*), count(e) | adding signed counts | never | exact |
| sum(e) | adding signed sums | count(e) = 0 | exact with count(e) |
| min(e), max(e) | the better of old and inserted | count(e) = 0 | looked up again when the extreme is deleted |
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sqlglot import exp

PartFunction = Literal["count", "sum", "min", "max"]


@dataclass(frozen=True, slots=True)
class AggregateFacts:
    name: str
    node: type[exp.Expr]
    parts: tuple[PartFunction, ...]  # the first one is the value, unless `quotient`
    null_on_empty: bool
    quotient: bool = False  # the value is the first part over the second


FUNCTIONS: dict[str, AggregateFacts] = {
    facts.name: facts
    for facts in (
        AggregateFacts("count", exp.Count, ("count",), null_on_empty=False),
        AggregateFacts("sum", exp.Sum, ("sum", "count"), null_on_empty=True),
        AggregateFacts("min", exp.Min, ("min", "count"), null_on_empty=True),
        AggregateFacts("max", exp.Max, ("max", "count"), null_on_empty=True),
        AggregateFacts("avg", exp.Avg, ("sum", "count"), null_on_empty=True, quotient=True),
    )
}


def function_of(call: exp.Expr) -> str | None:
    """The name of a known aggregate call."""
    return next((name for name, facts in FUNCTIONS.items() if type(call) is facts.node), None)
