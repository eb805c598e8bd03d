"""warehouse.py, as it is joined from its parts."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from pathlib import Path

from deltafold.codegen.joined import FOLDER, PARTS, warehouse_text

ROOT = Path(__file__).parent.parent


def test_it_reads_as_written_by_hand() -> None:
    for check in (["check"], ["format", "--check"]):
        command = [sys.executable, "-m", "ruff", *check, "--config", str(ROOT / "pyproject.toml"), "-"]
        found = subprocess.run(command, input=warehouse_text(), capture_output=True, text=True, check=False, cwd=ROOT)
        assert found.returncode == 0, found.stdout + found.stderr


def test_every_part_is_in_it() -> None:
    assert {path.stem for path in FOLDER.glob("*.py")} == {"__init__", *PARTS}
    tree = ast.parse(warehouse_text())
    defined = Counter(node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef))
    assert max(defined.values()) == 1
    for part in PARTS:
        inside = ast.parse((FOLDER / f"{part}.py").read_text(encoding="utf-8")).body
        assert {node.name for node in inside if isinstance(node, ast.FunctionDef | ast.ClassDef)} <= set(defined)


def test_parts_use_earlier_parts_only() -> None:
    for number, part in enumerate(PARTS):
        tree = ast.parse((FOLDER / f"{part}.py").read_text(encoding="utf-8"))
        used = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.level}
        assert used <= set(PARTS[:number])


def test_only_pyspark_is_needed() -> None:
    tree = ast.parse(warehouse_text())
    modules = {node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)}
    modules |= {alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names}
    assert {name.split(".")[0] for name in modules} - sys.stdlib_module_names == {"pyspark"}
