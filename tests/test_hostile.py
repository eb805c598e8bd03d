"""Text meant to break out of its quotes or to break the compiler: it stays data, or is an error at its place."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from deltafold.codegen.emit import emit
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.source import InputError

RETAIL = Path(__file__).parent.parent / "examples" / "retail.sql"
TABLE = "CREATE TABLE t (a INT NOT NULL, b STRING, c INT);\n"
MARK = "hostilemark"


def generated(sql: str) -> dict[str, str]:
    """The scripts; each is Python, and holds the mark in strings, comments and names made of it only."""
    files = {name: text for name, text in emit(compile_text(sql), "parquet").items() if name.endswith(".py")}
    for name, text in files.items():
        compile(text, name, "exec")
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if MARK in token.string and token.type not in (tokenize.STRING, tokenize.COMMENT):
                assert token.type == tokenize.NAME, token
                assert token.string.isascii(), token
    return files


def refusal(sql: str) -> InputError:
    with pytest.raises(InputError) as caught:
        compile_text(sql)
    for diagnostic in caught.value.diagnostics:
        assert diagnostic.span.line >= 1
        assert diagnostic.span.column >= 1
    return caught.value


NAMES = ['"', "'", "``", '"""', "'''", "\\", ".", " ", "é", "日本", "$(x)", "{x}", "#", "%s", "-- ", "/* ", "\u202e"]


@pytest.mark.parametrize("odd", NAMES)
def test_names_stay_data(odd: str) -> None:
    name = f"{MARK}{odd}x"
    files = generated(
        f"CREATE TABLE `{name}` (`{name}` INT NOT NULL, k STRING);\n"
        f"CREATE VIEW `v{name}` AS SELECT k AS `k{name}`, SUM(`{name}`) AS `s{name}`, MIN(`{name}`) AS `m{name}`, "
        f"COUNT(*) AS n FROM `{name}` GROUP BY k;\n"
        f"CREATE VIEW `w{name}` AS SELECT `k{name}`, `m{name}` FROM `v{name}` WHERE `s{name}` > 1;"
    )
    strings = {
        node.value
        for node in ast.walk(ast.parse(files["refresh.py"]))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert {f"v{name}".replace("``", "`"), f"w{name}".replace("``", "`")} <= strings


@pytest.mark.parametrize("odd", ["\n", "\r", "\x00", "\x7f", "\x85", "\u2028"])
def test_control_characters_in_names_are_refused(odd: str) -> None:
    error = refusal(f"{TABLE}CREATE VIEW v AS SELECT a AS `x{odd}y` FROM t;")
    assert [diagnostic.code for diagnostic in error.diagnostics] == ["DF0103"]


def test_messages_do_not_move_the_cursor() -> None:
    assert "\x1b" not in str(refusal(f"{TABLE}CREATE VIEW v AS SELECT `a\x1b[2Jb` FROM t;"))


LITERALS = [
    f'\'"""; import {MARK}; {MARK}.x() #\'',
    f"'''{MARK}'''",
    f"'{MARK}\\\\'",
    f"'{MARK}\\n\\'x'",
    f"'{MARK}\n{MARK}()'",
    f"'\u202e{MARK}\u2028'",
    f'"{MARK}"',
    f"'{{{MARK}}} %s `'",
]


@pytest.mark.parametrize("text", LITERALS)
def test_literals_stay_data(text: str) -> None:
    files = generated(f"{TABLE}CREATE VIEW v AS SELECT a, {text} AS x FROM t WHERE b <> {text};")
    assert MARK in files["propagate.py"]
    assert "\u202e" not in files["propagate.py"]


DEEP = {
    "sum": "SELECT " + " + ".join(["a"] * 30_000) + " AS x FROM t",
    "and": "SELECT a FROM t WHERE " + " AND ".join(["a > 1"] * 2_000),
    "argument": "SELECT b, SUM(" + " + ".join(["a"] * 400) + ") AS x FROM t GROUP BY b",
    "parentheses": "SELECT " + "(" * 3_000 + "a" + ")" * 3_000 + " AS x FROM t",
    "subqueries": "SELECT a FROM " + "(SELECT a FROM " * 500 + "t" + ")" * 500,
    "not": "SELECT a FROM t WHERE " + "NOT " * 2_000 + "a > 1",
}


@pytest.mark.parametrize("case", DEEP)
def test_too_deep_is_an_error_and_not_a_crash(case: str) -> None:
    assert "DF0007" in {diagnostic.code for diagnostic in refusal(f"{TABLE}CREATE VIEW v AS {DEEP[case]};").diagnostics}


def test_expressions_that_grow_through_temporary_views() -> None:
    views = [f"CREATE TEMPORARY VIEW v{i} AS SELECT a{' + 1' * 100} AS a FROM v{i - 1};" for i in range(1, 9)]
    sql = f"{TABLE}CREATE TEMPORARY VIEW v0 AS SELECT a FROM t;\n{''.join(views)}CREATE VIEW w AS SELECT a FROM v8;"
    assert {diagnostic.code for diagnostic in refusal(sql).diagnostics} == {"DF0007"}


def test_what_is_large_but_reasonable_compiles() -> None:
    generated(f"{TABLE}CREATE VIEW v AS SELECT {' + '.join(['a'] * 200)} AS x FROM t;")
    chain = [f"CREATE VIEW v{i} AS SELECT a FROM v{i - 1};\n" for i in range(1_200, 0, -1)]
    assert len(compile_text(f"{TABLE}{''.join(chain)}CREATE VIEW v0 AS SELECT a FROM t;").views) == 1_201


BROKEN = {
    "CREATE VIEW v AS SELECT a FROM t WHERE b = 'x;": "DF0002",
    "CREATE VIEW `v AS SELECT a FROM t;": "DF0002",
    "/* never": "DF0002",
    "INCLUDE 'x\x00y';": "DF0006",
    "INCLUDE 'no such file';": "DF0006",
    "CREATE VIEW v AS SELECT a FROM v;": "DF0202",
    "CREATE VIEW v AS SELECT a FROM w; CREATE VIEW w AS SELECT a FROM v;": "DF0202",
    "CREATE VIEW v AS SELECT aa FROM t;": "DF0209",
    "CREATE VIEW v AS SELECT a FROM tt;": "DF0206",
    "DROP TABLE t;": "DF0008",
    "CREATE VIEW v AS SELECT a AS `` FROM t;": "DF0103",
    "CREATE VIEW v AS SELECT a FROM parquet.`/x`;": "DF0205",
    "CREATE VIEW v AS SELECT java_method('x', 'y') AS r FROM t;": "DF0303",
    "CREATE VIEW v AS SELECT a FROM t; CREATE VIEW V AS SELECT a FROM t;": "DF0201",
}


@pytest.mark.parametrize("sql", BROKEN)
def test_broken_files_are_refused_at_their_place(sql: str) -> None:
    assert [diagnostic.code for diagnostic in refusal(TABLE + sql).diagnostics] == [BROKEN[sql]]


UNSUPPORTED = {
    "TABLESAMPLE": "SELECT a FROM t TABLESAMPLE (5 PERCENT)",
    "LATERAL VIEW": "SELECT a, x FROM t LATERAL VIEW explode(array(1)) e AS x",
    "a subquery here": "SELECT t.a FROM t JOIN t u ON EXISTS (SELECT 1 FROM t)",
    "FILTER with ANY_VALUE": "SELECT ANY_VALUE(a) FILTER (WHERE a > 1) AS s FROM t",
    "RAND()": "SELECT a FROM t WHERE rand() > 0.5",
    "CURRENT_DATE": "SELECT a, current_date AS d FROM t",
    "UUID()": "SELECT uuid() AS u FROM t",
}


@pytest.mark.parametrize("construct", UNSUPPORTED)
def test_the_construct_is_named(construct: str) -> None:
    (diagnostic,) = refusal(f"{TABLE}CREATE VIEW v AS {UNSUPPORTED[construct]};").diagnostics
    assert construct in diagnostic.message
    assert diagnostic.span.line == 2


def cli(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltafold.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_explain_gives_json(tmp_path: Path) -> None:
    data = json.loads(cli("explain", str(RETAIL), "sR_sales", "--format", "json", cwd=tmp_path).stdout)
    assert data["version"] == 1
    assert [view["name"] for view in data["views"]] == ["sR_sales"]


def test_a_hostile_file_is_wrong_input_and_not_a_bug(tmp_path: Path) -> None:
    (tmp_path / "deep.sql").write_text(f"{TABLE}CREATE VIEW v AS {DEEP['and']};", encoding="utf-8")
    (tmp_path / "latin.sql").write_bytes(b"CREATE TABLE t (k INT);\n-- caf\xe9\n")
    for name in ("deep.sql", "latin.sql", "missing.sql"):
        finished = cli("compile", name, "-o", "out", cwd=tmp_path)
        assert finished.returncode == 2, finished.stderr
        assert "Traceback" not in finished.stderr
    assert cli("diff", str(RETAIL), "no-such-folder", cwd=tmp_path).returncode == 2
