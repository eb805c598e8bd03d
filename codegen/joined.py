"""The parts of codegen/warehouse/ joined into the one warehouse.py that stands beside the generated scripts.

A part is an ordinary module: imported, tested and type-checked by itself. Joined, their imports stand once at the top,
imports of each other fall away, and the docstring of a part becomes a comment above it.
"""

from __future__ import annotations

import ast
import sys
import textwrap
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "warehouse"
# Each part uses names of earlier ones only.
PARTS = (
    "errors",
    "names",
    "files",
    "state",
    "storage",
    "feed",
    "reading",
    "changes",
    "bags",
    "batch",
    "propagation",
    "merge",
    "refresh",
    "initialization",
    "alone",
)
WIDTH = 120


@cache
def warehouse_text() -> str:
    """The text of warehouse.py."""
    texts = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in ("__init__", *PARTS)}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    head = ast.get_docstring(trees["__init__"], clean=False)
    imports = [node for part in PARTS for node in trees[part].body if isinstance(node, ast.Import | ast.ImportFrom)]
    bodies = [_body(part, texts[part], trees[part]) for part in PARTS]
    top = f'"""{head}"""\n\nfrom __future__ import annotations\n\n{_imports(imports)}'
    return f"{top}\n\n" + "\n\n\n".join(bodies) + "\n"


def _body(part: str, text: str, tree: ast.Module) -> str:
    """A part without its docstring and imports, under a heading."""
    lines = text.splitlines()
    last = max(node.end_lineno or 0 for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom))
    said = (ast.get_docstring(tree) or "").splitlines()
    wrapped = [textwrap.wrap(line, WIDTH - 2) or [""] for line in said]
    comment = [f"# {line}".rstrip() for paragraph in wrapped for line in paragraph]
    rest = "\n".join(lines[last:]).strip("\n")
    is_definition = rest.startswith(("def ", "class ", "@"))
    return "\n".join([f"# --- {part} ".ljust(WIDTH, "-"), *comment, "\n" if is_definition else "", rest])


def _imports(nodes: list[ast.Import | ast.ImportFrom]) -> str:
    """The imports of all parts, each once: the standard library, then PySpark."""
    whole = sorted({alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names})
    names: dict[str, set[str]] = {}
    renamed = set()
    for node in nodes:
        if not isinstance(node, ast.ImportFrom) or node.level or node.module in (None, "__future__"):
            continue
        for alias in node.names:
            if alias.asname:
                renamed.add((node.module or "", f"{alias.name} as {alias.asname}"))
            else:
                names.setdefault(node.module or "", set()).add(alias.name)
    lines = [(module, f"import {module}") for module in whole]
    from_lines = [(module, _from(module, sorted(found, key=_member_order))) for module, found in names.items()]
    from_lines += [(module, f"from {module} import {name}") for module, name in renamed]
    lines += sorted(from_lines)
    groups = [[text for module, text in lines if _is_standard(module) is standard] for standard in (True, False)]
    return "\n\n".join("\n".join(group) for group in groups if group)


def _from(module: str, names: list[str]) -> str:
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"from {module} import (", *(f"    {name}," for name in names), ")"])


def _member_order(name: str) -> tuple[int, str]:
    """Constants, then classes, then the rest."""
    return (0 if name.isupper() and len(name) > 1 else 1 if name[0].isupper() else 2), name


def _is_standard(module: str) -> bool:
    return module.split(".")[0] in sys.stdlib_module_names
