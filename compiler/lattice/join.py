"""Arms joined to relations: columns by attribute, expressions over attributes brought back to columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sqlglot import exp

from .. import scalar
from ..algebra import SIGN, Item, Join, Project, Ref, Rel, Scan, Select, State, col
from .derives import Family
from .star import Arm


@dataclass(frozen=True, slots=True)
class Joined:
    """A relation, the columns that hold attributes, and those that hold whole grouping expressions by text."""

    rel: Rel
    columns: Mapping[str, str]
    expressions: Mapping[str, str]

    def over(self, expression: exp.Expr) -> exp.Expr:
        """An expression over attributes as one over the relation's columns."""

        def replace(node: exp.Expr) -> exp.Expr:
            if isinstance(node, exp.Column):
                return col(self.columns[node.name])
            if self.expressions and isinstance(node, exp.Expr) and scalar.text(node) in self.expressions:
                return col(self.expressions[scalar.text(node)])
            return node

        return scalar.canonical(expression.transform(replace))

    def where(self, conditions: tuple[exp.Expr, ...]) -> Joined:
        if not conditions:
            return self
        condition = scalar.canonical(scalar.conjunction(tuple(self.over(c) for c in conditions)))
        return Joined(Select(self.rel, condition), self.columns, self.expressions)


ArmScan = Callable[[Arm], Scan]


def in_one_state(state: State) -> ArmScan:
    return lambda arm: Scan(Ref(arm.table.name, state), arm.table.columns)


def join_arm(left: Joined, arm: Arm, right: Scan, family: Family) -> Joined:
    """Joins a dimension table along its foreign key; columns whose names are taken are called table_column."""
    taken = {name.casefold() for name in left.rel.names}
    named: dict[str, str] = {}
    for name in right.names:
        candidate, number = name, 1
        while name != SIGN and candidate.casefold() in taken:
            candidate = f"{arm.table.name}_{name}" + (f"_{number}" if number > 1 else "")
            number += 1
        named[name] = candidate
        taken.add(candidate.casefold())
    renamed: Rel = right
    if any(name != new for name, new in named.items()):
        renamed = Project(right, tuple(Item(new, col(name)) for name, new in named.items()))
    own = [family.attribute(arm.parent, name) for name in arm.foreign_key.columns]
    equalities = tuple(
        exp.EQ(this=col(left.columns[attribute]), expression=col(named[other]))
        for attribute, other in zip(own, arm.foreign_key.referenced, strict=True)
    )
    columns = dict(left.columns)
    for column in arm.table.columns:
        columns.setdefault(family.attribute(arm.path, column.name), named[column.name])
    joined = Join(left.rel, renamed, scalar.canonical(scalar.conjunction(equalities)))
    return Joined(joined, columns, left.expressions)


def join_arms(left: Joined, arms: tuple[Arm, ...], scan: ArmScan, family: Family) -> Joined:
    for arm in arms:
        left = join_arm(left, arm, scan(arm), family)
    return left
