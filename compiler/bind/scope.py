"""Names: what a query can see, how a name is looked up, and how new ones are made."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from sqlglot import exp

from ..algebra import Column, Item, Rel, col
from ..catalog import Catalog
from ..prune import project
from ..read import place_of
from ..source import Diagnostic, InputError, Span

Environment = Mapping[str, Rel]  # relations by case-folded name


@dataclass(frozen=True, slots=True)
class Visible:
    """A column that a query can name: by itself or behind the alias of its relation."""

    alias: str
    name: str  # as the user calls it
    column: str  # as the algebra calls it
    merged: bool = False  # by USING: the unqualified name means another column

    def answers(self, name: str, table: str) -> bool:
        """Whether it is called so: behind its relation's alias, or alone."""
        if self.name.casefold() != name.casefold():
            return False
        return self.alias.casefold() == table.casefold() if table else not self.merged


@dataclass(frozen=True, slots=True)
class Source:
    """Rows that expressions are over: a relation and the names of its columns."""

    rel: Rel
    scope: tuple[Visible, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """A column that a query gives: the user's name of it, empty where it has none, and its place."""

    name: str
    node: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Correlation:
    """How a subquery hangs on the rows around it: `condition` is over its `columns` and outer columns (`outer_name`).

    The columns follow the subquery's outputs in its relation.
    """

    columns: tuple[str, ...] = ()
    conditions: tuple[exp.Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Bound:
    """A bound query: its columns are, in order, those of the relation; two outputs may have one name.

    An aggregate without GROUP BY gives one row even of no rows: `on_no_rows` are its values then. Correlated, it gives
    none for outer rows without a match, and who attaches it puts them back.
    """

    rel: Rel
    outputs: tuple[Output, ...]
    correlation: Correlation = Correlation()
    on_no_rows: tuple[exp.Expr, ...] | None = None


class Outer(Protocol):
    """The rows around a subquery, as its names are looked up in them."""

    def reference(self, node: exp.Column) -> Column | None:
        """The outer column that a name means, under the name that it has inside of the subquery."""
        ...


@dataclass(frozen=True, slots=True)
class Binder:
    """What binding one view needs everywhere: the catalog, the view's place, and the way back to whole queries."""

    catalog: Catalog
    span: Span
    bind_query: Callable[[Binder, exp.Expr, Environment], Bound]
    outer: Outer | None = None  # where a name is looked up that the query itself does not have
    warnings: list[Diagnostic] = field(default_factory=list)

    def fail(self, code: str, message: str, node: exp.Expr | None, remedy: str = "") -> InputError:
        return InputError([Diagnostic(code, message, place_of(node, self.span), remedy)])

    def unsupported(self, construct: str, node: exp.Expr | None, remedy: str = "") -> InputError:
        return self.fail("DF0301", f"{construct} is not supported in a view yet", node, remedy)

    def query(self, query: exp.Expr, environment: Environment) -> Bound:
        return self.bind_query(self, query, environment)

    def require_names(self, outputs: tuple[Output, ...]) -> None:
        """For a query whose columns others read by name."""
        nameless = [o.node for o in outputs if not o.name and not isinstance(o.node, exp.Alias)]
        if nameless:
            message, remedy = "this column has no name", "give it one: … AS name"
            raise InputError([Diagnostic("DF0210", message, place_of(n, self.span), remedy) for n in nameless])

    def warn(self, code: str, message: str, node: exp.Expr | None, remedy: str = "") -> None:
        self.warnings.append(Diagnostic(code, message, place_of(node, self.span), remedy, severity="warning"))

    def visible(self, identifier: exp.Expr, scope: tuple[Visible, ...], table: str = "") -> Visible:
        """The column that a name means, behind an alias or alone."""
        found = self.find(identifier, scope, table)
        if found is None:
            where = f" in {table}" if table else ""
            known = [v.name for v in scope if not table or v.alias.casefold() == table.casefold()]
            message = f"there is no column {identifier.name}{where}"
            raise self.fail("DF0209", message, identifier, did_you_mean(identifier.name, known))
        return found

    def find(self, identifier: exp.Expr, scope: tuple[Visible, ...], table: str = "") -> Visible | None:
        """The column that a name means, or None if there is none; an error if there are two."""
        found = [v for v in scope if v.answers(identifier.name, table)]
        if len(found) > 1:
            owners = ", ".join(f"{v.alias}.{v.name}" for v in found)
            remedy = "put the relation's alias before it"
            raise self.fail("DF0208", f"{identifier.name} is ambiguous: {owners}", identifier, remedy)
        return found[0] if found else None


@contextmanager
def collecting(errors: list[Diagnostic]) -> Iterator[None]:
    """Errors raised inside are noted, so that those of the next part are found too."""
    try:
        yield
    except InputError as error:
        errors += error.diagnostics


def fresh(name: str, taken: set[str]) -> str:
    """The name, or the name with a number, so that no other column has it; it is taken from now on."""
    candidate, number = name, 2
    folded = {t.casefold() for t in taken}
    while candidate.casefold() in folded:
        candidate, number = f"{name}_{number}", number + 1
    taken.add(candidate)
    return candidate


def distinct_names(names: Iterable[str]) -> list[str]:
    taken: set[str] = set()
    return [fresh(name, taken) for name in names]


def rename_apart(source: Source, taken: tuple[str, ...]) -> Source:
    """Renames the columns of a join's right side that its left side has too."""
    used = set(taken) | set(source.rel.names)
    folded = {name.casefold() for name in taken}
    new_names = {v.column: fresh(f"{v.alias}_{v.name}", used) for v in source.scope if v.column.casefold() in folded}
    if not new_names:
        return source
    items = tuple(Item(new_names.get(name, name), col(name)) for name in source.rel.names)
    renamed = tuple(Visible(v.alias, v.name, new_names.get(v.column, v.column), v.merged) for v in source.scope)
    return Source(project(source.rel, items), renamed)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    by_folded = {k.casefold(): k for k in known}
    close = difflib.get_close_matches(name.casefold(), by_folded, n=2)
    if close:
        return "did you mean " + " or ".join(by_folded[c] for c in close) + "?"
    listed = ", ".join(list(by_folded.values())[:12])
    return f"there is: {listed}" if listed else ""
