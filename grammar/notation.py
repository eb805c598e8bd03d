"""The plan notation: the algebra as text, for people, goldens and rule documentation. Printing and parsing are inverse.

    Project { city, total := a + b }
      GroupBy [city] { n := count(*), s := sum(qty) }
        Join left [storeID = stores_storeID]
          Scan old(pos)
          Scan stores

    GPivot [month] { jan := qty @ ('jan'), feb := qty @ ('feb') }       the column jan holds qty where month is 'jan'
    GUnpivot nulls [month] { jan := qty @ ('jan') }                     back again; `nulls` keeps rows without a value
    Expand { a, g := 0 } { a := NULL, g := 1 }
    Window { r := RANK() OVER (PARTITION BY k ORDER BY v) }
    Limit [v DESC NULLS LAST] 10 offset 5                               `all` instead of a count
    Values [a int not null, b string] { (1, 'x'), (2, NULL) }

One operator a line, inputs indented by two spaces. An item that is a column under its own name prints as the name;
an inner join prints no kind; a GroupBy without measures prints no braces. Lines too wide break inside the braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import assert_never

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import (
    Cell,
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
    Ref,
    Rel,
    Scan,
    Select,
    SortKey,
    State,
    UnionAll,
    Values,
    Window,
    col,
)

WIDTH = 100
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def print_ref(ref: Ref) -> str:
    """A relation as the notation spells it: `pos`, `old(pos)`, `sd(v)`."""
    name = scalar.quote(ref.name)
    return f"{ref.state.value}({name})" if ref.state is not State.CURRENT else name


def print_rel(rel: Rel) -> str:
    """The plan as text, without a line break at the end."""
    return "\n".join(_lines(rel, 0))


def print_operator(rel: Rel, indent: int = 0) -> str:
    """The operator at the root alone, its inputs left out."""
    match rel:
        case Scan():
            return f"Scan {print_ref(rel.ref)}"
        case Select():
            return f"Select [{scalar.text(rel.condition)}]"
        case Project():
            return _braces("Project", (_item(item) for item in rel.items), indent)
        case Join():
            kind = "" if rel.kind is JoinKind.INNER else f" {rel.kind.value}"
            return f"Join{kind} [{scalar.text(rel.condition)}]"
        case GroupBy():
            head = f"GroupBy {_keys(rel.keys)}"
            return _braces(head, (_measure(measure) for measure in rel.measures), indent) if rel.measures else head
        case Values():
            columns = ", ".join(_column(column) for column in rel.schema)
            return _braces(f"Values [{columns}]", (_row(row) for row in rel.rows), indent)
        case Expand():
            lines = [_braces("", (_item(item) for item in branch), indent) for branch in rel.branches]
            return "Expand" + "".join(lines)
        case GPivot():
            return _braces(f"GPivot {_keys(rel.by)}", (_cell(cell) for cell in rel.cells), indent)
        case GUnpivot():
            head = "GUnpivot nulls" if rel.include_nulls else "GUnpivot"
            return _braces(f"{head} {_keys(rel.by)}", (_cell(cell) for cell in rel.cells), indent)
        case Window():
            return _braces("Window", (_item(item) for item in rel.items), indent)
        case Limit():
            order = ", ".join(_sort_key(key) for key in rel.order)
            count = "all" if rel.count is None else str(rel.count)
            return f"Limit [{order}] {count}" + (f" offset {rel.offset}" if rel.offset else "")
        case UnionAll() | ExceptAll() | IntersectAll():
            return type(rel).__name__
        case _:
            assert_never(rel)


def _keys(names: tuple[str, ...]) -> str:
    return f"[{', '.join(scalar.quote(name) for name in names)}]"


def _cell(cell: Cell) -> str:
    return f"{scalar.quote(cell.name)} := {scalar.quote(cell.measure)} @ {_row(cell.values)}"


def _row(values: tuple[exp.Expr, ...]) -> str:
    return f"({', '.join(scalar.text(value) for value in values)})"


def _column(column: Column) -> str:
    kind = f"'{column.type}'" if "<" in column.type else column.type
    return f"{scalar.quote(column.name)} {kind}{'' if column.nullable else ' not null'}"


def _sort_key(key: SortKey) -> str:
    direction = "DESC" if key.descending else "ASC"
    return f"{scalar.text(key.expression)} {direction} NULLS {'FIRST' if key.nulls_first else 'LAST'}"


def _lines(rel: Rel, indent: int) -> Iterator[str]:
    yield " " * indent + print_operator(rel, indent)
    for child in rel.inputs:
        yield from _lines(child, indent + 2)


def _braces(head: str, parts: Iterable[str], indent: int) -> str:
    parts = list(parts)
    if not parts:
        return f"{head} {{ }}"
    line = f"{head} {{ {', '.join(parts)} }}"
    if indent + len(line) <= WIDTH:
        return line
    pad = " " * indent
    inner = ",\n".join(f"{pad}    {part}" for part in parts)
    return f"{head} {{\n{inner}\n{pad}}}"


def _item(item: Item) -> str:
    if item.expression == col(item.name):
        return scalar.quote(item.name)
    return f"{scalar.quote(item.name)} := {scalar.text(item.expression)}"


def _measure(measure: Measure) -> str:
    function = measure.function if _FUNCTION.match(measure.function) else scalar.quote(measure.function)
    return f"{scalar.quote(measure.name)} := {function}({arguments_text(measure)})"


def arguments_text(measure: Measure) -> str:
    """What stands between the parentheses of an aggregate call."""
    listed = ", ".join(scalar.text(argument) for argument in measure.arguments) or "*"
    return f"DISTINCT {listed}" if measure.distinct else listed
