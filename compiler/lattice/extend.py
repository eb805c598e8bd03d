"""Summary tables made lattice-friendly: hidden grouping columns and parts that others derive from. [section 5.2]

A hidden grouping column is an attribute that the grouping columns determine, so it splits no group; a hidden part is
an aggregate of another view. Where the view's own joins hold what is needed, its core stays as it was; else the core
is built anew from its star.
"""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from .. import scalar
from ..algebra import Item, Project, Rel, Scan, State, col
from ..properties import schema
from ..summary import Part, Summary
from .cubes import Cube, CubePart, term
from .derives import Family
from .join import Joined, in_one_state, join_arms
from .star import attribute, column_of, path_of


def can_extend(cube: Cube, attributes: frozenset[str]) -> bool:
    """Whether a core with these attributes can be had."""
    visible = _visible(cube)
    one_table = len(cube.star.roots) == 1 and isinstance(cube.star.roots[0][1], Scan)
    return one_table or attributes <= set(visible)


def _visible(cube: Cube) -> dict[str, str]:
    """The attributes that the core holds, each with its column."""
    found: dict[str, str] = {}
    for name, expression in cube.star.columns.items():
        if isinstance(expression, exp.Column):
            found.setdefault(expression.name, name)
    return found


def extend(cube: Cube, family: Family, hidden: tuple[str, ...], parts: tuple[CubePart, ...]) -> Cube:
    """The view with hidden grouping columns and hidden parts; the parts are those of another view."""
    if not hidden and not parts:
        return cube
    needed = frozenset(hidden).union(*(p.argument.attributes for p in parts if p.argument))
    columns = _visible(cube)
    summary = cube.summary
    if not needed <= set(columns):
        summary, columns = _rebuilt(cube, family, needed)
    taken = {*(item.name for item in summary.values), *summary.core.names, *summary.key}
    taken |= {part.name for part in summary.parts}
    keys = dict(cube.keys)
    stored = list(summary.keys)
    for name in hidden:
        own = _fresh(f"__{column_of(name)}", taken)
        stored.append((own, columns[name]))
        keys[own] = term(col(name))
    made = dict(cube.parts)
    new: list[Part] = []
    for wanted in sorted(parts, key=lambda p: p.part.function != "count"):  # others name their count
        new.append(_hidden_part(wanted, columns, made, taken))
        made[wanted.text] = CubePart(new[-1], wanted.argument)
    summary = replace(summary, keys=tuple(stored), parts=(*summary.parts, *new))
    described = dict(cube.described) | {part.part.name: part for part in made.values()}
    return replace(cube, summary=summary, keys=keys, parts=made, described=described)


def _hidden_part(wanted: CubePart, columns: dict[str, str], made: dict[str, CubePart], taken: set[str]) -> Part:
    part = wanted.part
    argument = None
    if wanted.argument is not None:
        argument = scalar.canonical(scalar.rename(wanted.argument.expression, columns))
    hint = f"__{part.function}" + (f"_{argument.name}" if argument is not None and argument.name else "")
    count = ""
    if part.function != "count":
        count = made[wanted.count_text].part.name
    return Part(_fresh(hint, taken), part.function, argument, count, part.nullable, part.type)


def _fresh(name: str, taken: set[str]) -> str:
    candidate, number = name, 2
    while candidate in taken:
        candidate, number = f"{name}_{number}", number + 1
    taken.add(candidate)
    return candidate


def _rebuilt(cube: Cube, family: Family, needed: frozenset[str]) -> tuple[Summary, dict[str, str]]:
    """The summary over a core made of its star and the arms of the needed attributes."""
    used = needed.union(
        *(t.attributes for t in cube.keys.values()),
        *(t.attributes for t in cube.conditions.values()),
        *(p.argument.attributes for p in cube.parts.values() if p.argument),
    )
    wanted: set[str] = set()
    for path in (path_of(name) for name in used):
        while path in family.arms:
            wanted.add(path)
            path = family.arms[path].parent
    ((label, root),) = cube.star.roots
    start = Joined(root, {attribute(label, column.name): column.name for column in schema(root)}, {})
    arms = tuple(arm for path, arm in family.arms.items() if path in wanted)
    joined = join_arms(start, arms, in_one_state(State.CURRENT), family)
    joined = joined.where(tuple(t.expression for t in cube.conditions.values()))
    core: Rel = joined.rel
    taken = set(core.names)
    items = []
    keys: dict[str, str] = {}
    for name, t in cube.keys.items():
        plain = joined.columns[t.expression.name] if isinstance(t.expression, exp.Column) else None
        if plain is None or plain in keys.values():  # two grouping columns may be one attribute
            keys[name] = _fresh(name, taken)
            items.append(Item(keys[name], joined.over(t.expression)))
        else:
            keys[name] = plain
    if items:
        core = Project(core, (*(Item(name, col(name)) for name in core.names), *items))
    parts = tuple(_with_argument(part, cube.described[part.name], joined) for part in cube.summary.parts)
    return replace(cube.summary, core=core, keys=tuple(keys.items()), parts=parts), dict(joined.columns)


def _with_argument(part: Part, described: CubePart, joined: Joined) -> Part:
    if described.argument is None:
        return part
    return replace(part, argument=joined.over(described.argument.expression))
