"""What a compiled directory and a warehouse tell of sources, without asking any of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..codegen.sources_json import Description, read_description
from ..codegen.warehouse.files import located
from ..runner import CannotRun
from .coretable import POSITIONS, read_position

HEALTH = f"{POSITIONS}/health.json"


def description_of(directory: Path) -> Description:
    """The sources of a compiled directory."""
    path = directory / "sources.json"
    if not path.is_file():
        raise CannotRun(f"{directory} has no sources.json: its views read no table of a CREATE SOURCE")
    return read_description(path.read_text(encoding="utf-8"))


def status_of(directory: Path, warehouse: str) -> dict[str, Any] | None:
    """What `deltafold status` tells of the sources: where each core is, and how its sources were when last seen."""
    if not (directory / "sources.json").is_file():
        return None
    _, files = located(None, warehouse)
    seen = json.loads(files.read(HEALTH)) if files.exists(HEALTH) else {"seen": None, "cores": {}}
    cores = {}
    for view in description_of(directory).cores:
        position = read_position(files, view.core.name)
        cores[view.core.name] = {
            "views": list(view.views),
            "consistency": view.consistency,
            "reflects": dict(position.versions) if position else None,
            "sources": seen["cores"].get(view.core.name, {}),
        }
    return {"seen": seen["seen"], "cores": cores}


def status_lines(sources: dict[str, Any]) -> list[str]:
    """The same, for people."""
    lines = [f"sources, last seen {sources['seen'] or 'never'}"]
    for name, core in sources["cores"].items():
        at = ", ".join(f"{source} {version}" for source, version in (core["reflects"] or {}).items())
        lines.append(f"  {name} ({', '.join(core['views'])}; {core['consistency']}): reflects {at or 'nothing yet'}")
        for source, health in core["sources"].items():
            trouble = f", {health['attempts']} attempts: {health['error']}" if health["state"] == "down" else ""
            lines.append(f"    {source}: {health['state']}, heard up to {health['delivered']}{trouble}")
    return lines
