"""A summary table as a generalized cube view, in terms that views are compared by. [summary-delta-1997, section 3.2]"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from .. import scalar
from ..catalog import Catalog
from ..summary import Part, Summary
from .implication import Comparison, comparison
from .star import Star, path_of, star_of


@dataclass(frozen=True, slots=True)
class Term:
    """An expression over attributes, with what is asked of it again and again."""

    expression: exp.Expr
    text: str
    attributes: frozenset[str]


def term(expression: exp.Expr) -> Term:
    return Term(expression, scalar.text(expression), scalar.columns_of(expression))


@dataclass(frozen=True, slots=True)
class CubePart:
    """A stored part, its argument over attributes."""

    part: Part
    argument: Term | None

    @property
    def text(self) -> str:
        return f"{self.part.function}({'*' if self.argument is None else self.argument.text})"

    @property
    def count_text(self) -> str:
        """The part that says how many values it has."""
        return f"count({self.argument.text})" if self.argument and self.part.nullable else "count(*)"


@dataclass(frozen=True, slots=True)
class Cube:
    """A summary table as a generalized cube view: a star, conditions, grouping expressions, parts."""

    summary: Summary
    star: Star
    keys: Mapping[str, Term]  # by stored name
    parts: Mapping[str, CubePart]  # by text
    described: Mapping[str, CubePart]  # the same by stored name; two names may hold one part
    conditions: Mapping[str, Term]  # by text
    comparisons: Mapping[str, Comparison | None]  # those of the conditions that compare with a constant

    @property
    def name(self) -> str:
        return self.summary.view

    @property
    def essential(self) -> frozenset[str]:
        """The arms whose columns the view itself uses. [appendix B]"""
        used = (*self.keys.values(), *self.conditions.values(), *(p.argument for p in self.parts.values()))
        return frozenset(path_of(name) for t in used if t is not None for name in t.attributes) & set(self.star.arms)


def cube_of(summary: Summary, catalog: Catalog) -> Cube:
    star = star_of(summary.core, catalog)
    keys = {stored: term(star.columns[column]) for stored, column in summary.keys}
    parts = []
    for part in summary.parts:
        argument = None if part.argument is None else term(scalar.substitute(part.argument, star.columns))
        parts.append(CubePart(part, argument))
    conditions = {text: term(expression) for text, expression in star.conditions.items()}
    comparisons = {text: comparison(t.expression) for text, t in conditions.items()}
    by_text = {part.text: part for part in reversed(parts)}
    described = {part.part.name: part for part in parts}
    return Cube(summary, star, keys, by_text, described, conditions, comparisons)
