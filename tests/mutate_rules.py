"""Drops each side condition of each rule, one at a time, and tells which test notices: python tests/mutate_rules.py

A side condition is a `return Refused(…)`. In a mutant one of them is left out, so that the rule goes on. It is caught
by

    random     a random plan on which the two sides differ, or the rule breaks
    golden     its refusal in tests/golden/rules: some conditions guard cost, not rows, and only that can tell

The run fails if a mutant survives. With names of rules, only those are mutated.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import sys
import types
from dataclasses import dataclass
from pathlib import Path

from check_rules import Wrong, check_rule
from deltafold.rewrites.engine import Refused, Rule
from deltafold.rewrites.facts import Facts
from golden import read_cases
from rule_cases import CATALOG, plan, rules

GOLDENS = Path(__file__).with_name("golden") / "rules"


@dataclass(frozen=True)
class Condition:
    """The n-th refusal in the text of a rule."""

    rule: str
    module: str
    number: int
    line: int
    reason: str


class _Drop(ast.NodeTransformer):
    """Leaves out one `return Refused(…)`, or puts each one's number before its reason."""

    def __init__(self, rule: str, number: int | None) -> None:
        self.rule, self.number = rule, number
        self.found: list[tuple[int, str]] = []
        self.inside = False

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if node.name != self.rule:
            return node
        return self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> ast.AST:
        match node.value:
            case ast.Call(func=ast.Name(id="Refused"), args=[reason]):
                self.found.append((node.lineno, ast.unparse(reason)))
                if len(self.found) - 1 == self.number:
                    return ast.copy_location(ast.Pass(), node)
        return node


def conditions(rule: Rule) -> list[Condition]:
    module = inspect.getmodule(rule)
    assert module is not None
    visitor = _Drop(rule.__name__, None)
    visitor.visit(ast.parse(inspect.getsource(module)))
    found = enumerate(visitor.found)
    return [Condition(rule.__name__, module.__name__, n, line, reason) for n, (line, reason) in found]


def without(condition: Condition) -> Rule:
    """The rule with one of its side conditions left out."""
    original = importlib.import_module(condition.module)
    tree = _Drop(condition.rule, condition.number).visit(ast.parse(inspect.getsource(original)))
    mutant = types.ModuleType(condition.module)
    mutant.__package__ = original.__package__
    sys.modules[condition.module] = mutant  # dataclasses look their module up
    try:
        exec(compile(ast.fix_missing_locations(tree), f"{condition.rule} mutated", "exec"), mutant.__dict__)
    finally:
        sys.modules[condition.module] = original
    rule: Rule = getattr(mutant, condition.rule)
    return rule


def caught_by_golden(rule: Rule) -> bool:
    """Whether some refusal in the goldens is no longer given, or given for another reason."""
    for path in sorted(GOLDENS.glob("*.txt")):
        for case in read_cases(path.read_text(encoding="utf-8")):
            if case.directive != "refuses" or case.arguments != (rule.__name__,):
                continue
            try:
                found = rule(plan(case.input), Facts(CATALOG))
            except Exception:
                return True
            if not isinstance(found, Refused) or found.because != case.output:
                return True
    return False


def caught_by_random(rule: Rule, cases: int) -> bool:
    try:
        check_rule(rule, cases, most=cases * 40)
    except Wrong:
        return True
    return False


def main() -> None:
    wanted = [name for name in sys.argv[1:] if not name.isdigit()]
    cases = next((int(name) for name in sys.argv[1:] if name.isdigit()), 400)
    survivors, total, by_random = 0, 0, 0
    for rule in rules():
        if wanted and rule.__name__ not in wanted:
            continue
        for condition in conditions(rule):
            mutant = without(condition)
            random, golden = caught_by_random(mutant, cases), caught_by_golden(mutant)
            total, by_random, survivors = total + 1, by_random + random, survivors + (not (random or golden))
            how = " and ".join(name for name, found in (("random", random), ("golden", golden)) if found) or "SURVIVES"
            print(f"{how:18} {condition.rule}: {condition.reason[:90]}", flush=True)
    print(f"{total} side conditions dropped, {total - survivors} noticed, {by_random} of them by random plans")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
