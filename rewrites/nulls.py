"""What a scalar expression may give when some of its columns are NULL: three-valued logic on sets of outcomes.

An expression has outcomes NULL, TRUE and FALSE; one that is not boolean and not NULL counts as both of the others.
The set that `outcomes` gives contains every outcome that can occur, so `never_true` and `always_null` may be trusted
when they hold. A function that is not known here may give anything.

| expression | outcomes |
|---|---|
| comparison, arithmetic, cast | NULL if an operand is NULL |
| AND, OR, NOT | Kleene's tables, on all combinations |
| IS NULL, <=>, COALESCE, CASE | look at NULL, so they may turn it into a value |
"""

from __future__ import annotations

from itertools import product

from sqlglot import exp

T, F, N = "true", "false", "null"
Outcomes = frozenset[str]
_ANY: Outcomes = frozenset((T, F, N))
_THERE: Outcomes = frozenset((T, F))
_NULL: Outcomes = frozenset((N,))
_TRUE: Outcomes = frozenset((T,))
_FALSE: Outcomes = frozenset((F,))
Names = frozenset[str]
_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_STRICT = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.Neg, exp.Cast, exp.Like, exp.Between, exp.Abs)


def never_true(expression: exp.Expr, null: Names) -> bool:
    """Whether a condition is false or unknown wherever the columns `null` are NULL."""
    return T not in outcomes(expression, null)


def always_true(expression: exp.Expr, null: Names) -> bool:
    return outcomes(expression, null) == _TRUE


def always_null(expression: exp.Expr, null: Names) -> bool:
    return outcomes(expression, null) == _NULL


def outcomes(expression: exp.Expr, null: Names) -> Outcomes:
    match expression:
        case exp.Column():
            return _NULL if expression.name in null else _ANY
        case exp.Null():
            return _NULL
        case exp.Boolean(this=truth):
            return _TRUE if truth else _FALSE
        case exp.Literal():
            return _THERE
        case exp.Paren(this=inner):
            return outcomes(inner, null)
        case exp.And(this=a, expression=b):
            return frozenset(_and(x, y) for x, y in product(outcomes(a, null), outcomes(b, null)))
        case exp.Or(this=a, expression=b):
            pairs = product(outcomes(a, null), outcomes(b, null))
            return frozenset(_not(_and(_not(x), _not(y))) for x, y in pairs)
        case exp.Not(this=a):
            return frozenset(_not(x) for x in outcomes(a, null))
        case exp.Is(this=a, expression=exp.Null()):
            return frozenset(T if x == N else F for x in outcomes(a, null))
        case exp.NullSafeEQ(this=a, expression=b):
            return _null_safe(a, b, null)
        case exp.Case(this=None):
            return _case(expression, null)
        case exp.Coalesce():
            return _coalesce([outcomes(part, null) for part in (expression.this, *expression.expressions)])
        case exp.In(this=a) if expression.expressions:
            return _in(a, expression.expressions, null)
        case _ if isinstance(expression, _COMPARISONS):
            return _comparison(expression, null)
        case _ if isinstance(expression, _STRICT):
            return _strict(expression, null)
    return _ANY


def _and(x: str, y: str) -> str:
    if F in (x, y):
        return F
    return N if N in (x, y) else T


def _not(x: str) -> str:
    return {T: F, F: T, N: N}[x]


def _comparison(expression: exp.Expr, null: Names) -> Outcomes:
    a, b = expression.this, expression.expression
    if isinstance(a, exp.Literal) and isinstance(b, exp.Literal) and a.is_string == b.is_string:
        if isinstance(expression, exp.EQ | exp.NEQ):
            same = a.this == b.this
            if same or a.is_string or (a.this.isdigit() and b.this.isdigit()):
                return _TRUE if same == isinstance(expression, exp.EQ) else _FALSE
        return _THERE
    sides = (outcomes(a, null), outcomes(b, null))
    if _NULL in sides:
        return _NULL
    return _ANY if any(N in side for side in sides) else _THERE


def _null_safe(a: exp.Expr, b: exp.Expr, null: Names) -> Outcomes:
    left, right = outcomes(a, null), outcomes(b, null)
    if left == right == _NULL:
        return _TRUE
    if (left == _NULL and N not in right) or (right == _NULL and N not in left):
        return _FALSE
    if isinstance(a, exp.Literal) and isinstance(b, exp.Literal):
        return _comparison(exp.EQ(this=a.copy(), expression=b.copy()), null)
    return _THERE


def _strict(expression: exp.Expr, null: Names) -> Outcomes:
    """NULL where an operand is; a cast and a division may be NULL besides."""
    operands = [part for part in expression.iter_expressions() if not isinstance(part, exp.DataType)]
    return _NULL if any(outcomes(part, null) == _NULL for part in operands) else _ANY


def _in(value: exp.Expr, listed: list[exp.Expr], null: Names) -> Outcomes:
    found: Outcomes = _FALSE
    for one in listed:
        equal = outcomes(exp.EQ(this=value.copy(), expression=one.copy()), null)
        found = frozenset(_not(_and(_not(x), _not(y))) for x, y in product(found, equal))
    return found


def _coalesce(parts: list[Outcomes]) -> Outcomes:
    found: set[str] = set()
    for part in parts:
        found |= part - _NULL
        if N not in part:
            return frozenset(found)
    return frozenset(found | _NULL)


def _case(expression: exp.Case, null: Names) -> Outcomes:
    found: set[str] = set()
    for branch in expression.args["ifs"]:
        condition = outcomes(branch.this, null)
        if T in condition:
            found |= outcomes(branch.args["true"], null)
        if condition == _TRUE:
            return frozenset(found)
    default = expression.args.get("default")
    return frozenset(found | (_NULL if default is None else outcomes(default, null)))
