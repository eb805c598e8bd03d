"""The compiler from the outside: plans parse back, output is stable, hostile input works or gives a located error."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from deltafold.codegen.emit import emit
from deltafold.compiler.algebra import Rel, scans
from deltafold.compiler.pipeline import compile_file, compile_text
from deltafold.compiler.plan import Plan
from deltafold.compiler.source import InputError
from deltafold.grammar.notation import print_ref, print_rel
from deltafold.grammar.plan_reader import parse_rel

ROOT = Path(__file__).parent.parent
VIEW_FILES = [ROOT / "examples" / "retail.sql", ROOT / "tests" / "views" / "everything.sql"]
TABLE = "CREATE TABLE t (k INT, v INT, s STRING, `odd name` INT);\n"


def relations_of(plan: Plan) -> list[Rel]:
    found: list[Rel] = []
    for view in plan.views:
        found += [view.definition, view.initial, *(step.rel for step in view.steps)]
        found += [view.changes.rel] if view.changes else []
    return found


@pytest.mark.parametrize("file", VIEW_FILES, ids=lambda file: file.stem)
def test_every_printed_plan_parses_back_to_an_equal_plan(file: Path) -> None:
    for rel in relations_of(compile_file(file)):
        inputs = {print_ref(scan.ref): scan.schema for scan in scans(rel)}
        assert parse_rel(print_rel(rel), inputs) == rel


@pytest.mark.parametrize("file", VIEW_FILES, ids=lambda file: file.stem)
def test_same_input_same_bytes_whatever_the_hash_seed(file: Path, tmp_path: Path) -> None:
    results = []
    for seed in ("1", "2"):
        out = tmp_path / seed
        command = [sys.executable, "-m", "deltafold.cli", "compile", str(file), "-o", str(out)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True)
        results.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert results[0] == results[1]


HOSTILE = {
    "backtick in a name": "CREATE VIEW v AS SELECT k AS `a``b`, COUNT(*) AS n FROM t GROUP BY k;",
    "quotes in a name": 'CREATE VIEW `x\'"""y` AS SELECT k AS `"""`, COUNT(*) AS n FROM t GROUP BY k;',
    "a line break in a name": "CREATE VIEW v AS SELECT k AS `a\nb` FROM t;",
    "unicode": "CREATE VIEW größe AS SELECT k AS Größe, COUNT(*) AS 数 FROM t GROUP BY k;",
    "dots": "CREATE VIEW v AS SELECT k AS `a.b`, SUM(`odd name`) AS `c d` FROM t GROUP BY k;",
    "literals": "CREATE VIEW v AS SELECT s FROM t WHERE s = '\"\"\"; import os; os._exit(1)' OR s = '\\n\\\\';",
    "an unclosed quote": "CREATE VIEW v AS SELECT k FROM t WHERE s = 'abc;",
    "an unclosed comment": "CREATE VIEW v AS SELECT k FROM t; /* abc",
    "a circle": "CREATE VIEW a AS SELECT k FROM b; CREATE VIEW b AS SELECT k FROM a;",
    "itself": "CREATE VIEW a AS SELECT k FROM a;",
    "a megabyte": f"CREATE VIEW v AS SELECT k FROM t WHERE s IN ({', '.join([repr('x' * 100)] * 10_000)});",
    "a deep expression": f"CREATE VIEW v AS SELECT {'+'.join(['v'] * 50_000)} AS x FROM t;",
    "deep parentheses": f"CREATE VIEW v AS SELECT {'(' * 5000}v{')' * 5000} AS x FROM t;",
    "nothing": "",
    "only comments": "-- nothing\n/* here */",
    "no SQL": "this is not SQL at all;",
    "a hidden name": "CREATE VIEW v AS SELECT k AS __sign FROM t;",
}


@pytest.mark.parametrize("case", HOSTILE, ids=lambda case: case.replace(" ", "-"))
def test_hostile_input_works_or_gives_a_located_error(case: str) -> None:
    try:
        plan = compile_text(TABLE + HOSTILE[case])
    except InputError as error:
        for diagnostic in error.diagnostics:
            assert diagnostic.span.line >= 1
            assert re.match(r"views\.sql:\d+:\d+: DF\d{4}: ", diagnostic.render())
        return
    for name, text in emit(plan, "parquet").items():
        if name.endswith(".py"):
            ast.parse(text)


def test_a_file_that_is_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "v.sql").write_bytes(b"CREATE TABLE t (k INT);\n-- caf\xe9\n")
    with pytest.raises(InputError) as caught:
        compile_file(tmp_path / "v.sql")
    assert caught.value.diagnostics[0].code == "DF0001"
    assert caught.value.diagnostics[0].span.line == 2


UNSUPPORTED = {
    "TABLESAMPLE": "SELECT k FROM t TABLESAMPLE (10 ROWS)",
    "LATERAL VIEW": "SELECT k, e FROM t LATERAL VIEW explode(array(1, 2)) q AS e",
    "WITH RECURSIVE": "WITH RECURSIVE r AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM r) SELECT a FROM r",
    "a subquery here": "SELECT t.k FROM t JOIN t u ON t.k = u.k AND t.v IN (SELECT v FROM t)",
    "IN of several columns here": "SELECT k, (k, v) IN (SELECT k, v FROM t) AS i FROM t",
    "FILTER with FIRST": "SELECT first(v) FILTER (WHERE k > 1) AS f FROM t",
    "LIMIT of anything but a number": "SELECT k FROM t LIMIT 1 + 1",
    "this correlated aggregate": "SELECT k, (SELECT max(v) FROM t u WHERE u.k = t.k HAVING count(*) > 1) AS m FROM t",
}


@pytest.mark.parametrize("construct", UNSUPPORTED)
def test_what_is_not_supported_is_named_at_its_place(construct: str) -> None:
    with pytest.raises(InputError) as caught:
        compile_text(f"{TABLE}CREATE VIEW v AS {UNSUPPORTED[construct]};")
    assert construct in str(caught.value)
    assert all(diagnostic.span.line == 2 or "\n" in diagnostic.message for diagnostic in caught.value.diagnostics)


def test_not_deterministic_is_refused() -> None:
    with pytest.raises(InputError) as caught:
        compile_text(f"{TABLE}CREATE VIEW v AS SELECT k, rand() AS r FROM t;")
    assert caught.value.diagnostics[0].code == "DF0302"


def test_all_errors_at_once_with_suggestions() -> None:
    with pytest.raises(InputError) as caught:
        compile_text(f"{TABLE}CREATE VIEW a AS SELECT kk FROM t;\nCREATE VIEW b AS SELECT k FROM tt;\nSELECT 1;")
    codes = [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert codes == ["DF0209", "DF0206", "DF0008"]
    assert "did you mean k?" in str(caught.value)
    assert "^^" in str(caught.value)


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "deltafold.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def test_exit_codes(tmp_path: Path) -> None:
    file, out = str(VIEW_FILES[0]), str(tmp_path / "out")
    assert run("compile", file, "-o", out, "--check", cwd=tmp_path).returncode == 1
    assert run("compile", file, "-o", out, cwd=tmp_path).returncode == 0
    assert run("compile", file, "-o", out, "--check", cwd=tmp_path).returncode == 0
    assert run("diff", file, out, cwd=tmp_path).stdout == "no difference\n"
    changed = tmp_path / "retail.sql"
    changed.write_text(VIEW_FILES[0].read_text().replace("MIN(date)", "MAX(date)"))
    differs = run("diff", str(changed), out, cwd=tmp_path)
    assert differs.returncode == 1
    assert differs.stdout.startswith("! SiC_sales: the stored view no longer fits")
    (tmp_path / "bad.sql").write_text("CREATE VIEW v AS SELECT a FROM nowhere;")
    wrong = run("compile", "bad.sql", "-o", out, cwd=tmp_path)
    assert wrong.returncode == 2
    assert "bad.sql:1:32: DF0206: there is no table or view nowhere" in wrong.stderr
    assert run("explain", "missing.sql", cwd=tmp_path).returncode == 2


def test_the_commands_of_the_readme_run(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.S)
    commands = [line for block in blocks for line in block.splitlines() if line.startswith("deltafold ")]
    assert commands
    for command in commands:
        finished = run(*command.split()[1:], cwd=tmp_path)
        assert finished.returncode == 0, f"{command}\n{finished.stderr}"
