"""The engine that runs rules to a fixpoint and records each step.

A rule is a plain function from a relation to `None` (not its shape), `Refused` (its shape, but a side condition does
not hold; the reason feeds `explain`), or the new relation. One wrapper runs every rule: it applies it, verifies that
the result is well formed and has the same output columns, and records the step.

Termination: the rules of one list must make a measure smaller; `normalise` states its own. The limit below only
guards against a broken promise, which is a bug of the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..compiler.algebra import Rel, with_inputs
from ..compiler.source import CompilerBug
from ..compiler.wellformed import check

MOST_STEPS = 10_000


@dataclass(frozen=True, slots=True)
class Refused:
    because: str


Outcome = Rel | Refused | None
Rule = Callable[[Rel], Outcome]


@dataclass(frozen=True, slots=True)
class Rewrite:
    """One step of a trace."""

    rule: str
    before: Rel
    after: Rel


def run(rules: Sequence[Rule], rel: Rel) -> tuple[Rel, tuple[Rewrite, ...]]:
    """Applies the rules, in their order, everywhere, until none fires."""
    trace: list[Rewrite] = []

    def visit(node: Rel) -> Rel:
        while True:
            node = with_inputs(node, tuple(visit(child) for child in node.inputs))
            for rule in rules:
                outcome = rule(node)
                if outcome is None or isinstance(outcome, Refused):
                    continue
                check(outcome)
                if outcome.names != node.names:
                    raise CompilerBug(f"{rule.__name__} changed the output columns")
                trace.append(Rewrite(rule.__name__, node, outcome))
                if len(trace) > MOST_STEPS:
                    raise CompilerBug("the rewriting does not end")
                node = outcome
                break
            else:
                return node

    return visit(rel), tuple(trace)
