"""Each rule's own example runs: its Before becomes its After, and both give the same rows on random data."""

from __future__ import annotations

import inspect
import random
import re
from pathlib import Path

import pytest
from check_rules import check_rule, check_views
from deltafold.grammar.notation import print_rel
from deltafold.rewrites.engine import Refused, Rule
from deltafold.rewrites.facts import Facts
from deltafold.rewrites.normalise import UP
from random_plans import SHAPES
from rule_cases import CATALOG, differ, example, plan, random_database, rules


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.__name__)
def test_the_example_of_a_rule_runs(rule: Rule) -> None:
    before, after = map(plan, example(rule))
    found = rule(before, Facts(CATALOG))
    assert found is not None and not isinstance(found, Refused), found
    assert print_rel(found) == print_rel(after)
    chance = random.Random(rule.__name__)
    for _ in range(40):
        database = random_database(chance, before)
        assert differ(before, after, database) is None, database


def test_rules_have_one_spelling() -> None:
    """The name of a rule in traces, its random plans and its documentation are the same, and so is what it does."""
    text = (Path(__file__).parent.parent / "docs" / "rules.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `(\w+)` \| (.*) \|.*\|$", text, flags=re.MULTILINE)
    told = [(rule.__name__, (inspect.getdoc(rule) or "").split("\n\n")[0]) for rule in rules()]
    assert documented == told
    assert set(SHAPES) == {rule.__name__ for rule in rules()}
    assert {rule.__name__ for rule in UP} <= set(SHAPES)


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule.__name__)
def test_a_rule_keeps_the_rows_of_random_plans(rule: Rule) -> None:
    tally = check_rule(rule, cases=8, seed=7)
    assert tally.fired == 8, f"it fired {tally.fired} times in {tally.tried} plans"


def test_the_whole_rewriter_keeps_the_rows_of_random_views() -> None:
    tally = check_views(80, seed=7)
    assert tally.fired > 25
