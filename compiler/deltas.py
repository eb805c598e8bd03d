"""The change of a bag expression, as a signed relation.

With signs, a bag is a sum of rows. Operators that treat each row by itself are linear: they pass a change on. A join
is a product, so the change of a join is

    Δ(L ⋈ R)  =  ΔL ⋈ signed(R)  ⊎  old(L) ⋈ ΔR

which counts each pair of changed rows once, self-joins included; signed(R) = old(R) ⊎ ΔR needs no difference of bags,
because a deleted row's -1 cancels its +1 where signs are added up. What reads a signed relation must add the signs
of equal rows before it asks whether a row is there. [griffin-libkin; summary-delta-1997, section 4.1.4]

Semi and anti joins are linear in their left side. Their right side only decides, so a row of the left side that was
there before changes sides only if it matches a changed row of the right:

    Δ(L ⋉ R)  =  ΔL ⋉ new(R)  ⊎  C ⋉ new(R)  ∸  C ⋉ old(R),      C = old(L) ⋉ ΔR          (⊳ likewise)

A foreign key may make the second term of a join empty (`foreign`). An outer join is the inner join and the anti joins,
padded with NULLs. Everything else is computed before and after the batch for the affected part alone: the groups,
keys, partitions or rows that the change of its input touches.

    Δ N(R)  =  N(new(R) ⋉ A)  ∸  N(old(R) ⋉ A),      A = the keys of the net change of R

| N | A holds |
|---|---|
| GroupBy (DISTINCT too), GPivot, Window | grouping, key, partitioning columns |
| ExceptAll, IntersectAll                | whole rows, of either side |
| Limit, and the others without columns  | one row if there is any change: the whole is one part |

Minimality [maintenance-expressions-1996, figures 2 and 3]: where changes are pairs of bags (∇, Δ), weak minimality,
no deletion of what is not there, makes the difference of bags exact; signs need none. Strong minimality, no row that
goes and comes again, decides how much is affected: A is taken from net changes, unless they only insert, which makes
them strongly minimal as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import assert_never

from sqlglot import exp

from . import scalar
from .affected import On, affected_names, equated, keys_of, restrict, semi_join
from .algebra import (
    SIGN,
    Column,
    ExceptAll,
    Expand,
    GPivot,
    GroupBy,
    GUnpivot,
    IntersectAll,
    Item,
    Join,
    JoinKind,
    Limit,
    Measure,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    State,
    UnionAll,
    Values,
    Window,
    col,
    with_inputs,
)
from .catalog import Catalog
from .foreign import refers
from .plan import Step
from .properties import schema
from .prune import prune

RIGHT_SIGN = "__right_sign"
SIGN_COLUMN = Column(SIGN, "int", nullable=False)


def in_state(rel: Rel, state: State) -> Rel:
    """An expression over its tables in an unsigned state."""
    if isinstance(rel, Scan):
        return Scan(Ref(rel.ref.name, state), rel.schema)
    return with_inputs(rel, tuple(in_state(child, state) for child in rel.inputs))


def is_linear(rel: Rel) -> bool:
    """Whether the change needs nothing but changes and joins: select, project, expand, inner join, union all."""
    match rel:
        case Scan() | Values() | Select() | Project() | Expand() | UnionAll() | GUnpivot() | Join(kind=JoinKind.INNER):
            return all(map(is_linear, rel.inputs))
    return False


def signed_rows(rel: Rel, names: tuple[str, ...], sign: int) -> Rel:
    """The rows of an unsigned relation, all with one sign."""
    number = scalar.canonical(scalar.parse(str(sign)))
    return Project(rel, (*(Item(name, col(name)) for name in names), Item(SIGN, number)))


def narrowed(rel: Rel) -> Rel:
    """The same relation, reading of its tables only the columns it needs: a change of others is then no change."""
    return prune(_with_projections(rel))


def _with_projections(rel: Rel) -> Rel:
    if isinstance(rel, Scan):
        return Project(rel, tuple(Item(name, col(name)) for name in rel.names))
    return with_inputs(rel, tuple(_with_projections(child) for child in rel.inputs))


class Deltas:
    """Derives the changes of one view. What is used more than once becomes a step of its own, computed once."""

    def __init__(self, view: str, catalog: Catalog) -> None:
        self.view = view
        self.catalog = catalog
        self.steps: list[Step] = []
        self._changes: dict[Rel, Rel] = {}
        self._shared: dict[Rel, Rel] = {}
        self._numbers: dict[str, int] = {}

    # ---- changes

    def change(self, rel: Rel) -> Rel:
        """The rows that come and go, signed; its columns are those of the relation and the sign."""
        if rel not in self._changes:
            self._changes[rel] = self._change(rel)
        return self._changes[rel]

    def _change(self, rel: Rel) -> Rel:
        match rel:
            case Scan(ref, columns):
                return Scan(Ref(ref.name, State.CHANGES), (*columns, SIGN_COLUMN))
            case Values():
                return _empty(rel)
            case Select() | Project() | Expand() | GUnpivot() | UnionAll():
                return _through(rel, self.change)
            case Join(_, _, _, JoinKind.INNER):
                return self._inner_join(rel)
            case Join(_, _, _, JoinKind.SEMI | JoinKind.ANTI):
                return self._semi_join(rel, JoinKind(rel.kind))
            case Join():
                return self._outer_join(rel)
            case GroupBy(_, keys, _):
                return self._affected_parts(rel, keys)
            case GPivot():
                return self._affected_parts(rel, rel.keys)
            case Window():
                return self._affected_parts(rel, rel.partition)
            case Limit():
                return self._affected_parts(rel, ())
            case ExceptAll() | IntersectAll():
                return self._affected_parts(rel, rel.names)
            case _:
                assert_never(rel)

    def signed(self, rel: Rel) -> Rel:
        """The rows after the batch, signed: of linear operators as those before it and its changes."""
        match rel:
            case Scan(ref, columns):
                return Scan(Ref(ref.name, State.SIGNED), (*columns, SIGN_COLUMN))
            case Select() | Project() | Expand() | GUnpivot() | UnionAll():
                return _through(rel, self.signed)
            case Join(left, right, condition, JoinKind.INNER):
                return _signed_join(self.signed(left), self.signed(right), condition)
        return signed_rows(in_state(rel, State.NEW), rel.names, 1)

    def only_inserts(self, rel: Rel) -> bool:
        """Whether the change of a relation has no row that goes."""
        match rel:
            case Scan(ref, _):
                table = self.catalog.table(ref.name)
                return table is not None and table.changes.insert_only
            case Values() | Select() | Project() | Expand() | GUnpivot() | UnionAll():
                return all(map(self.only_inserts, rel.inputs))
            case Join(_, _, _, JoinKind.INNER):
                return is_linear(rel) and all(map(self.only_inserts, rel.inputs))
        return False

    # ---- joins

    def _inner_join(self, rel: Join) -> Rel:
        left, right, condition = rel.left, rel.right, rel.condition
        from_left, from_right = self.change(left), self.change(right)
        parts = []
        if not _is_empty(from_left) and self._meets_only_changes(left, right, condition):
            parts.append(_signed_join(from_left, from_right, condition))
        elif not _is_empty(from_left):
            after = self.signed(right)
            if not is_linear(right):
                from_left, after = self._meeting(left, after, condition)
            parts.append(_signed_join(from_left, after, condition))
        if not _is_empty(from_right) and not self._meets_only_changes(right, left, condition):
            before = in_state(left, State.OLD)
            if not is_linear(left):
                from_right, before = self._meeting(right, before, condition)
            parts.append(_project_names(Join(before, from_right, condition), (*rel.names, SIGN)))
        return _union(parts, rel)

    def _meets_only_changes(self, changed: Rel, other: Rel, condition: exp.Expr) -> bool:
        """Whether the rows that come on one side cannot meet rows that were there on the other."""
        return self.only_inserts(changed) and refers(other, changed, condition, self.catalog)

    def _meeting(self, side: Rel, other: Rel, condition: exp.Expr) -> tuple[Rel, Rel]:
        """The change of one side of a join, and of the other side only what can meet it."""
        pairs = equated(condition, side, other)
        if not pairs:
            return self.change(side), other
        shared = self._shared_change(side)
        return shared, self._matching(other, shared, pairs)

    def _matching(self, other: Rel, driving: Rel, pairs: tuple[tuple[str, str], ...]) -> Rel:
        """Of the other side of a join, the rows with the join columns of the driving side."""
        on = affected_names(a for a, _ in pairs)
        keys = self.share("affected", keys_of(driving, on), "the join columns of these rows")
        return restrict(other, tuple((b, key) for (_, b), (_, key) in zip(pairs, on, strict=True)), keys)

    def _semi_join(self, rel: Join, kind: JoinKind) -> Rel:
        return _union(self._decided(rel.left, rel.right, rel.condition, kind), rel)

    def _decided(self, left: Rel, right: Rel, condition: exp.Expr, kind: JoinKind) -> list[Rel]:
        """The change of a semi or anti join, as its parts."""
        from_left, from_right = self.change(left), self.change(right)
        pairs = equated(condition, left, right)
        before, after = in_state(right, State.OLD), in_state(right, State.NEW)
        parts: list[Rel] = []
        if not _is_empty(from_left):
            from_left = self._shared_change(left) if pairs else from_left
            parts.append(Join(from_left, self._right(after, from_left, pairs), condition, kind))
        if not _is_empty(from_right):
            changed = _project_names(self._shared_change(right) if pairs else from_right, right.names)
            candidates = self.share(
                "candidates",
                Join(self._left(in_state(left, State.OLD), changed, pairs), changed, condition, JoinKind.SEMI),
                "rows that were there and match a changed row of the right side",
            )
            for state, sign in ((before, -1), (after, 1)):
                found = Join(candidates, self._right(state, candidates, pairs), condition, kind)
                parts.append(signed_rows(found, left.names, sign))
        return parts

    def _right(self, right: Rel, driving: Rel, pairs: tuple[tuple[str, str], ...]) -> Rel:
        return self._matching(right, driving, pairs) if pairs else right

    def _left(self, left: Rel, driving: Rel, pairs: tuple[tuple[str, str], ...]) -> Rel:
        if is_linear(left) or not pairs:
            return left
        return self._matching(left, driving, tuple((b, a) for a, b in pairs))

    def _outer_join(self, rel: Join) -> Rel:
        """The inner join, and each row without a partner, padded with NULLs."""
        left, right, condition = rel.left, rel.right, rel.condition
        self._shared_change(left)
        self._shared_change(right)
        parts = [self.change(Join(left, right, condition))]
        alone = self._decided(left, right, condition, JoinKind.ANTI)
        parts += [_padded(part, rel, left) for part in alone]
        if rel.kind is JoinKind.FULL:
            alone = self._decided(right, left, condition, JoinKind.ANTI)
            parts += [_padded(part, rel, right) for part in alone]
        return _union([part for part in parts if not _is_empty(part)], rel)

    # ---- affected parts

    def affected(self, sources: tuple[Rel, ...], names: tuple[str, ...]) -> tuple[On, Rel] | None:
        """The keys that the changes of some relations touch, as a step; None if they cannot change.

        Each relation's changes are netted by themselves: a row that goes from one side to the other affects both.
        """
        on = affected_names(names)
        touched = [keys_of(self._net_change(source), on) for source in sources if not _is_empty(self.change(source))]
        if not touched:
            return None
        keys = touched[0]
        if len(touched) > 1:
            keys = GroupBy(UnionAll(tuple(touched)), touched[0].names, ())
        purpose = "the keys of what is affected" if names else "one row if there is any change"
        return on, self.share("affected", prune(keys), purpose)

    def _net_change(self, rel: Rel) -> Rel:
        changed = self.change(rel)
        return changed if self.only_inserts(rel) else _net(_project_names(changed, (*rel.names, SIGN)))

    def _affected_parts(self, rel: Rel, names: tuple[str, ...]) -> Rel:
        affected = self.affected(rel.inputs, names)
        if affected is None:
            return _empty(rel)
        on, keys = affected
        before = self.part(in_state(rel, State.OLD), on, keys)
        after = self.part(in_state(rel, State.NEW), on, keys)
        return UnionAll((signed_rows(before, rel.names, -1), signed_rows(after, rel.names, 1)))

    def part(self, rel: Rel, on: On, keys: Rel) -> Rel:
        """The affected part of a relation."""
        return restrict(rel, on, keys) if on else semi_join(rel, on, keys)

    # ---- steps

    def _shared_change(self, rel: Rel) -> Rel:
        """The change of a relation that is used more than once."""
        changed = self.change(rel)
        if not _is_empty(changed):
            self._changes[rel] = self.share(
                "change", changed, "the rows that come (+1) and go (-1) on one side of a join"
            )
        return self._changes[rel]

    def share(self, label: str, rel: Rel, purpose: str) -> Rel:
        """A relation that is read more than once, as a step; a step that does the same serves again."""
        if isinstance(rel, Scan):
            return rel
        if rel not in self._shared:
            number = self._numbers[label] = self._numbers.get(label, 0) + 1
            step = Step(f"{label}_{number}_{self.view}", rel, purpose)
            self.steps.append(step)
            self._shared[rel] = Scan(Ref(step.name, State.STEP), schema(rel))
        return self._shared[rel]


def _through(rel: Rel, recurse: Callable[[Rel], Rel]) -> Rel:
    """Operators that are linear in their input."""
    sign = Item(SIGN, col(SIGN))
    match rel:
        case UnionAll(branches):
            return _union([part for part in map(recurse, branches) if not _is_empty(part)], rel)
        case Select(input, _) | Project(input, _) | Expand(input, _) | GUnpivot(input):
            changed = recurse(input)
            if _is_empty(changed):
                return _empty(rel)
    match rel:
        case Select(_, condition):
            return Select(changed, condition)
        case Project(_, items):
            return Project(changed, (*items, sign))
        case Expand(_, projections):
            return Expand(changed, tuple((*items, sign) for items in projections))
        case GUnpivot():
            return _project_names(with_inputs(rel, (changed,)), (*rel.names, SIGN))
    raise AssertionError(type(rel).__name__)


def _signed_join(left: Rel, right: Rel, condition: exp.Expr) -> Rel:
    """The join of two signed relations: signs multiply."""
    right_names = tuple(name for name in right.names if name != SIGN)
    renamed = Project(right, (*(Item(name, col(name)) for name in right_names), Item(RIGHT_SIGN, col(SIGN))))
    left_names = tuple(name for name in left.names if name != SIGN)
    kept = tuple(Item(name, col(name)) for name in (*left_names, *right_names))
    product = scalar.canonical(exp.Mul(this=col(SIGN), expression=col(RIGHT_SIGN)))
    return Project(Join(left, renamed, condition), (*kept, Item(SIGN, product)))


def _net(signed: Rel) -> Rel:
    """Signs of equal rows added up; rows that come and go are left out."""
    names = tuple(name for name in signed.names if name != SIGN)
    added = GroupBy(signed, names, (Measure(SIGN, "sum", (col(SIGN),)),))
    return Select(added, exp.NEQ(this=col(SIGN), expression=exp.Literal.number(0)))


def _padded(part: Rel, rel: Join, kept: Rel) -> Rel:
    """Signed rows of one side of an outer join, with NULLs for the columns of the other."""
    types = {column.name: column.type for column in schema(rel)}
    items = tuple(Item(name, col(name) if name in kept.names else _null(types[name])) for name in rel.names)
    return Project(part, (*items, Item(SIGN, col(SIGN))))


def _null(kind: str) -> exp.Expr:
    return scalar.canonical(scalar.parse(f"CAST(NULL AS {kind.upper()})"))


def _union(parts: list[Rel], rel: Rel) -> Rel:
    if not parts:
        return _empty(rel)
    return parts[0] if len(parts) == 1 else UnionAll(tuple(parts))


def _empty(rel: Rel) -> Rel:
    return Values((*schema(rel), SIGN_COLUMN), ())


def _is_empty(rel: Rel) -> bool:
    return isinstance(rel, Values) and not rel.rows


def _project_names(rel: Rel, names: tuple[str, ...]) -> Rel:
    return rel if rel.names == names else Project(rel, tuple(Item(name, col(name)) for name in names))
