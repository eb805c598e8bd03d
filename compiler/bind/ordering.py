"""ORDER BY, LIMIT and OFFSET. A bag has no order, so ORDER BY matters only for which rows a LIMIT keeps."""

from __future__ import annotations

from sqlglot import exp

from .. import scalar as scalars
from ..algebra import GroupBy, Item, Join, JoinKind, Limit, Project, Rel, Scan, Select, SortKey, Window, col
from ..catalog import Catalog
from ..properties import keys
from .scope import Binder, fresh


def limits(binder: Binder, query: exp.Expr) -> tuple[int | None, int]:
    """How many rows are kept, all if None, after how many that are left out."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    if isinstance(limit, exp.Fetch):
        raise binder.unsupported("FETCH", limit)
    return (None if limit is None else _number(binder, limit)), (0 if offset is None else _number(binder, offset) or 0)


def _number(binder: Binder, node: exp.Expr) -> int | None:
    match node.expression:
        case exp.Literal(is_string=False, this=digits) if digits.isdigit():
            return int(digits)
        case exp.Var(this=word) if word.upper() == "ALL":
            return None
    raise binder.unsupported("LIMIT of anything but a number", node)


def limited(binder: Binder, rel: Rel, order: list[SortKey], query: exp.Expr, domain: tuple[str, ...] = ()) -> Rel:
    """The rows that LIMIT and OFFSET keep; of a subquery over a domain, for each of its rows."""
    count, offset = limits(binder, query)
    if count is None and offset == 0:
        return rel
    by = {key.expression.name for key in order if isinstance(key.expression, exp.Column)} | set(domain)
    if count != 0 and not _is_total(rel, frozenset(by), binder.catalog):
        binder.warn(
            "DF0603",
            "LIMIT keeps rows in an order that is not known to be total: which ones may change from run to run",
            query.args.get("limit") or query.args.get("offset"),
            "order by a key as well",
        )
    if not domain:
        return Limit(rel, tuple(order), count, offset)
    return _limited_each(rel, order, count, offset, domain)


def _is_total(rel: Rel, by: frozenset[str], catalog: Catalog) -> bool:
    """Whether no two rows agree on these columns, as far as the shape of the relation tells. NULLs are values here."""
    if by >= set(rel.names):
        return True  # rows that agree on everything are the same row twice
    match rel:
        case Project(input, items):
            kept = {i.expression.name for i in items if i.name in by and isinstance(i.expression, exp.Column)}
            return _is_total(input, frozenset(kept), catalog)
        case GroupBy(keys=grouped):
            return by >= set(grouped)
        case Join(left, right, _, kind):
            one_side = kind in (JoinKind.SEMI, JoinKind.ANTI)
            sides = (left,) if one_side else (left, right)
            return all(_is_total(side, by & frozenset(side.names), catalog) for side in sides)
        case Select(input, _) | Window(input, _) | Limit(input, _):
            return _is_total(input, by, catalog)
        case Scan():
            return any(key <= by for key in keys(rel, catalog))
    return False


def _limited_each(rel: Rel, order: list[SortKey], count: int | None, offset: int, domain: tuple[str, ...]) -> Rel:
    name = fresh("row_number", set(rel.names))
    by = [
        exp.Ordered(this=key.expression.copy(), desc=key.descending, nulls_first=key.nulls_first) for key in order
    ] or [exp.Ordered(this=exp.Literal.number(1), nulls_first=True)]
    call = exp.Window(
        this=exp.RowNumber(), partition_by=[col(n) for n in domain], order=exp.Order(expressions=by), over="OVER"
    )
    parts: list[exp.Expr] = [exp.GT(this=col(name), expression=exp.Literal.number(offset))] if offset else []
    if count is not None:
        parts.append(exp.LTE(this=col(name), expression=exp.Literal.number(offset + count)))
    numbered = Window(rel, (Item(name, scalars.canonical(call)),))
    kept = Select(numbered, scalars.canonical(scalars.conjunction(tuple(parts))))
    return Project(kept, tuple(Item(n, col(n)) for n in rel.names))


def sort_key(ordered: exp.Expr, bound: exp.Expr) -> SortKey:
    """NULLs come first in ascending and last in descending order, unless ORDER BY says otherwise."""
    descending = bool(ordered.args.get("desc"))
    nulls_first = ordered.args.get("nulls_first")
    return SortKey(bound, descending, not descending if nulls_first is None else bool(nulls_first))
