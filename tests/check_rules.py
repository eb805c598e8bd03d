"""Every rule on random plans and databases, evaluated both ways: python tests/check_rules.py [CASES] [RULE…]

For each rule, plans of its shape are made until it has fired CASES times; each result is verified as the engine does
and evaluated on a few databases. Prints how often each fired, and the first plan on which the sides differ.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass

from deltafold.compiler.algebra import Rel
from deltafold.grammar.notation import print_rel
from deltafold.grammar.plan_reader import parse_rel
from deltafold.rewrites import engine
from deltafold.rewrites.engine import Refused, Rule
from deltafold.rewrites.facts import Facts
from deltafold.rewrites.normalise import pull_pivots_up
from random_plans import SHAPES, Plans
from rule_cases import CATALOG, differ, random_database, relations, rules

DATABASES = 2
PARSED_BACK = 5  # of so many plans, one is printed and parsed as well


class Wrong(AssertionError):
    """A rule that changed the result, or broke its promises."""


@dataclass
class Tally:
    fired: int = 0
    tried: int = 0


def random_plan(shape: str, chance: random.Random) -> Rel:
    """A plan of a rule's shape; one that cannot be built is tried again."""
    while True:
        try:
            return SHAPES[shape](Plans(chance))
        except (ValueError, IndexError):
            continue


def check_rule(rule: Rule, cases: int, seed: int = 1, most: int | None = None) -> Tally:
    """Runs a rule on random plans until it has fired so often; raises Wrong where the two sides differ."""
    chance = random.Random(f"{rule.__name__} {seed}")
    tally = Tally()
    while tally.fired < cases and tally.tried < (most or cases * 200):
        tally.tried += 1
        before = random_plan(rule.__name__, chance)
        facts = Facts(CATALOG)
        try:
            after = rule(before, facts)
        except Exception as error:
            raise Wrong(f"{error!r}\n{print_rel(before)}") from error
        if after is None or isinstance(after, Refused):
            continue
        tally.fired += 1
        try:
            engine._verify(rule.__name__, before, after, facts)
            same = tally.fired % PARSED_BACK or parse_rel(print_rel(after), relations()) == after
        except Exception as error:
            raise Wrong(f"{error!r}\n{print_rel(before)}\n-->\n{print_rel(after)}") from error
        if not same:
            raise Wrong(f"{rule.__name__}: what it made does not parse back\n{print_rel(after)}")
        for _ in range(DATABASES):
            database = random_database(chance, before)
            found = differ(before, after, database)
            if found:
                raise Wrong(f"{found}\n{print_rel(before)}\n-->\n{print_rel(after)}\non {database}")
    return tally


def check_views(cases: int, seed: int = 1) -> Tally:
    """Random views of up to eight operators, rewritten to the fixpoint."""
    chance = random.Random(f"views {seed}")
    tally = Tally()
    while tally.tried < cases:
        try:
            before = Plans(chance).view(8)
        except (ValueError, IndexError):
            continue
        tally.tried += 1
        rewritten = pull_pivots_up(before, CATALOG)
        tally.fired += bool(rewritten.steps)
        for _ in range(DATABASES):
            database = random_database(chance, before)
            found = differ(before, rewritten.rel, database)
            if found:
                steps = ", ".join(step.rule for step in rewritten.steps)
                raise Wrong(f"{found} by {steps}\n{print_rel(before)}\n-->\n{print_rel(rewritten.rel)}\non {database}")
    return tally


def main() -> None:
    cases = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    wanted = sys.argv[2:]
    for rule in rules():
        if wanted and rule.__name__ not in wanted:
            continue
        try:
            tally = check_rule(rule, cases)
            print(f"{rule.__name__:45} fired {tally.fired:6} of {tally.tried}", flush=True)
        except Wrong as wrong:
            print(f"{rule.__name__:45} WRONG\n{wrong}", flush=True)
    if not wanted or "views" in wanted:
        tally = check_views(cases)
        print(f"{'views, rewritten to the end':45} fired {tally.fired:6} of {tally.tried}")


if __name__ == "__main__":
    main()
