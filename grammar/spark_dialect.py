"""Spark SQL as view files write it: sqlglot's Spark dialect, with what it does not read yet.

- PIVOT takes any expression over aggregates, as in `sum(v) + 1`.
- A quote written twice within a string is a quote; sqlglot puts two strings together, as Spark 3 did.
- PERCENTILE(x, p, frequency) keeps its third argument; TO_CHAR and UNIX_DATE stay what they are, since sqlglot prints
  them as casts and differences.
- GPIVOT (m, … FOR b IN (…)) spreads measures without aggregating them; see docs/gpivot.md. It is read as the PIVOT by
  FIRST that gives the same rows, and marked, so that its text in Spark SQL is right as it is.
"""

from __future__ import annotations

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

_MARK = "gpivot"


def is_gpivot(pivot: exp.Expr) -> bool:
    """Whether a pivot was written as GPIVOT."""
    return bool(pivot.meta.get(_MARK))


class SparkViewParser(SparkParser):
    # `sum(v) + 1 FOR a IN (…)` is no list comprehension
    RANGE_PARSERS = {  # noqa: RUF012
        token: parser for token, parser in SparkParser.RANGE_PARSERS.items() if token is not TokenType.FOR
    }

    FUNCTIONS = {  # noqa: RUF012
        **{name: build for name, build in SparkParser.FUNCTIONS.items() if name not in ("TO_CHAR", "UNIX_DATE")},
        "PERCENTILE": lambda args: (
            exp.Quantile.from_arg_list(args) if len(args) < 3 else exp.Anonymous(this="percentile", expressions=args)
        ),
    }

    def _parse_pivot_aggregation(self) -> exp.Expr | None:
        return self._parse_alias(self._parse_disjunction())

    def _parse_pivot(self) -> exp.Pivot | None:
        written = self._curr.text.upper()
        pivot = super()._parse_pivot()
        if pivot is not None and written == "GPIVOT":
            pivot.meta[_MARK] = True
            pivot.set("expressions", [self._spread(measure) for measure in pivot.expressions])
        return pivot

    def _spread(self, measure: exp.Expr) -> exp.Expr:
        column = measure.unalias()
        if not isinstance(column, exp.Column):
            self.raise_error("Expecting columns without aggregates in GPIVOT")
        name = measure.args["alias"] if isinstance(measure, exp.Alias) else column.this
        return exp.Alias(this=exp.First(this=column), alias=name.copy())


class SparkViews(Spark):
    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012
        KEYWORDS = {**Spark.Tokenizer.KEYWORDS, "GPIVOT": TokenType.PIVOT}  # noqa: RUF012

    Parser = SparkViewParser
