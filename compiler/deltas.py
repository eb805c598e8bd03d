"""The change of a bag expression, as a signed relation.

With signs, a bag is a sum of rows and a join is a product, so the change of a join is

    Δ(L ⋈ R)  =  ΔL ⋈ new(R)  ⊎  old(L) ⋈ ΔR

which counts each pair of changed rows once, self-joins included; new(R) = old(R) ⊎ ΔR needs no difference of bags,
because a deleted row's -1 cancels its +1 where signs are added up. What reads a signed relation must add the signs
of equal rows before it asks whether a row is there. [griffin-libkin; summary-delta-1997, section 4.1.4]
"""

from __future__ import annotations

from typing import assert_never

from sqlglot import exp

from . import scalar
from .algebra import SIGN, Column, GroupBy, Item, Join, JoinKind, Project, Ref, Rel, Scan, Select, State, UnionAll, col
from .source import CompilerBug

RIGHT_SIGN = "__right_sign"
SIGN_COLUMN = Column(SIGN, "int", nullable=False)


def in_state(rel: Rel, state: State) -> Rel:
    """An unsigned expression over its tables in an unsigned state."""
    match rel:
        case Scan(ref, schema):
            return Scan(Ref(ref.name, state), schema)
        case Select(input, condition):
            return Select(in_state(input, state), condition)
        case Project(input, items):
            return Project(in_state(input, state), items)
        case Join(left, right, condition, kind):
            return Join(in_state(left, state), in_state(right, state), condition, kind)
        case GroupBy(input, keys, measures):
            return GroupBy(in_state(input, state), keys, measures)
        case UnionAll(branches):
            return UnionAll(tuple(in_state(branch, state) for branch in branches))
        case _:
            assert_never(rel)


def change(rel: Rel) -> Rel:
    """The rows that come and go, signed."""
    match rel:
        case Scan(ref, schema):
            return Scan(Ref(ref.name, State.CHANGES), (*schema, SIGN_COLUMN))
        case Join(left, right, condition, JoinKind.INNER):
            from_left = _signed_join(change(left), new(right), condition)
            from_right = _project_names(Join(in_state(left, State.OLD), change(right), condition), (*rel.names, SIGN))
            return UnionAll((from_left, from_right))
    return _through(rel, change)


def new(rel: Rel) -> Rel:
    """The rows after the batch, signed."""
    match rel:
        case Scan(ref, schema):
            return Scan(Ref(ref.name, State.NEW), (*schema, SIGN_COLUMN))
        case Join(left, right, condition, JoinKind.INNER):
            return _signed_join(new(left), new(right), condition)
    return _through(rel, new)


def _through(rel: Rel, signed: object) -> Rel:
    """Operators that are linear in their input."""
    recurse = change if signed is change else new
    match rel:
        case Select(input, condition):
            return Select(recurse(input), condition)
        case Project(input, items):
            return Project(recurse(input), (*items, Item(SIGN, col(SIGN))))
        case UnionAll(branches):
            return UnionAll(tuple(recurse(branch) for branch in branches))
    raise CompilerBug(f"no delta through {type(rel).__name__}")


def _signed_join(left: Rel, right: Rel, condition: exp.Expr) -> Rel:
    """The join of two signed relations: signs multiply."""
    right_names = tuple(name for name in right.names if name != SIGN)
    renamed = Project(right, (*(Item(name, col(name)) for name in right_names), Item(RIGHT_SIGN, col(SIGN))))
    left_names = tuple(name for name in left.names if name != SIGN)
    kept = tuple(Item(name, col(name)) for name in (*left_names, *right_names))
    product = scalar.canonical(exp.Mul(this=col(SIGN), expression=col(RIGHT_SIGN)))
    return Project(Join(left, renamed, condition), (*kept, Item(SIGN, product)))


def _project_names(rel: Rel, names: tuple[str, ...]) -> Rel:
    return Project(rel, tuple(Item(name, col(name)) for name in names))
