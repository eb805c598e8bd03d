"""Subqueries that read the rows around them, made into relations that are joined to those rows.

Two ways. *Pulled up*: outer columns stand in WHERE only; those conditions leave the subquery and become the join's.
A grouped subquery gives up equalities `inner = outer` only, and groups by `inner` as well. *Over a domain*: everything
else. The distinct values of the outer columns, the domain, are joined to the subquery's FROM, where they are columns
like any others; all that the subquery groups, orders or numbers is done for each of them; the join is on null-safe
equality with them. [kim-1982; neumann-kemper-2015]

    (SELECT MAX(b) FROM u WHERE u.k = t.k)         Join left [k = u_k]  t, GroupBy [u_k] u
    (SELECT MAX(b) FROM u WHERE u.k < t.k)         Join left [k <=> d]  t, GroupBy [d] (Join [u.k < d] D u)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import Column, GroupBy, Item, Join, Project, Rel, col
from ..source import InputError
from .rows import Rows
from .scope import Bound, Correlation, distinct_names

_OUTER, _DOMAIN = "__outer_", "__domain_"


class NeedsDomain(Exception):
    """A subquery reads outer columns where they cannot be pulled up from."""

    def __init__(self, around: Around) -> None:
        self.around = around
        super().__init__()


class Around:
    """The rows around a subquery."""

    def __init__(self, rows: Rows, domain: tuple[str, ...] | None = None) -> None:
        self.rows = rows
        self.domain = domain  # the outer columns that make it up, where there is one
        self.pulled_up = False  # whether conditions may read outer columns here
        self.used: dict[str, None] = {}

    def reference(self, node: exp.Column) -> Column | None:
        if node.args.get("db"):
            return None
        found = self.rows.outer_reference(node)
        if found is None:
            return None
        if self.domain is None and not self.pulled_up:
            raise NeedsDomain(self)
        self.used[found] = None
        column = self.rows.columns[found]
        return replace(column, name=(_OUTER if self.domain is None else _DOMAIN) + found)

    def needs_domain(self) -> NeedsDomain:
        return NeedsDomain(self)

    def domain_rel(self) -> Rel | None:
        """The distinct values of the outer columns."""
        if not self.domain:
            return None
        items = tuple(Item(_DOMAIN + name, col(name)) for name in self.domain)
        return GroupBy(Project(self.rows.rel, items), tuple(item.name for item in items), ())

    def domain_correlation(self) -> Correlation:
        names = self.domain or ()
        pairs = tuple(exp.NullSafeEQ(this=col(_OUTER + name), expression=col(_DOMAIN + name)) for name in names)
        return Correlation(tuple(_DOMAIN + name for name in names), pairs)


@dataclass(frozen=True, slots=True)
class Subquery:
    """A subquery beside the rows around it: no column of theirs has the name of one of its own."""

    rel: Rel
    names: tuple[str, ...]  # as the user calls its columns
    outputs: tuple[str, ...]
    keys: tuple[str, ...]  # the columns that the condition reads
    condition: exp.Expr
    on_no_rows: tuple[exp.Expr, ...] | None

    @property
    def correlated(self) -> bool:
        return self.condition != scalars.TRUE


def bind_subquery(rows: Rows, query: exp.Expr, *, by_equality: bool = False) -> Subquery:
    """A subquery over the rows. `by_equality`: each outer row is to match one value of the keys at most."""
    around = Around(rows)
    try:
        bound = _bind(around, query)
        if not (by_equality and not all(_is_equality(part) for part in bound.correlation.conditions)):
            return _beside(rows, bound)
    except NeedsDomain as need:
        if need.around is not around:
            raise
    return _beside(rows, _over_domain(rows, query))


def _over_domain(rows: Rows, query: exp.Expr) -> Bound:
    """Binds with all columns that the names in the query may mean, then with those that they do mean."""
    domain = tuple(dict.fromkeys(name for node in query.find_all(exp.Column) for name in _may_mean(rows, node)))
    while True:
        around = Around(rows, domain)
        bound = _bind(around, query)
        used = tuple(name for name in domain if name in around.used)
        if used == domain:
            return bound
        domain = used


def _may_mean(rows: Rows, node: exp.Column) -> tuple[str, ...]:
    try:
        name = None if node.args.get("db") else rows.outer_reference(node)
    except InputError:  # ambiguous out there, so it must be meant in the subquery
        return ()
    return () if name is None else (name,)


def _bind(around: Around, query: exp.Expr) -> Bound:
    binder = replace(around.rows.binder, outer=around)
    return binder.query(query, around.rows.environment)


def _is_equality(condition: exp.Expr) -> bool:
    match condition:
        case exp.EQ(this=left, expression=right) | exp.NullSafeEQ(this=left, expression=right):
            sides = [(_outer_only(left), right), (_outer_only(right), left)]
            return any(outer and isinstance(inner, exp.Column) for outer, inner in sides)
    return False


def _outer_only(expression: exp.Expr) -> bool:
    return all(name.startswith(_OUTER) for name in scalars.columns_of(expression))


def equality(condition: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The sides of `inner = outer`, the inner one first; None for another condition."""
    match condition:
        case exp.EQ(this=left, expression=right):
            for inner, outer in ((left, right), (right, left)):
                inside = scalars.columns_of(inner)
                if inside and _outer_only(outer) and not any(name.startswith(_OUTER) for name in inside):
                    return inner, outer
    return None


def _beside(rows: Rows, bound: Bound) -> Subquery:
    names = distinct_names((*rows.rel.names, *(name.removeprefix("__") for name in bound.rel.names)))
    renamed = dict(zip(bound.rel.names, names[len(rows.rel.names) :], strict=True))
    rel = Project(bound.rel, tuple(Item(new, col(old)) for old, new in renamed.items()))
    hidden = bound.correlation.columns
    outputs = tuple(renamed[name] for name in bound.rel.names if name not in hidden)
    meant = {name: col(new) for name, new in renamed.items() if name in hidden}
    meant |= {_OUTER + name: col(name) for name in rows.rel.names}
    conditions = tuple(scalars.substitute(part, meant) for part in bound.correlation.conditions)
    condition = scalars.canonical(scalars.conjunction(conditions))
    seen = tuple(output.name for output in bound.outputs)
    return Subquery(rel, seen, outputs, tuple(renamed[name] for name in hidden), condition, bound.on_no_rows)


def join_domain(rows: Rows) -> None:
    """Joins the domain, if the rows are those of a subquery over one, before anything else is done with them."""
    around = rows.binder.outer
    if isinstance(around, Around) and (domain := around.domain_rel()) is not None:
        rows.rel = Join(domain, rows.rel, scalars.TRUE.copy())
        rows.domain = domain.names
