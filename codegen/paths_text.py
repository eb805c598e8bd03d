"""How a view over sources is kept: its core, and the query path of every change, from the objects that run it."""

from __future__ import annotations

from typing import Any

from ..compiler import scalar
from ..compiler.joingraph import Core
from ..compiler.plan import ViewCore
from ..compiler.querypath import Kind, Path, full_path, plan_path

ALGORITHMS = {
    "complete": "version numbers, every transaction by itself",
    "strong": "Nested SWEEP, transactions that meet taken together",
    "convergent": "version numbers, the waiting changes of a table together",
}

_UNLESS = {
    Kind.INSERT: "insert of a key that is deleted in the same transaction",
    Kind.DELETE: "delete with changes of what refers to it in the same transaction",
}


def core_text(view: ViewCore) -> list[str]:
    """Lines for the plan."""
    core = view.core
    lines = [f"  core     {core.name}, {view.consistency}: {ALGORITHMS[view.consistency]}"]
    for node in core.nodes:
        shown = f" as {node.name}" if node.name != node.table else ""
        where = "".join(f"; {scalar.text(condition)}" for condition in node.filters)
        lines.append(f"    {node.source}.{node.table}{shown} ({', '.join(node.columns)}){where}")
    for link in core.links:
        on = " and ".join(f"{link.left}.{a} = {link.right}.{b}" for a, b in link.pairs)
        lines.append(f"    joined on {on}")
    if view.consistency == "strong":
        lines.append(f"    a change of any table: {len(core.nodes) - 1} messages, one table each, the nearest first")
        return lines
    for node in core.nodes:
        lines.append(f"  a change of {node.name}")
        told: dict[tuple[str, ...], list[str]] = {}
        for kind in Kind:
            path = plan_path(core, node.name, kind)
            told.setdefault(tuple(_path_text(core, path)), []).append(kind)
            if path.skipped:
                whole = tuple(_path_text(core, full_path(core, node.name, kind)))
                told.setdefault(whole, []).append(_UNLESS[kind])
        for (first, *rest), kinds in told.items():
            lines.append(f"    {' or '.join(kinds)}: {first}")
            lines += [f"      {line}" for line in rest]
    return lines


def _path_text(core: Core, path: Path) -> list[str]:
    if path.skipped:
        return [f"0 messages: irrelevant, {path.skipped}"]
    count = f"{path.messages} message{'' if path.messages == 1 else 's'}"
    lines = []
    for query in path.queries:
        tables = " with ".join(query.nodes)
        lines.append(f"{query.wave}. ask {query.source} for {tables}, by {_links(core, query.nodes, query.parents)}")
    for answer in path.answers:
        nodes = ", ".join((answer.node, *(name for name, _ in answer.behind)))
        key = ", ".join(core.key_in_view(answer.node) or ())
        lines.append(f"but where the view holds {answer.node}.{key}, it answers for {nodes} itself")
    if path.by_key is not None:
        key = ", ".join(core.key_in_view(path.by_key) or ())
        what = "taken out" if path.kind is Kind.DELETE else "changed"
        lines.append(f"then the stored rows with the {path.by_key}.{key} concerned are {what}")
        if path.kind is Kind.MODIFY:
            lines.append("if it touches a join column, it is a delete and an insert")
    trips = f" in {path.waves} round trip{'' if path.waves == 1 else 's'}"
    waves = trips if path.waves != path.messages and path.queries else ""
    return [f"{count}{waves}", *lines]


def _links(core: Core, nodes: tuple[str, ...], parents: tuple[str, ...]) -> str:
    found = []
    for name, parent in zip(nodes, parents, strict=True):
        found += [f"{parent}.{a} = {name}.{b}" for a, b in core.pairs(parent, name)]
    return ", ".join(found)


def core_data(view: ViewCore) -> dict[str, Any]:
    """The core and its query paths, for plan.json."""
    core = view.core
    paths = [(node.name, kind, plan_path(core, node.name, kind)) for node in core.nodes for kind in Kind]
    return {
        "name": core.name,
        "consistency": view.consistency,
        "nodes": [
            {"name": n.name, "table": n.table, "source": n.source, "columns": list(n.columns)} for n in core.nodes
        ],
        "paths": [
            {
                "node": node,
                "change": str(kind),
                "messages": path.messages,
                "skipped": path.skipped,
                "by_key": path.by_key,
                "answered_by_view": [answer.node for answer in path.answers],
                "queries": [{"source": q.source, "nodes": list(q.nodes), "wave": q.wave} for q in path.queries],
            }
            for node, kind, path in paths
        ],
    }
