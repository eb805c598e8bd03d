"""The engine that runs rules to a fixpoint and records each step.

A rule is a plain function from a relation, and what is known of it, to `None` (not its shape), `Refused` (its shape,
but a side condition does not hold; the reason feeds `explain`), or the new relation. One wrapper runs every rule: it
applies it, verifies that the result is well formed and has the same columns of the same types, and records the step.

Relations are visited from the leaves up. Where a rule fires, what it made is visited again, but for the parts that
were settled before: they are known by identity, so that a step costs what it made, not the size of the plan.

Termination: the rules of one list make a measure smaller, which the list states. It is enforced: a plan of n operators
may take MOST_STEPS(n) steps, far more than the measures allow; past that, the promise is broken, which is a bug.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..compiler.algebra import Rel, with_inputs
from ..compiler.source import CompilerBug
from .facts import Facts


@dataclass(frozen=True, slots=True)
class Refused:
    because: str


Outcome = Rel | Refused | None
Rule = Callable[[Rel, Facts], Outcome]
Place = tuple[int, ...]  # which input to follow, from the root


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One step of a trace."""

    rule: str
    place: Place
    before: Rel
    after: Rel


@dataclass(frozen=True, slots=True)
class NotRewritten:
    """A rule that looked at a part of the final plan and refused it."""

    rule: str
    rel: Rel
    because: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    rel: Rel
    steps: tuple[Rewrite, ...]
    refused: tuple[NotRewritten, ...]


def most_steps(operators: int) -> int:
    """How many steps a plan may take: each operator passes each other one a few times at the most."""
    return 100 + 10 * operators * operators


def run(rules: Sequence[Rule], rel: Rel, facts: Facts) -> Rewritten:
    """Applies the rules, in their order, everywhere, until none fires."""
    steps: list[Rewrite] = []
    settled: dict[int, tuple[Rel, list[NotRewritten]]] = {}
    limit = most_steps(_operators(rel))

    def visit(node: Rel, place: Place) -> Rel:
        while id(node) not in settled:
            inputs = tuple(visit(child, (*place, at)) for at, child in enumerate(node.inputs))
            if any(new is not old for new, old in zip(inputs, node.inputs, strict=True)):
                node = with_inputs(node, inputs)
            refused = []
            for rule in rules:
                outcome = rule(node, facts)
                if isinstance(outcome, Refused):
                    refused.append(NotRewritten(rule.__name__, node, outcome.because))
                elif outcome is not None:
                    _verify(rule.__name__, node, outcome, facts)
                    steps.append(Rewrite(rule.__name__, place, node, outcome))
                    if len(steps) > limit:
                        raise CompilerBug(f"the rewriting does not end: {limit} steps, the last one {rule.__name__}")
                    node = outcome
                    break
            else:
                settled[id(node)] = (node, refused)
        return node

    done = visit(rel, ())
    return Rewritten(done, tuple(steps), tuple(_refusals(done, settled)))


def _verify(rule: str, before: Rel, after: Rel, facts: Facts) -> None:
    facts.check(after)
    if after.names != before.names:
        raise CompilerBug(f"{rule} changed the output columns: {before.names} to {after.names}")
    types = [tuple(column.type for column in facts.schema(rel)) for rel in (before, after)]
    if types[0] != types[1]:
        raise CompilerBug(f"{rule} changed the types of the output columns: {types[0]} to {types[1]}")


def _refusals(rel: Rel, settled: dict[int, tuple[Rel, list[NotRewritten]]]) -> list[NotRewritten]:
    found = list(settled[id(rel)][1]) if id(rel) in settled else []
    for child in rel.inputs:
        found += _refusals(child, settled)
    return found


def _operators(rel: Rel) -> int:
    return 1 + sum(_operators(child) for child in rel.inputs)
