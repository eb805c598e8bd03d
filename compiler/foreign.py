"""Foreign keys that make changes irrelevant.

A row that refers to another finds it there, before the batch as well as after it. So a row that is inserted into the
referenced table meets no row that was there before, if that table's changes only insert:

    old(L) ⋈ ΔR = ∅        where L refers to R, R is insert-only, and the join is on the foreign key

An update is a deletion and an insertion of the same key, so for other tables the term stays.
[version-numbers-2000, section 4.2]
"""

from __future__ import annotations

from sqlglot import exp

from . import scalar
from .algebra import Join, JoinKind, Project, Rel, Scan, Select
from .catalog import Catalog

Origin = tuple[tuple[int, ...], str, str]  # the way down to a scan, its table, its column


def origin(rel: Rel, name: str) -> Origin | None:
    """The table and column whose values a column carries along unchanged."""
    match rel:
        case Scan(ref, _):
            return (), ref.name, name
        case Select(input, _):
            return origin(input, name)
        case Project(input, items):
            found = next(item.expression for item in items if item.name == name)
            return origin(input, found.name) if isinstance(found, exp.Column) else None
        case Join(left, right, _, kind):
            if name in left.names and kind is not JoinKind.FULL:
                return _below(origin(left, name), 0)
            if kind is JoinKind.INNER:
                return _below(origin(right, name), 1)
    return None


def _below(found: Origin | None, side: int) -> Origin | None:
    return None if found is None else ((side, *found[0]), found[1], found[2])


def refers(referring: Rel, referenced: Rel, condition: exp.Expr, catalog: Catalog) -> bool:
    """Whether a join is on a foreign key of one side to the table that is the other."""
    pairs: dict[tuple[tuple[int, ...], str], set[tuple[str, str]]] = {}
    for part in scalar.conjuncts(condition):
        match part:
            case exp.EQ(this=exp.Column() as a, expression=exp.Column() as b):
                if b.name in referring.names:
                    a, b = b, a
                if a.name not in referring.names or b.name not in referenced.names:
                    continue
                source, target = origin(referring, a.name), origin(referenced, b.name)
                if source is not None and target is not None and target[0] == ():
                    pairs.setdefault(source[:2], set()).add((source[2], target[2]))
    name = _only_table(referenced)
    for (_, table_name), columns in pairs.items():
        table = catalog.table(table_name)
        for key in table.foreign_keys if table else ():
            if key.table == name and set(zip(key.columns, key.referenced, strict=True)) <= columns:
                return True
    return False


def _only_table(rel: Rel) -> str | None:
    """The table that a relation filters and projects."""
    match rel:
        case Scan(ref, _):
            return ref.name
        case Select(input, _) | Project(input, _):
            return _only_table(input)
    return None
