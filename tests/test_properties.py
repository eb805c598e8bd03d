"""Keys, functional dependencies and NOT NULL: the theory, the derivation against random data, and that it can fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import pytest
from constrained_plans import check, search
from deltafold.compiler import properties as derivation
from deltafold.compiler.conditions import needed_by
from deltafold.compiler.dependencies import (
    Columns,
    Dependencies,
    Dependency,
    closure,
    implied,
    keys_of,
    minimal_cover,
    projected,
)
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.properties import properties
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp, parse_one

NAMES = "abcd"
columns = st.sets(st.sampled_from(NAMES)).map(frozenset)
dependencies = st.lists(st.builds(Dependency, columns, columns, st.booleans()), max_size=5).map(tuple)


def agree_everywhere(dependency: Dependency, left: tuple[Any, ...], right: tuple[Any, ...]) -> bool:
    """Whether two rows satisfy a dependency."""
    rows = (dict(zip(NAMES, left, strict=True)), dict(zip(NAMES, right, strict=True)))
    if any(rows[0][name] != rows[1][name] for name in dependency.left):
        return True
    if dependency.lax and any(rows[0][name] is None for name in dependency.left):
        return True
    return all(rows[0][name] == rows[1][name] for name in dependency.right)


PAIRS = [
    (left, right)
    for left in itertools.product([0, None], repeat=len(NAMES))
    for right in itertools.product([0, 1, None], repeat=len(NAMES))
]


def models(given_: Iterable[Dependency], not_null: Columns) -> list[tuple[tuple[Any, ...], tuple[Any, ...]]]:
    """All pairs of rows, up to renaming of values, that satisfy the dependencies: two rows are enough to refute one."""
    places = [NAMES.index(name) for name in not_null]
    return [
        pair
        for pair in PAIRS
        if all(row[place] is not None for row in pair for place in places)
        and all(agree_everywhere(dependency, *pair) for dependency in given_)
    ]


@settings(max_examples=60, deadline=None)
@given(dependencies, columns, columns)
def test_the_closure_is_what_holds_in_every_model(known: Dependencies, start: Columns, not_null: Columns) -> None:
    found = closure(start, known, not_null)
    pairs = models(known, not_null)
    for name in NAMES:
        holds = all(agree_everywhere(Dependency(start, frozenset(name)), *pair) for pair in pairs)
        if name in found:
            assert holds
        elif not any(dependency.lax for dependency in known):
            assert not holds  # complete for dependencies that are not lax


@settings(max_examples=60, deadline=None)
@given(dependencies, columns)
def test_a_minimal_cover_says_the_same_and_nothing_twice(known: Dependencies, not_null: Columns) -> None:
    cover = minimal_cover(known, not_null)
    assert models(cover, not_null) == models(known, not_null)
    for dependency in cover:
        rest = tuple(other for other in cover if other != dependency)
        assert not implied(dependency, rest, not_null)


@settings(max_examples=60, deadline=None)
@given(dependencies, columns, columns)
def test_a_projection_says_of_its_columns_what_held_before(
    known: Dependencies, onto: Columns, not_null: Columns
) -> None:
    kept = projected(known, onto, not_null)
    assert all(dependency.left | dependency.right <= onto for dependency in kept)
    for pair in models(known, not_null):
        assert all(agree_everywhere(dependency, *pair) for dependency in kept)
    if not any(dependency.lax for dependency in known):
        for start in itertools.chain.from_iterable(
            itertools.combinations(sorted(onto), n) for n in range(len(onto) + 1)
        ):
            assert closure(start, kept, not_null) >= closure(start, known, not_null) & onto


def test_keys_are_exchanged_along_dependencies() -> None:
    known = (Dependency(frozenset("a"), frozenset("b")), Dependency(frozenset("b"), frozenset("a")))
    assert keys_of(frozenset("abc"), [frozenset("abc")], known) == (frozenset("ac"), frozenset("bc"))


@pytest.mark.parametrize(
    ("condition", "needed"),
    [
        ("a = 1 AND b > c", "abc"),
        ("a = 1 OR a = b", "a"),
        ("a IS NULL", ""),
        ("NOT a IS NULL", "a"),
        ("NOT (a = b)", "ab"),
        ("NOT (a = 1 AND b = 2)", ""),
        ("COALESCE(a, 1) = 1", ""),
        ("a <=> b", ""),
        ("a <=> 3", "a"),
        ("a BETWEEN b AND c", "abc"),
        ("NOT a BETWEEN b AND c", "a"),
        ("a IN (1, b)", "a"),
        ("a + b * 2 < 3", "ab"),
        ("CASE WHEN a = 1 THEN TRUE END", ""),
    ],
)
def test_what_a_condition_needs(condition: str, needed: str) -> None:
    assert needed_by(parse_one(condition, dialect="spark")) == frozenset(needed)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**40))
def test_derived_properties_hold_in_random_data(seed: int) -> None:
    assert check(Random(seed)) is None


def _all_columns(condition: exp.Expr) -> Columns:
    return frozenset(node.name for node in condition.find_all(exp.Column))


def _constants(condition: exp.Expr, _: object) -> Dependencies:
    return (Dependency(frozenset(), _all_columns(condition)),)


def _cut(known: Dependencies, onto: Columns, _: Columns) -> Dependencies:
    return tuple(Dependency(d.left & onto, d.right & onto, d.lax) for d in known)


def _unchanged(dependencies_: Dependencies, side: Columns, matched: Columns) -> Iterable[Dependency]:
    return dependencies_


FAULTS: dict[str, tuple[str, Callable[..., Any]]] = {
    "a condition needs all of its columns": ("needed_by", _all_columns),
    "an outer join keeps dependencies as they are": ("_where_matched", _unchanged),
    "any columns tell the branches of a union apart": ("_values_differ", lambda _: True),
    "any condition makes constants": ("equalities", _constants),
    "a projection forgets what determined its columns": ("projected", _cut),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_derivation_is_caught(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = FAULTS[fault]
    monkeypatch.setattr(derivation, name, wrong)
    assert search(seed=1, count=400) is not None


RETAIL = """
CREATE TABLE stores (storeID INT NOT NULL PRIMARY KEY, city STRING NOT NULL, region STRING, code STRING UNIQUE);
CREATE TABLE pos (line BIGINT NOT NULL PRIMARY KEY, storeID INT NOT NULL REFERENCES stores, qty INT);
CREATE DIMENSION d LEVEL city IS stores.city LEVEL region IS stores.region HIERARCHY h (city CHILD OF region);
"""


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("SELECT line, city FROM pos JOIN stores USING (storeID)", [{"line"}]),
        ("SELECT city, region, COUNT(*) AS n FROM stores GROUP BY city, region", [{"city"}]),
        ("SELECT code, city FROM stores", []),
        ("SELECT code, city FROM stores WHERE code IS NOT NULL", [{"code"}]),
        ("SELECT code, city FROM stores WHERE code = 'x'", [set()]),
        ("SELECT city FROM stores WHERE storeID = 3", [set()]),
        ("SELECT a.line, b.line AS other FROM pos a JOIN pos b ON a.line = b.line", [{"line"}, {"other"}]),
    ],
)
def test_keys_of_views(query: str, keys: list[set[str]]) -> None:
    plan = compile_text(f"{RETAIL}CREATE VIEW v AS {query};")
    assert [set(key) for key in properties(plan.views[0].definition, plan.catalog).keys] == keys
