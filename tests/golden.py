"""Golden files: cases as text, whose outputs the test-suite checks and `--update` rewrites.

    # a comment
    directive arguments
    input
    ----
    output

Cases are parted by blank lines. An output with blank lines of its own stands between doubled `----`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

FOLDER = Path(__file__).with_name("golden")
_RULE = "----"


@dataclass(frozen=True, slots=True)
class Case:
    """One block of a golden file; `comment` holds the lines above its directive."""

    comment: str
    directive: str
    arguments: tuple[str, ...]
    input: str
    output: str
    line: int


@dataclass(frozen=True, slots=True)
class Golden:
    """Checks golden files; made by the fixture `golden`."""

    update: bool
    test: str

    def __call__(self, name: str, run: Callable[[Case], str]) -> None:
        """Compares what `run` gives for each case of tests/golden/NAME with the output written there."""
        path = FOLDER / name
        cases = list(read_cases(path.read_text(encoding="utf-8")))
        assert cases, f"{path.name} has no cases"
        done = [replace(case, output=run(case).rstrip("\n")) for case in cases]
        if self.update:
            if os.environ.get("CI"):
                pytest.fail("--update is refused where CI is set: goldens are updated by hand and reviewed")
            path.write_text(write_cases(done), encoding="utf-8")
            return
        wrong = [
            "\n".join(
                difflib.unified_diff(
                    case.output.split("\n"),
                    new.output.split("\n"),
                    f"tests/golden/{name}:{case.line}",
                    "now",
                    lineterm="",
                )
            )
            for case, new in zip(cases, done, strict=True)
            if case.output != new.output
        ]
        if wrong:
            command = f"python -m pytest '{self.test}' --update"
            pytest.fail("\n\n".join(wrong) + f"\n\nIf this is as it should be: {command}", pytrace=False)


def read_cases(text: str) -> Iterator[Case]:
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        comment: list[str] = []
        while at < len(lines) and (not lines[at].strip() or lines[at].startswith("#")):
            comment.append(lines[at])
            at += 1
        if at == len(lines):
            return
        first = at
        directive, *arguments = lines[at].split()
        if _RULE not in lines[at:]:
            raise ValueError(f"line {first + 1}: the case has no {_RULE}")
        rule = lines.index(_RULE, at)
        given = lines[at + 1 : rule]
        at = rule + 1
        expected: list[str] = []
        if lines[at : at + 1] == [_RULE]:
            at += 1
            while lines[at : at + 2] != [_RULE, _RULE]:
                if at >= len(lines):
                    raise ValueError(f"line {first + 1}: the output is not closed by two lines of {_RULE}")
                expected.append(lines[at])
                at += 1
            at += 2
        else:
            while at < len(lines) and lines[at]:
                expected.append(lines[at])
                at += 1
        above = "\n".join(comment).strip("\n")
        yield Case(above, directive, tuple(arguments), "\n".join(given), "\n".join(expected), first + 1)


def write_cases(cases: list[Case]) -> str:
    return "\n\n".join(_block(case) for case in cases) + "\n"


def _block(case: Case) -> str:
    parts = [case.comment] if case.comment else []
    parts.append(" ".join((case.directive, *case.arguments)))
    if case.input:
        parts.append(case.input)
    parts.append(_RULE)
    if "" in case.output.split("\n")[:-1] or case.output.startswith(_RULE):
        parts += [_RULE, case.output, _RULE, _RULE]
    elif case.output:
        parts.append(case.output)
    return "\n".join(parts)
