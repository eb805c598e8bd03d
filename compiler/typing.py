"""Types of scalar expressions, as Spark 4 derives them with ANSI mode on.

A type is Spark's name of it, lower case, as in `decimal(10,2)`; `void` is the type of NULL. A function is a `Fact`:
what type it gives and when it may give NULL. Facts are keyed by sqlglot's node class, or by name for functions that
sqlglot has no class for.

| operation | of decimals (p1,s1), (p2,s2) |
|---|---|
| + -  | (max(p1-s1, p2-s2) + max(s1, s2) + 1, max(s1, s2)) |
| *    | (p1 + p2 + 1, s1 + s2) |
| /    | (p1 - s1 + s2 + max(6, s1 + p2 + 1), max(6, s1 + p2 + 1)) |
| %    | (min(p1-s1, p2-s2) + max(s1, s2), max(s1, s2)) |

Past 38 digits the scale is cut first, down to 6, then the integral part. An integer among decimals is a decimal of as
many digits as its type may have, a literal of as many as it has.

Nullability errs on one side: an expression said to be never NULL never is; one said to be nullable may not be.
A division, and a cast that may fail, count as nullable, as in Spark, though ANSI mode raises an error instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

from sqlglot import exp

from .aggregates import aggregate_type, call_of
from .algebra import Column
from .scalar import text
from .types import (
    DATETIME_ORDER,
    DECIMAL,
    MIN_ADJUSTED_SCALE,
    ScalarType,
    adjusted,
    common_type,
    decimal,
    decimal_of,
    is_decimal,
    is_integral,
    is_numeric,
    type_name,
    wider_decimal,
)


class UnknownType(Exception):
    """The expression's type cannot be derived; `node` is the part that is not understood."""

    def __init__(self, node: exp.Expr, message: str) -> None:
        self.node = node
        self.message = message
        super().__init__(message)


class NotDeterministic(Exception):
    """The expression may give another value each time; `node` is the part that does."""

    def __init__(self, node: exp.Expr, message: str) -> None:
        self.node = node
        self.message = message
        super().__init__(message)


class Nulls(Enum):
    """When a function may give NULL."""

    ANY = "if one of its arguments may"
    ALL = "if all of its arguments may"
    ALWAYS = "whatever its arguments"
    NEVER = "never"

    def of(self, arguments: Sequence[ScalarType]) -> bool:
        match self:
            case Nulls.ANY:
                return any(argument.nullable for argument in arguments)
            case Nulls.ALL:
                return all(argument.nullable for argument in arguments)
            case Nulls.ALWAYS:
                return True
            case Nulls.NEVER:
                return False


TypeRule = Callable[[exp.Expr, Sequence[ScalarType]], str]


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a function: the type it gives, by name or by rule, and when it may give NULL."""

    gives: str | TypeRule
    nulls: Nulls = Nulls.ANY


def _unify(node: exp.Expr, types: Sequence[str]) -> str:
    result = "void"
    for type_ in types:
        wider = common_type(result, type_)
        if wider is None:
            raise UnknownType(node, f"{text(node)}: {result} and {type_} have no common type")
        result = wider
    return result


def _common(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return _unify(node, [argument.type for argument in arguments])


def _first(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return arguments[0].type


def _first_number(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return "double" if arguments[0].type in ("string", "void") else arguments[0].type


def _whole(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    """FLOOR and CEIL."""
    if node.args.get("decimals") is not None:
        raise UnknownType(node, f"{text(node)}: FLOOR and CEIL to a number of digits are not supported")
    if match := DECIMAL.match(arguments[0].type):
        precision, scale = int(match[1]), int(match[2])
        return arguments[0].type if scale == 0 else decimal(precision - scale + 1, 0)
    return "bigint"


def _rounded(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    match = DECIMAL.match(arguments[0].type)
    if not match:
        return _first_number(node, arguments)
    precision, scale = int(match[1]), int(match[2])
    digits = _integer(_arguments(node)[1]) if len(arguments) > 1 else 0
    if digits is None:
        raise UnknownType(node, f"{text(node)}: the number of digits must be an integer literal")
    integral = precision - scale + 1
    if digits < 0:
        return decimal(max(integral, -digits + 1), 0)
    return decimal(integral + min(scale, digits), min(scale, digits))


def _concatenated(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    types = {argument.type for argument in arguments}
    if types == {"binary"}:
        return "binary"
    if any(type_.startswith("array") for type_ in types):
        raise UnknownType(node, f"{text(node)}: arrays are not supported")
    return "string"


def _bits(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return _common(node, arguments)


_BOOLEAN = Fact("boolean")
_STRING = Fact("string")
_INT = Fact("int")
_DOUBLE = Fact("double")
_DATE = Fact("date")
_COMMON = Fact(_common)

_BY_CLASS: dict[type[exp.Expr], Fact] = {
    # comparison and logic
    exp.EQ: _BOOLEAN,
    exp.NEQ: _BOOLEAN,
    exp.LT: _BOOLEAN,
    exp.LTE: _BOOLEAN,
    exp.GT: _BOOLEAN,
    exp.GTE: _BOOLEAN,
    exp.And: _BOOLEAN,
    exp.Or: _BOOLEAN,
    exp.Not: _BOOLEAN,
    exp.Between: _BOOLEAN,
    exp.Like: _BOOLEAN,
    exp.ILike: _BOOLEAN,
    exp.Escape: Fact(_first),
    exp.RegexpLike: _BOOLEAN,
    exp.StartsWith: _BOOLEAN,
    exp.EndsWith: _BOOLEAN,
    exp.Contains: _BOOLEAN,
    exp.Is: Fact("boolean", Nulls.NEVER),
    exp.NullSafeEQ: Fact("boolean", Nulls.NEVER),
    exp.NullSafeNEQ: Fact("boolean", Nulls.NEVER),
    exp.EqualNull: Fact("boolean", Nulls.NEVER),
    exp.IsNan: Fact("boolean", Nulls.NEVER),
    # choice
    exp.Coalesce: Fact(_common, Nulls.ALL),
    exp.Nullif: Fact(_first, Nulls.ALWAYS),
    exp.Greatest: Fact(_common, Nulls.ALL),
    exp.Least: Fact(_common, Nulls.ALL),
    exp.Nanvl: Fact("double"),
    # numbers
    exp.Abs: Fact(_first_number),
    exp.Floor: Fact(_whole),
    exp.Ceil: Fact(_whole),
    exp.Round: Fact(_rounded, Nulls.ANY),
    exp.Pow: _DOUBLE,
    exp.Sqrt: _DOUBLE,
    exp.Cbrt: _DOUBLE,
    exp.Exp: _DOUBLE,
    exp.Ln: Fact("double", Nulls.ALWAYS),
    exp.Log: Fact("double", Nulls.ALWAYS),
    exp.Sign: _DOUBLE,
    exp.BitwiseAnd: Fact(_bits),
    exp.BitwiseOr: Fact(_bits),
    exp.BitwiseXor: Fact(_bits),
    exp.BitwiseNot: Fact(_first),
    # strings
    exp.Concat: Fact(_concatenated),
    exp.DPipe: Fact(_concatenated),
    exp.ConcatWs: Fact("string", Nulls.ANY),
    exp.Upper: _STRING,
    exp.Lower: _STRING,
    exp.Initcap: _STRING,
    exp.Trim: _STRING,
    exp.Substring: _STRING,
    exp.SubstringIndex: _STRING,
    exp.Left: _STRING,
    exp.Right: _STRING,
    exp.Replace: _STRING,
    exp.Translate: _STRING,
    exp.Overlay: _STRING,
    exp.Pad: _STRING,
    exp.Reverse: _STRING,
    exp.Repeat: _STRING,
    exp.Soundex: _STRING,
    exp.MD5: _STRING,
    exp.SHA: _STRING,
    exp.SHA2: _STRING,
    exp.RegexpReplace: _STRING,
    exp.RegexpExtract: _STRING,
    exp.Chr: _STRING,
    exp.Length: _INT,
    exp.BitLength: _INT,
    exp.Ascii: _INT,
    exp.StrPosition: _INT,
    exp.Levenshtein: _INT,
    # dates and times
    exp.Year: _INT,
    exp.Month: _INT,
    exp.Day: _INT,
    exp.DayOfMonth: _INT,
    exp.DayOfWeek: _INT,
    exp.DayOfYear: _INT,
    exp.WeekOfYear: _INT,
    exp.Quarter: _INT,
    exp.Hour: _INT,
    exp.Minute: _INT,
    exp.Second: _INT,
    exp.TsOrDsAdd: _DATE,
    exp.AddMonths: _DATE,
    exp.LastDay: _DATE,
    exp.NextDay: Fact("date", Nulls.ALWAYS),
    exp.DateTrunc: Fact("date", Nulls.ALWAYS),
    exp.TimestampTrunc: Fact("timestamp", Nulls.ALWAYS),
    exp.TsOrDsToDate: _DATE,
    exp.DateFromUnixDate: _DATE,
    exp.TimeStrToTime: Fact(_first),
    exp.TimeToStr: _STRING,
    exp.MonthsBetween: _DOUBLE,
    exp.Dayname: _STRING,
    exp.Monthname: _STRING,
    exp.StrToUnix: Fact("bigint", Nulls.ALWAYS),
    exp.UnixToStr: Fact("string", Nulls.ALWAYS),
}

_BY_NAME: dict[str, Fact] = {
    "pmod": Fact(lambda node, arguments: _arithmetic_type(node, arguments, "%"), Nulls.ALWAYS),
    "bround": Fact(_rounded),
    "weekday": _INT,
    "isnull": Fact("boolean", Nulls.NEVER),
    "isnotnull": Fact("boolean", Nulls.NEVER),
    "hash": Fact("int", Nulls.NEVER),
    "xxhash64": Fact("bigint", Nulls.NEVER),
    "crc32": Fact("bigint"),
    "make_date": _DATE,
    "zeroifnull": Fact(lambda node, arguments: _unify(node, [arguments[0].type, "int"]), Nulls.NEVER),
    "nullifzero": Fact(_first, Nulls.ALWAYS),
    "raise_error": Fact("void", Nulls.ALWAYS),
    **{name: Fact(name) for name in ("bigint", "smallint", "tinyint", "float", "boolean", "binary", "timestamp")},
    "decimal": Fact("decimal(10,0)"),
}

_CHANGING: tuple[type[exp.Expr], ...] = (
    exp.Rand,
    exp.Randn,
    exp.Uuid,
    exp.CurrentDate,
    exp.CurrentTime,
    exp.CurrentTimestamp,
    exp.CurrentDatetime,
    exp.CurrentUser,
    exp.CurrentTimezone,
    exp.CurrentCatalog,
    exp.CurrentDatabase,
    exp.CurrentSchema,
    exp.Localtimestamp,
    exp.Shuffle,
)
_CHANGING_NAMES = frozenset(
    [
        "now",
        "curdate",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "uniform",
        "input_file_block_length",
        "session_user",
        "user",
        "randstr",
        "current_user",
        "current_timezone",
        "version",
    ]
)


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
            return ScalarType(_number_type(expression, expression.this), False)
        case exp.Neg(this=exp.Literal(is_string=False) as number):
            return ScalarType(_number_type(expression, f"-{number.this}"), False)
        case exp.Neg(this=inner):
            argument = of(inner)
            return ScalarType(_first_number(expression, [argument]), argument.nullable)
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
            parts = [of(part) for part in (expression.this, *expression.expressions)]
            return ScalarType("boolean", Nulls.ANY.of(parts))
        case exp.Extract(this=unit, expression=inner):
            type_ = "decimal(8,6)" if unit.name.lower() in ("second", "seconds", "s", "sec", "secs") else "int"
            return ScalarType(type_, of(inner).nullable)
        case exp.TimestampAdd(this=inner):
            moved = of(inner)
            return ScalarType("timestamp_ntz" if moved.type == "timestamp_ntz" else "timestamp", moved.nullable)
        case exp.Interval():
            return ScalarType(f"interval {expression.text('unit').lower().rstrip('s')}", False)
        case exp.AggFunc() | exp.Window() | exp.Subquery() | exp.Query() | exp.Star():
            raise UnknownType(expression, f"{text(expression)} is not a scalar expression")
    return _function(expression, columns)


def _function(node: exp.Expr, columns: Mapping[str, Column]) -> ScalarType:
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if isinstance(node, _CHANGING) or name in _CHANGING_NAMES:
        raise NotDeterministic(node, f"{text(node)} may give another value each time it is evaluated")
    fact = _BY_NAME.get(name) if name else _BY_CLASS.get(type(node))
    if fact is None:
        raise UnknownType(node, f"the type of {text(node)} is not known")
    arguments = [type_of(argument, columns) for argument in _arguments(node)]
    type_ = fact.gives if isinstance(fact.gives, str) else fact.gives(node, arguments)
    return ScalarType(type_, fact.nulls.of(arguments))


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node that are values; units, types and names are not."""
    return [
        part
        for part in node.iter_expressions()
        if not isinstance(part, exp.Var | exp.DataType | exp.Identifier | exp.Interval)
    ]


def _number_type(node: exp.Expr, digits: str) -> str:
    if "e" in digits.lower():
        return "double"
    number = Decimal(digits)
    if "." not in digits:
        for type_, bits in (("int", 31), ("bigint", 63)):
            if -(2**bits) <= int(number) < 2**bits:
                return type_
    return f"decimal({','.join(map(str, _literal_decimal(number)))})"


def _literal_decimal(number: Decimal) -> tuple[int, int]:
    _, digits, exponent = number.as_tuple()
    scale = -exponent if isinstance(exponent, int) else 0
    significant = len("".join(map(str, digits)).lstrip("0")) or 1
    return max(significant, scale), scale


def _integer(node: exp.Expr) -> int | None:
    """The value of an integer literal."""
    match node:
        case exp.Literal(is_string=False, this=digits) if digits.isdigit():
            return int(digits)
        case exp.Neg(this=inner):
            value = _integer(inner)
            return None if value is None else -value
        case exp.Paren(this=inner):
            return _integer(inner)
    return None


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
    for moved, interval in ((left, right), (right, left)):
        if isinstance(interval, exp.Interval):
            return _moved(type_of(moved, columns), interval)
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
    type_ = _arithmetic_type(node, arguments, operator)
    return ScalarType(type_, operator in "/%" or Nulls.ANY.of(arguments))


def _moved(time: ScalarType, interval: exp.Interval) -> ScalarType:
    """A date or time plus or minus an interval."""
    whole_days = interval.text("unit").lower().rstrip("s") in ("day", "week", "month", "year", "quarter")
    type_ = time.type if time.type != "date" or whole_days else "timestamp"
    return ScalarType(type_, time.nullable)


def _arithmetic_type(node: exp.Expr, arguments: Sequence[ScalarType], operator: str) -> str:
    left, right = (argument.type for argument in arguments)
    if left == "date" or right == "date":
        if operator == "-" and left == right:
            return "interval day"
        return "date"
    if left.startswith("timestamp"):
        return "interval day to second"
    # a string becomes what it is reckoned with; NULL too
    if left in ("string", "void") or right in ("string", "void"):
        both = {left, right}
        if both <= {"string", "void"}:
            left = right = "double"
        else:
            left = right = _unify(node, [left, right])
    if is_decimal(left) or is_decimal(right):
        parts = node.args.get("this"), node.args.get("expression")
        if isinstance(node, exp.Anonymous):
            parts = (node.expressions[0], node.expressions[1])
        exact = [_as_decimal(part, type_) for part, type_ in zip(parts, (left, right), strict=True)]
        if exact[0] and exact[1]:
            return _decimal_arithmetic(exact[0], exact[1], operator)
        return "double"
    if operator == "/":
        return "double"
    result = common_type(left, right)
    if result is None:
        raise UnknownType(node, f"{text(node)}: {left} and {right} do not go together")
    return result


def _as_decimal(node: object, type_: str) -> tuple[int, int] | None:
    if isinstance(node, exp.Expr) and is_integral(type_):
        value = _integer(node)
        if value is not None:
            return _literal_decimal(Decimal(value))
    return decimal_of(type_)


def _decimal_arithmetic(left: tuple[int, int], right: tuple[int, int], operator: str) -> str:
    (p1, s1), (p2, s2) = left, right
    scale = max(s1, s2)
    match operator:
        case "*":
            return adjusted(p1 + p2 + 1, s1 + s2)
        case "/":
            scale = max(MIN_ADJUSTED_SCALE, s1 + p2 + 1)
            return adjusted(p1 - s1 + s2 + scale, scale)
        case "%":
            return adjusted(min(p1 - s1, p2 - s2) + scale, scale)
    return adjusted(max(p1 - s1, p2 - s2) + scale + 1, scale)


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
    return ScalarType(_common(node, branches), nullable)


def _difference_of_dates(node: exp.Expr, columns: Mapping[str, Column]) -> ScalarType:
    arguments = [type_of(node.args[part], columns) for part in ("this", "expression")]
    with_unit = node.args.get("unit") is not None
    return ScalarType("bigint" if with_unit else "int", Nulls.ANY.of(arguments))


_RANKS = {"rownumber": "int", "rank": "int", "denserank": "int", "ntile": "int", "percentrank": "double"}
_RANKS |= {"cumedist": "double"}


def window_type(call: exp.Window, columns: Mapping[str, Column]) -> ScalarType:
    """The type of a call with OVER. An aggregate over a frame may be NULL, but for COUNT."""
    function = call.this.this if isinstance(call.this, exp.IgnoreNulls | exp.RespectNulls) else call.this
    name = function.key
    if name in _RANKS:
        return ScalarType(_RANKS[name], False)
    if isinstance(function, exp.Lag | exp.Lead | exp.FirstValue | exp.LastValue | exp.NthValue | exp.First | exp.Last):
        return ScalarType(type_of(function.this, columns).type, True)
    if (aggregate := call_of(function)) is not None:
        return aggregate_type(aggregate.function, *(type_of(argument, columns) for argument in aggregate.arguments))
    raise UnknownType(call, f"the type of {text(call)} is not known")
