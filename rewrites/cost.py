"""A cost model for evaluating a plan, and the optimiser that follows it: pivots go up, down or apart.

No statistics are known at compile time, so the model only compares shapes. A table with a key of one column counts as a
dimension, any other one as a fact table. Rows are estimated from the leaves up; an operator costs the cells that it
reads, more so if it has to bring equal keys together.

| operator | rows it gives | cost of a cell it reads |
|---|---|---|
| Select | a tenth for an equality, a third for another conjunct | 0.1 |
| Join on a key | those of the other side | 3 |
| GroupBy, GPivot | rows^0.8; rows over value lists | 3 |

Termination: a rule fires only where the plan becomes cheaper by a hundredth at least; projections merge anyway.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from ..compiler import scalar
from ..compiler.algebra import (
    ExceptAll,
    Expand,
    GPivot,
    GroupBy,
    GUnpivot,
    IntersectAll,
    Join,
    JoinKind,
    Limit,
    Rel,
    Scan,
    Select,
    UnionAll,
    Values,
    Window,
)
from ..compiler.catalog import Catalog
from .catalogue import RULES
from .engine import Outcome, Refused, Rewritten, Rule, run
from .facts import Facts
from .normalise import UP
from .shapes import value_lists
from .simplify import merge_projects

DIMENSION_ROWS = 10_000.0
FACT_ROWS = 1_000_000.0
SHUFFLE = 3.0
PASS = 0.1
LEAST_GAIN = 0.99


class Costs:
    """Estimates for the relations of one rewriting, each made once."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self._known: dict[int, tuple[Rel, float, float]] = {}

    def rows(self, rel: Rel) -> float:
        return self._estimate(rel)[0]

    def cost(self, rel: Rel) -> float:
        return self._estimate(rel)[1]

    def _estimate(self, rel: Rel) -> tuple[float, float]:
        if id(rel) not in self._known:
            below = sum(self.cost(child) for child in rel.inputs)
            rows = self._rows(rel)
            self._known[id(rel)] = (rel, rows, below + self._own(rel, rows))
        _, rows, cost = self._known[id(rel)]
        return rows, cost

    def _rows(self, rel: Rel) -> float:
        match rel:
            case Scan():
                table = self.facts.catalog.table(rel.ref.name)
                single = table is not None and any(len(key) == 1 for key in table.keys)
                return DIMENSION_ROWS if single else FACT_ROWS
            case Values(_, rows):
                return float(len(rows))
            case Select(input, condition):
                return self.rows(input) * _selectivity(condition)
            case Join():
                return self._joined(rel)
            case GroupBy(input, keys, _):
                return self.rows(input) ** 0.8 if keys else 1.0
            case GPivot(input, _, _):
                return self.rows(input) / len(value_lists(rel)) if rel.keys else 1.0
            case GUnpivot(input, _, _, _):
                return self.rows(input) * len(rel.groups)
            case Expand(input, branches):
                return self.rows(input) * len(branches)
            case Limit(input, _, count, _):
                return self.rows(input) if count is None else min(float(count), self.rows(input))
            case UnionAll(branches):
                return sum(self.rows(branch) for branch in branches)
            case ExceptAll(left, _) | IntersectAll(left, _):
                return self.rows(left)
        return self.rows(rel.inputs[0])

    def _joined(self, rel: Join) -> float:
        left, right = self.rows(rel.left), self.rows(rel.right)
        if rel.kind in (JoinKind.SEMI, JoinKind.ANTI):
            return left * 0.5
        equated = {name for part in scalar.conjuncts(rel.condition) for name in _equated(part)}
        if self.facts.has_key_within(rel.right, equated & set(rel.right.names)):
            return left
        if self.facts.has_key_within(rel.left, equated & set(rel.left.names)):
            return right
        return max(left * right * (0.0001 if equated else 0.1), left, right)

    def _own(self, rel: Rel, rows: float) -> float:
        read = sum(self.rows(child) * max(1, len(child.names)) for child in rel.inputs)
        match rel:
            case Scan():
                return rows * len(rel.names)
            case Join() | GroupBy() | GPivot() | Window() | ExceptAll() | IntersectAll():
                return SHUFFLE * read
        return PASS * read


def _selectivity(condition: exp.Expr) -> float:
    share = 1.0
    for part in scalar.conjuncts(condition):
        share *= 0.1 if isinstance(part, exp.EQ | exp.NullSafeEQ) else 0.33
    return share


def _equated(part: exp.Expr) -> tuple[str, ...]:
    match part:
        case exp.EQ(this=exp.Column() as a, expression=exp.Column() as b):
            return (a.name, b.name)
        case exp.NullSafeEQ(this=exp.Column() as a, expression=exp.Column() as b):
            return (a.name, b.name)
    return ()


def optimise(rel: Rel, catalog: Catalog) -> Rewritten:
    """The view as it is cheapest to evaluate: from its pivots pulled up, or from what its author wrote."""
    facts = Facts(catalog)
    costs = Costs(facts)
    rules = (merge_projects, *(_if_cheaper(rule, costs) for rule in RULES))
    as_written = run(rules, rel, facts)
    pulled = run(UP, rel, facts)
    improved = run(rules, pulled.rel, facts)
    if costs.cost(improved.rel) < costs.cost(as_written.rel) * LEAST_GAIN:
        return Rewritten(improved.rel, pulled.steps + improved.steps, improved.refused)
    return as_written


def _if_cheaper(rule: Rule, costs: Costs) -> Rule:
    def guarded(rel: Rel, facts: Facts) -> Outcome:
        outcome = rule(rel, facts)
        if outcome is None or isinstance(outcome, Refused):
            return outcome
        return outcome if costs.cost(outcome) < costs.cost(rel) * LEAST_GAIN else None

    return _named(guarded, rule.__name__)


def _named(function: Callable[[Rel, Facts], Outcome], name: str) -> Rule:
    function.__name__ = name
    return function
