"""Joins. A right join is a left join with the sides exchanged; the scope keeps the order in which they were written.

USING and NATURAL merge pairs of columns: the merged column comes first in `*`, and alone the name means it. It is the
left side's, of a right join the right side's, of a full join whichever is there. Both stay to be had by their alias.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import Item, Join, JoinKind, Project, Rel, col
from .correlation import bind_subquery
from .expressions import join_condition
from .rows import Rows
from .scope import Binder, Environment, Source, Visible, fresh, rename_apart

_KINDS = {
    "": JoinKind.INNER,
    "INNER": JoinKind.INNER,
    "CROSS": JoinKind.INNER,
    "LEFT": JoinKind.LEFT,
    "RIGHT": JoinKind.LEFT,
    "FULL": JoinKind.FULL,
    "SEMI": JoinKind.SEMI,
    "ANTI": JoinKind.ANTI,
}


def join_sources(binder: Binder, left: Source, right: Source, join: exp.Join) -> Source:
    """Two sources joined as JOIN says."""
    side, kind = _words(binder, join)
    clash = {v.alias.casefold() for v in left.scope if v.alias} & {v.alias.casefold() for v in right.scope}
    if clash:
        name = next(v.alias for v in right.scope if v.alias.casefold() in clash)
        raise binder.fail("DF0207", f"two relations are called {name}", join.this, "give one an alias")
    right = rename_apart(right, left.rel.names)
    pairs = _merged_pairs(binder, left, right, join)
    equalities = tuple(exp.EQ(this=col(a.column), expression=col(b.column)) for a, b in pairs)
    condition = scalars.canonical(scalars.conjunction(equalities))
    both = Source(Join(left.rel, right.rel, condition), left.scope + right.scope)
    if on := join.args.get("on"):
        condition = join_condition(binder, on, both)
    if side == "RIGHT":
        joined: Rel = Join(right.rel, left.rel, condition, kind)
    else:
        joined = Join(left.rel, right.rel, condition, kind)
    if kind in (JoinKind.SEMI, JoinKind.ANTI):
        first = tuple(a for a, _ in pairs)
        return Source(joined, first + tuple(v for v in left.scope if v not in first))
    return _merge(Source(joined, both.scope), pairs, side) if pairs else Source(joined, both.scope)


def _words(binder: Binder, join: exp.Join) -> tuple[str, JoinKind]:
    side, kind = join.side.upper(), join.kind.upper()
    if kind in ("SEMI", "ANTI") and side in ("", "LEFT"):
        return "", _KINDS[kind]
    if kind not in ("", "INNER", "OUTER", "CROSS") or join.method.upper() not in ("", "NATURAL"):
        raise binder.unsupported(f"{' '.join(filter(None, (join.method, side, kind))).upper()} JOIN", join)
    return side, _KINDS[side or ("" if kind == "OUTER" else kind)]


def _merged_pairs(binder: Binder, left: Source, right: Source, join: exp.Join) -> list[tuple[Visible, Visible]]:
    using = list(join.args.get("using") or [])
    if join.method.upper() == "NATURAL":
        there = {v.name.casefold() for v in right.scope if not v.merged}
        shared = [v.name for v in left.scope if not v.merged and v.name.casefold() in there]
        using = [exp.to_identifier(name, quoted=True) for name in shared]
    names = [identifier.this if isinstance(identifier, exp.Column) else identifier for identifier in using]
    return [(binder.visible(name, left.scope), binder.visible(name, right.scope)) for name in names]


def _merge(source: Source, pairs: list[tuple[Visible, Visible]], side: str) -> Source:
    rel, merged = source.rel, []
    if side == "FULL":
        taken = set(rel.names)
        items = []
        for a, b in pairs:
            name = fresh(a.name, taken)
            items.append(Item(name, scalars.canonical(exp.func("COALESCE", col(a.column), col(b.column)))))
            merged.append(Visible("", a.name, name))
        rel = Project(rel, (*(Item(name, col(name)) for name in rel.names), *items))
    else:
        merged = [b if side == "RIGHT" else a for a, b in pairs]
    of_pairs = {v for pair in pairs for v in pair}
    rest = [v for v in source.scope if v not in of_pairs]
    hidden = [replace(v, merged=True) for v in source.scope if v in of_pairs and v not in merged]
    return Source(rel, (*merged, *rest, *hidden))


def join_lateral(binder: Binder, left: Source, join: exp.Join, environment: Environment) -> Source:
    """A subquery in FROM that reads the relations before it."""
    lateral = join.this
    query = lateral.this
    if not isinstance(query, exp.Subquery) or lateral.args.get("view"):
        raise binder.unsupported("LATERAL VIEW" if lateral.args.get("view") else "LATERAL of this", lateral)
    side, kind = _words(binder, join)
    if kind not in (JoinKind.INNER, JoinKind.LEFT) or side == "RIGHT" or join.args.get("using") or join.method:
        raise binder.unsupported("this join with LATERAL", join)
    rows = Rows(binder, environment, left)
    sub = bind_subquery(rows, query)
    columns = lateral.args["alias"].columns if lateral.args.get("alias") else []
    names = tuple(identifier.name for identifier in columns) or sub.names
    if len(names) != len(sub.outputs):
        raise binder.fail("DF0203", "the column list does not fit the query", columns[0])
    scope = (*left.scope, *(Visible(lateral.alias, n, c) for n, c in zip(names, sub.outputs, strict=True)))
    on = join.args.get("on")
    if sub.on_no_rows is None or not sub.correlated:
        both = Source(Join(rows.rel, sub.rel, sub.condition), scope)
        condition = sub.condition if on is None else _both(sub.condition, join_condition(binder, on, both))
        return Source(Join(rows.rel, sub.rel, condition, kind), scope)
    if on is not None and on != exp.true():
        raise binder.unsupported("ON with a LATERAL aggregate", on)
    matched = fresh("matched", set(rows.rel.names) | set(sub.rel.names))
    found = Project(sub.rel, (*(Item(name, col(name)) for name in sub.rel.names), Item(matched, exp.true())))
    there = exp.Not(this=exp.Is(this=col(matched), expression=exp.Null()))
    items = [Item(name, col(name)) for name in rows.rel.names]
    for name, empty in zip(sub.outputs, sub.on_no_rows, strict=True):
        case = exp.Case().when(there.copy(), col(name)).else_(empty.copy())
        items.append(Item(name, col(name) if empty == exp.Null() else scalars.canonical(case)))
    return Source(Project(Join(rows.rel, found, sub.condition, JoinKind.LEFT), tuple(items)), scope)


def _both(first: exp.Expr, second: exp.Expr) -> exp.Expr:
    parts = tuple(p for p in (*scalars.conjuncts(first), *scalars.conjuncts(second)) if p != scalars.TRUE)
    return scalars.canonical(scalars.conjunction(parts))
