"""The state: which data every table and view consists of, batch by batch."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

from .errors import WarehouseError
from .files import Files
from .names import folder

STATE = "_deltafold/state"
MARKER = "_propagated.json"
VERSIONED = re.compile(r"_(\d{8})-[0-9a-f]{8}")


def newest_state(files: Files) -> dict[str, Any] | None:
    """The committed state, or None before the first initialization."""
    numbered = [name for name in files.names(STATE) if re.fullmatch(r"\d{8,}\.json", name)]
    if not numbered:
        return None
    state: dict[str, Any] = json.loads(files.read(f"{STATE}/{max(numbered, key=lambda name: int(name[:-5]))}"))
    return state


def commit_state(files: Files, state: dict[str, Any]) -> None:
    text = json.dumps(state, indent=1, sort_keys=True) + "\n"
    if not files.create(f"{STATE}/{state['version']:08d}.json", text):
        raise WarehouseError(
            f"somebody else committed state {state['version']} of this warehouse meanwhile; run the command again"
        )


def _directories(state: dict[str, Any] | None) -> set[str]:
    """Every directory that a state refers to."""
    pointers = [*state["tables"].values(), *state["views"].values()] if state else []
    return {path for pointer in pointers for path in pointer.get("paths", [])}


def remove_unused(files: Files, new: dict[str, Any], previous: dict[str, Any] | None) -> None:
    """Remove directories that a refresh wrote and neither of two states uses. What users wrote is never touched."""
    used = _directories(new) | _directories(previous)
    for kind in ("tables", "views"):
        for owner in files.names(kind):
            for name in files.names(f"{kind}/{owner}"):
                path = f"{kind}/{owner}/{name}"
                match = VERSIONED.fullmatch(name)
                if match and int(match[1]) <= new["version"] and path not in used:
                    with contextlib.suppress(Exception):  # the commit stands; the next one tries again
                        files.remove(path)


def state_or_error(files: Files, root: str) -> dict[str, Any]:
    state = newest_state(files)
    if state is None:
        raise WarehouseError(f"{root} was never initialized; run initialize.py (deltafold init) first")
    return state


def require_plan(state: dict[str, Any], plan: dict[str, str], format: str) -> None:
    """Refuse a plan that does not fit the stored views."""
    if state["format"] != format:
        raise WarehouseError(
            f"the warehouse has the format {state['format']}, these scripts are for {format}; "
            f"compile with --format {state['format']}"
        )
    stored = state["plan"]
    differing = sorted(name for name in {*plan, *stored} if plan.get(name) != stored.get(name))
    if differing:
        raise WarehouseError(
            f"the plan does not fit the stored views: {', '.join(differing)}; "
            "run initialize.py (deltafold init) again to store the views of this plan"
        )


def pointer_of(state: dict[str, Any], kind: str, name: str) -> dict[str, Any]:
    try:
        pointer: dict[str, Any] = state[kind][name]
    except KeyError:
        known = ", ".join(sorted(state[kind])) or "none"
        raise WarehouseError(f"the warehouse has no {kind[:-1]} {name} (it has: {known})") from None
    return pointer


def marker_of(files: Files, batch: str) -> dict[str, Any] | None:
    """What propagate left when all deltas of a batch were written."""
    path = f"deltas/{folder(batch)}/{MARKER}"
    if not files.exists(path):
        return None
    try:
        marker: dict[str, Any] = json.loads(files.read(path))
    except ValueError:  # half of it, where writing a file is not atomic
        return None
    return marker
