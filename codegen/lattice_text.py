"""The derives lattice as text and as data."""

from __future__ import annotations

from typing import Any

from ..compiler.lattice.advise import Advice
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


def advice_lines(found: tuple[Advice, ...]) -> list[str]:
    """A block for each proposed view, best first."""
    if not found:
        return ["nothing to add: no view within the budget would save reading"]
    lines = []
    for advice in found:
        columns = ", ".join(f"{table}.{column}" for table, column in advice.columns) or "nothing"
        lines.append(f"a view grouped by {columns}: about {advice.rows} rows")
        lines.append(f"  queries at the points of the lattice would read {advice.queries} rows less")
        change = f"{advice.saved} rows less" if advice.saved >= 0 else f"{-advice.saved} rows more"
        names = f", with {', '.join(advice.maintained)} from its summary-delta" if advice.maintained else ""
        lines.append(f"  propagate would read {change} in a batch{names}")
    return lines


def advice_data(found: tuple[Advice, ...]) -> list[dict[str, Any]]:
    return [
        {
            "group_by": [{"table": table, "column": column} for table, column in advice.columns],
            "rows": advice.rows,
            "queries": advice.queries,
            "maintained": list(advice.maintained),
            "saved": advice.saved,
        }
        for advice in found
    ]
