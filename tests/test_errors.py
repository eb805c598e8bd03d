"""Error codes: each used one is registered, each registered example gives its code, the pages in docs/ are current."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deltafold import cli
from deltafold.compiler.errors import Code, codes, find_code, index, nearest, page
from deltafold.compiler.pipeline import compile_file
from deltafold.compiler.source import InputError

ROOT = Path(__file__).parent.parent
PAGES = ROOT / "docs" / "errors"
UPDATE = "python -m pytest tests/test_errors.py --update"


def complaints(text: str, entry: Code, folder: Path) -> tuple[set[str], str]:
    """The codes that a view file gives, errors, warnings and reasons alike, and how they are printed."""
    path = folder / "views.sql"
    path.write_bytes(text.replace("…", entry.dots * 400).encode(entry.encoding))
    try:
        plan = compile_file(path, shown_as="views.sql", dialect=entry.dialect)
    except InputError as error:
        return {diagnostic.code for diagnostic in error.diagnostics}, "" if entry.dots else str(error)
    reasons = {refusal.code: f"{refusal.strategy}: {refusal.because}" for v in plan.views for refusal in v.refused}
    found = {warning.code for warning in plan.warnings} | set(reasons)
    shown = [warning.render() for warning in plan.warnings if warning.code == entry.code]
    return found, "\n".join(shown) or reasons.get(entry.code, "")


@pytest.mark.parametrize("code", codes())
def test_the_example_of_a_code_gives_it_and_its_page_is_current(
    code: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    entry = codes()[code]
    found, shown = complaints(entry.example.lstrip("\n"), entry, tmp_path)
    assert code in found
    expected, path = page(entry, shown), PAGES / f"{code}.md"
    if request.config.getoption("--update"):
        path.write_text(expected, encoding="utf-8")
    assert path.exists() and path.read_text(encoding="utf-8") == expected, f"if this is as it should be: {UPDATE}"


@pytest.mark.parametrize("code", [code for code, entry in codes().items() if entry.instead])
def test_what_to_write_instead_compiles(code: str, tmp_path: Path) -> None:
    path = tmp_path / "views.sql"
    path.write_text(codes()[code].instead, encoding="utf-8")
    compile_file(path)


def test_every_code_in_the_sources_is_registered_and_every_registered_one_used() -> None:
    sources = [p for p in ROOT.rglob("*.py") if p.relative_to(ROOT).parts[0] not in ("tests", ".venv", "build")]
    used = {code for path in sources for code in re.findall(r'"(DF\d{4})"', path.read_text(encoding="utf-8"))}
    assert used == set(codes())
    assert list(codes()) == sorted(codes())


def test_the_index_lists_every_page(request: pytest.FixtureRequest) -> None:
    path = PAGES / "README.md"
    if request.config.getoption("--update"):
        path.write_text(index(), encoding="utf-8")
        for page_path in PAGES.glob("DF*.md"):
            if page_path.stem not in codes():
                page_path.unlink()
    assert path.read_text(encoding="utf-8") == index(), f"if this is as it should be: {UPDATE}"
    assert {p.stem for p in PAGES.glob("DF*.md")} == set(codes()), f"if this is as it should be: {UPDATE}"


def test_codes_are_found_however_they_are_written() -> None:
    assert find_code("df209") == find_code("209") == find_code("DF0209") == codes()["DF0209"]
    assert find_code("DF9999") is None
    assert find_code("²") is None
    assert nearest("DF0299").startswith("did you mean DF02")
    assert "DF0208" in nearest("ambiguous")


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltafold.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_explain_error(tmp_path: Path) -> None:
    printed = run("explain-error", "DF0209", cwd=tmp_path)
    assert printed.returncode == 0
    assert printed.stdout == page(codes()["DF0209"])
    data = json.loads(run("explain-error", "DF0209", "--format", "json", cwd=tmp_path).stdout)
    assert data["title"] == "no such column"
    unknown = run("explain-error", "DF0299", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "did you mean" in unknown.stderr


def test_a_bug_says_that_it_is_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("made by a test")

    (tmp_path / "v.sql").write_text("CREATE TABLE t (a INT);", encoding="utf-8")
    monkeypatch.setattr(cli, "compile_file", broken)
    monkeypatch.setattr(sys, "argv", ["deltafold", "explain", str(tmp_path / "v.sql")])
    monkeypatch.delenv("DELTAFOLD_DEBUG", raising=False)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    said = capsys.readouterr().err
    assert caught.value.code == 3
    assert "this is a bug of deltafold (ZeroDivisionError), not of your file: made by a test" in said
    assert "report it with the view file" in said
    assert "Traceback" not in said
