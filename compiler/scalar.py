"""Scalar expressions: sqlglot's, with the few operations the compiler needs on them.

A *bound* expression refers to columns of its input by exact, quoted, unqualified names. `text` prints one as Spark
SQL and `parse` reads it back; `canonical` makes the two inverse to each other, so that plans print and parse alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

import sqlglot
from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import SqlglotError
from sqlglot.generators.spark import SparkGenerator

from ..grammar.spark_dialect import SparkViews
from .algebra import col
from .remembered import remembered

DIALECT = "spark"


class _Printed(Spark):
    """Spark SQL as it is printed: null-safe equality by its operator, which is shorter than the words; names that are
    plain without quotes."""

    class Generator(SparkGenerator):
        TRANSFORMS = {  # noqa: RUF012
            **SparkGenerator.TRANSFORMS,
            exp.NullSafeEQ: lambda self, e: self.binary(e, "<=>"),
            exp.Identifier: lambda self, e: quote(e.this),
        }


_PRINTED = _Printed()


_SIMPLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_KEYWORDS = frozenset(
    [
        "all",
        "and",
        "any",
        "as",
        "between",
        "by",
        "case",
        "cast",
        "cross",
        "current_date",
        "current_timestamp",
        "distinct",
        "else",
        "end",
        "except",
        "exists",
        "false",
        "filter",
        "for",
        "from",
        "gpivot",
        "full",
        "group",
        "having",
        "in",
        "inner",
        "intersect",
        "interval",
        "is",
        "join",
        "lateral",
        "left",
        "like",
        "limit",
        "natural",
        "not",
        "null",
        "on",
        "or",
        "order",
        "over",
        "outer",
        "pivot",
        "right",
        "rlike",
        "select",
        "semi",
        "anti",
        "then",
        "true",
        "union",
        "unpivot",
        "using",
        "values",
        "when",
        "where",
        "with",
    ]
)


@lru_cache(maxsize=10_000)
def is_plain_name(name: str) -> bool:
    """Whether Spark and sqlglot both read the name, unquoted, as a column."""
    if not _SIMPLE_NAME.match(name) or name.lower() in _KEYWORDS:
        return False
    try:
        parsed = sqlglot.parse_one(f"{name} + 1", dialect=DIALECT)
    except SqlglotError:
        return False
    match parsed:
        case exp.Add(this=exp.Column(this=exp.Identifier(this=read))):
            return bool(read == name)
    return False


def quote(name: str) -> str:
    """A name as Spark SQL: in backticks unless it is plain."""
    return name if is_plain_name(name) else "`" + name.replace("`", "``") + "`"


def text(expression: exp.Expr) -> str:
    """The expression as Spark SQL, on one line."""
    if isinstance(expression, exp.Column) and not expression.table:
        return quote(expression.name)
    return _text(expression)


@remembered
def _text(expression: exp.Expr) -> str:
    return _PRINTED.generate(copied(expression), copy=False, comments=False)


def copied(expression: exp.Expr) -> exp.Expr:
    """A copy without comments and places, which bound expressions do not need; sqlglot's own takes them along."""
    return type(expression)(**{name: _copied_argument(value) for name, value in expression.args.items()})


def _copied_argument(value: object) -> object:
    if isinstance(value, exp.Expr):
        return copied(value)
    return [_copied_argument(part) for part in value] if isinstance(value, list) else value


def _bind_names(node: exp.Expr) -> exp.Expr:
    if isinstance(node, exp.Identifier):
        return exp.Identifier(this=node.this, quoted=True)
    return node


def parse(sql: str) -> exp.Expr:
    """Reads a bound expression as `text` prints it."""
    return sqlglot.parse_one(sql, dialect=SparkViews).transform(_bind_names)


def canonical(expression: exp.Expr) -> exp.Expr:
    """The same expression in the form in which printing and parsing are inverse."""
    if isinstance(expression, exp.Column) and not expression.table:
        return col(expression.name)
    return copied(_reread(text(expression)))


@lru_cache(maxsize=20_000)
def _reread(printed: str) -> exp.Expr:
    for _ in range(4):
        again = parse(printed)
        if text(again) == printed:
            return again
        printed = text(again)
    return again


def bound(sql: str) -> exp.Expr:
    """Reads a bound expression as the compiler writes it, in canonical form."""
    return copied(_bound(sql))


@lru_cache(maxsize=20_000)
def _bound(sql: str) -> exp.Expr:
    return canonical(parse(sql))


def columns_of(expression: exp.Expr) -> frozenset[str]:
    """The names of the columns that the expression reads."""
    if isinstance(expression, exp.Column):
        return frozenset((expression.name,))
    return frozenset(node.name for node in expression.find_all(exp.Column))


def replace_columns(expression: exp.Expr, replacement: Callable[[exp.Column], exp.Expr]) -> exp.Expr:
    """The expression with each column reference replaced."""

    def replace(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column):
            new = replacement(node)
            return exp.Paren(this=new.copy()) if isinstance(new, exp.Binary | exp.Unary) else new.copy()
        return node

    if isinstance(expression, exp.Column):
        return replacement(expression).copy()
    return expression.transform(replace)


def substitute(expression: exp.Expr, by_name: Mapping[str, exp.Expr]) -> exp.Expr:
    """The expression with columns replaced by other expressions; columns not named stay."""
    return replace_columns(expression, lambda column: by_name.get(column.name, column))


def rename(expression: exp.Expr, new_names: Mapping[str, str]) -> exp.Expr:
    return substitute(expression, {old: col(new) for old, new in new_names.items()})


def conjuncts(expression: exp.Expr) -> tuple[exp.Expr, ...]:
    """The parts of a conjunction, in order."""
    match expression:
        case exp.And(this=left, expression=right):
            return conjuncts(left) + conjuncts(right)
        case exp.Paren(this=inner) if isinstance(inner, exp.And | exp.Paren):
            return conjuncts(inner)
    return (expression,)


TRUE = exp.Boolean(this=True)


def conjunction(parts: tuple[exp.Expr, ...]) -> exp.Expr:
    """The parts joined by AND; of no parts, TRUE."""
    if not parts:
        return TRUE.copy()
    wrapped = [exp.Paren(this=p.copy()) if isinstance(p, exp.Or) else p.copy() for p in parts]
    result = wrapped[0]
    for part in wrapped[1:]:
        result = exp.And(this=result, expression=part)
    return result
