"""From algebra to the text of a PySpark expression.

A relation becomes a chain of DataFrame calls, one a line. All SQL text and all names enter Python through `literal`;
column names enter SQL through `scalar.quote`.
"""

from __future__ import annotations

import json
import keyword
from collections.abc import Callable
from typing import assert_never

from ..compiler import scalar
from ..compiler.algebra import GroupBy, Item, Join, JoinKind, Measure, Project, Rel, Scan, Select, UnionAll, col

WIDTH = 110
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
    return lines if len(lines) == 1 else ["(", *_indent(lines), ")"]


def _chain(rel: Rel, scan: ScanText) -> Lines:
    match rel:
        case Scan():
            return [scan(rel)]
        case Select(input, condition):
            return [*_chain(input, scan), f".where({literal(scalar.text(condition))})"]
        case Project(input, items):
            return [*_chain(input, scan), *_call(".select" if _only_columns(items) else ".selectExpr", _items(items))]
        case GroupBy(input, keys, measures):
            grouped = [f".groupBy({', '.join(_column(key) for key in keys)})"]
            return [*_chain(input, scan), *grouped, *_call(".agg", [_measure(m) for m in measures])]
        case Join(left, right, condition, kind):
            how = [] if kind is JoinKind.INNER else [literal(f"left_{kind}" if kind in ("semi", "anti") else str(kind))]
            if condition == scalar.TRUE and kind is JoinKind.INNER:
                return [*_chain(left, scan), *_nested(".crossJoin", expression(right, scan), [])]
            on = f"F.expr({literal(scalar.text(condition))})"
            return [*_chain(left, scan), *_nested(".join", expression(right, scan), [on, *how])]
        case UnionAll(branches):
            lines = _chain(branches[0], scan)
            for branch in branches[1:]:
                lines += _nested(".unionByName", expression(branch, scan), [])
            return lines
        case _:
            assert_never(rel)


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
    argument = "*" if measure.argument is None else scalar.text(measure.argument)
    call = f"F.expr({literal(f'{measure.function}({argument})')})"
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
