"""Reads the statements of a view file that are not SQL: dimensions, sources, changes, includes, and pragmas."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from ..compiler.catalog import Changes, Dimension, Level, Source, Statistics
from ..compiler.source import Diagnostic, InputError, Span

SYNTAX_ERROR = "DF0003"


@dataclass(frozen=True, slots=True)
class AlterChanges:
    """ALTER TABLE t SET CHANGES (…)."""

    table: str
    changes: Changes
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class AlterStatistics:
    """ALTER TABLE t SET STATISTICS (…)."""

    table: str
    statistics: Statistics
    span: Span = field(compare=False)


@dataclass(frozen=True, slots=True)
class Include:
    """INCLUDE 'file.sql' [DIALECT name]; the path is as written."""

    path: str
    span: Span = field(compare=False)
    dialect: str | None = None  # that of the including file, if left out


@dataclass(frozen=True, slots=True)
class Pragma:
    """What stands after `-- deltafold:`, as in `strategy=summary-delta` or `require incremental`."""

    name: str
    value: str | None
    span: Span = field(compare=False)


Declaration = Dimension | Source | AlterChanges | AlterStatistics | Include

_GAP = r"(?:\s|--[^\n]*+|/\*.*?\*/)"
_LEADING = re.compile(
    rf"""{_GAP}*+ (?:
        create {_GAP}++ (?:dimension|source) \b
      | include \b (?! {_GAP}*+ [.(=] )
      | alter {_GAP}++ table \b {_GAP}*+ (?: `(?:``|[^`])++` | [^\W\d]\w*+ ) {_GAP}*+
        set {_GAP}++ (?:changes|statistics) \b
    )""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def is_declaration(text: str) -> bool:
    """Whether a statement, by its first keywords, is one for `parse_declaration` rather than SQL."""
    return _LEADING.match(text) is not None


def parse_declaration(span: Span) -> Declaration:
    """Reads one statement, its closing semicolon optional."""
    (statement,) = (child for child in _parse(span, "declaration").children if isinstance(child, Tree))
    match statement.data:
        case "dimension":
            return _dimension(statement, span)
        case "source":
            return _source(statement, span)
        case "alter" if any(isinstance(t, Token) and t.type == "STATISTICS" for t in statement.children):
            return _statistics(statement, span)
        case "alter":
            names = [_name(tree) for tree in statement.find_data("new_values") for tree in _children(tree, "name")]
            insert_only = bool(_children(statement, "insert_only"))
            table = _name(_children(statement, "name")[0])
            return AlterChanges(table, Changes(insert_only, tuple(names)), span)
        case _:
            dialect = next((_name(tree).lower() for tree in _children(statement, "name")), None)
            return Include(_string(_children(statement, "string")[0]), span, dialect)


def parse_pragma(span: Span) -> Pragma:
    """Reads the text after `-- deltafold:`; the name comes out in lower case, the value as written."""
    name, *rest = _parse(span, "pragma").children
    value = next((part if isinstance(part, Token) else _string(part) for part in rest), None)
    return Pragma(str(name).lower(), None if value is None else str(value), span)


def _dimension(tree: Tree[Token], span: Span) -> Dimension:
    wrong: list[Diagnostic] = []
    levels: list[Level] = []
    for level in _children(tree, "level"):
        name_tree = _children(level, "name")[0]
        pairs = [_children(column, "name") for column in _children(level, "column")]
        table = _name(pairs[0][0])
        for other, _ in pairs[1:]:
            if _name(other).casefold() != table.casefold():
                message = f"the columns of level {_name(name_tree)} are of two tables, {table} and {_name(other)}"
                wrong.append(_diagnostic(span, other, message, "name columns of one table"))
        levels.append(Level(_name(name_tree), table, tuple(_name(column) for _, column in pairs)))
    wrong += _named_twice("level", (_children(level, "name")[0] for level in _children(tree, "level")), span)

    spelling = {level.name.casefold(): level.name for level in levels}
    hierarchies: list[tuple[str, tuple[str, ...]]] = []
    for hierarchy in _children(tree, "hierarchy"):
        name_tree, *steps = _children(hierarchy, "name")
        for step in steps:
            if _name(step).casefold() not in spelling:
                remedy = f"declare it: LEVEL {_name(step)} IS table.column"
                wrong.append(_diagnostic(span, step, f"there is no level {_name(step)}", remedy))
        wrong += _named_twice("level", steps, span)
        names = tuple(spelling.get(_name(step).casefold(), _name(step)) for step in steps)
        hierarchies.append((_name(name_tree), names))
    wrong += _named_twice("hierarchy", (_children(h, "name")[0] for h in _children(tree, "hierarchy")), span)
    if wrong:
        raise InputError(wrong)
    return Dimension(_name(_children(tree, "name")[0]), tuple(levels), tuple(hierarchies), span)


def _source(tree: Tree[Token], span: Span) -> Source:
    name, kind, *tables = _children(tree, "name")
    options = list(tree.find_data("option"))
    options.sort(key=lambda option: option.meta.start_pos)
    keys = [_children(option, "option_key")[0] for option in options]
    wrong = [*_named_twice("option", keys, span), *_named_twice("table", tables, span)]
    if wrong:
        raise InputError(wrong)
    pairs = tuple((_name(k), _string(_children(option, "string")[0])) for k, option in zip(keys, options, strict=True))
    return Source(_name(name), _name(kind), pairs, tuple(_name(table) for table in tables), span)


def _statistics(tree: Tree[Token], span: Span) -> AlterStatistics:
    numbers = {kind: [int(str(t.children[-1])) for t in _children(tree, kind)] for kind in ("rows", "changed")}
    wrong = [
        _diagnostic(span, _children(tree, kind)[1], f"{word} is given twice", "")
        for kind, word in (("rows", "ROWS"), ("changed", "CHANGES"))
        if len(numbers[kind]) > 1
    ]
    columns = _children(tree, "distinct")
    wrong += _named_twice("column", (_children(column, "name")[0] for column in columns), span)
    if wrong:
        raise InputError(wrong)
    distinct = tuple((_name(_children(column, "name")[0]), int(str(column.children[-1]))) for column in columns)
    rows, changed = (next(iter(numbers[kind]), None) for kind in ("rows", "changed"))
    return AlterStatistics(_name(_children(tree, "name")[0]), Statistics(rows, changed, distinct), span)


def _named_twice(what: str, trees: Iterable[Tree[Token]], span: Span) -> Iterator[Diagnostic]:
    seen: set[str] = set()
    for tree in trees:
        name = _name(tree)
        if name.casefold() in seen:
            yield _diagnostic(span, tree, f"{what} {name} is named twice", "")
        seen.add(name.casefold())


def _diagnostic(span: Span, tree: Tree[Token], message: str, remedy: str) -> Diagnostic:
    place = Span(span.file, span.start + tree.meta.start_pos, span.start + tree.meta.end_pos)
    return Diagnostic(SYNTAX_ERROR, message, place, remedy)


def _children(tree: Tree[Token], kind: str) -> list[Tree[Token]]:
    return [child for child in tree.children if isinstance(child, Tree) and child.data == kind]


def _name(tree: Tree[Token]) -> str:
    """A name, or a dotted or quoted key of an option, without its quotes."""
    parts: list[str] = []
    for child in tree.children:
        match child:
            case Token(type="QUOTED_NAME"):
                parts.append(child[1:-1].replace("``", "`"))
            case Tree(data="string"):
                parts.append(_string(child))
            case Tree():
                parts.append(_name(child))
            case _:
                parts.append(str(child))
    return ".".join(parts)


_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


def _string(tree: Tree[Token]) -> str:
    written = str(tree.children[0])[1:-1]
    return re.sub(
        r"''|\\(.)",
        lambda found: "'" if found[1] is None else _ESCAPES.get(found[1], found[1]),
        written,
        flags=re.DOTALL,
    )


@lru_cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("declarations.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", start=["declaration", "pragma"], propagate_positions=True)


def _parse(span: Span, start: Literal["declaration", "pragma"]) -> Tree[Token]:
    try:
        return _parser().parse(span.text, start=start)
    except UnexpectedInput as error:
        raise InputError([_syntax_error(span, error)]) from None


def _syntax_error(span: Span, error: UnexpectedInput) -> Diagnostic:
    expected: set[str] = set()
    found = ""
    begin, end = 0, 1
    match error:
        case UnexpectedToken(token=Token(type="$END") as token):
            begin, end = token.end_pos or 0, (token.end_pos or 0) + 1
            expected = set(error.accepts or error.expected)
        case UnexpectedToken(token=token):
            begin, end, found = token.start_pos or 0, token.end_pos or 0, str(token)
            expected = set(error.accepts or error.expected)
        case UnexpectedCharacters(pos_in_stream=int(position)):
            begin, end, found = position, position + 1, span.text[position]
            expected = set(error.allowed or ())
    place = Span(span.file, span.start + begin, span.start + end)
    if found in _UNCLOSED:
        return Diagnostic(SYNTAX_ERROR, f"this {_UNCLOSED[found]} is not closed", place, f"close it with {found}")
    if span.text.startswith("/*", begin):
        return Diagnostic(SYNTAX_ERROR, "this comment is not closed", place, "close it with */")
    message = f"expected {_either(expected)}, found {_shown(found)}"
    return Diagnostic(SYNTAX_ERROR, message, place, _REMEDIES.get(found.upper(), ""))


_UNCLOSED = {"'": "string", "`": "quoted name"}
_REMEDIES = {
    "ATTRIBUTE": "leave out ATTRIBUTE; a primary key tells what its columns determine",
    "JOIN": "leave out JOIN KEY; foreign keys tell how the tables of a dimension join",
}
_SPOKEN = {
    "NAME": "a name",
    "QUOTED_NAME": "a name",
    "PRAGMA_WORD": "a word",
    "STRING": "a string in single quotes",
    "NUMBER": "a whole number",
    "LPAR": "'('",
    "RPAR": "')'",
    "COMMA": "','",
    "DOT": "'.'",
    "EQUAL": "'='",
    "SEMICOLON": "the end of the statement",
    "$END": "the end of the statement",
}


def _either(terminals: set[str]) -> str:
    words = sorted({_SPOKEN.get(terminal, terminal) for terminal in terminals}, key=lambda w: (not w.isupper(), w))
    if "the end of the statement" in words and len(words) > 1:
        words.remove("the end of the statement")
        words.append("the end of the statement")
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def _shown(found: str) -> str:
    if not found:
        return "the end of the statement"
    short = found if len(found) <= 40 else found[:37] + "..."
    return short if short[0] in "'`" else f"'{short}'"
