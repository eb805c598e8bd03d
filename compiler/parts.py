"""The partition-recompute strategy: the affected parts of a view are computed anew, the rest is left alone.

A view  Select, Project … ( N )  with N a GroupBy, GPivot, Window, Limit, ExceptAll or IntersectAll falls into parts,
one for each value of N's grouping, key or partitioning columns; they are stored, hidden where the author did not ask
for them. A part is affected if the change of N's input touches it. Then

    sd_v  =  view(new) ⋉ A  ∸  stored(v) ⋉ A

so that nothing of the old state is computed again: what is stored for a part goes, whatever it was. That makes it
right also where a computation has several right answers, as ROW_NUMBER over ties. Without columns the whole view is
the one part.
"""

from __future__ import annotations

from sqlglot import exp

from .affected import restrict
from .algebra import (
    SIGN,
    ExceptAll,
    GPivot,
    GroupBy,
    IntersectAll,
    Item,
    Limit,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    State,
    UnionAll,
    Window,
    col,
)
from .deltas import Deltas, in_state, signed_rows
from .plan import Step
from .properties import schema
from .prune import prune


def parts_of(rel: Rel) -> tuple[Rel, tuple[str, ...]] | None:
    """The operator N on top of a view, below Select and Project, and the columns that make its parts."""
    match rel:
        case Select(input, _) | Project(input, _):
            return parts_of(input)
        case GroupBy(_, keys, _):
            return rel, keys
        case GPivot():
            return rel, rel.keys
        case Window():
            return rel, rel.partition
        case ExceptAll() | IntersectAll():
            return rel, rel.names
        case Limit():
            return rel, ()
    return None


def with_part_columns(rel: Rel, columns: tuple[str, ...]) -> tuple[Rel, tuple[tuple[str, str], ...]]:
    """The view with the columns of its parts, hidden ones last; and for each column of N the one that holds it."""
    if not isinstance(rel, Select | Project):
        return rel, tuple((name, name) for name in columns)
    below, held = with_part_columns(rel.input, columns)
    if isinstance(rel, Select):
        return Select(below, rel.condition), held
    items, found = list(rel.items), []
    for column, name in held:
        same = next((item.name for item in items if item.expression == col(name)), None)
        if same is None:
            same = f"__part_{column}"
            items.append(Item(same, col(name)))
        found.append((column, same))
    return Project(below, tuple(items)), tuple(found)


def recompute_parts(deltas: Deltas, stored: Rel, held: tuple[tuple[str, str], ...], operator: Rel) -> tuple[Step, ...]:
    """The steps, the last of which gives the rows that come and go."""
    affected = deltas.affected(operator.inputs, tuple(column for column, _ in held))
    old = Scan(Ref(deltas.view, State.STORED), schema(stored))
    if affected is None:
        rows: Rel = Select(signed_rows(old, old.names, 1), exp.false())
    else:
        on, keys = affected
        stored_on = tuple((name, key) for (_, name), (_, key) in zip(held, on, strict=True))
        gone = signed_rows(restrict(old, stored_on, keys), old.names, -1)
        came = signed_rows(restrict(in_state(stored, State.NEW), stored_on, keys), old.names, 1)
        rows = UnionAll((gone, prune(came)))
    last = Step(
        f"sd_{deltas.view}", rows, "the affected parts: what is stored goes (-1), what is computed anew comes (+1)"
    )
    assert last.rel.names[-1] == SIGN
    return (*deltas.steps, last)
