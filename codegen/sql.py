"""From algebra to the text of one Spark SQL query, for people who run it themselves.

A query is built as one block, SELECT … FROM … WHERE … GROUP BY …, for as long as the next operator fits on it; where it
does not, the block becomes a subquery of the next one. Column names are unique in every relation, so that none needs a
qualifier. All names go through `scalar.quote`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import count
from typing import assert_never

from ..compiler import scalar
from ..compiler.algebra import (
    ExceptAll,
    Expand,
    GPivot,
    GroupBy,
    GUnpivot,
    IntersectAll,
    Item,
    Join,
    JoinKind,
    Limit,
    Measure,
    Project,
    Rel,
    Scan,
    Select,
    SortKey,
    UnionAll,
    Values,
    Window,
    col,
)
from ..grammar.notation import arguments_text

Lines = tuple[str, ...]
_JOINS = {
    JoinKind.INNER: "JOIN",
    JoinKind.LEFT: "LEFT JOIN",
    JoinKind.FULL: "FULL JOIN",
    JoinKind.SEMI: "LEFT SEMI JOIN",
    JoinKind.ANTI: "LEFT ANTI JOIN",
}


@dataclass(frozen=True, slots=True)
class _Block:
    """A query that still grows: `chosen` is None while it only passes the columns of `source` on."""

    names: tuple[str, ...]
    source: Lines
    where: Lines = ()
    chosen: Lines | None = None
    tail: Lines = ()  # GROUP BY, ORDER BY, LIMIT
    hides: bool = False  # the source has more columns than `names`


def sql_text(rel: Rel) -> str:
    """The relation as a query."""
    return "\n".join(_query(_Writer().block(rel)))


class _Writer:
    def __init__(self) -> None:
        self.numbers = count(1)

    def block(self, rel: Rel) -> _Block:
        match rel:
            case Scan():
                return _Block(rel.names, (f"FROM {scalar.quote(rel.ref.name)}",))
            case Values():
                return self._whole(rel.names, _values(rel))
            case Select(input, condition):
                below = self._open(self.block(input))
                parts = [scalar.text(part) for part in scalar.conjuncts(condition)]
                parts = parts if len(parts) > 1 else [scalar.text(condition)]
                return replace(below, where=below.where + tuple(parts))
            case Project(input, items) if all(item.expression == col(item.name) for item in items):
                below = self._open(self.block(input))
                return replace(below, names=rel.names, hides=below.hides or len(rel.names) < len(below.names))
            case Project(input, items):
                return replace(self._open(self.block(input)), names=rel.names, chosen=_items(items))
            case Window(input, items):
                chosen = tuple(scalar.quote(name) for name in input.names) + _items(items)
                return replace(self._open(self.block(input)), names=rel.names, chosen=chosen)
            case GroupBy(input, keys, measures):
                return self._grouped(rel, input, keys, tuple(_measure(m) for m in measures))
            case GPivot(input, _, _):
                return self._grouped(rel, input, rel.keys, _cells(rel))
            case GUnpivot(input, _, _, _):
                return self._gathered(rel, self._open(self.block(input)))
            case Expand(input, branches):
                rows = [_struct(_items_sql(branch)) for branch in branches]
                return replace(self._open(self.block(input)), names=rel.names, chosen=(_inline(rows),))
            case Join():
                return self._joined(rel)
            case Limit(input, order, most, offset):
                below = self._open(self.block(input))
                tail: Lines = (f"ORDER BY {', '.join(map(_sort_key, order))}",) if order else ()
                tail += (f"LIMIT {most}",) if most is not None else ()
                tail += (f"OFFSET {offset}",) if offset else ()
                return replace(below, chosen=below.chosen or _columns(rel.names), tail=tail)
            case UnionAll(branches):
                return self._whole(rel.names, self._together(branches, "UNION ALL"))
            case ExceptAll(left, right):
                return self._whole(rel.names, self._together((left, right), "EXCEPT ALL"))
            case IntersectAll(left, right):
                return self._whole(rel.names, self._together((left, right), "INTERSECT ALL"))
            case _:
                assert_never(rel)

    def _open(self, block: _Block) -> _Block:
        """A block that another clause can be added to: itself, or one over it as a subquery."""
        if block.chosen is None and not block.tail:
            return block
        return _Block(block.names, ("FROM (", *_indent(_query(block)), f") AS q{next(self.numbers)}"))

    def _whole(self, names: tuple[str, ...], query: Lines) -> _Block:
        return _Block(names, ("FROM (", *_indent(query), f") AS q{next(self.numbers)}"))

    def _side(self, rel: Rel) -> Lines:
        """A side of a join, as it stands after FROM or JOIN."""
        if isinstance(rel, Scan):
            return (scalar.quote(rel.ref.name),)
        return ("(", *_indent(_query(self.block(rel))), f") AS q{next(self.numbers)}")

    def _joined(self, rel: Join) -> _Block:
        below = self.block(rel.left)
        if below.chosen is not None or below.where or below.tail or below.hides:
            left = self._side(rel.left)
            source: Lines = (f"FROM {left[0]}", *left[1:])
        else:
            source = below.source
        right = self._side(rel.right)
        source += (f"{_JOINS[rel.kind]} {right[0]}", *right[1:-1])
        last = (right[-1] if len(right) > 1 else source[-1]) + f" ON {scalar.text(rel.condition)}"
        return _Block(rel.names, (*source, last) if len(right) > 1 else (*source[:-1], last))

    def _grouped(self, rel: Rel, input: Rel, keys: tuple[str, ...], values: Lines) -> _Block:
        chosen = _columns(keys) + values
        grouped = (f"GROUP BY {', '.join(_columns(keys))}",) if keys else ()
        below = self._open(self.block(input))
        return replace(below, names=rel.names, chosen=chosen or ("count(*) AS rows",), tail=grouped)

    def _gathered(self, rel: GUnpivot, below: _Block) -> _Block:
        rows = []
        for group in rel.groups:
            held = {cell.measure: scalar.quote(cell.name) for cell in group}
            fields = [f"{scalar.text(v)} AS {scalar.quote(b)}" for b, v in zip(rel.by, group[0].values, strict=True)]
            fields += [f"{held.get(measure, 'NULL')} AS {scalar.quote(measure)}" for measure in rel.measures]
            rows.append(_struct(", ".join(fields)))
        made = replace(below, names=rel.names, chosen=(*_columns(rel.keys), _inline(rows)))
        if rel.include_nulls:
            return made
        some = " OR ".join(f"{scalar.quote(measure)} IS NOT NULL" for measure in rel.measures)
        return replace(self._open(made), where=(f"({some})" if len(rel.measures) > 1 else some,))

    def _together(self, branches: tuple[Rel, ...], word: str) -> Lines:
        lines: list[str] = []
        for branch in branches:
            lines += [word] if lines else []
            lines += ["(", *_indent(_query(self.block(branch))), ")"]
        return tuple(lines)


def _query(block: _Block) -> Lines:
    chosen = _columns(block.names) if block.chosen is None else block.chosen
    head = _list("SELECT", chosen or ("1 AS one",))
    where = _list("WHERE", block.where, " AND") if block.where else ()
    return (*head, *block.source, *where, *block.tail)


def _list(word: str, parts: Lines, between: str = ",") -> Lines:
    one_line = f"{word} {f'{between} '.join(parts)}"
    if len(one_line) <= 100:
        return (one_line,)
    return (word, *(f"  {part}{between}" for part in parts[:-1]), f"  {parts[-1]}")


def _columns(names: Iterable[str]) -> Lines:
    return tuple(scalar.quote(name) for name in names)


def _items(items: tuple[Item, ...]) -> Lines:
    texts = []
    for item in items:
        text, name = scalar.text(item.expression), scalar.quote(item.name)
        texts.append(text if text == name else f"{text} AS {name}")
    return tuple(texts)


def _items_sql(items: tuple[Item, ...]) -> str:
    return ", ".join(f"{scalar.text(item.expression)} AS {scalar.quote(item.name)}" for item in items)


def _measure(measure: Measure) -> str:
    return f"{measure.function}({arguments_text(measure)}) AS {scalar.quote(measure.name)}"


def _cells(rel: GPivot) -> Lines:
    cells = []
    for cell in rel.cells:
        here = " AND ".join(f"{scalar.quote(b)} <=> {scalar.text(v)}" for b, v in zip(rel.by, cell.values, strict=True))
        held = f"any_value(CASE WHEN {here} THEN {scalar.quote(cell.measure)} END, true)"
        cells.append(f"{held} AS {scalar.quote(cell.name)}")
    return tuple(cells)


def _values(rel: Values) -> Lines:
    casts = [f"CAST({{}} AS {column.type.upper()}) AS {scalar.quote(column.name)}" for column in rel.schema]
    if not rel.rows or not casts:
        none = ", ".join(cast.format("NULL") for cast in casts) or "1 AS one"
        return (f"SELECT {none} FROM range({len(rel.rows)})",)
    rows = [_struct(", ".join(c.format(scalar.text(v)) for c, v in zip(casts, row, strict=True))) for row in rel.rows]
    return (f"SELECT {_inline(rows)}",)


def _struct(fields: str) -> str:
    return f"struct({fields})"


def _inline(rows: list[str]) -> str:
    return f"inline(array({', '.join(rows)}))"


def _sort_key(key: SortKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{scalar.text(key.expression)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _indent(lines: Lines) -> Lines:
    return tuple(f"  {line}" for line in lines)
