"""The names that Spark gives to columns without alias: the expression, printed in Spark's own way.

Only where that way is certain: `count(1)` for COUNT(*), `(a + 1)`, `sum(qty)`, `CASE WHEN (a > 1) THEN b END`. Anything
else needs an alias. Names of columns and functions are as written, functions in lower case; strings have no quotes.
"""

from __future__ import annotations

from sqlglot import exp

_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
}
_FUNCTIONS = frozenset(
    (
        *("sum", "count", "avg", "min", "max", "count_if", "any_value", "first", "last", "bool_and", "bool_or"),
        *("stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "corr", "covar_pop", "covar_samp"),
        *("upper", "lower", "concat", "length", "left", "right", "coalesce", "nvl", "ifnull", "nullif", "round", "abs"),
    )
)


def spark_name(expression: exp.Expr, sql: str) -> str | None:
    """The name of a column that is this expression of a statement's text, or None where it is not certain."""
    match expression:
        case exp.Paren(this=inner):
            return spark_name(inner, sql)
        case exp.Cast(this=exp.Column() as column) if not expression.args.get("safe"):
            return str(column.name)
    return _printed(expression, sql)


def _printed(node: exp.Expr, sql: str) -> str | None:
    match node:
        case exp.Column():
            return str(node.name) if not isinstance(node.this, exp.Star) else None
        case exp.Paren(this=inner):
            return _printed(inner, sql)
        case exp.Null():
            return "NULL"
        case exp.Boolean(this=truth):
            return "true" if truth else "false"
        case exp.Literal(this=text, is_string=is_string):
            return str(text) if is_string or text.replace(".", "", 1).isdigit() else None
        case exp.Neg(this=exp.Literal(is_string=False) as number):
            return _of(sql, "-{}", number)
        case exp.Neg(this=inner):
            return _of(sql, "(- {})", inner)
        case exp.Not(this=exp.Is(this=inner, expression=exp.Null())):
            return _of(sql, "({} IS NOT NULL)", inner)
        case exp.Is(this=inner, expression=exp.Null()):
            return _of(sql, "({} IS NULL)", inner)
        case exp.Not(this=inner):
            return _of(sql, "(NOT {})", inner)
        case exp.NEQ(this=left, expression=right):
            return _of(sql, "(NOT ({} = {}))", left, right)
        case exp.Between(this=inner):
            return _of(sql, "between({}, {}, {})", inner, node.args["low"], node.args["high"])
        case exp.Like(this=left, expression=right):
            return _of(sql, "(NOT {} LIKE {})" if node.args.get("negate") else "{} LIKE {}", left, right)
        case exp.In(this=inner, expressions=[*listed]) if listed and not node.args.get("query"):
            return _of(sql, f"({{}} IN ({', '.join('{}' for _ in listed)}))", inner, *listed)
        case exp.Case():
            return _case(node, sql)
        case exp.Filter(this=call, expression=exp.Where(this=condition)):
            return _of(sql, "{} FILTER (WHERE {})", call, condition)
        case exp.Grouping():
            return _of(sql, "grouping({})", *node.expressions)
        case exp.GroupingId(expressions=[]):
            return "grouping_id()"
    operator = _OPERATORS.get(type(node))
    if operator is None and isinstance(node, exp.Func):
        return _call(node, sql)
    return _of(sql, f"({{}} {operator} {{}})", node.this, node.args["expression"]) if operator else None


def _of(sql: str, pattern: str, *parts: exp.Expr) -> str | None:
    printed = [_printed(part, sql) for part in parts]
    return None if None in printed else pattern.format(*printed)


def _case(node: exp.Case, sql: str) -> str | None:
    branches = []
    for branch in node.args["ifs"]:
        when = branch.this if node.this is None else exp.EQ(this=node.this.copy(), expression=branch.this.copy())
        branches.append(_of(sql, "WHEN {} THEN {}", when, branch.args["true"]))
    default = node.args.get("default")
    if default is not None:
        branches.append(_of(sql, "ELSE {}", default))
    return None if None in branches else f"CASE {' '.join(filter(None, branches))} END"


def _call(node: exp.Func, sql: str) -> str | None:
    if "start" not in node.meta:
        return None
    name = sql[node.meta["start"] : node.meta["end"] + 1].lower()  # sqlglot has one class for several names
    if name not in _FUNCTIONS:
        return None
    arguments: list[exp.Expr] = []
    distinct = ""
    for part in node.iter_expressions():
        if isinstance(part, exp.Distinct):
            distinct = "DISTINCT "
            arguments += part.expressions
        elif isinstance(part, exp.Star):
            arguments.append(exp.Literal.number(1))
        elif isinstance(part, exp.Identifier | exp.Var | exp.DataType | exp.Order):
            return None
        else:
            arguments.append(part)
    listed = _of(sql, ", ".join("{}" for _ in arguments), *arguments)
    return None if listed is None else f"{name}({distinct}{listed})"
