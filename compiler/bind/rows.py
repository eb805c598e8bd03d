"""The rows that the expressions of a query block are over.

They grow: a subquery in an expression is joined to them, a window function is computed beside them, and the
expression then reads the new column. The user's names stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import Column, Item, Project, Rel, Select, col
from ..properties import schema
from .scope import Binder, Environment, Source, fresh


class Rows:
    """The rows after FROM and WHERE, before grouping."""

    def __init__(self, binder: Binder, environment: Environment, source: Source) -> None:
        self.binder = binder
        self.environment = environment
        self.scope = source.scope
        self.rel = source.rel
        self.added: dict[str, str] = {}  # columns that were computed beside the rows, by what they are
        self.domain: tuple[str, ...] = ()  # columns that tell the outer rows apart, in a subquery
        self.outside: dict[str, Column] = {}  # outer columns that conditions read
        self.correlated: list[exp.Expr] = []  # conditions that read them
        self.pulls_up = False  # whether such conditions may be taken out of the subquery

    @property
    def columns(self) -> Mapping[str, Column]:
        return {column.name: column for column in schema(self.rel)} | self.outside

    def replaced(self, node: exp.Expr) -> exp.Expr | None:
        """The column that stands for a whole expression, if there is one."""
        return None

    def column(self, node: exp.Column) -> exp.Expr:
        """The column that a name means: of these rows, or of the rows around a subquery."""
        if node.args.get("db"):
            raise self.binder.fail("DF0205", "a column's name has at most two parts", node)
        found = self.binder.find(node.this, self.scope, node.table)
        if found is not None:
            return col(found.column)
        outer = self.outer_column(node)
        return outer if outer is not None else col(self.binder.visible(node.this, self.scope, node.table).column)

    def outer_reference(self, node: exp.Column) -> str | None:
        """The column that a name in a subquery over these rows means, or None."""
        found = self.binder.find(node.this, self.scope, node.table)
        if found is not None:
            return found.column
        further = self.outer_column(node)
        return None if further is None else further.name

    def outer_column(self, node: exp.Column) -> exp.Expr | None:
        reference = self.binder.outer.reference(node) if self.binder.outer is not None else None
        if reference is None:
            return None
        if reference.name not in self.domain:
            self.outside[reference.name] = reference
        return col(reference.name)

    def add(self, hint: str, expression: exp.Expr) -> str:
        """The name of a column that holds the expression; it is computed beside the rows unless it is one of them."""
        if isinstance(expression, exp.Column):
            return expression.name
        text = scalars.text(expression)
        if text not in self.added:
            name = fresh(hint, set(self.rel.names))
            kept = tuple(Item(n, col(n)) for n in self.rel.names)
            self.rel = Project(self.rel, (*kept, Item(name, expression)))
            self.added[text] = name
        return self.added[text]

    def keep(self, condition: exp.Expr) -> None:
        """Keeps the rows for which the condition is true."""
        if scalars.columns_of(condition) & set(self.outside):
            self.correlated.append(condition)
        else:
            self.rel = Select(self.rel, condition)

    def attach(self, rel: Rel) -> None:
        self.rel = rel
