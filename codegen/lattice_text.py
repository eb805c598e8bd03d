"""The derives lattice as text and as data."""

from __future__ import annotations

from typing import Any

from ..compiler.plan import Lattice, LatticeEdge, LatticeNode


def lattice_lines(lattice: Lattice) -> list[str]:
    """A line a node, below it the views that can be computed from it; `*` marks the one that is."""
    lines = []
    for node in lattice.nodes:
        lines.append(f"{node_title(node)}  ({', '.join(node.keys)})  {_sizes(node)}")
        lines += [
            f"  {'*' if edge.chosen else '-'} {edge.child}{joined(edge)}"
            for edge in lattice.edges
            if edge.parent == node.names[0]
        ]
    return lines


def node_title(node: LatticeNode) -> str:
    return " = ".join(node.names)


def _sizes(node: LatticeNode) -> str:
    return f"about {node.rows} rows, {node.delta_rows} in a summary-delta"


def joined(edge: LatticeEdge) -> str:
    return f" with {', '.join(edge.joins)}" if edge.joins else ""


def lattice_data(lattice: Lattice) -> dict[str, Any]:
    """The lattice for machines; docs/lattice.md describes it."""
    return {
        "nodes": [
            {"names": list(n.names), "keys": list(n.keys), "rows": n.rows, "delta_rows": n.delta_rows}
            for n in lattice.nodes
        ],
        "edges": [
            {"parent": e.parent, "child": e.child, "joins": list(e.joins), "chosen": e.chosen} for e in lattice.edges
        ],
    }
