"""Views in other dialects: their queries become Spark SQL through sqlglot, with places in the original text.

sqlglot translates names of functions and types; it does not know the types of columns, and some constructs mean
another thing in Spark whatever they are called. What would silently give other rows is refused (DF0702); what differs
only in scale, in rounding, or for odd data is a warning (DF0703):

| construct | there | in Spark | here |
|---|---|---|---|
| `a / b` of integers | truncates (Postgres, T-SQL, Trino …) | a double | `a DIV b`; warning where types are unknown |
| ordered ARRAY_AGG, percentile_cont | as written | the order, the exactness is lost | refused |
| ARRAY_AGG | keeps NULLs | COLLECT_LIST drops them | warning |
| CAST to an integer | rounds | truncates | warning |
| AVG of decimals | another scale | decimal(p+4, s+4) | warning |
| NUMERIC without precision | any precision | decimal(10, 0) | refused |
| empty COUNT cell of a PIVOT | 0 | NULL | warning |
| ROLLUP, CUBE, () over no rows | a grand total | no row | warning |
| GREATEST, LEAST with a NULL | NULL (Snowflake, MySQL …) | skips it | warning |
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Literal

import sqlglot
from sqlglot import ErrorLevel, exp
from sqlglot.dialects.dialect import Dialects
from sqlglot.errors import SqlglotError

from .scalar import DIALECT
from .source import Diagnostic, InputError, Span, place_of

NAMES = tuple(sorted(d.value for d in Dialects if d.value not in ("", "dax", "prql", "solr")))
_SAME_MEANING = ("spark", "spark2", "databricks", "hive")
_CASTS_TRUNCATE = (*_SAME_MEANING, "clickhouse", "fabric", "sqlite", "tsql")

Kind = Literal["integer", "decimal", "double", "other"]
Kinds = dict[str, set[Kind | None]]  # by the case-folded name of a column, whichever relation it is of


def column_kinds(schemas: Iterable[exp.Schema], queries: Iterable[exp.Expr]) -> Kinds:
    """What is known of the types of columns from their names alone: tables' columns, then aliases in queries."""
    kinds: Kinds = defaultdict(set)
    for schema in schemas:
        for definition in schema.find_all(exp.ColumnDef):
            kinds[definition.name.casefold()].add(_kind_of_type(definition.kind))
    for query in queries:
        for alias in query.find_all(exp.Alias):
            kinds[alias.alias.casefold()].add(_kind(alias.this, kinds))
    return kinds


def translate(query: exp.Expr, dialect: str, kinds: Kinds, span: Span) -> tuple[exp.Expr, str, list[Diagnostic]]:
    """The query as Spark's AST with places in the original, the same as text, and warnings."""
    errors: list[Diagnostic] = []
    warnings: list[Diagnostic] = []
    if dialect not in _SAME_MEANING:
        for diagnostic in _differences(query, dialect, kinds, span):
            (errors if diagnostic.severity == "error" else warnings).append(diagnostic)
        query = query.transform(lambda node: _integer_division(node, kinds))
    if errors:
        raise InputError(errors)
    translated, text = _in_spark(query, span)
    _carry_places(query, translated)
    if translated.find(exp.ApproxQuantile) and not query.find(exp.ApproxQuantile):
        node = query.find(exp.PercentileCont, exp.PercentileDisc, exp.Quantile)
        raise InputError(
            [_refused("an exact percentile becomes PERCENTILE_APPROX", node, span, "write PERCENTILE(x, p)")]
        )
    return translated, text, warnings


def _in_spark(query: exp.Expr, span: Span) -> tuple[exp.Expr, str]:
    try:
        text = query.sql(dialect=DIALECT, unsupported_level=ErrorLevel.RAISE, comments=False)
        return sqlglot.parse_one(text, dialect=DIALECT), text
    except (SqlglotError, ValueError, IndexError, AttributeError, TypeError, KeyError) as error:
        because = str(error).split("\n")[0].rstrip(".")
        message = f"this has no translation to Spark SQL: {because}"
        raise InputError([Diagnostic("DF0701", message, place_of(query, span), "write it in Spark SQL")]) from None


def _carry_places(original: exp.Expr, translated: exp.Expr) -> None:
    """The n-th node of a spelling stands where the n-th of that spelling stood; what is new has no place."""
    places: dict[str, list[exp.Expr]] = defaultdict(list)
    for node in _placed(original):
        places[_spelling(node)].append(node)
    for node in _placed(translated):
        same = places[_spelling(node)]
        source = same[0] if len(same) == 1 else same.pop(0) if same else None
        for part in ("line", "col", "start", "end"):
            if source is None:
                node.meta.pop(part, None)
            else:
                node.meta[part] = source.meta.get(part)


def _placed(query: exp.Expr) -> list[exp.Expr]:
    return sorted((n for n in query.walk() if n.meta.get("start") is not None), key=lambda n: n.meta["start"])


def _spelling(node: exp.Expr) -> str:
    named = isinstance(node, exp.Identifier | exp.Literal)
    return f"{type(node).__name__} {node.name.casefold() if named else ''}"


def _integer_division(node: exp.Expr, kinds: Kinds) -> exp.Expr:
    if isinstance(node, exp.Div) and node.args.get("typed"):
        if _kind(node.this, kinds) == _kind(node.expression, kinds) == "integer":
            return exp.IntDiv(this=node.this, expression=node.expression)
        node.set("typed", False)
    return node


# ---- what would mean another thing


def _refused(message: str, node: exp.Expr | None, span: Span, remedy: str = "") -> Diagnostic:
    return Diagnostic("DF0702", message, place_of(node, span), remedy)


def _differences(query: exp.Expr, dialect: str, kinds: Kinds, span: Span) -> Iterator[Diagnostic]:
    def differs(message: str, node: exp.Expr, remedy: str = "") -> Diagnostic:
        return Diagnostic("DF0703", message, place_of(node, span), remedy, severity="warning")

    for node in query.walk():
        match node:
            case exp.Div() if node.args.get("typed"):
                sides = {_kind(node.this, kinds), _kind(node.expression, kinds)}
                if sides <= {"integer", None} and None in sides:
                    message = f"{dialect} truncates the quotient of two integers, Spark does not"
                    yield differs(message, node, "cast one side to DECIMAL or DOUBLE, or use DIV in Spark SQL")
            case exp.ArrayAgg() if node.find(exp.Order):
                message = "the order of ARRAY_AGG has no translation to Spark SQL"
                yield _refused(
                    message, node, span, "leave out ORDER BY, or sort the array: SORT_ARRAY(COLLECT_LIST(x))"
                )
            case exp.ArrayAgg():
                yield differs("ARRAY_AGG keeps NULLs, Spark's COLLECT_LIST drops them", node)
            case exp.PercentileCont() | exp.PercentileDisc():
                message = "sqlglot gives PERCENTILE_APPROX for an exact percentile"
                yield _refused(message, node, span, "write PERCENTILE(x, p) in a file of Spark SQL")
            case exp.Cast(this=value, to=exp.DataType() as to):
                if to.this in exp.DataType.INTEGER_TYPES and dialect not in _CASTS_TRUNCATE:
                    if _kind(value, kinds) not in ("integer", "other"):
                        yield differs(f"{dialect} rounds in this cast, Spark truncates", node, "round first: ROUND(x)")
                elif to.this == exp.DataType.Type.DECIMAL and not to.expressions:
                    yield _unbounded(node, span)
            case exp.Avg(this=value) if _kind(value, kinds) == "decimal":
                yield differs(f"the average of decimals has another scale in {dialect} than in Spark", node)
            case exp.Pivot() if not node.args.get("unpivot") and any(e.find(exp.Count) for e in node.expressions):
                yield differs("an empty COUNT cell of a PIVOT is NULL in Spark", node, "COALESCE the cell with 0")
            case exp.Rollup() | exp.Cube() | exp.GroupingSets():
                yield differs("over no rows, this gives no grand total in Spark", node)
            case exp.Greatest() | exp.Least() if node.args.get("ignore_nulls") is False:
                yield differs(f"with a NULL this is NULL in {dialect}; Spark skips the NULL", node)


def refuse_unbounded(schema: exp.Schema, span: Span) -> list[Diagnostic]:
    """NUMERIC without precision holds any number in other dialects, and whole ones of ten digits in Spark."""
    return [
        _unbounded(definition, span)
        for definition in schema.find_all(exp.ColumnDef)
        if definition.kind and definition.kind.this == exp.DataType.Type.DECIMAL and not definition.kind.expressions
    ]


def _unbounded(node: exp.Expr, span: Span) -> Diagnostic:
    message = "NUMERIC without precision is DECIMAL(10, 0) in Spark"
    return _refused(message, node, span, "give it a precision and a scale: NUMERIC(18, 4)")


# ---- types from names


def _kind_of_type(type_: exp.DataType | None) -> Kind | None:
    if type_ is None:
        return None
    if type_.this in exp.DataType.INTEGER_TYPES:
        return "integer"
    if type_.this in exp.DataType.FLOAT_TYPES:
        return "double"
    return "decimal" if type_.this in exp.DataType.REAL_TYPES else "other"


def _kind(value: exp.Expr, kinds: Kinds) -> Kind | None:
    """What sort of number a value is, where that can be told."""
    match value:
        case exp.Column():
            found = kinds.get(value.name.casefold(), {None})
            return next(iter(found)) if len(found) == 1 else None
        case exp.Literal():
            return "other" if value.is_string else "integer" if value.name.isdigit() else "decimal"
        case exp.Count() | exp.CountIf() | exp.RowNumber() | exp.Rank() | exp.DenseRank() | exp.Length():
            return "integer"
        case exp.Cast(to=exp.DataType() as type_):
            return _kind_of_type(type_)
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Mod() | exp.Coalesce() | exp.Nullif() | exp.Div() | exp.IntDiv():
            parts = [value.this, *filter(None, [value.args.get("expression")]), *value.expressions]
            return _wider(_kind(part, kinds) for part in parts)
        case exp.Case():
            branches = [branch.args["true"] for branch in value.args["ifs"]]
            return _wider(_kind(b, kinds) for b in [*branches, *filter(None, [value.args.get("default")])])
        case exp.Avg(this=inner):
            return "double" if _kind(inner, kinds) == "double" else "decimal"
        case exp.Paren(this=inner) | exp.Neg(this=inner) | exp.Sum(this=inner) | exp.Min(this=inner):
            return _kind(inner, kinds)
        case exp.Max(this=inner) | exp.Abs(this=inner) | exp.Window(this=inner) | exp.Filter(this=inner):
            return _kind(inner, kinds)
        case exp.Distinct(expressions=[inner]):
            return _kind(inner, kinds)
    return None


def _wider(kinds: Iterable[Kind | None]) -> Kind | None:
    found = set(kinds)
    for kind in ("double", "decimal"):
        if kind in found:
            return kind
    return found.pop() if len(found) == 1 else None
