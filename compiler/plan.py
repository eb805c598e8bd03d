"""The maintenance plan: what `explain` walks and codegen consumes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sqlglot import exp

from ..rewrites.engine import Rewrite
from .algebra import Column, Rel
from .catalog import Catalog, Table
from .joingraph import Core
from .source import Diagnostic, Span

if TYPE_CHECKING:
    from .summary import Summary

SHOWN = "__shown"  # the hidden column that says which stored rows the view shows


@dataclass(frozen=True, slots=True)
class Refusal:
    """A cheaper strategy that does not fit a view, and why."""

    strategy: str
    code: str
    because: str
    remedy: str
    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Step:
    """A named relation that propagate computes; later steps scan it by its name."""

    name: str
    rel: Rel
    purpose: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """How a stored column changes in a merge: over `old.x` and `sd.y` where the group is there, else over `sd.y`."""

    column: str
    update: exp.Expr
    insert: exp.Expr


@dataclass(frozen=True, slots=True)
class Merge:
    """Refresh of a summary table: figure 8 of summary-delta-1997, null-safe on the key."""

    key: tuple[str, ...]
    count: str
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class ApplyBag:
    """Refresh of a bag: rows that go are taken out, rows that come are added, copies counted."""

    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Replace:
    """Refresh of a view that was computed anew: what propagate wrote is the whole view."""


@dataclass(frozen=True, slots=True)
class ViewPlan:
    name: str
    strategy: str
    refused: tuple[Refusal, ...]
    definition: Rel  # the author's query
    initial: Rel  # the stored view, hidden columns included, from the base
    columns: tuple[Column, ...]
    hidden: tuple[Column, ...]
    key: tuple[str, ...]
    reads: tuple[str, ...]
    steps: tuple[Step, ...]  # the last one is the summary-delta
    changes: Step | None  # the view's own changes as signed rows, where another view reads them
    refresh: Merge | ApplyBag | Replace
    span: Span = field(compare=False)
    parent: str | None = None  # the view whose summary-delta this one's is computed from
    joins: tuple[str, ...] = ()  # the dimension tables joined on the way
    from_parent: Rel | None = None  # the stored view from the parent's, hidden columns included
    rewrites: tuple[Rewrite, ...] = field(default=(), compare=False)  # how the definition came to its form
    hidden_for: str | None = None  # of a view that is not the author's, the one that it is a part of

    @property
    def sql(self) -> str:
        return self.span.text

    @property
    def stored(self) -> tuple[Column, ...]:
        return self.columns + self.hidden

    @property
    def is_filtered(self) -> bool:
        """Whether some stored rows are not the view's: those where `__shown` is false."""
        return any(column.name == SHOWN for column in self.hidden)


@dataclass(frozen=True, slots=True)
class ViewCore:
    """What views over sources are maintained from: a join of source tables, stored as a table of its own."""

    views: tuple[str, ...]
    core: Core
    table: Table
    consistency: str  # complete, strong or convergent


@dataclass(frozen=True, slots=True)
class LatticeNode:
    """Views that derive from each other, the one that stands for the others first."""

    names: tuple[str, ...]
    keys: tuple[str, ...]
    rows: int  # estimated
    delta_rows: int  # of the summary-delta, estimated


@dataclass(frozen=True, slots=True)
class LatticeEdge:
    """`child` can be computed from `parent` joined with dimension tables; one edge into a node is chosen, or none."""

    parent: str
    child: str
    joins: tuple[str, ...]
    chosen: bool


@dataclass(frozen=True, slots=True)
class Lattice:
    """The derives lattice of the summary tables: nodes, and the edges that no path of others stands for."""

    nodes: tuple[LatticeNode, ...] = ()
    edges: tuple[LatticeEdge, ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """A view as its author wrote it, temporary ones included."""

    name: str
    span: Span = field(compare=False)
    column_names: tuple[str, ...] = ()
    translated: str | None = None  # its query as Spark SQL, where the author wrote another dialect


@dataclass(frozen=True, slots=True)
class Plan:
    """All views of a file in the order in which they are maintained."""

    source: str
    catalog: Catalog
    maintained: tuple[ViewPlan, ...]  # the author's views and the hidden ones that are parts of them
    definitions: tuple[Definition, ...] = field(default=(), compare=False)  # in the order in which they can be run
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    cores: tuple[ViewCore, ...] = ()
    lattice: Lattice = Lattice()
    summaries: tuple[Summary, ...] = field(default=(), compare=False)  # of the lattice, as they would be alone

    @property
    def tables(self) -> tuple[str, ...]:
        """The base tables that some view reads, in the order of the file."""
        read = {name for view in self.views for name in view.reads}
        return tuple(table.name for table in self.catalog.tables if table.name in read)

    @property
    def views(self) -> tuple[ViewPlan, ...]:
        """The author's views."""
        return tuple(view for view in self.maintained if view.hidden_for is None)

    def view(self, name: str) -> ViewPlan | None:
        return next((view for view in self.maintained if view.name.casefold() == name.casefold()), None)
