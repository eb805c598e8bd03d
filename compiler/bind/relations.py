"""What stands in FROM: tables, subqueries, joins.

sqlglot hangs a PIVOT on the relation before it, also when that is the right side of a join, or on the join itself;
Spark pivots all that stands before it. So a pivot is applied here after the join, to the whole of FROM so far.
"""

from __future__ import annotations

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import Item, Join, Rel, Scan, col
from ..prune import project
from .expressions import condition
from .pivots import bind_pivot
from .scope import Binder, Environment, Source, Visible, did_you_mean, rename_apart

_PART_NAMES = {"laterals": "LATERAL VIEW", "sample": "TABLESAMPLE"}


def bind_from(binder: Binder, first: exp.Expr, joins: list[exp.Join], environment: Environment) -> Source:
    """The rows of FROM."""
    source = _pivoted(binder, _relation(binder, first, environment), first)
    for join in [*(first.args.get("joins") or []), *joins]:
        source = _join(binder, source, join, environment)
        source = _pivoted(binder, _pivoted(binder, source, join.this), join)
    return source


def named_query(binder: Binder, query: exp.Expr, environment: Environment, columns: list[exp.Identifier]) -> Rel:
    """A query that others read by name: its columns are called as they are seen."""
    bound = binder.query(query, environment)
    names = [identifier.name for identifier in columns] or [output.name for output in bound.outputs]
    if len(names) != len(bound.rel.names):
        raise binder.fail("DF0203", "the column list does not fit the query", columns[0])
    if len({name.casefold() for name in names}) != len(names):
        raise binder.fail("DF0204", "two columns of the subquery have one name", query, "rename one with AS")
    return project(bound.rel, tuple(Item(n, col(o)) for n, o in zip(names, bound.rel.names, strict=True)))


def _pivoted(binder: Binder, source: Source, node: exp.Expr) -> Source:
    for pivot in node.args.get("pivots") or []:
        source = bind_pivot(binder, source, pivot)
    return source


def _relation(binder: Binder, node: exp.Expr, environment: Environment) -> Source:
    for part in ("laterals", "sample", "version", "when"):
        if node.args.get(part):
            raise binder.unsupported(_PART_NAMES.get(part, part.upper()), node)
    match node:
        case exp.Table(this=exp.Identifier()):
            rel = _table(binder, node, environment)
        case exp.Subquery():
            columns = node.args["alias"].columns if node.args.get("alias") else []
            rel = named_query(binder, node.this, environment, columns)
        case _:
            raise binder.unsupported(type(node).__name__, node)
    return Source(rel, tuple(Visible(node.alias_or_name, name, name) for name in rel.names))


def _table(binder: Binder, node: exp.Table, environment: Environment) -> Rel:
    if node.args.get("db"):
        raise binder.fail("DF0205", f"{node.sql(dialect='spark')}: a relation's name has one part", node)
    rel = environment.get(node.name.casefold())
    if rel is None:
        shown = [r.ref.name if isinstance(r, Scan) else n for n, r in environment.items()]
        message = f"there is no table or view {node.name}"
        raise binder.fail("DF0206", message, node, did_you_mean(node.name, shown))
    return rel


def _join(binder: Binder, left: Source, join: exp.Join, environment: Environment) -> Source:
    words = " ".join(filter(None, (join.method, join.side, join.kind))).upper()
    if words not in ("", "INNER", "CROSS", "NATURAL", "NATURAL INNER"):
        raise binder.unsupported(f"{words} JOIN", join)
    right = _relation(binder, join.this, environment)
    for nested in join.this.args.get("joins") or []:
        right = _join(binder, right, nested, environment)
    aliases = {visible.alias.casefold() for visible in left.scope}
    if any(visible.alias and visible.alias.casefold() in aliases for visible in right.scope):
        message = f"two relations are called {right.scope[0].alias}"
        raise binder.fail("DF0207", message, join.this, "give one an alias")
    right = rename_apart(right, left.rel.names)
    using = list(join.args.get("using") or [])
    if words.startswith("NATURAL"):
        shared = [v.name for v in right.scope if any(w.name.casefold() == v.name.casefold() for w in left.scope)]
        using = [exp.to_identifier(name, quoted=True) for name in shared]
    pairs = [(binder.visible(name, left.scope), binder.visible(name, right.scope)) for name in using]
    equalities = tuple(exp.EQ(this=col(a.column), expression=col(b.column)) for a, b in pairs)
    merged = {b.column for _, b in pairs}
    renamed = (Visible(v.alias, v.name, v.column, v.merged or v.column in merged) for v in right.scope)
    scope = (*left.scope, *renamed)
    joined = Join(left.rel, right.rel, scalars.canonical(scalars.conjunction(equalities)))
    if on := join.args.get("on"):
        joined = Join(left.rel, right.rel, condition(binder, on, Source(joined, scope)))
    return Source(joined, scope)
