"""Facts about scalar functions: the type that each gives, and when it may give NULL.

Facts are keyed by sqlglot's node class, or by name for functions that sqlglot has no class for.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from . import nested
from .arithmetic import arithmetic_type, integer_of, unify
from .facts import Fact, Nulls, common_of, first_of
from .scalar import text
from .types import DECIMAL, ScalarType, UnknownType, decimal


def first_number(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return "double" if arguments[0].type in ("string", "void") else arguments[0].type


def _whole(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    """FLOOR and CEIL."""
    if node.args.get("decimals") is not None:
        if DECIMAL.match(arguments[0].type):
            return _rounded(node, arguments)
        raise UnknownType(node, f"{text(node)}: FLOOR and CEIL to a number of digits are of decimals")
    if match := DECIMAL.match(arguments[0].type):
        precision, scale = int(match[1]), int(match[2])
        return arguments[0].type if scale == 0 else decimal(precision - scale + 1, 0)
    return "bigint"


def _rounded(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    match = DECIMAL.match(arguments[0].type)
    if not match:
        return first_number(node, arguments)
    precision, scale = int(match[1]), int(match[2])
    digits = integer_of(value_arguments(node)[1]) if len(arguments) > 1 else 0
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
        return common_of(node, arguments)
    return "string"


def _reversed(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return arguments[0].type if arguments[0].type.startswith("array") else "string"


def _date_part(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    unit = value_arguments(node)[0]
    if not unit.is_string:
        raise UnknownType(node, f"{text(node)}: the part must be a string literal")
    return "decimal(8,6)" if unit.name.lower() in ("second", "seconds", "s", "sec", "secs") else "int"


def _bits(node: exp.Expr, arguments: Sequence[ScalarType]) -> str:
    return common_of(node, arguments)


_BOOLEAN = Fact("boolean")
_STRING = Fact("string")
_INT = Fact("int")
_DOUBLE = Fact("double")
_DATE = Fact("date")
_COMMON = Fact(common_of)

BY_CLASS: dict[type[exp.Expr], Fact] = {
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
    exp.Escape: Fact(first_of),
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
    exp.Coalesce: Fact(common_of, Nulls.ALL),
    exp.Nullif: Fact(first_of, Nulls.ALWAYS),
    exp.Greatest: Fact(common_of, Nulls.ALL),
    exp.Least: Fact(common_of, Nulls.ALL),
    exp.Nanvl: Fact("double"),
    # numbers
    exp.Abs: Fact(first_number),
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
    **dict.fromkeys((exp.Sin, exp.Cos, exp.Tan, exp.Asin, exp.Acos, exp.Atan, exp.Sinh, exp.Cosh, exp.Tanh), _DOUBLE),
    **dict.fromkeys((exp.Atan2, exp.Degrees, exp.Radians, exp.Rint), _DOUBLE),
    exp.Pi: Fact("double", Nulls.NEVER),
    exp.Factorial: Fact("bigint", Nulls.ALWAYS),
    exp.Negative: Fact(first_number),
    exp.WidthBucket: Fact("bigint", Nulls.ALWAYS),
    exp.BitwiseLeftShift: Fact(first_of),
    exp.BitwiseRightShift: Fact(first_of),
    exp.BitwiseCount: _INT,
    exp.BitwiseAnd: Fact(_bits),
    exp.BitwiseOr: Fact(_bits),
    exp.BitwiseXor: Fact(_bits),
    exp.BitwiseNot: Fact(first_of),
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
    exp.Reverse: Fact(_reversed),
    exp.Repeat: _STRING,
    exp.Soundex: _STRING,
    exp.MD5: _STRING,
    exp.SHA: _STRING,
    exp.SHA2: _STRING,
    exp.RegexpReplace: _STRING,
    exp.RegexpExtract: _STRING,
    exp.Chr: _STRING,
    exp.SplitPart: _STRING,
    exp.Collate: Fact(first_of),
    exp.Format: Fact("string", Nulls.ALWAYS),
    exp.Hex: _STRING,
    exp.Unhex: Fact("binary", Nulls.ALWAYS),
    exp.ToBase64: _STRING,
    exp.FromBase64: Fact("binary", Nulls.ALWAYS),
    exp.Encode: Fact("binary"),
    exp.Decode: _STRING,
    exp.RegexpSubstr: Fact("string", Nulls.ALWAYS),
    exp.RegexpCount: _INT,
    exp.RegexpInstr: _INT,
    exp.ParseUrl: Fact("string", Nulls.ALWAYS),
    exp.JSONExtractScalar: Fact("string", Nulls.ALWAYS),
    exp.JSONFormat: Fact("string", Nulls.ALWAYS),
    exp.Elt: Fact("string", Nulls.ALWAYS),
    exp.Typeof: Fact("string", Nulls.NEVER),
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
    exp.TimeStrToTime: Fact(first_of),
    exp.TimeToStr: _STRING,
    exp.MonthsBetween: _DOUBLE,
    exp.Dayname: _STRING,
    exp.Monthname: _STRING,
    exp.StrToTime: Fact("timestamp", Nulls.ALWAYS),
    exp.AtTimeZone: Fact("timestamp", Nulls.ALWAYS),
    exp.FromTimeZone: Fact("timestamp", Nulls.ALWAYS),
    exp.TimestampFromParts: Fact("timestamp", Nulls.ALWAYS),
    exp.UnixSeconds: Fact("bigint"),
    exp.UnixMillis: Fact("bigint"),
    exp.UnixMicros: Fact("bigint"),
    exp.StrToUnix: Fact("bigint", Nulls.ALWAYS),
    exp.UnixToStr: Fact("string", Nulls.ALWAYS),
    **nested.BY_CLASS,
}

BY_NAME: dict[str, Fact] = {
    "pmod": Fact(lambda node, arguments: arithmetic_type(node, arguments, "%"), Nulls.ALWAYS),
    "bround": Fact(_rounded),
    "weekday": _INT,
    "isnull": Fact("boolean", Nulls.NEVER),
    "isnotnull": Fact("boolean", Nulls.NEVER),
    "hash": Fact("int", Nulls.NEVER),
    "xxhash64": Fact("bigint", Nulls.NEVER),
    "crc32": Fact("bigint"),
    "make_date": _DATE,
    "zeroifnull": Fact(lambda node, arguments: unify(node, [arguments[0].type, "int"]), Nulls.NEVER),
    "nullifzero": Fact(first_of, Nulls.ALWAYS),
    "raise_error": Fact("void", Nulls.ALWAYS),
    **{name: Fact(name) for name in ("bigint", "smallint", "tinyint", "float", "boolean", "binary", "timestamp")},
    "decimal": Fact("decimal(10,0)"),
    **dict.fromkeys(("log1p", "hypot"), Fact("double", Nulls.ALWAYS)),
    "expm1": _DOUBLE,
    "e": Fact("double", Nulls.NEVER),
    "positive": Fact(first_number),
    "conv": Fact("string", Nulls.ALWAYS),
    "bin": _STRING,
    "btrim": _STRING,
    "to_char": _STRING,
    "unix_date": _INT,
    "octet_length": _INT,
    "find_in_set": _INT,
    "format_number": Fact("string", Nulls.ALWAYS),
    **dict.fromkeys(("mask", "url_encode", "url_decode"), Fact("string", Nulls.ALWAYS)),
    "luhn_check": _BOOLEAN,
    "date_part": Fact(_date_part),
    **dict.fromkeys(("timestamp_seconds", "timestamp_millis", "timestamp_micros"), Fact("timestamp", Nulls.ALWAYS)),
    "try_to_timestamp": Fact("timestamp", Nulls.ALWAYS),
    **nested.BY_NAME,
}

CHANGING: tuple[type[exp.Expr], ...] = (
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
CHANGING_NAMES = frozenset(
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


def value_arguments(node: exp.Expr) -> list[exp.Expr]:
    """The parts of a node that are values; units, types and names are not."""
    return [
        part
        for part in node.iter_expressions()
        if not isinstance(part, exp.Var | exp.DataType | exp.Identifier | exp.Interval | exp.JSONPath)
    ]
