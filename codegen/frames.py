"""From algebra to the text of a PySpark expression.

A relation becomes a chain of DataFrame calls, one a line. All SQL text and all names enter Python through `literal`;
column names enter SQL through `scalar.quote`.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Callable
from typing import assert_never

from ..compiler import scalar
from ..compiler.algebra import (
    Column,
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

WIDTH = 110
SHORT = 72  # a chain of two calls that is no longer stands on one line
SHORT_CHAIN = 2
Lines = list[str]
ScanText = Callable[[Scan], str]


def literal(text: str) -> str:
    """A string as a Python literal in double quotes; what does not print, such as a change of direction, is escaped."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted)


def identifier(name: str) -> str:
    """A Python name made of any name; distinct names stay distinct."""
    if name.isascii() and name.isidentifier() and not keyword.iskeyword(name):
        return name
    return "v_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name)


def expression(rel: Rel, scan: ScanText) -> Lines:
    """The relation as the lines of one Python expression, in parentheses where it needs more than one."""
    lines = _chain(rel, scan)
    one_line = "".join(lines)
    if len(lines) == 1 or (len(lines) <= SHORT_CHAIN and len(one_line) <= SHORT and "\n" not in one_line):
        return [one_line]
    return ["(", *_indent(lines), ")"]


def _chain(rel: Rel, scan: ScanText) -> Lines:
    match rel:
        case Scan():
            return [scan(rel)]
        case Select(input, condition):
            return [*_chain(input, scan), *_wrapped(".where", scalar.text(condition))]
        case Project(input, items):
            return [*_chain(input, scan), *_call(".select" if _only_columns(items) else ".selectExpr", _items(items))]
        case GroupBy(input, keys, ()) if keys:
            chosen = [] if keys == input.names else _call(".select", [_column(key) for key in keys])
            return [*_chain(input, scan), *chosen, ".distinct()"]
        case GroupBy(input, keys, measures):
            grouped = [f".groupBy({', '.join(_column(key) for key in keys)})"]
            return [*_chain(input, scan), *grouped, *_call(".agg", [_measure(m) for m in measures])]
        case Join(left, right, condition, kind):
            how = [] if kind is JoinKind.INNER else [literal(f"left_{kind}" if kind in ("semi", "anti") else str(kind))]
            if condition == scalar.TRUE and kind is JoinKind.INNER:
                return [*_chain(left, scan), *_nested(".crossJoin", _argument(right, scan), [])]
            on = f"F.expr({literal(scalar.text(condition))})"
            return [*_chain(left, scan), *_nested(".join", _argument(right, scan), [on, *how])]
        case UnionAll(branches):
            lines = _chain(branches[0], scan)
            for branch in branches[1:]:
                lines += _nested(".unionByName", _argument(branch, scan), [])
            return lines
        case ExceptAll(left, right):
            return [*_chain(left, scan), *_nested(".exceptAll", _argument(right, scan), [])]
        case IntersectAll(left, right):
            return [*_chain(left, scan), *_nested(".intersectAll", _argument(right, scan), [])]
        case Values():
            return _values(rel)
        case Expand(input, projections):
            return [
                *_chain(input, scan),
                *_call(".selectExpr", [literal(_inline([_items_sql(p) for p in projections]))]),
            ]
        case GPivot(input, _, _):
            return [*_chain(input, scan), *_pivot(rel)]
        case GUnpivot(input, _, _, _):
            return [*_chain(input, scan), *_unpivot(rel)]
        case Window(input, items):
            return [*_chain(input, scan), *_call(".selectExpr", ['"*"', *_items(items)])]
        case Limit(input, order, count, offset):
            lines = _chain(input, scan)
            lines += _call(".orderBy", [_sort_key(key) for key in order]) if order else []
            lines += [f".offset({offset})"] if offset else []
            return lines + ([] if count is None else [f".limit({count})"])
        case _:
            assert_never(rel)


def _values(rel: Values) -> Lines:
    """Constant rows; without columns, that many rows whose only column nothing reads."""
    if not rel.schema:
        return [f"w.spark.range({len(rel.rows)})"]
    rows = [_constants(rel.schema, [scalar.text(value) for value in row]) for row in rel.rows]
    if not rows:
        none = _constants(rel.schema, ["NULL"] * len(rel.schema))
        return _call("w.spark.sql", [literal(f"SELECT {none} WHERE FALSE")])
    return _call("w.spark.sql", [literal(f"SELECT {_inline(rows)}")])


def _constants(columns: tuple[Column, ...], values: list[str]) -> str:
    typed = zip(columns, values, strict=True)
    return ", ".join(
        f"CAST({value} AS {column.type.upper()}) AS {scalar.quote(column.name)}" for column, value in typed
    )


def _inline(rows: list[str]) -> str:
    """Several rows from one: each is the fields of a struct."""
    return f"inline(array({', '.join(f'struct({row})' for row in rows)}))"


def _items_sql(items: tuple[Item, ...]) -> str:
    return ", ".join(f"{scalar.text(item.expression)} AS {scalar.quote(item.name)}" for item in items)


def _pivot(rel: GPivot) -> Lines:
    cells = []
    for cell in rel.cells:
        here = " AND ".join(f"{scalar.quote(b)} <=> {scalar.text(v)}" for b, v in zip(rel.by, cell.values, strict=True))
        held = f"any_value(CASE WHEN {here} THEN {scalar.quote(cell.measure)} END, true)"
        cells.append(f"F.expr({literal(held)}).alias({literal(cell.name)})")
    return [f".groupBy({', '.join(_column(key) for key in rel.keys)})", *_call(".agg", cells)]


def _unpivot(rel: GUnpivot) -> Lines:
    rows = []
    for group in rel.groups:
        held = {cell.measure: scalar.quote(cell.name) for cell in group}
        fields = [f"{scalar.text(v)} AS {scalar.quote(b)}" for b, v in zip(rel.by, group[0].values, strict=True)]
        fields += [f"{held.get(measure, 'NULL')} AS {scalar.quote(measure)}" for measure in rel.measures]
        rows.append(", ".join(fields))
    lines = _call(".selectExpr", [*(_column(key) for key in rel.keys), literal(_inline(rows))])
    if rel.include_nulls:
        return lines
    some = " OR ".join(f"{scalar.quote(measure)} IS NOT NULL" for measure in rel.measures)
    return [*lines, f".where({literal(some)})"]


def _sort_key(key: SortKey) -> str:
    order = ("desc" if key.descending else "asc") + ("_nulls_first" if key.nulls_first else "_nulls_last")
    return f"F.expr({literal(scalar.text(key.expression))}).{order}()"


def _argument(rel: Rel, scan: ScanText) -> Lines:
    """The relation as an argument of a call, whose parentheses serve for its own."""
    lines = expression(rel, scan)
    return lines if len(lines) == 1 else [line[4:] for line in lines[1:-1]]


def _sql(text: str) -> list[str]:
    """SQL as a Python string; a long one as several that Python joins, broken before AND, OR and WHEN."""
    if len(text) <= WIDTH - 20:
        return [literal(text)]
    pieces, rest = [], text
    while len(rest) > WIDTH - 20:
        breaks = [m.start() + 1 for m in _BREAK.finditer(rest, 0, WIDTH - 20)]
        if not breaks:
            break
        pieces.append(rest[: breaks[-1]])
        rest = rest[breaks[-1] :]
    return [literal(piece) for piece in (*pieces, rest)]


_BREAK = re.compile(r" (?=AND |OR |WHEN |ELSE )")


def _wrapped(method: str, text: str, rest: str = "") -> Lines:
    """A call whose first argument is SQL."""
    pieces = _sql(text)
    if len(pieces) == 1:
        return [f"{method}({pieces[0]}{rest})"]
    return [f"{method}(", *_indent([*pieces[:-1], f"{pieces[-1]}{rest}"]), ")"]


def _only_columns(items: tuple[Item, ...]) -> bool:
    return all(item.expression == col(item.name) for item in items)


def _items(items: tuple[Item, ...]) -> list[str]:
    texts = []
    for item in items:
        text, name = scalar.text(item.expression), scalar.quote(item.name)
        texts.append(literal(text if text == name else f"{text} AS {name}"))
    return texts


def _column(name: str) -> str:
    return literal(scalar.quote(name))


def _measure(measure: Measure) -> str:
    call = f"F.expr({literal(f'{measure.function}({arguments_text(measure)})')})"
    return f"{call}.alias({literal(measure.name)})"


def _call(method: str, arguments: list[str]) -> Lines:
    one_line = f"{method}({', '.join(arguments)})"
    if len(one_line) <= WIDTH - 8:
        return [one_line]
    return [f"{method}(", *_indent([f"{argument}," for argument in arguments]), ")"]


def _nested(method: str, first: Lines, rest: list[str]) -> Lines:
    if len(first) == 1:
        one_line = f"{method}({', '.join((*first, *rest))})"
        if len(one_line) <= WIDTH - 8:
            return [one_line]
    return [f"{method}(", *_indent([*first[:-1], f"{first[-1]},", *(f"{text}," for text in rest)]), ")"]


def _indent(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]
