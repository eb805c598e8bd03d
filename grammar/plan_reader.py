"""Reads the plan notation, which grammar/notation.py prints and describes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from lark import Lark, Token, Tree
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken
from lark.indenter import Indenter
from sqlglot import exp
from sqlglot.errors import SqlglotError

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
from .notation import print_ref


class NotationError(ValueError):
    """A plan text that cannot be read; `line` and `column` count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column


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
        wanted = _INPUTS.get(operator.data, 1)
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
            case "values":
                columns = tuple(self._column(tree) for tree in _trees(operator, "column"))
                return Values(columns, tuple(self._row(row) for row in _trees(operator, "row")))
            case "expand":
                projections = _trees(operator, "projection")
                return Expand(inputs[0], tuple(tuple(self._item(i) for i in _trees(p, "item")) for p in projections))
            case "gpivot":
                by = tuple(_name(name) for name in _trees(operator, "name"))
                return GPivot(inputs[0], by, self._cells(operator))
            case "gunpivot":
                by = tuple(_name(name) for name in _trees(operator, "name"))
                nulls = any(isinstance(child, Token) for child in operator.children)
                return GUnpivot(inputs[0], by, self._cells(operator), nulls)
            case "window":
                return Window(inputs[0], tuple(self._item(item) for item in _trees(operator, "item")))
            case "limit":
                return self._limit(operator, inputs[0])
            case "except_all":
                return ExceptAll(inputs[0], inputs[1])
            case "intersect_all":
                return IntersectAll(inputs[0], inputs[1])
            case _:
                return UnionAll(tuple(inputs))

    def _cells(self, operator: Tree[Token]) -> tuple[Cell, ...]:
        cells = []
        for tree in _trees(operator, "cell"):
            name, measure = (_name(child) for child in _trees(tree, "name"))
            cells.append(Cell(name, measure, self._row(_trees(tree, "row")[0])))
        return tuple(cells)

    def _row(self, tree: Tree[Token]) -> tuple[exp.Expr, ...]:
        return tuple(self._parse(value) for value in _trees(tree, "expression"))

    def _column(self, tree: Tree[Token]) -> Column:
        written = self._slice(_trees(tree, "expression")[0])
        kind = re.sub(r"\s+not\s+null\Z", "", written)
        return Column(_name(_trees(tree, "name")[0]), kind.strip("'"), nullable=kind == written)

    def _limit(self, operator: Tree[Token], input: Rel) -> Limit:
        counts = [str(child) for child in operator.children if isinstance(child, Token)]
        if not (counts[0].isdigit() or counts[0] == "all") or not all(count.isdigit() for count in counts[1:]):
            raise self._error(operator, "Limit takes a number, or all")
        order = tuple(self._sort_key(tree) for tree in _trees(operator, "expression"))
        count = None if counts[0] == "all" else int(counts[0])
        return Limit(input, order, count, int(counts[1]) if len(counts) > 1 else 0)

    def _sort_key(self, tree: Tree[Token]) -> SortKey:
        written = self._slice(tree)
        match = _SORT_KEY.fullmatch(written)
        if match is None:
            raise self._error(tree, f"not a sort key, such as a DESC NULLS LAST: {written}")
        return SortKey(self._sql(tree, match[1]), match[2] == "DESC", match[3] == "FIRST")

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
        written = self._slice(argument)
        listed = re.sub(r"\ADISTINCT\s+", "", written)
        if listed == "*":
            return Measure(name, function, (), listed != written)
        call = self._sql(argument, f"arguments({listed})")
        return Measure(name, function, tuple(part.pop() for part in call.expressions[:]), listed != written)

    def _expression(self, tree: Tree[Token]) -> exp.Expr:
        return self._parse(_trees(tree, "expression")[0])

    def _parse(self, tree: Tree[Token]) -> exp.Expr:
        return self._sql(tree, self._slice(tree))

    def _sql(self, tree: Tree[Token], sql: str) -> exp.Expr:
        try:
            return scalar.parse(sql)
        except SqlglotError:
            raise self._error(tree, f"not a SQL expression: {sql}") from None

    def _slice(self, tree: Tree[Token]) -> str:
        return self.text[tree.meta.start_pos : tree.meta.end_pos]

    def _error(self, tree: Tree[Token], message: str) -> NotationError:
        return NotationError(message, *_position(self.text, tree.meta.start_pos))


_OPERATORS = {
    "scan": "Scan",
    "values": "Values",
    "select": "Select",
    "project": "Project",
    "expand": "Expand",
    "join": "Join",
    "group_by": "GroupBy",
    "gpivot": "GPivot",
    "gunpivot": "GUnpivot",
    "window": "Window",
    "limit": "Limit",
    "union_all": "UnionAll",
    "except_all": "ExceptAll",
    "intersect_all": "IntersectAll",
}
_INPUTS = {"scan": 0, "values": 0, "join": 2, "except_all": 2, "intersect_all": 2}
_SORT_KEY = re.compile(r"(.*)\s(ASC|DESC)\s+NULLS\s+(FIRST|LAST)", re.DOTALL)


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
    **dict.fromkeys((name.upper() for name in _OPERATORS.values()), "an operator"),
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
