"""sources.json: what `deltafold source run` needs to know of a compiled directory, written and read here."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from ..compiler import scalar
from ..compiler.algebra import Column
from ..compiler.catalog import Catalog, Source, Table
from ..compiler.joingraph import Core, Link, Node, Output
from ..compiler.plan import Plan, ViewCore
from ..compiler.source import SourceFile, Span

VERSION = 1
_NOWHERE = Span(SourceFile("sources.json", ""), 0, 0)


@dataclass(frozen=True)
class Description:
    """The sources with their tables, and the cores kept from them."""

    catalog: Catalog
    cores: tuple[ViewCore, ...]


def sources_json(plan: Plan) -> str:
    """The text of sources.json."""
    named = {name.casefold() for source in plan.catalog.sources for name in source.tables}
    tables = [table for table in plan.catalog.tables if table.name.casefold() in named]
    data = {
        "version": VERSION,
        "tables": [{"name": table.name, "columns": [asdict(c) for c in table.columns]} for table in tables],
        "sources": [
            {"name": s.name, "type": s.type, "options": dict(s.options), "tables": list(s.tables)}
            for s in plan.catalog.sources
        ],
        "cores": [_core_data(view) for view in plan.cores],
    }
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


def _core_data(view: ViewCore) -> dict[str, Any]:
    core = view.core
    return {
        "name": core.name,
        "views": list(view.views),
        "consistency": view.consistency,
        "columns": [asdict(column) for column in view.table.columns],
        "nodes": [
            {
                "name": node.name,
                "table": node.table,
                "source": node.source,
                "columns": list(node.columns),
                "keys": [list(key) for key in node.keys],
                "filters": [scalar.text(condition) for condition in node.filters],
            }
            for node in core.nodes
        ],
        "links": [
            {"left": link.left, "right": link.right, "pairs": [list(pair) for pair in link.pairs]}
            for link in core.links
        ],
        "outputs": [[output.name, output.node, output.column] for output in core.outputs],
        "references": [list(pair) for pair in core.references],
    }


def read_description(text: str) -> Description:
    """The inverse of `sources_json`."""
    data = json.loads(text)
    tables = [Table(t["name"], tuple(Column(**c) for c in t["columns"]), _NOWHERE) for t in data["tables"]]
    sources = [
        Source(s["name"], s["type"], tuple(s["options"].items()), tuple(s["tables"]), _NOWHERE) for s in data["sources"]
    ]
    return Description(Catalog(tuple(tables), (), tuple(sources)), tuple(_core(core) for core in data["cores"]))


def _core(data: dict[str, Any]) -> ViewCore:
    nodes = tuple(
        Node(
            node["name"],
            node["table"],
            node["source"],
            tuple(node["columns"]),
            tuple(tuple(key) for key in node["keys"]),
            tuple(scalar.parse(condition) for condition in node["filters"]),
        )
        for node in data["nodes"]
    )
    links = tuple(Link(d["left"], d["right"], tuple((a, b) for a, b in d["pairs"])) for d in data["links"])
    outputs = tuple(Output(*output) for output in data["outputs"])
    core = Core(data["name"], nodes, links, outputs, tuple((r, n) for r, n in data["references"]))
    table = Table(core.name, tuple(Column(**column) for column in data["columns"]), _NOWHERE)
    return ViewCore(tuple(data["views"]), core, table, data["consistency"])
