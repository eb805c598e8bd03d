"""The plan notation: the algebra as text, for people, goldens and rule documentation. Printing and parsing are inverse.

    Project { city, total := a + b }
      GroupBy [city] { n := count(*), s := sum(qty) }
        Join left [storeID = stores_storeID]
          Scan old(pos)
          Scan stores

One operator a line, inputs indented by two spaces. An item that is a column under its own name prints as the name;
an inner join prints no kind; a GroupBy without measures prints no braces. Lines too wide break inside the braces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import assert_never

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.indenter import Indenter
from sqlglot import exp
from sqlglot.errors import SqlglotError

from ..compiler import scalar
from ..compiler.algebra import (
    Column,
    GroupBy,
    Item,
    Join,
    JoinKind,
    Measure,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    State,
    UnionAll,
    col,
)

WIDTH = 100
_FUNCTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class NotationError(ValueError):
    """A plan text that cannot be read; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column


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
            head = f"GroupBy [{', '.join(scalar.quote(key) for key in rel.keys)}]"
            return _braces(head, (_measure(measure) for measure in rel.measures), indent) if rel.measures else head
        case UnionAll():
            return "UnionAll"
        case _:
            assert_never(rel)


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
    argument = "*" if measure.argument is None else scalar.text(measure.argument)
    return f"{scalar.quote(measure.name)} := {function}({argument})"


def parse_rel(text: str, relations: Mapping[str, tuple[Column, ...]]) -> Rel:
    """Reads a plan; `relations` gives the columns of each relation that it scans, by its printed name."""
    try:
        tree = _parser().parse(text + "\n")
    except UnexpectedInput as error:
        raise _syntax_error(text, error) from None
    return _Reader(text, relations).rel(_trees(tree, "rel")[0])


class _Reader:
    """Builds the algebra from the syntax tree."""

    def __init__(self, text: str, relations: Mapping[str, tuple[Column, ...]]) -> None:
        self.text = text
        self.relations = relations

    def rel(self, tree: Tree[Token]) -> Rel:
        operator, *children = (child for child in tree.children if isinstance(child, Tree))
        inputs = [self.rel(child) for child in children]
        wanted = {"scan": 0, "join": 2}.get(operator.data, 1)
        if operator.data == "union_all":
            if not inputs:
                raise self._error(operator, "UnionAll needs an input")
        elif len(inputs) != wanted:
            name = _OPERATORS[operator.data]
            raise self._error(operator, f"{name} takes {_counted(wanted)}, here it has {_counted(len(inputs))}")
        try:
            return self._build(operator, inputs)
        except NotationError:
            raise
        except ValueError as error:
            raise self._error(operator, str(error)) from None

    def _build(self, operator: Tree[Token], inputs: list[Rel]) -> Rel:
        match operator.data:
            case "scan":
                return self._scan(operator)
            case "select":
                return Select(inputs[0], self._expression(operator))
            case "project":
                return Project(inputs[0], tuple(self._item(item) for item in _trees(operator, "item")))
            case "join":
                kinds = [JoinKind(str(child)) for child in operator.children if isinstance(child, Token)]
                return Join(inputs[0], inputs[1], self._expression(operator), kinds[0] if kinds else JoinKind.INNER)
            case "group_by":
                keys = tuple(_name(name) for name in _trees(operator, "name"))
                return GroupBy(inputs[0], keys, tuple(self._measure(m) for m in _trees(operator, "measure")))
            case _:
                return UnionAll(tuple(inputs))

    def _scan(self, operator: Tree[Token]) -> Scan:
        (ref_tree,) = _trees(operator, "ref")
        states = [str(child) for child in ref_tree.children if isinstance(child, Token)]
        known = [state.value for state in State if state.value]
        if states and states[0] not in known:
            raise self._error(ref_tree, f"no such state: {states[0]}; the states are {', '.join(known)}")
        ref = Ref(_name(_trees(ref_tree, "name")[0]), State(states[0]) if states else State.CURRENT)
        schema = self.relations.get(print_ref(ref))
        if schema is None:
            raise self._error(ref_tree, f"no such relation: {print_ref(ref)}")
        return Scan(ref, schema)

    def _item(self, tree: Tree[Token]) -> Item:
        name = _name(_trees(tree, "name")[0])
        return Item(name, self._expression(tree) if _trees(tree, "expression") else col(name))

    def _measure(self, tree: Tree[Token]) -> Measure:
        name, function = (_name(child) for child in _trees(tree, "name"))
        (argument,) = _trees(tree, "argument")
        if self._slice(argument) == "*":
            return Measure(name, function, None)
        return Measure(name, function, self._parse(argument))

    def _expression(self, tree: Tree[Token]) -> exp.Expr:
        return self._parse(_trees(tree, "expression")[0])

    def _parse(self, tree: Tree[Token]) -> exp.Expr:
        sql = self._slice(tree)
        try:
            return scalar.parse(sql)
        except SqlglotError:
            raise self._error(tree, f"not a SQL expression: {sql}") from None

    def _slice(self, tree: Tree[Token]) -> str:
        return self.text[tree.meta.start_pos : tree.meta.end_pos]

    def _error(self, tree: Tree[Token], message: str) -> NotationError:
        return NotationError(message, *_position(self.text, tree.meta.start_pos))


_OPERATORS = {"scan": "Scan", "select": "Select", "project": "Project", "join": "Join", "group_by": "GroupBy"}


def _counted(inputs: int) -> str:
    return {0: "no input", 1: "one input", 2: "two inputs"}.get(inputs, f"{inputs} inputs")


def _trees(tree: Tree[Token], kind: str) -> list[Tree[Token]]:
    return [child for child in tree.children if isinstance(child, Tree) and child.data == kind]


def _name(tree: Tree[Token]) -> str:
    (token,) = tree.children
    written = str(token)
    return written[1:-1].replace("``", "`") if written.startswith("`") else written


def _position(text: str, offset: int) -> tuple[int, int]:
    offset = min(offset, len(text))
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1


class _PlanIndenter(Indenter):
    NL_type = "_NL"
    OPEN_PAREN_types = ["LPAR", "LSQB", "LBRACE"]  # noqa: RUF012
    CLOSE_PAREN_types = ["RPAR", "RSQB", "RBRACE"]  # noqa: RUF012
    INDENT_type = "_INDENT"
    DEDENT_type = "_DEDENT"
    tab_len = 8

    def handle_NL(self, token: Token) -> Iterator[Token]:
        if self.paren_level == 0:
            indent = len(token.rsplit("\n", 1)[1])
            if indent < self.indent_level[-1] and indent not in self.indent_level:
                raise NotationError("indented like no line above it", token.end_line or 1, indent + 1)
        yield from super().handle_NL(token)


@lru_cache
def _parser() -> Lark:
    grammar = Path(__file__).with_name("plan.lark").read_text(encoding="utf-8")
    return Lark(grammar, parser="lalr", postlex=_PlanIndenter(), propagate_positions=True)


def _syntax_error(text: str, error: UnexpectedInput) -> NotationError:
    offset = error.pos_in_stream or 0
    found = "the end"
    match error:
        case UnexpectedToken(token=Token(type="_INDENT" | "_DEDENT" | "_NL" as kind) as token):
            offset = token.end_pos if kind != "_NL" and token.end_pos is not None else token.start_pos or 0
            found = {"_INDENT": "an indented line", "_DEDENT": "a line less indented", "_NL": "the end of the line"}[
                kind
            ]
        case UnexpectedToken(token=Token(type="$END") as token):
            offset = len(text)
        case UnexpectedToken(token=token):
            offset, found = token.start_pos or 0, f"'{token}'"
        case UnexpectedCharacters(pos_in_stream=int(position)):
            offset = position
            found = f"'{text[position]}'" if position < len(text) else "the end"
    if found in _UNCLOSED:
        return NotationError(f"this {_UNCLOSED[found]} is not closed", *_position(text, offset))
    accepted = (
        (error.accepts or error.expected) if isinstance(error, UnexpectedToken) else getattr(error, "allowed", ())
    )
    words = sorted({_SPOKEN.get(terminal, terminal) for terminal in accepted or () if terminal != "_NL"})
    if "an expression" in words:
        words = [word for word in words if word not in ("'('", "'['", "'{'", "a name")]
    words = words or ["the end of the line"]
    return NotationError(f"expected {' or '.join(words)}, found {found}", *_position(text, offset))


_UNCLOSED = {"'''": "string", "'\"'": "string", "'`'": "quoted name"}
_SPOKEN = {
    **dict.fromkeys(("SCAN", "SELECT", "PROJECT", "JOIN", "GROUPBY", "UNIONALL"), "an operator"),
    **dict.fromkeys(("WORD", "QUOTED_NAME"), "a name"),
    **dict.fromkeys(("TEXT", "SYMBOL", "STRING"), "an expression"),
    "KIND": "a kind of join",
    "LPAR": "'('",
    "RPAR": "')'",
    "LSQB": "'['",
    "RSQB": "']'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "COMMA": "','",
    "__ANON_0": "':='",
    "_NL": "the end of the line",
    "_INDENT": "an indented line",
    "_DEDENT": "the end of the plan",
    "$END": "the end of the plan",
}
