"""What stands in FROM: tables, subqueries, constant rows, joins.

sqlglot hangs a PIVOT on the relation before it, also when that is the right side of a join, or on the join itself;
Spark pivots all that stands before it. So a pivot is applied here after the join, to the whole of FROM so far.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ..algebra import Column, Item, Rel, Scan, Values, col
from ..prune import project
from ..types import common_type
from ..typing import type_of
from .expressions import scalar
from .joins import join_lateral, join_sources
from .pivots import bind_pivot
from .scope import Binder, Bound, Environment, Output, Source, Visible, did_you_mean

_PART_NAMES = {"laterals": "LATERAL VIEW", "sample": "TABLESAMPLE"}
ONE_ROW = Source(Values((), ((),)), ())


def bind_from(binder: Binder, query: exp.Select, environment: Environment) -> Source:
    """The rows of FROM; without FROM, one row without columns."""
    from_ = query.args.get("from_")
    if from_ is None:
        return ONE_ROW
    return _joined(replace(binder, outer=None), from_.this, query.args.get("joins") or [], environment)


def _joined(binder: Binder, first: exp.Expr, joins: list[exp.Join], environment: Environment) -> Source:
    source = _pivoted(binder, _relation(binder, first, environment), first)
    for join in [*(first.args.get("joins") or []), *joins]:
        source = _join(binder, source, join, environment)
        source = _pivoted(binder, _pivoted(binder, source, join.this), join)
    return source


def _join(binder: Binder, left: Source, join: exp.Join, environment: Environment) -> Source:
    if isinstance(join.this, exp.Lateral):
        return join_lateral(binder, left, join, environment)
    right = _relation(binder, join.this, environment)
    for nested in join.this.args.get("joins") or []:
        right = _join(binder, right, nested, environment)
    return join_sources(binder, left, right, join)


def named_query(binder: Binder, query: exp.Expr, environment: Environment, columns: list[exp.Identifier]) -> Rel:
    """A query that others read by name: its columns are called as they are seen."""
    bound = replace(binder, outer=None).query(query, environment)
    if not columns:
        binder.require_names(bound.outputs)
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
    columns = node.args["alias"].columns if node.args.get("alias") else []
    match node:
        case exp.Table(this=exp.Identifier()):
            rel = _table(binder, node, environment)
        case exp.Values():
            rel = bind_values(binder, node).rel
        case exp.Subquery(this=exp.Table() | exp.Values() | exp.Subquery() as inner) if not isinstance(
            inner, exp.Subquery
        ) or inner.args.get("joins"):
            source = _joined(binder, inner, [], environment)
            if not node.alias:
                return source
            rel = project(source.rel, tuple(Item(v.name, col(v.column)) for v in source.scope if not v.merged))
        case exp.Subquery():
            rel = named_query(binder, node.this, environment, columns)
            columns = []
        case _:
            raise binder.unsupported(type(node).__name__, node)
    if columns:
        if len(columns) != len(rel.names):
            raise binder.fail("DF0203", "the column list does not fit the relation", columns[0])
        rel = project(rel, tuple(Item(new.name, col(old)) for new, old in zip(columns, rel.names, strict=True)))
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


def bind_values(binder: Binder, node: exp.Values) -> Bound:
    """VALUES: constant rows; each column has the common type of its values."""
    rows = []
    for given in node.expressions:
        parts = given.expressions if isinstance(given, exp.Tuple) else [given]
        rows.append(tuple(scalar(binder, part, ONE_ROW) for part in parts))
    if any(len(row) != len(rows[0]) for row in rows):
        raise binder.fail("DF0203", "the rows of VALUES have different numbers of columns", node)
    columns = []
    for number, values in enumerate(zip(*rows, strict=True), start=1):
        kinds = [type_of(value, {}) for value in values]
        kind: str | None = "void"
        for other in kinds:
            kind = common_type(kind, other.type) if kind else None
        if kind is None:
            shown = ", ".join(dict.fromkeys(k.type for k in kinds))
            raise binder.fail("DF0303", f"column {number} of VALUES has no common type: {shown}", node)
        columns.append(Column(f"col{number}", kind, any(k.nullable for k in kinds)))
    outputs = tuple(Output(column.name, node) for column in columns)
    return Bound(Values(tuple(columns), tuple(rows)), outputs)
