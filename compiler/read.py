"""Stage 1, read: a view file becomes statements, each with its place.

Statements end at a semicolon. Declarations that sqlglot does not know go to `grammar`; CREATE TABLE and CREATE VIEW
go to sqlglot, and from another dialect on to Spark's. INCLUDE brings in another file's statements. Nothing is resolved
yet, and every error is collected.
"""

from __future__ import annotations

import itertools
import logging
import re
from dataclasses import dataclass, field, replace
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from ..grammar.declarations import (
    AlterChanges,
    AlterStatistics,
    Include,
    Pragma,
    is_declaration,
    parse_declaration,
    parse_pragma,
)
from ..grammar.spark_dialect import SparkViews, is_gpivot
from . import dialects
from .catalog import Dimension, Source, did_you_mean
from .scalar import DIALECT
from .source import Diagnostic, InputError, SourceFile, Span, head_of, read_source
from .source import place_of as place_of

logging.getLogger("sqlglot").addHandler(logging.NullHandler())  # its remarks are made into diagnostics here

MOST_DEPTH = 300  # later stages recurse over expressions, several calls a node


@dataclass(frozen=True, slots=True)
class CreateTable:
    schema: exp.Schema
    span: Span
    dialect: str = DIALECT


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE t ADD CONSTRAINT …, or ALTER COLUMN … SET NOT NULL."""

    table: str
    actions: tuple[exp.Expr, ...]
    span: Span
    dialect: str = DIALECT


@dataclass(frozen=True, slots=True)
class CreateView:
    name: str
    column_names: tuple[exp.Identifier, ...]
    query: exp.Expr
    temporary: bool
    pragmas: tuple[Pragma, ...]
    span: Span
    name_span: Span
    dialect: str = DIALECT
    translated: str | None = None  # the query as Spark SQL, where it is in another dialect or holds GPIVOT


Statement = CreateTable | AlterTable | CreateView | Dimension | Source | AlterChanges | AlterStatistics


@dataclass(slots=True)
class ReadFile:
    """All statements of a file and of those it includes, in order; `errors` says what could not be read."""

    statements: list[Statement] = field(default_factory=list)
    errors: list[Diagnostic] = field(default_factory=list)
    warnings: list[Diagnostic] = field(default_factory=list)


def read(path: Path, shown_as: str | None = None, dialect: str = DIALECT) -> ReadFile:
    """Reads a view file from disk."""
    result = ReadFile()
    _read_into(result, read_source(path, shown_as), dialect, path, (path.resolve(),))
    _translate(result)
    return result


def read_text(text: str, name: str = "views.sql", dialect: str = DIALECT) -> ReadFile:
    """Reads a view file that is already in memory; INCLUDE is relative to the working directory."""
    result = ReadFile()
    _read_into(result, SourceFile(name, text), dialect, Path(name), ())
    _translate(result)
    return result


def _translate(result: ReadFile) -> None:
    """Brings the views of other dialects to Spark's; done last, since it asks for the columns of all tables."""
    foreign = [s for s in result.statements if isinstance(s, CreateView) and s.dialect != DIALECT]
    if not foreign:
        return
    schemas = [statement.schema for statement in result.statements if isinstance(statement, CreateTable)]
    kinds = dialects.column_kinds(schemas, [view.query for view in foreign])
    statements, result.statements = result.statements, []
    for statement in statements:
        if isinstance(statement, CreateView) and statement.dialect != DIALECT:
            try:
                query, text, warnings = dialects.translate(statement.query, statement.dialect, kinds, statement.span)
            except InputError as error:
                result.errors.extend(error.diagnostics)
                continue
            except RecursionError:
                result.errors.extend(too_deep(statement.name_span).diagnostics)
                continue
            result.warnings.extend(warnings)
            statement = replace(statement, query=query, translated=text)
        result.statements.append(statement)


def _read_into(result: ReadFile, source: SourceFile, dialect: str, path: Path, including: tuple[Path, ...]) -> None:
    try:
        pieces = split(source) if dialect == DIALECT else split_tokens(source, dialect)
    except InputError as error:
        result.errors.extend(error.diagnostics)
        return
    for leading, span in pieces:
        try:
            statement = _read_statement(leading, span, dialect)
        except InputError as error:
            result.errors.extend(error.diagnostics)
            continue
        if isinstance(statement, Include):
            _include(result, statement, dialect, path, including)
        else:
            result.statements.append(statement)


def _include(result: ReadFile, include: Include, dialect: str, path: Path, including: tuple[Path, ...]) -> None:
    target = path.parent / include.path
    if include.dialect is not None and include.dialect not in dialects.NAMES:
        message = f"there is no dialect {include.dialect}"
        remedy = did_you_mean(include.dialect, dialects.NAMES)
        result.errors.append(Diagnostic("DF0010", message, include.span, remedy))
        return
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
        _read_into(result, source, include.dialect or dialect, target, (*including, target.resolve()))


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


def split_tokens(source: SourceFile, dialect: str) -> list[tuple[Span, Span]]:
    """The same for another dialect, whose quotes and comments its own tokenizer knows."""
    try:
        tokens = Dialect.get_or_raise(dialect).tokenize(source.text)
    except SqlglotError:
        split(source)  # says where a quote or comment was opened, if it looks like Spark's
        place = Span(source, len(source.text) - 1, len(source.text))
        raise InputError([Diagnostic("DF0002", "a string, name or comment is never closed", place)]) from None
    pieces: list[tuple[Span, Span]] = []
    leading_start = 0
    statement: list[Token] = []
    for token in [*tokens, None]:
        if token is not None and token.token_type != TokenType.SEMICOLON:
            statement.append(token)
            continue
        if statement:
            start, end = statement[0].start, statement[-1].end + 1
            pieces.append((Span(source, leading_start, start), Span(source, start, end)))
        leading_start, statement = token.end + 1 if token else 0, []
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


def _read_statement(leading: Span, span: Span, dialect: str) -> Statement | Include:
    if is_declaration(span.text):
        return parse_declaration(span)
    pragmas = _pragmas(leading)
    try:
        text = _without_enforcement(span.text, dialect)
        parsed = sqlglot.parse_one(text, dialect=SparkViews if dialect == DIALECT else dialect)
    except ParseError as error:
        raise InputError([_syntax_error(span, error, dialect)]) from None
    except RecursionError:
        raise too_deep(head_of(span)) from None
    except Exception as error:  # on text that is no SQL sqlglot may fail in any way
        because = str(error).split("\n")[0]
        raise InputError([Diagnostic("DF0004", f"this is not {_named(dialect)}: {because}", head_of(span))]) from None
    if _depth(parsed) > MOST_DEPTH:
        raise too_deep(head_of(span))
    match parsed:
        case exp.Command() if (header := _HEADER.match(span.text)) is not None:
            raise InputError([_not_understood(header[1].upper(), span, dialect)])
        case exp.Create(kind="TABLE", this=exp.Schema() as schema, expression=None):
            if dialect != DIALECT and (wrong := dialects.refuse_unbounded(schema, span)):
                raise InputError(wrong)
            return CreateTable(schema, span, dialect)
        case exp.Alter(kind="TABLE", this=exp.Table() as table) if all(map(_constrains, parsed.args["actions"])):
            return AlterTable(table.name, tuple(parsed.args["actions"]), span, dialect)
        case exp.Create(kind="VIEW", expression=exp.Query() as query):
            return _view(parsed, query, pragmas, span, dialect)
    raise InputError(
        [
            Diagnostic(
                "DF0008",
                f"a view file does not hold this statement: {span.text.split()[0].upper()}",
                head_of(span),
                "it holds CREATE TABLE, CREATE [MATERIALIZED | TEMPORARY] VIEW … AS SELECT, and declarations",
            )
        ]
    )


def _without_enforcement(text: str, dialect: str) -> str:
    """CREATE TABLE and ALTER TABLE without the words that say how a constraint is enforced: sqlglot knows few of them.

    Spaces take their place, so that positions stay. A column may be called so; a constraint's word follows others.
    """
    if not _ENFORCEMENT.search(text) or not _TABLES.match(text):
        return text
    tokens, blank = Dialect.get_or_raise(dialect).tokenize(text), list(text)
    for before, token in itertools.pairwise(tokens):
        word = token.text.upper()
        if word in ("ENFORCED", "RELY", "NORELY", "TIMESERIES") and before.token_type not in _BEFORE_A_NAME:
            start = before.start if word == "ENFORCED" and before.token_type == TokenType.NOT else token.start
            blank[start : token.end + 1] = " " * (token.end + 1 - start)
    return "".join(blank)


_TABLES = re.compile(r"(?:create|alter)\b(?:\s+\w+)*?\s+table\b", re.IGNORECASE)
_ENFORCEMENT = re.compile(r"\b(?:enforced|rely|norely|timeseries)\b", re.IGNORECASE)
_BEFORE_A_NAME = (TokenType.L_PAREN, TokenType.COMMA, TokenType.DOT, TokenType.CONSTRAINT, TokenType.REFERENCES)


def _constrains(action: exp.Expr) -> bool:
    """Whether an action of ALTER TABLE declares something of the table's rows."""
    return isinstance(action, exp.AddConstraint) or (
        isinstance(action, exp.AlterColumn) and action.args.get("allow_null") is False
    )


_HEADER = re.compile(r"create\b(?:\s+\w+)*?\s+(table|view)\b", re.IGNORECASE)


def _not_understood(kind: str, span: Span, dialect: str) -> Diagnostic:
    """What is wrong with a CREATE that sqlglot gave up on: the query of a view, read alone, tells where."""
    depth = 0
    for token in Dialect.get_or_raise(dialect).tokenize(span.text):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if kind == "VIEW" and depth == 0 and token.token_type == TokenType.ALIAS:
            query = Span(span.file, span.start + token.end + 1, span.end)
            try:
                sqlglot.parse_one(query.text, dialect=dialect)
            except ParseError as error:
                return _syntax_error(query, error, dialect)
            except (SqlglotError, RecursionError):
                break
            message = "syntax error: what stands before AS is not understood"
            return Diagnostic("DF0004", message, Span(span.file, span.start, span.start + token.start))
    return Diagnostic("DF0004", f"syntax error: this CREATE {kind} is not understood", head_of(span))


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


def _view(create: exp.Create, query: exp.Expr, pragmas: tuple[Pragma, ...], span: Span, dialect: str) -> CreateView:
    target = create.this
    columns: tuple[exp.Identifier, ...] = ()
    if isinstance(target, exp.Schema):
        columns = tuple(column.this if isinstance(column, exp.ColumnDef) else column for column in target.expressions)
        target = target.this
    temporary = any(isinstance(p, exp.TemporaryProperty) for p in create.find_all(exp.TemporaryProperty))
    name_span = place_of(target, span)
    if target.args.get("db"):
        raise InputError([Diagnostic("DF0009", "a view's name has one part", name_span, "leave out the database")])
    ours = any(is_gpivot(pivot) for pivot in query.find_all(exp.Pivot))
    translated = query.sql(dialect=DIALECT, comments=False) if ours else None
    return CreateView(target.name, columns, query, temporary, pragmas, span, name_span, dialect, translated)


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


def _named(dialect: str) -> str:
    return "Spark SQL" if dialect == DIALECT else f"SQL of {dialect}"


def _syntax_error(span: Span, error: ParseError, dialect: str) -> Diagnostic:
    if not error.errors:
        return Diagnostic("DF0004", f"this is not {_named(dialect)}: {error}", head_of(span))
    first = error.errors[0]
    lines = span.text.split("\n")
    line, column = first.get("line") or 1, first.get("col") or 1
    highlight = first.get("highlight") or ""
    offset = sum(len(text) + 1 for text in lines[: line - 1]) + max(0, column - len(highlight))
    start = min(span.start + offset, span.end)
    message = (first.get("description") or str(error)).rstrip(".")
    return Diagnostic("DF0004", f"syntax error: {message}", Span(span.file, start, start + max(1, len(highlight))))
