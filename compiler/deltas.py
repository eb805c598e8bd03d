"""The change of a bag expression, as a signed relation.

With signs, a bag is a sum of rows and a join is a product, so the change of a join is

    Δ(L ⋈ R)  =  ΔL ⋈ signed(R)  ⊎  old(L) ⋈ ΔR

which counts each pair of changed rows once, self-joins included; signed(R) = old(R) ⊎ ΔR needs no difference of bags,
because a deleted row's -1 cancels its +1 where signs are added up. What reads a signed relation must add the signs
of equal rows before it asks whether a row is there. [griffin-libkin; summary-delta-1997, section 4.1.4]
"""

from __future__ import annotations

from sqlglot import exp

from . import scalar
from .algebra import (
    SIGN,
    Column,
    Item,
    Join,
    JoinKind,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    State,
    UnionAll,
    col,
    with_inputs,
)
from .source import CompilerBug

RIGHT_SIGN = "__right_sign"
SIGN_COLUMN = Column(SIGN, "int", nullable=False)


def in_state(rel: Rel, state: State) -> Rel:
    """An expression over its tables in an unsigned state."""
    if isinstance(rel, Scan):
        return Scan(Ref(rel.ref.name, state), rel.schema)
    return with_inputs(rel, tuple(in_state(child, state) for child in rel.inputs))


def is_linear(rel: Rel) -> bool:
    """Whether `change` is defined: select, project, inner join and union all, down to named relations."""
    return not_linear(rel) == ""


def not_linear(rel: Rel) -> str:
    """The first operator, from the top, that `change` does not pass through; empty if there is none."""
    match rel:
        case Scan() | Select() | Project() | UnionAll() | Join(kind=JoinKind.INNER):
            return next(filter(None, map(not_linear, rel.inputs)), "")
        case Join(kind=kind):
            return f"a {kind} join"
    return type(rel).__name__


def signed_rows(rel: Rel, names: tuple[str, ...], sign: int) -> Rel:
    """The rows of an unsigned relation, all with one sign."""
    number = scalar.canonical(scalar.parse(str(sign)))
    return Project(rel, (*(Item(name, col(name)) for name in names), Item(SIGN, number)))


def change(rel: Rel) -> Rel:
    """The rows that come and go, signed."""
    match rel:
        case Scan(ref, schema):
            return Scan(Ref(ref.name, State.CHANGES), (*schema, SIGN_COLUMN))
        case Join(left, right, condition, JoinKind.INNER):
            from_left = _signed_join(change(left), signed(right), condition)
            from_right = _project_names(Join(in_state(left, State.OLD), change(right), condition), (*rel.names, SIGN))
            return UnionAll((from_left, from_right))
    return _through(rel, change)


def signed(rel: Rel) -> Rel:
    """The rows after the batch, as those before it and its changes, signed."""
    match rel:
        case Scan(ref, schema):
            return Scan(Ref(ref.name, State.SIGNED), (*schema, SIGN_COLUMN))
        case Join(left, right, condition, JoinKind.INNER):
            return _signed_join(signed(left), signed(right), condition)
    return _through(rel, signed)


def _through(rel: Rel, through: object) -> Rel:
    """Operators that are linear in their input."""
    recurse = change if through is change else signed
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
