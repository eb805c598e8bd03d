"""The derives lattice as pictures: DOT, Mermaid, and SVG laid out here, so that nothing else need be installed.

Nodes stand in rows, each below all that it derives from; chosen edges are solid, possible ones dashed. The order
within a row follows the middle of the neighbours above (barycenters), which keeps crossings few.
"""

from __future__ import annotations

from html import escape

from ..compiler.plan import Lattice, LatticeEdge, LatticeNode
from .lattice_text import node_title

_WIDTH, _HEIGHT, _ACROSS, _DOWN, _MARGIN = 200, 52, 28, 64, 16


def _lines(node: LatticeNode) -> tuple[str, str, str]:
    keys = ", ".join(node.keys) or "no grouping"
    return node_title(node), keys, f"{_grouped(node.rows)} rows, {_grouped(node.delta_rows)} changed"


def _grouped(number: int) -> str:
    return f"{number:,}".replace(",", " ")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def dot(lattice: Lattice) -> str:
    """For Graphviz."""
    lines = ["digraph lattice {", '  node [shape=box, fontname="Helvetica"];', '  edge [fontname="Helvetica"];']
    for node in lattice.nodes:
        label = "\\n".join(_quoted(line)[1:-1] for line in _lines(node))
        lines.append(f'  {_quoted(node.names[0])} [label="{label}"];')
    for edge in lattice.edges:
        style = "penwidth=2" if edge.chosen else 'style=dashed, color="gray50"'
        label = f", label={_quoted(', '.join(edge.joins))}" if edge.joins else ""
        lines.append(f"  {_quoted(edge.parent)} -> {_quoted(edge.child)} [{style}{label}];")
    return "\n".join([*lines, "}"]) + "\n"


def mermaid(lattice: Lattice) -> str:
    """For Markdown."""
    numbers = {node.names[0]: f"n{place}" for place, node in enumerate(lattice.nodes)}
    lines = ["flowchart TD"]
    for node in lattice.nodes:
        label = "<br/>".join(_entities(line) for line in _lines(node))
        lines.append(f'  {numbers[node.names[0]]}["{label}"]')
    for edge in lattice.edges:
        label = f'|"{_entities(", ".join(edge.joins))}"|' if edge.joins else ""
        arrow = "==>" if edge.chosen else "-.->"
        lines.append(f"  {numbers[edge.parent]} {arrow}{label} {numbers[edge.child]}")
    return "\n".join(lines) + "\n"


def _entities(text: str) -> str:
    """Everything that Mermaid might read as its own, as entities."""
    return "".join(c if c.isalnum() or c in " ,_=" else f"#{ord(c)};" for c in text)


def svg(lattice: Lattice) -> str:
    """A picture by itself."""
    places = _places(lattice)
    right = max((x for x, _ in places.values()), default=0) + _WIDTH + _MARGIN
    bottom = max((y for _, y in places.values()), default=0) + _HEIGHT + _MARGIN
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{right}" height="{bottom}" viewBox="0 0 {right} {bottom}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="12">',
        "<style>.label { text-anchor: middle; fill: #555; font-size: 11px; paint-order: stroke; stroke: white; "
        "stroke-width: 4px }</style>",
        "<style>.possible { stroke: #999; stroke-dasharray: 4 4 } .chosen { stroke: #1a5fb4; stroke-width: 2 }</style>",
        f'<rect width="{right}" height="{bottom}" fill="white"/>',
    ]
    lines += [_svg_edge(edge, places) for edge in sorted(lattice.edges, key=lambda edge: edge.chosen)]
    for node in lattice.nodes:
        lines += _svg_node(node, *places[node.names[0]])
    return "\n".join([*lines, "</svg>"]) + "\n"


def _svg_edge(edge: LatticeEdge, places: dict[str, tuple[int, int]]) -> str:
    (x1, y1), (x2, y2) = places[edge.parent], places[edge.child]
    x1, y1, x2 = x1 + _WIDTH // 2, y1 + _HEIGHT, x2 + _WIDTH // 2
    kind = "chosen" if edge.chosen else "possible"
    path = f'<path class="{kind}" fill="none" d="M{x1},{y1} C{x1},{y1 + 24} {x2},{y2 - 24} {x2},{y2}"/>'
    if not edge.joins:
        return path
    where = f'x="{(x1 + 2 * x2) // 3}" y="{(y1 + 3 * y2) // 4}"'
    label = escape(", ".join(edge.joins))
    return path + f'<text {where} class="label">{label}</text>'


def _svg_node(node: LatticeNode, x: int, y: int) -> list[str]:
    title, keys, sizes = (escape(_shortened(line)) for line in _lines(node))
    middle = x + _WIDTH // 2
    return [
        f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{_HEIGHT}" rx="4" fill="#f6f5f4" stroke="#5e5c64"/>',
        f'<text x="{middle}" y="{y + 17}" text-anchor="middle" font-weight="bold">{title}</text>',
        f'<text x="{middle}" y="{y + 32}" text-anchor="middle">{keys}</text>',
        f'<text x="{middle}" y="{y + 46}" text-anchor="middle" fill="#555" font-size="10">{sizes}</text>',
    ]


def _shortened(text: str) -> str:
    return text if len(text) <= 30 else text[:29] + "…"


def _places(lattice: Lattice) -> dict[str, tuple[int, int]]:
    """The upper left corner of each node."""
    parents: dict[str, list[str]] = {node.names[0]: [] for node in lattice.nodes}
    for edge in lattice.edges:
        parents[edge.child].append(edge.parent)
    depth: dict[str, int] = {}

    def deep(name: str) -> int:
        if name not in depth:
            depth[name] = 1 + max((deep(parent) for parent in parents[name]), default=-1)
        return depth[name]

    rows: dict[int, list[str]] = {}
    for name in parents:
        rows.setdefault(deep(name), []).append(name)
    widest = max((len(row) for row in rows.values()), default=0)
    step = _WIDTH + _ACROSS
    center: dict[str, float] = {}
    places: dict[str, tuple[int, int]] = {}
    for level in sorted(rows):
        order = {name: place for place, name in enumerate(rows[level])}
        row = sorted(rows[level], key=lambda name: (_middle(parents[name], center), order[name]))
        start = _MARGIN + (widest - len(row)) * step // 2
        for place, name in enumerate(row):
            places[name] = (start + place * step, _MARGIN + level * (_HEIGHT + _DOWN))
            center[name] = places[name][0]
    return places


def _middle(parents: list[str], center: dict[str, float]) -> float:
    return sum(center[parent] for parent in parents) / len(parents) if parents else 0.0
