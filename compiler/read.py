"""Stage 1, read: a view file becomes statements, each with its place.

Statements end at a semicolon. Declarations that sqlglot does not know go to `grammar`; CREATE TABLE and CREATE VIEW
go to sqlglot. INCLUDE brings in another file's statements. Nothing is resolved yet, and every error is collected.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from ..grammar.declarations import AlterChanges, Include, Pragma, is_declaration, parse_declaration, parse_pragma
from .catalog import Dimension, Source
from .scalar import DIALECT
from .source import Diagnostic, InputError, SourceFile, Span, read_source

MOST_DEPTH = 300  # later stages recurse over expressions, several calls a node


@dataclass(frozen=True, slots=True)
class CreateTable:
    schema: exp.Schema
    span: Span


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    column_names: tuple[exp.Identifier, ...]
    query: exp.Expr
    temporary: bool
    pragmas: tuple[Pragma, ...]
    span: Span
    name_span: Span


Statement = CreateTable | CreateView | Dimension | Source | AlterChanges


@dataclass(slots=True)
class ReadFile:
    """All statements of a file and of those it includes, in order; `errors` says what could not be read."""

    statements: list[Statement] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)


def read(path: Path, shown_as: str | None = None) -> ReadFile:
    """Reads a view file from disk."""
    result = ReadFile()
    _read_into(result, read_source(path, shown_as), path, (path.resolve(),))
    return result


def read_text(text: str, name: str = "views.sql") -> ReadFile:
    """Reads a view file that is already in memory; INCLUDE is relative to the working directory."""
    result = ReadFile()
    _read_into(result, SourceFile(name, text), Path(name), ())
    return result


def _read_into(result: ReadFile, source: SourceFile, path: Path, including: tuple[Path, ...]) -> None:
    try:
        pieces = split(source)
    except InputError as error:
        result.errors.extend(error.diagnostics)
        return
    for leading, span in pieces:
        try:
            statement = _read_statement(leading, span)
        except InputError as error:
            result.errors.extend(error.diagnostics)
            continue
        if isinstance(statement, Include):
            _include(result, statement, path, including)
        else:
            result.statements.append(statement)


def _include(result: ReadFile, include: Include, path: Path, including: tuple[Path, ...]) -> None:
    target = path.parent / include.path
    try:
        if target.resolve() in including:
            result.errors.append(
                Diagnostic("DF0005", f"{include.path} includes itself", include.span, "remove one of the INCLUDEs")
            )
            return
        source = read_source(target, include.path)
    except InputError as error:
        result.errors.extend(error.diagnostics)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        result.errors.append(
            Diagnostic(
                "DF0006", f"{include.path} cannot be read: {reason}", include.span, "paths are relative to this file"
            )
        )
    else:
        _read_into(result, source, target, (*including, target.resolve()))


def split(source: SourceFile) -> list[tuple[Span, Span]]:
    """The statements, each with the white space and comments before it."""
    text = source.text
    pieces: list[tuple[Span, Span]] = []
    leading_start, start, position = 0, None, 0
    last_code = 0
    while position < len(text):
        character = text[position]
        if text.startswith("--", position):
            end = text.find("\n", position)
            position = len(text) if end < 0 else end
        elif text.startswith("/*", position):
            position = _closing(source, position, "*/", "comment")
        elif character == ";":
            if start is not None:
                pieces.append((Span(source, leading_start, start), Span(source, start, last_code)))
            position += 1
            leading_start, start = position, None
        elif character.isspace():
            position += 1
        else:
            start = position if start is None else start
            position = _after_quoted(source, position) if character in "'\"`" else position + 1
            last_code = position
    if start is not None:
        pieces.append((Span(source, leading_start, start), Span(source, start, last_code)))
    return pieces


def _closing(source: SourceFile, start: int, mark: str, what: str) -> int:
    end = source.text.find(mark, start + 2)
    if end < 0:
        raise InputError([Diagnostic("DF0002", f"a {what} is never closed", Span(source, start, start + 1))])
    return end + len(mark)


def _after_quoted(source: SourceFile, start: int) -> int:
    """The offset after a quoted string or name that starts here."""
    text, quote = source.text, source.text[start]
    position = start + 1
    while position < len(text):
        if text[position] == "\\" and quote != "`":
            position += 2
        elif text[position] == quote:
            if not text.startswith(quote, position + 1):
                return position + 1
            position += 2
        else:
            position += 1
    what = "quoted name" if quote == "`" else "string"
    place = Span(source, start, start + 1)
    raise InputError([Diagnostic("DF0002", f"a {what} is never closed", place, f"add the closing {quote}")])


def _read_statement(leading: Span, span: Span) -> Statement | Include:
    if is_declaration(span.text):
        return parse_declaration(span)
    pragmas = _pragmas(leading)
    try:
        parsed = sqlglot.parse_one(span.text, dialect=DIALECT)
    except ParseError as error:
        raise InputError([_syntax_error(span, error)]) from None
    except RecursionError:
        raise too_deep(_head(span)) from None
    except (SqlglotError, ValueError, IndexError, AttributeError, TypeError, KeyError) as error:
        raise InputError([Diagnostic("DF0004", f"this is not Spark SQL: {error}", _head(span))]) from None
    if _depth(parsed) > MOST_DEPTH:
        raise too_deep(_head(span))
    match parsed:
        case exp.Create(kind="TABLE", this=exp.Schema() as schema, expression=None):
            return CreateTable(schema, span)
        case exp.Create(kind="VIEW", expression=exp.Query() as query):
            return _view(parsed, query, pragmas, span)
    raise InputError(
        [
            Diagnostic(
                "DF0008",
                f"a view file does not hold this statement: {span.text.split()[0].upper()}",
                _head(span),
                "it holds CREATE TABLE, CREATE [MATERIALIZED | TEMPORARY] VIEW … AS SELECT, and declarations",
            )
        ]
    )


def too_deep(place: Span) -> InputError:
    return InputError([Diagnostic("DF0007", "an expression nests too deeply", place, "split the view")])


def _depth(root: exp.Expr) -> int:
    """How many nodes lie one below another. Not recursive: a chain of operators may be longer than Python's stack."""
    deepest, waiting = 0, [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in node.iter_expressions()]
    return deepest


def _view(create: exp.Create, query: exp.Expr, pragmas: tuple[Pragma, ...], span: Span) -> CreateView:
    target = create.this
    columns: tuple[exp.Identifier, ...] = ()
    if isinstance(target, exp.Schema):
        columns = tuple(column.this if isinstance(column, exp.ColumnDef) else column for column in target.expressions)
        target = target.this
    temporary = any(isinstance(p, exp.TemporaryProperty) for p in create.find_all(exp.TemporaryProperty))
    name_span = place_of(target, span)
    if target.args.get("db"):
        raise InputError([Diagnostic("DF0009", "a view's name has one part", name_span, "leave out the database")])
    return CreateView(target.name, columns, query, temporary, pragmas, span, name_span)


def _pragmas(leading: Span) -> tuple[Pragma, ...]:
    found = []
    offset = leading.start
    for line in leading.text.split("\n"):
        stripped = line.lstrip()
        if stripped.startswith("--") and stripped[2:].lstrip().lower().startswith("deltafold:"):
            start = offset + line.lower().index("deltafold:") + len("deltafold:")
            found.append(parse_pragma(Span(leading.file, start, offset + len(line))))
        offset += len(line) + 1
    return tuple(found)


def _head(span: Span) -> Span:
    """The first word of a statement."""
    word = span.text.split(None, 1)[0] if span.text.strip() else " "
    return Span(span.file, span.start, span.start + len(word))


def _syntax_error(span: Span, error: ParseError) -> Diagnostic:
    if not error.errors:
        return Diagnostic("DF0004", f"this is not Spark SQL: {error}", _head(span))
    first = error.errors[0]
    lines = span.text.split("\n")
    line, column = first.get("line") or 1, first.get("col") or 1
    highlight = first.get("highlight") or ""
    offset = sum(len(text) + 1 for text in lines[: line - 1]) + max(0, column - len(highlight))
    start = min(span.start + offset, span.end)
    message = (first.get("description") or str(error)).rstrip(".")
    return Diagnostic("DF0004", f"syntax error: {message}", Span(span.file, start, start + max(1, len(highlight))))


def place_of(node: exp.Expr | None, within: Span) -> Span:
    """Where a node of a statement's AST stands: the text from its first to its last token."""
    if node is None:
        return _head(within)
    starts, ends = [], []
    for part in node.walk():
        if "start" in part.meta:
            starts.append(part.meta["start"])
            ends.append(part.meta["end"] + 1)
    if not starts:
        return _head(within)
    return Span(within.file, within.start + min(starts), within.start + max(ends))
