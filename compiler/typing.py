"""Types of scalar expressions, as Spark 4 derives them with ANSI mode on.

`types` has the names of types and how they combine, `arithmetic` numbers, `functions` the facts about functions; here
is what depends on the shape of an expression.

Nullability errs on one side: an expression said to be never NULL never is; one said to be nullable may not be.
A division, and a cast that may fail, count as nullable, as in Spark, though ANSI mode raises an error instead.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from .aggregates import aggregate_type, call_of
from .algebra import Column
from .arithmetic import arithmetic_type, interval_type, number_type
from .facts import Nulls, common_of
from .functions import BY_CLASS, BY_NAME, CHANGING, CHANGING_NAMES, first_number, value_arguments
from .nested import field_type, struct_type
from .scalar import text
from .types import (
    DATETIME_ORDER,
    ScalarType,
    common_type,
    decimal_of,
    is_decimal,
    is_numeric,
    type_name,
    wider_decimal,
)
from .types import NotDeterministic as NotDeterministic
from .types import UnknownType as UnknownType


def type_of(expression: exp.Expr, columns: Mapping[str, Column]) -> ScalarType:
    """The type of a bound expression over an input with these columns."""

    def of(node: exp.Expr) -> ScalarType:
        return type_of(node, columns)

    match expression:
        case exp.Column():
            column = columns.get(expression.name)
            if column is None:
                raise UnknownType(expression, f"there is no column {expression.name}")
            return ScalarType(column.type, column.nullable)
        case exp.Paren(this=inner) | exp.Alias(this=inner):
            return of(inner)
        case exp.Null():
            return ScalarType("void", True)
        case exp.Boolean():
            return ScalarType("boolean", False)
        case exp.HexString():
            return ScalarType("binary", False)
        case exp.Literal(is_string=True):
            return ScalarType("string", False)
        case exp.Literal():
            return ScalarType(number_type(expression, expression.this), False)
        case exp.Neg(this=exp.Literal(is_string=False) as number):
            return ScalarType(number_type(expression, f"-{number.this}"), False)
        case exp.Neg(this=inner):
            argument = of(inner)
            return ScalarType(first_number(expression, [argument]), argument.nullable)
        case exp.TryCast() | exp.Cast():
            return _cast(expression, of(expression.this))
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return _arithmetic(expression, columns)
        case exp.IntDiv(this=left, expression=right):
            of(left), of(right)
            return ScalarType("bigint", True)
        case exp.SafeAdd() | exp.SafeSubtract() | exp.SafeMultiply() | exp.SafeDivide():
            return ScalarType(_arithmetic(expression, columns).type, True)
        case exp.Case() | exp.If() | exp.Nvl2():
            return _choice(expression, columns)
        case exp.DateDiff() | exp.TimestampDiff():
            return _difference_of_dates(expression, columns)
        case exp.In():
            if expression.args.get("query") or expression.args.get("unnest"):
                raise UnknownType(expression, f"{text(expression)}: a subquery is not a scalar expression")
            sides = [expression.this, *expression.expressions]
            parts = [
                of(part) for side in sides for part in (side.expressions if isinstance(side, exp.Tuple) else [side])
            ]
            return ScalarType("boolean", Nulls.ANY.of(parts))
        case exp.Like() | exp.ILike() if isinstance(expression.expression, exp.Any | exp.All):
            patterns = expression.expression.this
            listed = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
            return ScalarType("boolean", Nulls.ANY.of([of(part) for part in (expression.this, *listed)]))
        case exp.Struct():
            return struct_type(expression, [of(part.expression) for part in expression.expressions])
        case exp.Dot(this=struct):
            return field_type(expression, of(struct))
        case exp.Extract(this=unit, expression=inner):
            type_ = "decimal(8,6)" if unit.name.lower() in ("second", "seconds", "s", "sec", "secs") else "int"
            return ScalarType(type_, of(inner).nullable)
        case exp.TimestampAdd(this=inner):
            moved = of(inner)
            return ScalarType("timestamp_ntz" if moved.type == "timestamp_ntz" else "timestamp", moved.nullable)
        case exp.Interval():
            return ScalarType(interval_type(expression), False)
        case exp.AggFunc() | exp.Window() | exp.Subquery() | exp.Query() | exp.Star():
            raise UnknownType(expression, f"{text(expression)} is not a scalar expression")
    return _function(expression, columns)


def _function(node: exp.Expr, columns: Mapping[str, Column]) -> ScalarType:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if isinstance(node, CHANGING) or name in CHANGING_NAMES:
        raise NotDeterministic(node, f"{text(node)} may give another value each time it is evaluated")
    fact = BY_NAME.get(name) if name else BY_CLASS.get(type(node))
    if fact is None:
        raise UnknownType(node, f"the type of {text(node)} is not known")
    arguments = [type_of(argument, columns) for argument in value_arguments(node)]
    type_ = fact.gives if isinstance(fact.gives, str) else fact.gives(node, arguments)
    return ScalarType(type_, fact.nulls.of(arguments))


def _cast(node: exp.Expr, argument: ScalarType) -> ScalarType:
    to = node.args["to"]
    if not isinstance(to, exp.DataType):
        raise UnknownType(node, f"the type of {text(node)} is not known")
    type_ = type_name(to)
    may_fail = bool(node.args.get("safe")) or not (isinstance(node.this, exp.Literal) or _fits(argument.type, type_))
    return ScalarType(type_, argument.nullable or may_fail)


def _fits(from_: str, to: str) -> bool:
    """Whether every value of a type has a counterpart in the other, so that a cast never falls back on NULL."""
    if from_ == to or to == "string":
        return True
    if from_ == "string":
        return to == "binary"
    if is_decimal(to):
        exact, wanted = decimal_of(from_), decimal_of(to)
        return exact is not None and wanted is not None and wider_decimal(exact, wanted) == to
    if is_numeric(from_) and is_numeric(to):
        return to in ("float", "double") or common_type(from_, to) == to
    return from_ in DATETIME_ORDER and to in DATETIME_ORDER


def _arithmetic(node: exp.Expr, columns: Mapping[str, Column]) -> ScalarType:
    left, right = node.args["this"], node.args["expression"]
    arguments = [type_of(left, columns), type_of(right, columns)]
    match node:
        case exp.Div() | exp.SafeDivide():
            operator = "/"
        case exp.Mod():
            operator = "%"
        case exp.Mul() | exp.SafeMultiply():
            operator = "*"
        case exp.Sub() | exp.SafeSubtract():
            operator = "-"
        case _:
            operator = "+"
    type_ = arithmetic_type(node, arguments, operator)
    return ScalarType(type_, operator in "/%" or Nulls.ANY.of(arguments))


def _choice(node: exp.Expr, columns: Mapping[str, Column]) -> ScalarType:
    """CASE, IF and NVL2: the common type of the branches."""
    if isinstance(node, exp.Case):
        conditions = [branch.this for branch in node.args["ifs"]]
        if node.this is not None:
            conditions.append(node.this)
        values = [branch.args["true"] for branch in node.args["ifs"]]
        otherwise = node.args.get("default")
    else:
        conditions = [node.this]
        values = [node.args["true"]]
        otherwise = node.args.get("false")
    for condition in conditions:
        type_of(condition, columns)
    branches = [type_of(value, columns) for value in values]
    branches.append(ScalarType("void", True) if otherwise is None else type_of(otherwise, columns))
    # a branch that only raises an error gives no value
    nullable = any(
        branch.nullable
        for value, branch in zip([*values, otherwise], branches, strict=True)
        if not (isinstance(value, exp.Anonymous) and value.name.lower() == "raise_error")
    )
    return ScalarType(common_of(node, branches), nullable)


def _difference_of_dates(node: exp.Expr, columns: Mapping[str, Column]) -> ScalarType:
    arguments = [type_of(node.args[part], columns) for part in ("this", "expression")]
    with_unit = node.args.get("unit") is not None
    return ScalarType("bigint" if with_unit else "int", Nulls.ANY.of(arguments))


_RANKS = {"rownumber": "int", "rank": "int", "denserank": "int", "ntile": "int", "percentrank": "double"}
_RANKS |= {"cumedist": "double"}


def window_type(call: exp.Window, columns: Mapping[str, Column]) -> ScalarType:
    """The type of a call with OVER. An aggregate over a frame may be NULL, but for COUNT."""
    function = call.this
    while isinstance(function, exp.IgnoreNulls | exp.RespectNulls | exp.Filter):
        function = function.this
    name = function.key
    if name in _RANKS:
        return ScalarType(_RANKS[name], False)
    if isinstance(function, exp.Lag | exp.Lead | exp.FirstValue | exp.LastValue | exp.NthValue | exp.First | exp.Last):
        return ScalarType(type_of(function.this, columns).type, True)
    if (aggregate := call_of(function)) is not None:
        return aggregate_type(aggregate.function, *(type_of(argument, columns) for argument in aggregate.arguments))
    raise UnknownType(call, f"the type of {text(call)} is not known")
