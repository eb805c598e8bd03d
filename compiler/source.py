"""Source text, places in it, and what is wrong there.

Every complaint about a view file is a `Diagnostic`: a place, a code, a message and a remedy. They are
collected, so that a user sees all of them at once; `InputError` carries them out of the compiler. Anything
else that escapes is a bug of the compiler (`CompilerBug`) and says so.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from sqlglot import exp


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of the input. Offsets count characters."""

    name: str
    text: str
    _line_starts: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        starts = [0, *(i + 1 for i, character in enumerate(self.text) if character == "\n")]
        object.__setattr__(self, "_line_starts", tuple(starts))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        offset = max(0, min(offset, len(self.text)))
        line = bisect.bisect_right(self._line_starts, offset) - 1
        return line + 1, offset - self._line_starts[line] + 1

    def line(self, number: int) -> str:
        start = self._line_starts[number - 1]
        end = self.text.find("\n", start)
        return self.text[start : end if end >= 0 else len(self.text)]


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` up to, not including, `end` of a file."""

    file: SourceFile
    start: int
    end: int

    @property
    def text(self) -> str:
        return self.file.text[self.start : self.end]

    @property
    def line(self) -> int:
        return self.file.position(self.start)[0]

    @property
    def column(self) -> int:
        return self.file.position(self.start)[1]


Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something wrong, or worth a warning, at a place of the input."""

    code: str
    message: str
    span: Span
    remedy: str = ""
    severity: Severity = "error"

    def render(self) -> str:
        """`file:line:col: code: message`, the line with carets under the place, and the remedy."""
        line, column = self.span.file.position(self.span.start)
        source_line = self.span.file.line(line)
        shown, caret_start = _window(source_line, column - 1)
        width = max(1, min(self.span.end - self.span.start, len(source_line) - column + 1))
        carets = " " * caret_start + "^" * max(1, min(width, len(shown) - caret_start))
        label = self.code if self.severity == "error" else f"{self.code} warning"
        parts = [
            f"{self.span.file.name}:{line}:{column}: {label}: {_printable(self.message)}",
            f"  {shown}",
            f"  {carets}",
        ]
        if self.remedy:
            parts.append(f"  help: {_printable(self.remedy)}")
        return "\n".join(parts)


def _printable(text: str) -> str:
    """The text without what would move a terminal's cursor: names in messages are the file's own."""
    return "".join(c if c.isprintable() else " " for c in text)


def _window(line: str, caret: int, width: int = 160) -> tuple[str, int]:
    """The part of a long line around the caret, and where the caret stands in it."""
    line = _printable(line)
    if len(line) <= width:
        return line, caret
    start = max(0, min(caret - width // 2, len(line) - width))
    return line[start : start + width], caret - start


class InputError(Exception):
    """The input is wrong; carries every diagnostic found, in the order of the text."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        ordered = sorted(diagnostics, key=lambda d: (d.span.file.name, d.span.start, d.code, d.message))
        self.diagnostics = tuple(dict.fromkeys(ordered))
        super().__init__("\n".join(d.render() for d in self.diagnostics))


class CompilerBug(Exception):
    """A promise of the compiler to itself was broken: not the user's fault."""


def read_source(path: Path, shown_as: str | None = None) -> SourceFile:
    """Reads a file as UTF-8; a file that is not gives a located error."""
    name = shown_as or str(path)
    raw = path.read_bytes()
    try:
        return SourceFile(name, raw.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as error:
        readable = SourceFile(name, raw[: error.start].decode("utf-8", "replace"))
        place = Span(readable, len(readable.text), len(readable.text) + 1)
        raise InputError(
            [
                Diagnostic(
                    "DF0001",
                    f"the file is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}",
                    place,
                    "save the file as UTF-8",
                )
            ]
        ) from None


def head_of(span: Span) -> Span:
    """The first word of a statement."""
    word = span.text.split(None, 1)[0] if span.text.strip() else " "
    return Span(span.file, span.start, span.start + len(word))


def place_of(node: exp.Expr | None, within: Span) -> Span:
    """Where a node of a statement's AST stands: the text from its first to its last token."""
    if node is None:
        return head_of(within)
    starts, ends = [], []
    for part in node.walk():
        if "start" in part.meta:
            starts.append(part.meta["start"])
            ends.append(part.meta["end"] + 1)
    if not starts:
        return head_of(within)
    return Span(within.file, within.start + min(starts), within.start + max(ends))
