"""Inner aggregates kept as hidden views of their own.

A GROUPBY below other operators needs, for each affected group, its row before and after the batch. Computed from the
tables, that reads them twice, at least for those groups; stored, it is a summary table like any other, merged from
its summary-delta, and its changes feed the view above. [maintenance-expressions-1996, section 4.3]

An inner GROUPBY is stored if its aggregates are made of parts and the rows below it have a linear change, since then
a batch reads changed rows and changed groups only. What it costs is the space of its groups;
`-- deltafold: auxiliary=off` above a view does without. The GROUPBY on top of a view, or below a pivot on top of it,
is stored as the view itself.
"""

from __future__ import annotations

from dataclasses import replace

from .algebra import GPivot, GroupBy, Project, Ref, Rel, Scan, Select, with_inputs
from .bind import BoundView
from .catalog import Catalog
from .deltas import is_linear
from .parts import parts_of
from .properties import schema
from .reproducible import not_reproducible
from .summary import decomposed


def with_hidden(view: BoundView, catalog: Catalog) -> tuple[BoundView, ...]:
    """The hidden views below a view, inner ones first, and the view over them."""
    said = {(p.name.lower(), (p.value or "").lower()) for p in view.statement.pragmas}
    if said & {("auxiliary", "off"), ("strategy", "recompute")}:
        return (view,)
    found: list[BoundView] = []

    def below(rel: Rel) -> Rel:
        rel = with_inputs(rel, tuple(below(child) for child in rel.inputs))
        if not isinstance(rel, GroupBy) or not _is_worth_storing(rel):
            return rel
        same = next((hidden for hidden in found if hidden.rel == rel), None)
        if same is None:
            same = replace(view, name=f"__{view.name}_{len(found) + 1}", rel=rel, hidden_for=view.name)
            found.append(same)
        return Scan(Ref(same.name), schema(rel))

    def top(rel: Rel) -> Rel:
        """What is stored as the view itself stays; the search begins below it."""
        match rel:
            case Select(input, _) | Project(input, _) | GPivot(input, _, _):
                return with_inputs(rel, (top(input),))
            case GroupBy():
                return with_inputs(rel, (below(rel.input),))
        return with_inputs(rel, tuple(below(child) for child in rel.inputs))

    rest = top(view.rel)
    if parts_of(rest) is None and not_reproducible(rest, catalog):
        return (view,)  # it is recomputed, which needs nothing below it
    return (*found, replace(view, rel=rest, whole=view.rel)) if found else (view,)


def _is_worth_storing(rel: GroupBy) -> bool:
    columns = {column.name: column for column in schema(rel.input)}
    hidden = any(name.startswith("__") for name in rel.names)  # such names are not shown to the view above
    return (
        bool(rel.measures)
        and not hidden
        and is_linear(rel.input)
        and all(decomposed(measure, columns) is not None for measure in rel.measures)
    )
