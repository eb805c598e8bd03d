"""Propagate steps of a view whose summary-delta comes from its parent's. [summary-delta-1997, section 5.4, figure 3]

With P the parent and D the dimension tables joined along the edge,

    sd_v = γ( sd(P) ⋈ new(D)  ⊎  stored(P) ⋈ changes(D) )

The second branch is what the paper leaves out: a dimension row that moves takes the parent's stored rows along. It is
left out where the table's changes only insert, since nothing refers to a new row yet.

`ways` says what a row of the parent adds to each part of v. In the first branch, where the row is a change,

| part of v | change |
|---|---|
| counts and sums | those of the parent's part, or of its count |
| min(e), max(e) taken from the parent's part | inserted and deleted extremes, apart |
| min(e), max(e), e over what the parent gives | inserted where the count grows, deleted where it shrinks |

In the last row, rows with equal keys and e are added up first. In the row before, a parent's row that moves in brings
an extreme that the same batch may have deleted: such groups are looked up again. Groups are looked up in the parent's
new rows, never in the base.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from .. import scalar
from ..algebra import (
    SIGN,
    Column,
    GroupBy,
    Item,
    Join,
    JoinKind,
    Measure,
    Project,
    Ref,
    Rel,
    Scan,
    State,
    UnionAll,
    col,
)
from ..deltas import SIGN_COLUMN
from ..plan import Merge, Step
from ..properties import schema
from ..summary import Part, Summary, after_rows, key_equality, stale_groups, stored_columns
from .cubes import Cube
from .join import Joined, in_one_state, join_arm, join_arms
from .relate import Related
from .star import Arm
from .ways import EXTREMES, ByCase, Scaled, Taken, Way, taken

MOVED = "__moved"
_PREPARED = "the summary-delta of {}, and its rows that a change of a dimension moves"


@dataclass(frozen=True, slots=True)
class Parent:
    """What a child needs to know of its parent's plan."""

    related: Related
    delta: tuple[Column, ...]  # the columns of its summary-delta
    merge: Merge


def initial_from_parent(child: Related, parent: Related) -> Rel:
    """The stored view from the stored parent."""
    edge = _Along(child, parent)
    scan = Scan(Ref(parent.summary.view, State.STORED), stored_columns(parent.summary))
    rows = edge.project(edge.joined(scan, State.CURRENT), edge.value)
    summary = child.summary
    grouped = GroupBy(rows, summary.key, tuple(_again(part) for part in summary.parts))
    stored: dict[str, exp.Expr] = {name: col(name) for name in summary.key}
    stored |= {part.name: _as_stored(part, bool(summary.key)) for part in summary.parts}
    items = [Item(i.name, scalar.canonical(scalar.substitute(i.expression, stored))) for i in summary.values]
    public = {item.name for item in items}
    items += [Item(name, expression) for name, expression in stored.items() if name not in public]
    return Project(grouped, tuple(items))


def _again(part: Part) -> Measure:
    return Measure(part.name, "sum" if part.function == "count" else part.function, (col(part.name),))


def _as_stored(part: Part, has_key: bool) -> exp.Expr:
    """A sum of sums of decimals is wider than the sum; the sum of no counts is NULL."""
    name = scalar.quote(part.name)
    if part.function == "count" and not has_key:
        return _sql(f"COALESCE({name}, 0)")
    if part.function == "sum" and part.type.startswith("decimal"):
        return _sql(f"CAST({name} AS {part.type.upper()})")
    return col(part.name)


def steps_from_parent(child: Related, parent: Parent) -> tuple[Step, ...]:
    """The steps from the parent's summary-delta to the child's, the last one."""
    edge = _Along(child, parent.related)
    summary, view = child.summary, child.summary.view
    taken_over = [part for part in edge.extremes if edge.takes(part)]
    looked_at = [part for part in edge.extremes if not edge.takes(part)]
    branches = [edge.from_delta(parent)]
    branches += [edge.from_moved(arm) for arm in edge.arms if not arm.table.changes.insert_only]
    moves = len(branches) > 1 and bool(taken_over)
    if not moves:
        branches = [_without(branch, MOVED) for branch in branches]
    rows = branches[0] if len(branches) == 1 else UnionAll(_aligned(branches))
    sums = tuple(Measure(p.name, "sum", (col(p.name),)) for p in summary.parts if p not in edge.extremes)
    apart = tuple(m for part in taken_over for m in edge.inserted_and_deleted(part))
    apart += (Measure(MOVED, "max", (col(MOVED),)),) if moves else ()
    if child.insert_only or not edge.extremes:
        looked = tuple(Measure(f"__ins_{p.name}", p.function, (col(_argument(p)),)) for p in looked_at)
        if len(branches) == 1:
            return (Step(f"sd_{view}", GroupBy(rows, summary.key, (*sums, *apart, *looked)), edge.purpose),)
        prepared = Step(f"pc_{view}", rows, _PREPARED.format(parent.related.summary.view))
        delta = GroupBy(_scan(prepared), summary.key, (*sums, *apart, *looked))
        return (prepared, Step(f"sd_{view}", delta, edge.purpose))
    prepared_for = _PREPARED if len(branches) > 1 else "the summary-delta of {}"
    steps = [Step(f"pc_{view}", rows, prepared_for.format(parent.related.summary.view))]
    if looked_at:
        keys = (*summary.key, *dict.fromkeys(_argument(part) for part in looked_at))
        net = GroupBy(_scan(steps[-1]), keys, (*sums, *apart))
        steps.append(Step(f"net_{view}", net, "rows of equal values added up, so that one that moves counts once"))
    signs = tuple(m for part in looked_at for m in _by_count(part, summary.count))
    groups = Step(
        f"groups_{view}",
        GroupBy(_scan(steps[-1]), summary.key, (*sums, *apart, *signs)),
        "what each group changes by",
    )
    stale = Step(
        f"stale_{view}",
        stale_groups(summary, _scan(groups), edge.extremes, MOVED if moves else None),
        "groups that lost an extreme and may have another",
    )
    after = Step(
        f"after_{view}",
        edge.after(parent),
        f"the rows of {parent.related.summary.view} after the batch",
    )
    again = Step(f"again_{view}", edge.again(_scan(after), _scan(stale)), "the extremes of those groups, there")
    steps += [groups, stale, after, again]
    return (*steps, Step(f"sd_{view}", edge.delta(_scan(groups), _scan(again)), "the summary-delta"))


def _argument(part: Part) -> str:
    return f"__of_{part.name}"


def _by_count(part: Part, count: str) -> tuple[Measure, Measure]:
    column, own = scalar.quote(count), scalar.quote(_argument(part))
    return (
        Measure(f"__ins_{part.name}", part.function, (_sql(f"CASE WHEN {column} > 0 THEN {own} END"),)),
        Measure(f"__del_{part.name}", part.function, (_sql(f"CASE WHEN {column} < 0 THEN {own} END"),)),
    )


Value = Callable[[Joined, Part], exp.Expr]


class _Along:
    """An edge from a parent as it is stored to a child as it is stored."""

    def __init__(self, child: Related, parent: Related) -> None:
        assert child.edge is not None
        self.child: Cube = child.cube
        self.summary: Summary = child.summary
        self.parent: Cube = parent.cube
        self.family = child.family
        self.arms: tuple[Arm, ...] = child.edge.joins
        self.ways = child.edge.ways
        self.rest = tuple(self.child.conditions[text].expression for text in child.edge.rest)
        self.insert_only = child.insert_only
        self.extremes = [part for part in self.summary.parts if part.function in ("min", "max")]
        self.purpose = f"the summary-delta, from that of {parent.summary.view}"

    def way(self, part: Part) -> Way:
        return self.ways[self.child.described[part.name].text]

    def takes(self, part: Part) -> bool:
        """Whether the part is had from parts of the parent, and not from its grouping columns."""
        return bool(self.sources(part))

    def sources(self, part: Part) -> tuple[str, ...]:
        """The stored names of the parent's parts that a part is had from."""
        return tuple(self.parent.parts[text].part.name for text in taken(self.way(part)))

    def start(self, scan: Scan) -> Joined:
        keys = self.parent.keys.items()
        plain = {t.expression.name: name for name, t in keys if isinstance(t.expression, exp.Column)}
        computed = {t.text: name for name, t in keys if not isinstance(t.expression, exp.Column)}
        return Joined(scan, plain, computed)

    def joined(self, scan: Scan, state: State) -> Joined:
        return join_arms(self.start(scan), self.arms, in_one_state(state), self.family).where(self.rest)

    def value(self, joined: Joined, part: Part, held: Callable[[str], exp.Expr] = col) -> exp.Expr:
        """What a row of the parent, stored or summary-delta, adds to a part; `held` is where it holds its own parts."""
        return self._value(joined, part.function, self.way(part), held)

    def _value(self, joined: Joined, function: str, way: Way | None, held: Callable[[str], exp.Expr]) -> exp.Expr:
        match way:
            case None:
                return _sql("0") if function == "count" else exp.null()
            case Taken(text):
                return held(self.parent.parts[text].part.name)
            case ByCase(cases, otherwise):
                branches = [
                    exp.If(this=joined.over(condition.expression), true=self._value(joined, function, one, held))
                    for condition, one in cases
                ]
                default = self._value(joined, function, otherwise, held)
                return scalar.canonical(
                    exp.Case(ifs=branches, default=None if isinstance(default, exp.Null) else default)
                )
            case Scaled(argument):
                return self._scaled(function, joined.over(argument.expression))

    def _scaled(self, function: str, argument: exp.Expr) -> exp.Expr:
        if function in EXTREMES:
            return argument
        text, rows = scalar.text(argument), scalar.quote(self.parent.summary.count)
        if function == "count":
            return _sql(f"CASE WHEN {text} IS NULL THEN 0 ELSE {rows} END")
        return _sql(f"({text}) * {rows}")

    def project(self, joined: Joined, value: Value) -> Rel:
        keys = [Item(name, joined.over(t.expression)) for name, t in self.child.keys.items()]
        return Project(joined.rel, (*keys, *(Item(part.name, value(joined, part)) for part in self.summary.parts)))

    def from_delta(self, parent: Parent) -> Project:
        """The parent's summary-delta, joined with the new dimension tables."""
        scan = Scan(Ref(self.parent.name, State.DELTA), parent.delta)
        joined = self.joined(scan, State.NEW)
        items = self._changes(joined, lambda expression: expression)
        for part in self.extremes:
            if self.takes(part):
                inserted = self.value(joined, part, lambda name: col(f"__ins_{name}"))
                items.append(Item(f"__ins_{part.name}", inserted))
                if not self.insert_only:
                    kept = all(f"__del_{name}" in scan.names for name in self.sources(part))
                    deleted = self.value(joined, part, lambda name: col(f"__del_{name}")) if kept else None
                    nothing = _sql(f"CASE WHEN FALSE THEN {scalar.text(inserted)} END")  # its own changes only insert
                    items.append(Item(f"__del_{part.name}", deleted or nothing))
        return Project(joined.rel, (*items, Item(MOVED, _sql("0"))))

    def from_moved(self, arm: Arm) -> Project:
        """The stored rows of the parent that rows of one dimension table take along."""
        joined = self.start(Scan(Ref(self.parent.name, State.STORED), stored_columns(self.parent.summary)))
        place = self.arms.index(arm)
        joined = join_arms(joined, self.arms[:place], in_one_state(State.OLD), self.family)
        changes = Scan(Ref(arm.table.name, State.CHANGES), (*arm.table.columns, SIGN_COLUMN))
        joined = join_arm(joined, arm, changes, self.family)
        joined = join_arms(joined, self.arms[place + 1 :], in_one_state(State.NEW), self.family).where(self.rest)
        sign = scalar.quote(SIGN)

        def signed(expression: exp.Expr) -> exp.Expr:
            text = scalar.text(expression)
            return _sql(f"CASE WHEN {sign} > 0 THEN {text} ELSE -({text}) END")

        items = self._changes(joined, signed)
        for part in self.extremes:
            if self.takes(part):
                own = scalar.text(self.value(joined, part))
                items.append(Item(f"__ins_{part.name}", _sql(f"CASE WHEN FALSE THEN {own} END")))
                items.append(Item(f"__del_{part.name}", _sql(f"CASE WHEN {sign} < 0 THEN {own} END")))
        return Project(joined.rel, (*items, Item(MOVED, _sql(f"CASE WHEN {sign} > 0 THEN 1 ELSE 0 END"))))

    def _changes(self, joined: Joined, signed: Callable[[exp.Expr], exp.Expr]) -> list[Item]:
        items = [Item(name, joined.over(t.expression)) for name, t in self.child.keys.items()]
        for part in self.summary.parts:
            if part not in self.extremes:
                items.append(Item(part.name, signed(self.value(joined, part))))
            elif not self.takes(part):
                items.append(Item(_argument(part), self.value(joined, part)))
        return items

    def _prefixes(self) -> tuple[str, ...]:
        return ("__ins_",) if self.insert_only else ("__ins_", "__del_")

    def inserted_and_deleted(self, part: Part) -> tuple[Measure, ...]:
        return tuple(Measure(p + part.name, part.function, (col(p + part.name),)) for p in self._prefixes())

    def after(self, parent: Parent) -> Rel:
        """The parent's rows after the batch, as far as the child's extremes need them."""
        extremes = (name for part in self.extremes for name in self.sources(part))
        return after_rows(
            self.parent.summary, parent.merge, parent.delta, tuple(dict.fromkeys((*self.parent.keys, *extremes)))
        )

    def again(self, after: Scan, stale: Scan) -> Rel:
        """The extremes of the stale groups."""
        joined = self.joined(after, State.NEW)
        keys = [Item(name, joined.over(t.expression)) for name, t in self.child.keys.items()]
        values = [Item(f"__new_{part.name}", self.value(joined, part)) for part in self.extremes]
        rows = Project(joined.rel, (*keys, *values))
        chosen = Join(rows, stale, key_equality(self.summary.key, "__stale_"), JoinKind.SEMI)
        measures = tuple(Measure(f"__new_{p.name}", p.function, (col(f"__new_{p.name}"),)) for p in self.extremes)
        return GroupBy(chosen, self.summary.key, measures)

    def delta(self, groups: Scan, again: Scan) -> Rel:
        """What the groups change by, with the extremes that were looked up: those are there after the batch."""
        renamed = tuple(
            Item(f"__again_{name}" if name in self.summary.key else name, col(name)) for name in again.names
        )
        joined = Join(groups, Project(again, renamed), key_equality(self.summary.key, "__again_"), JoinKind.LEFT)
        items = []
        for name in groups.names:
            if name.startswith("__ins_") and name != MOVED:
                new = scalar.quote("__new_" + name.removeprefix("__ins_"))
                items.append(Item(name, _sql(f"COALESCE({new}, {scalar.quote(name)})")))
            elif name != MOVED:
                items.append(Item(name, col(name)))
        return Project(joined, (*items, *(Item(f"__new_{p.name}", col(f"__new_{p.name}")) for p in self.extremes)))


def _without(branch: Project, name: str) -> Project:
    return Project(branch.input, tuple(item for item in branch.items if item.name != name))


def _aligned(branches: list[Project]) -> tuple[Rel, ...]:
    """The branches with the types of the first: a change of a sum may be wider than the stored sum."""
    types = {column.name: column.type for column in schema(branches[0])}
    found: list[Rel] = [branches[0]]
    for branch in branches[1:]:
        own = {column.name: column.type for column in schema(branch)}
        items = tuple(
            item
            if own[item.name] == types[item.name]
            else Item(item.name, _sql(f"CAST({scalar.text(item.expression)} AS {types[item.name].upper()})"))
            for item in branch.items
        )
        found.append(Project(branch.input, items))
    return tuple(found)


def _scan(step: Step) -> Scan:
    return Scan(Ref(step.name, State.STEP), schema(step.rel))


def _sql(text: str) -> exp.Expr:
    return scalar.bound(text)
