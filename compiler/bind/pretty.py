"""The names that Spark makes of expressions without an alias, for the expressions that PIVOT may hold."""

from __future__ import annotations

from sqlglot import exp

from ..aggregates import call_of

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
}
_FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Ceil: "CEIL",
    exp.Floor: "FLOOR",
    exp.Round: "round",
    exp.Abs: "abs",
    exp.Coalesce: "coalesce",
    exp.Upper: "upper",
    exp.Lower: "lower",
}
# Aggregates that sqlglot reads under one name only.
_AGGREGATES = frozenset(
    ["count", "sum", "avg", "min", "max", "min_by", "max_by", "first", "last", "median", "count_if", "collect_set"]
)


def pretty(node: exp.Expr) -> str | None:
    """The name, or None where it is not known."""
    match node:
        case exp.Paren(this=inner):
            return pretty(inner)
        case exp.Column():
            return str(node.name)
        case exp.Literal():
            return str(node.name)
        case exp.Null():
            return "NULL"
        case exp.Boolean(this=truth):
            return str(truth).lower()
        case exp.Filter(this=inner, expression=exp.Where(this=condition)):
            call, where = pretty(inner), pretty(condition)
            return None if call is None or where is None else f"{call} FILTER (WHERE {where})"
    if type(node) in _OPERATORS:
        left, right = pretty(node.this), pretty(node.args["expression"])
        return None if left is None or right is None else f"({left} {_OPERATORS[type(node)]} {right})"
    if type(node) in _FUNCTIONS:
        return _call(_FUNCTIONS[type(node)], list(node.iter_expressions()))
    call_read = call_of(node)
    if call_read is None or call_read.function not in _AGGREGATES or isinstance(node, exp.IgnoreNulls | exp.Anonymous):
        return None
    if isinstance(node, exp.FirstValue | exp.LastValue | exp.WithinGroup | exp.Any):
        return None
    arguments = list(call_read.arguments) or [exp.Literal.number(1)]
    return _call(call_read.function, arguments, "DISTINCT " if call_read.distinct else "")


def _call(function: str, arguments: list[exp.Expr], distinct: str = "") -> str | None:
    shown = [pretty(argument) for argument in arguments]
    known = [argument for argument in shown if argument is not None]
    return f"{function}({distinct}{', '.join(known)})" if len(known) == len(shown) else None
