"""The table of facts about aggregate functions. Rules ask for facts, never for a function's name.

An aggregate is maintained through *parts*: distributive aggregates of the same argument that are stored, hidden where
the author did not ask for them. COUNT(*) of each group is always a part. The value that the author sees is a scalar
expression over the parts. [summary-delta-1997, section 3.1]

| part | grows by | NULL when | under deletion |
|---|---|---|---|
| count(*), count(e) | adding signed counts | never | exact |
| sum(e) | adding signed sums | count(e) = 0 | exact with count(e) |
| min(e), max(e) | the better of old and inserted | count(e) = 0 | looked up again when the extreme is deleted |

`parts` are of the argument itself; where parts of other expressions are needed, `compiler/moments.py` has them.
GROUPING and GROUPING_ID are no aggregates: they tell which projection of an Expand a row comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Literal

from sqlglot import exp

from .types import DECIMAL, ScalarType, decimal, is_integral

PartFunction = Literal["count", "sum", "min", "max"]
TypeRule = Callable[[Sequence[str]], str]


class Kind(Enum):
    """How the value of a bag follows from the values of its parts. [gray-1997]"""

    DISTRIBUTIVE = "from the values of the parts"
    ALGEBRAIC = "from a fixed number of distributive aggregates of the parts"
    HOLISTIC = "only from all rows"


class Order(Enum):
    """Whether the value depends on the order of rows, which Spark does not fix."""

    NEVER = "never"
    TIES = "only among rows that tie"
    ALWAYS = "always"


@dataclass(frozen=True, slots=True)
class AggregateFacts:
    name: str  # Spark's, lower case: what measures carry
    kind: Kind
    gives: TypeRule
    nodes: tuple[type[exp.Expr], ...] = ()  # sqlglot's classes of it
    other_names: tuple[str, ...] = ()  # of calls that sqlglot has no class for
    arguments: tuple[int, int] = (1, 1)  # at least, at most
    parts: tuple[PartFunction, ...] = ()  # the first one is the value, unless `quotient`
    quotient: bool = False  # the value is the first part over the second
    null_on_empty: bool = True
    ignores_nulls: bool = True  # a row changes nothing whose argument number `guard` is NULL
    guard: int = 0
    order: Order = Order.NEVER
    insertable: bool = False  # the value, with its parts, follows from the old one and the inserted rows
    deletable: bool = False  # and from the deleted rows
    idempotent: bool = False  # duplicates change nothing, so DISTINCT does not either

    @property
    def deterministic(self) -> bool:
        """Whether the bag of rows alone decides the value."""
        return self.order is Order.NEVER


def _same(types: Sequence[str]) -> str:
    return types[0]


def _sum(types: Sequence[str]) -> str:
    if match := DECIMAL.match(types[0]):
        return decimal(int(match[1]) + 10, int(match[2]))
    if types[0].startswith("interval"):
        return types[0]
    return "bigint" if is_integral(types[0]) else "double"


def _avg(types: Sequence[str]) -> str:
    if match := DECIMAL.match(types[0]):
        return decimal(int(match[1]) + 4, int(match[2]) + 4)
    if types[0].startswith("interval"):
        return "interval day to second" if "day" in types[0] else "interval year to month"
    return "double"


def _array(types: Sequence[str]) -> str:
    return f"array<{types[0]}>"


def _percentile(types: Sequence[str]) -> str:
    return "array<double>" if len(types) > 1 and types[1].startswith("array") else "double"


def _approximate_percentile(types: Sequence[str]) -> str:
    return f"array<{types[0]}>" if len(types) > 1 and types[1].startswith("array") else types[0]


def _extreme_by(types: Sequence[str]) -> str:
    return types[0] if len(types) < 3 else f"array<{types[0]}>"


def _always(type_: str) -> TypeRule:
    return lambda _: type_


def _second_avg(types: Sequence[str]) -> str:
    return _avg(types[1:])


_D, _A, _H = Kind.DISTRIBUTIVE, Kind.ALGEBRAIC, Kind.HOLISTIC
_BIGINT, _DOUBLE, _BOOLEAN, _BINARY = _always("bigint"), _always("double"), _always("boolean"), _always("binary")


def _both_ways(name: str, kind: Kind, gives: TypeRule, *nodes: type[exp.Expr], **facts: object) -> AggregateFacts:
    """An aggregate that follows its changes, inserts and deletes alike."""
    return AggregateFacts(name, kind, gives, nodes, insertable=True, deletable=True, **facts)  # type: ignore[arg-type]


def _of_pairs(name: str, node: type[exp.Expr], gives: TypeRule = _DOUBLE, **facts: object) -> AggregateFacts:
    """An aggregate of the rows in which neither argument is NULL."""
    return _both_ways(name, _A, gives, node, arguments=(2, 2), **facts)


FUNCTIONS: dict[str, AggregateFacts] = {
    facts.name: facts
    for facts in (
        # counts and sums
        _both_ways("count", _D, _BIGINT, exp.Count, arguments=(0, 99), parts=("count",), null_on_empty=False),
        _both_ways("sum", _D, _sum, exp.Sum, parts=("sum", "count")),
        _both_ways("avg", _A, _avg, exp.Avg, parts=("sum", "count"), quotient=True, other_names=("mean",)),
        _both_ways("count_if", _D, _BIGINT, exp.CountIf, null_on_empty=False),
        AggregateFacts("try_sum", _D, _sum, (), ("try_sum",)),
        AggregateFacts("try_avg", _A, _avg, (), ("try_avg",)),
        # extremes
        AggregateFacts("min", _D, _same, (exp.Min,), parts=("min", "count"), insertable=True, idempotent=True),
        AggregateFacts("max", _D, _same, (exp.Max,), parts=("max", "count"), insertable=True, idempotent=True),
        AggregateFacts("min_by", _D, _extreme_by, (exp.ArgMin,), (), (2, 3), guard=1, order=Order.TIES),
        AggregateFacts("max_by", _D, _extreme_by, (exp.ArgMax,), (), (2, 3), guard=1, order=Order.TIES),
        # truth values and bits
        _both_ways("bool_and", _D, _BOOLEAN, exp.LogicalAnd, other_names=("every",), idempotent=True),
        _both_ways("bool_or", _D, _BOOLEAN, exp.LogicalOr, other_names=("some",), idempotent=True),
        AggregateFacts("bit_and", _D, _same, (exp.BitwiseAndAgg,), idempotent=True),
        AggregateFacts("bit_or", _D, _same, (exp.BitwiseOrAgg,), idempotent=True),
        AggregateFacts("bit_xor", _D, _same, (exp.BitwiseXorAgg,)),
        # one of the values; a second argument says whether NULLs are passed over
        *(
            AggregateFacts(name, _D, _same, nodes, (), (1, 2), ignores_nulls=False, order=Order.ALWAYS)
            for name, nodes in (
                ("any_value", (exp.AnyValue,)),
                ("first", (exp.First, exp.FirstValue)),
                ("last", (exp.Last, exp.LastValue)),
            )
        ),
        # moments
        _both_ways("var_pop", _A, _DOUBLE, exp.VariancePop),
        _both_ways("var_samp", _A, _DOUBLE, exp.Variance),
        _both_ways("stddev_pop", _A, _DOUBLE, exp.StddevPop),
        _both_ways("stddev_samp", _A, _DOUBLE, exp.Stddev, exp.StddevSamp, other_names=("std",)),
        AggregateFacts("skewness", _A, _DOUBLE, (exp.Skewness,)),
        AggregateFacts("kurtosis", _A, _DOUBLE, (exp.Kurtosis,)),
        _of_pairs("covar_pop", exp.CovarPop),
        _of_pairs("covar_samp", exp.CovarSamp),
        _of_pairs("corr", exp.Corr),
        _of_pairs("regr_count", exp.RegrCount, _BIGINT, null_on_empty=False),
        AggregateFacts("regr_avgx", _A, _second_avg, (exp.RegrAvgx,), (), (2, 2)),
        AggregateFacts("regr_avgy", _A, _avg, (exp.RegrAvgy,), (), (2, 2)),
        _of_pairs("regr_sxx", exp.RegrSxx),
        _of_pairs("regr_sxy", exp.RegrSxy),
        _of_pairs("regr_syy", exp.RegrSyy),
        _of_pairs("regr_slope", exp.RegrSlope),
        _of_pairs("regr_intercept", exp.RegrIntercept),
        _of_pairs("regr_r2", exp.RegrR2),
        # percentiles and the like
        AggregateFacts("percentile", _H, _percentile, (exp.Quantile,), ("percentile",), (2, 3)),
        AggregateFacts("median", _H, _percentile, (exp.Median,)),
        AggregateFacts(
            "percentile_approx", _H, _approximate_percentile, (exp.ApproxQuantile,), (), (2, 3), order=Order.ALWAYS
        ),
        AggregateFacts("mode", _H, _same, (exp.Mode,), (), (1, 2), order=Order.TIES),
        AggregateFacts(
            "histogram_numeric",
            _H,
            lambda types: f"array<struct<x:{types[0]},y:double>>",
            (),
            ("histogram_numeric",),
            (2, 2),
            order=Order.ALWAYS,
        ),
        # collections
        AggregateFacts("collect_list", _H, _array, (exp.ArrayAgg,), null_on_empty=False, order=Order.ALWAYS),
        AggregateFacts(
            "collect_set", _H, _array, (exp.ArrayUniqueAgg,), null_on_empty=False, order=Order.ALWAYS, idempotent=True
        ),
        AggregateFacts("listagg", _H, _always("string"), (exp.GroupConcat,), (), (1, 2), order=Order.ALWAYS),
        # sketches
        AggregateFacts(
            "approx_count_distinct",
            _A,
            _BIGINT,
            (exp.ApproxDistinct,),
            (),
            (1, 2),
            null_on_empty=False,
            idempotent=True,
        ),
        *(
            AggregateFacts(name, _D, _BINARY, (), (name,), most, null_on_empty=False, idempotent=True)
            for name, most in (("hll_sketch_agg", (1, 2)), ("hll_union_agg", (1, 2)))
        ),
        *(
            AggregateFacts(name, _D, _BINARY, (node,), null_on_empty=False, idempotent=True)
            for name, node in (
                ("bitmap_construct_agg", exp.BitmapConstructAgg),
                ("bitmap_or_agg", exp.BitmapOrAgg),
            )
        ),
    )
}

_BY_NODE = {node: facts.name for facts in FUNCTIONS.values() for node in facts.nodes}
_BY_NAME = {name: facts.name for facts in FUNCTIONS.values() for name in facts.other_names}


@dataclass(frozen=True, slots=True)
class Call:
    """An aggregate call: `function` is a name in FUNCTIONS."""

    function: str
    arguments: tuple[exp.Expr, ...]
    distinct: bool


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is an aggregate call, known or not, with all that belongs to it (FILTER, WITHIN GROUP, …)."""
    match node:
        case exp.AggFunc():
            return not isinstance(node, exp.Grouping | exp.GroupingId)
        case exp.Filter() | exp.WithinGroup():
            return True
        case exp.IgnoreNulls(this=inner) | exp.RespectNulls(this=inner):
            return is_aggregate(inner)
    return function_of(node) is not None


def function_of(call: exp.Expr) -> str | None:
    """The name of a known aggregate call."""
    match call:
        case exp.Anonymous():
            return _BY_NAME.get(call.name.lower())
        case exp.Any(this=exp.Paren()):  # ANY(x), not `= ANY (…)` over a subquery
            return "bool_or"
    return _BY_NODE.get(type(call))


def call_of(node: exp.Expr) -> Call | None:
    """An aggregate call taken apart; None where it is not one, or its form is not known. FILTER is not part of it."""
    match node:
        case exp.IgnoreNulls(this=inner):
            call = call_of(inner)
            return Call(call.function, (*call.arguments, exp.true()), call.distinct) if call else None
        case exp.RespectNulls(this=inner):
            return call_of(inner)
        case exp.WithinGroup(this=exp.PercentileCont() as inner, expression=exp.Order(expressions=[by])):
            if by.args.get("desc"):
                return None
            return Call("percentile", (by.this, inner.this), distinct=False)
    function = function_of(node)
    if function is None:
        return None
    if isinstance(node, exp.Any):
        arguments = [node.this.this]
    else:
        arguments = [part for part in node.iter_expressions() if not isinstance(part, exp.Star)]
    distinct = bool(arguments) and isinstance(arguments[0], exp.Distinct)
    if distinct:
        arguments = [*arguments[0].expressions, *arguments[1:]]
    least, most = FUNCTIONS[function].arguments
    if not least <= len(arguments) <= most or any(isinstance(argument, exp.Order) for argument in arguments):
        return None
    return Call(function, tuple(arguments), distinct)


def aggregate_type(function: str, *arguments: ScalarType | None) -> ScalarType:
    """The type of an aggregate over arguments of these types; one that is not NULL on no rows never is."""
    facts = FUNCTIONS.get(function)
    if facts is None:
        raise ValueError(f"no aggregate is called {function}")
    types = [argument.type for argument in arguments if argument is not None]
    if len(types) < facts.arguments[0]:
        raise ValueError(f"{function} needs an argument")
    return ScalarType(facts.gives(types), facts.null_on_empty)
