"""Stage 7, emit: the files that compile writes, and how they compare with those on disk."""

from __future__ import annotations

from pathlib import Path

from ..compiler.plan import Plan
from .plan_text import plan_json, plan_text
from .scripts import scripts
from .sources_json import sources_json


def emit(plan: Plan, format: str) -> dict[str, str]:
    """Every file of the output directory, by name."""
    described = {"sources.json": sources_json(plan)} if plan.cores else {}
    return {"plan.txt": plan_text(plan), "plan.json": plan_json(plan), **described, **scripts(plan, format)}


def write(files: dict[str, str], directory: Path) -> list[str]:
    """Writes the files that differ; gives their names."""
    directory.mkdir(parents=True, exist_ok=True)
    changed = stale(files, directory)
    for name in changed:
        (directory / name).write_text(files[name], encoding="utf-8", newline="\n")
    return changed


def stale(files: dict[str, str], directory: Path) -> list[str]:
    """The names of files that are missing or differ."""
    return [name for name, text in files.items() if _read(directory / name) != text]


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
