"""A sample of the fuzz run (`python -m tests.fuzz`), and that it would notice a crash, a hang and a lost place."""

from __future__ import annotations

import time
from collections.abc import Callable

import fuzz
import pytest
from deltafold.compiler.source import Diagnostic, SourceFile, Span


@pytest.mark.parametrize("part", range(3))
def test_mutated_view_files_are_read_or_refused(part: int) -> None:
    findings = fuzz.search(seed=2, first=part * 500, count=500, stage="read")
    assert not findings, findings[0]


def _crash(*_: object, **__: object) -> None:
    raise KeyError("made by a test")


def _hang(*_: object, **__: object) -> None:
    time.sleep(5)


def _outside(*_: object, **__: object) -> None:
    place = Span(SourceFile("v.sql", "x"), 7, 8)
    raise fuzz.InputError([Diagnostic("DF0001", "", place)])


@pytest.mark.parametrize(("fault", "said"), [(_crash, "KeyError"), (_hang, "hangs"), (_outside, "outside of the text")])
def test_the_search_can_fail(fault: Callable[..., None], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "read_text", fault)
    monkeypatch.setattr(fuzz, "PATIENCE", 0.2)
    assert said in (fuzz.try_input("CREATE TABLE t (a INT)", "spark", "read") or "")


def test_most_inputs_come_past_the_parser() -> None:
    read = [fuzz.read_text(*reversed_dialect(fuzz.make(3, number))) for number in range(100)]
    assert sum(len(file.statements) >= 2 for file in read) > 50


def reversed_dialect(made: tuple[str, str]) -> tuple[str, str, str]:
    text, dialect = made
    return text, "views.sql", dialect
