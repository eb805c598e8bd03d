"""Goldens of the rules. `fires` and `refuses` say what a rule must do; `figure` shows the paper's figures with data.

A golden is about one rule, or about the list of them that pulls pivots up. What it says must happen is checked, not
updated: --update rewrites plans and reasons only.
"""

from __future__ import annotations

from typing import Any

import pytest
from deltafold.compiler.algebra import Ref, Rel
from deltafold.compiler.read import read_text
from deltafold.compiler.schema import bind_schema
from deltafold.grammar.notation import print_rel
from deltafold.grammar.plan_reader import parse_rel
from deltafold.rewrites.engine import Refused, run
from deltafold.rewrites.facts import Facts
from deltafold.rewrites.normalise import UP
from golden import FOLDER, Case, Golden, read_cases
from mutate_rules import conditions
from oracle import NotAKey, Row, bag, evaluate
from rule_cases import CATALOG, plan, rules

FIGURES = """
CREATE TABLE goods (country STRING NOT NULL, manu STRING NOT NULL, type STRING NOT NULL, price INT, quantity INT,
                    PRIMARY KEY (country, manu, type));
CREATE TABLE payment (id INT NOT NULL, payment STRING NOT NULL, price INT, PRIMARY KEY (id, payment));
CREATE TABLE product (pid INT NOT NULL PRIMARY KEY, manu STRING NOT NULL, type STRING NOT NULL);
CREATE TABLE items (auction INT NOT NULL, attribute STRING NOT NULL, value STRING, PRIMARY KEY (auction, attribute));
CREATE TABLE prices (country STRING NOT NULL PRIMARY KEY, sony_tv INT, sony_vcr INT, panasonic_tv INT);
"""
ROWS: dict[str, list[tuple[Any, ...]]] = {
    "goods": [
        ("USA", "Sony", "TV", 250, 50),
        ("USA", "Sony", "VCR", 50, 40),
        ("USA", "Panasonic", "TV", 220, 20),
        ("Japan", "Sony", "VCR", 60, 60),
        ("Japan", "Panasonic", "TV", 240, 70),
    ],
    "payment": [(1, "Credit", 200), (1, "ByAir", 20), (2, "Credit", 300), (3, "ByAir", 30), (4, "Cash", 40)],
    "product": [(1, "Sony", "TV"), (2, "Panasonic", "TV"), (3, "Sony", "VCR"), (4, "Hitachi", "VCR")],
    "items": [(1, "Manufacturer", "Sony"), (1, "Type", "TV"), (2, "Manufacturer", "Panasonic"), (3, "Type", "VCR")],
    "prices": [("USA", 250, 50, 220), ("Japan", None, 60, 240), ("France", None, None, None)],
}
FIGURE_CATALOG = bind_schema(read_text(FIGURES, "figures.sql").statements)[0]
BY_NAME = {rule.__name__: rule for rule in rules()}


def run_case(case: Case) -> str:
    match case.directive:
        case "figure":
            return _figure(case)
        case "fires" | "refuses":
            outcome = BY_NAME[case.arguments[0]](plan(case.input), Facts(CATALOG))
            assert outcome is not None, f"line {case.line}: the rule does not look at this"
            assert isinstance(outcome, Refused) == (case.directive == "refuses"), f"line {case.line}: {outcome}"
            return outcome.because if isinstance(outcome, Refused) else print_rel(outcome)
    raise AssertionError(f"no directive {case.directive}")


def _figure(case: Case) -> str:
    columns = {table.name: table.columns for table in FIGURE_CATALOG.tables}
    before = parse_rel(case.input, columns)
    facts = Facts(FIGURE_CATALOG)
    if case.arguments == ("up",):
        rewritten = run(UP, before, facts)
        lines = [f"{step.rule} at {'.'.join(map(str, step.place)) or 'the top'}" for step in rewritten.steps]
        return "\n".join([*lines, print_rel(rewritten.rel), *_rows(before, rewritten.rel)])
    outcome = BY_NAME[case.arguments[0]](before, facts)
    assert outcome is not None, f"line {case.line}: the rule does not look at this"
    if isinstance(outcome, Refused):
        return f"refused: {outcome.because}"
    return "\n".join([print_rel(outcome), *_rows(before, outcome)])


def _rows(before: Rel, after: Rel) -> list[str]:
    database: dict[Ref, list[Row]] = {}
    for table in FIGURE_CATALOG.tables:
        database[Ref(table.name)] = [dict(zip(table.names, row, strict=True)) for row in ROWS[table.name]]
    try:
        rows = evaluate(before, database)
    except NotAKey:
        return []
    assert bag(rows, before.names) == bag(evaluate(after, database), before.names)
    shown = [", ".join("NULL" if row[n] is None else str(row[n]) for n in before.names) for row in rows]
    return [", ".join(before.names), *sorted(shown)]


@pytest.mark.parametrize("name", sorted(path.name for path in (FOLDER / "rules").glob("*.txt")))
def test_rule_goldens(golden: Golden, name: str) -> None:
    golden(f"rules/{name}", run_case)


def test_every_side_condition_has_a_golden() -> None:
    given: dict[str, set[str]] = {}
    for path in sorted((FOLDER / "rules").glob("*.txt")):
        for case in read_cases(path.read_text(encoding="utf-8")):
            if case.directive == "refuses":
                given.setdefault(case.arguments[0], set()).add(case.output)
    short = [
        f"{rule.__name__}: {len(given.get(rule.__name__, ()))} of {len({c.reason for c in conditions(rule)})}"
        for rule in rules()
        if len(given.get(rule.__name__, ())) < len({c.reason for c in conditions(rule)})
    ]
    assert not short, "refusals without a golden: " + "; ".join(short)
