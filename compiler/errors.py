"""The codes of everything that deltafold complains about: `errors.toml` holds one entry a code.

The pages in docs/errors and `deltafold explain-error` are made of it; the tests compile every example and check that
it gives its code. A code is never used for something else once it was published.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from .catalog import did_you_mean


@dataclass(frozen=True, slots=True)
class Code:
    """One kind of complaint; `errors.toml` says what the fields hold."""

    code: str
    title: str
    means: str
    example: str
    remedy: str
    instead: str = ""
    encoding: str = "utf-8"
    dialect: str = "spark"
    dots: str = ""


@lru_cache
def codes() -> dict[str, Code]:
    """Every code there is, in order."""
    entries = tomllib.loads(files(__package__).joinpath("errors.toml").read_text(encoding="utf-8"))
    return {code: Code(code, **fields) for code, fields in entries.items()}


def find_code(written: str) -> Code | None:
    """The code that a user asks for: `DF0123`, `df123` and `123` mean the same."""
    digits = written.upper().removeprefix("DF")
    return codes().get(f"DF{digits:0>4}") if digits.isdecimal() else None


def nearest(written: str) -> str:
    """What to offer for a code that is not known: those whose number or title is near."""
    by_title = [entry.code for entry in codes().values() if written and written.casefold() in entry.title.casefold()]
    if by_title:
        return "did you mean " + " or ".join(f"{code} ({codes()[code].title})" for code in by_title[:3]) + "?"
    return did_you_mean(f"DF{written.upper().removeprefix('DF')}", codes())


def page(entry: Code, output: str = "") -> str:
    """The page of a code; `output` is what its example gives."""
    parts = [f"# {entry.code}: {entry.title}", entry.means, "## An example that gives it"]
    notes = []
    if entry.dialect != "spark":
        notes.append(f"read with `--dialect {entry.dialect}`")
    if entry.encoding != "utf-8":
        notes.append(f"saved in the encoding {entry.encoding}")
    if entry.dots:
        notes.append(f"where `…` stands for `{entry.dots.strip()}`, 400 times")
    if notes:
        listed = ", ".join(notes)
        parts.append(f"{listed[0].upper()}{listed[1:]}:")
    parts.append(_fenced("sql", entry.example))
    if output:
        parts.append(_fenced("text", output))
    parts += ["## What to write instead", entry.remedy]
    if entry.instead:
        parts.append(_fenced("sql", entry.instead))
    return "\n\n".join(parts) + "\n"


def index() -> str:
    """The page that lists all codes."""
    rows = "\n".join(f"| [{entry.code}]({entry.code}.md) | {entry.title} |" for entry in codes().values())
    return (
        "# Error codes\n\n"
        "Every complaint has the form `file:line:column: code: message`, the line with carets under the place, and a\n"
        "remedy. `deltafold explain-error CODE` prints a page. These pages are made from `compiler/errors.toml`.\n\n"
        f"| code | means |\n|---|---|\n{rows}\n"
    )


def _fenced(language: str, text: str) -> str:
    stripped = text.strip("\n")
    return f"```{language}\n{stripped}\n```"
