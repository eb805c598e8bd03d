"""The worked examples of sweep-1997 (figure 5) and version-numbers-2000 (examples 1 to 12), with their rows."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest
from deltafold.compiler.joingraph import Core, Link, Node, Output
from deltafold.compiler.querypath import Kind, full_path, plan_path, sub_queries
from deltafold.sources.messages import Answer, Apply, Query, ReadLog, Update
from deltafold.sources.nested import NestedSweep
from deltafold.sources.simulation import Columns, Network, Source, build, expected
from deltafold.sources.versions import Sweep, VersionNumbers

Rows = Mapping[str, Mapping[tuple[object, ...], int]]


class Site:
    """A view site whose messages are delivered by hand."""

    def __init__(self, core: Core, columns: Columns, tables: Rows, machine: type, **options: object) -> None:
        self.core, self.columns = core, columns
        self.sources: dict[str, Source] = build(core, columns, tables)
        ones = dict.fromkeys(core.sources, 1)
        start = expected(core, columns, self.sources, ones)
        self.machine = machine(core, start, ones, {node.name: 1 for node in core.nodes}, **options)
        self.out: list[object] = []

    def commit(self, source: str, changes: Rows) -> Update:
        return self.sources[source].commit(changes)

    def tell(self, message: Update | Answer) -> list[object]:
        self.out = list(self.machine.receive(message))
        return self.out

    @property
    def asked(self) -> list[Query]:
        return [message for message in self.out if isinstance(message, Query)]

    def answer(self, query: Query) -> Answer:
        return self.sources[query.source].answer(query)

    @property
    def view(self) -> dict[tuple[object, ...], int]:
        return dict(self.machine.view.rows)


def nodes(**columns: tuple[str, str, tuple[str, ...]]) -> tuple[Node, ...]:
    """name=(source, columns, key)."""
    return tuple(
        Node(name, name, source, tuple(names), (key,) if key else ()) for name, (source, names, key) in columns.items()
    )


# --- sweep-1997, section 5.2 ------------------------------------------------------------------------------------------

FIGURE_5 = Core(
    "v",
    nodes(R1=("1", "AB", ()), R2=("2", "CD", ()), R3=("3", "EF", ())),
    (Link("R1", "R2", (("B", "C"),)), Link("R2", "R3", (("D", "E"),))),
    (Output("D", "R2", "D"), Output("F", "R3", "F")),
)
FIGURE_5_COLUMNS = {"R1": ("A", "B"), "R2": ("C", "D"), "R3": ("E", "F")}
FIGURE_5_ROWS: Rows = {"R1": {(1, 3): 1, (2, 3): 1}, "R2": {(3, 7): 1}, "R3": {(5, 6): 1, (7, 8): 1}}
STATES = [{(5, 6): 2, (7, 8): 2}, {(5, 6): 2}, {(5, 6): 1}]


def figure_5(machine: type, **options: object) -> Site:
    return Site(FIGURE_5, FIGURE_5_COLUMNS, FIGURE_5_ROWS, machine, **options)


def test_figure_5_one_update_after_another() -> None:
    site = figure_5(Sweep)
    assert site.view == {(7, 8): 2}
    network = Network(site.machine, site.sources, random.Random(1))
    updates = [("2", {"R2": {(3, 5): 1}}), ("3", {"R3": {(7, 8): -1}}), ("1", {"R1": {(2, 3): -1}})]
    for (source, changes), state in zip(updates, STATES, strict=True):
        network.commit(source, changes)
        network.settle()
        assert site.view == state
    assert network.queries == 3 * 2, "n - 1 messages an update"


def test_figure_5_concurrent_updates_compensated_at_the_warehouse() -> None:
    site = figure_5(Sweep)
    first = site.commit("2", {"R2": {(3, 5): 1}})
    site.tell(first)
    left, right = site.asked
    assert [(q.source, sorted(q.asks[0].keys)) for q in (left, right)] == [("1", [(3,)]), ("3", [(5,)])]
    second, third = site.commit("3", {"R3": {(7, 8): -1}}), site.commit("1", {"R1": {(2, 3): -1}})
    site.tell(second)
    site.tell(third)
    answer = site.answer(left)
    assert answer.rows["R1"] == {(1, 3): 1}, "the answer lacks (2,3), which ΔR1 took away"
    site.tell(answer)
    task = site.machine._units[0].steps[0].tasks[0]
    assert task.parts["R1"] == {(1, 3): 1, (2, 3): 1}, "the compensation brings it back"
    site.tell(site.answer(right))
    assert site.view == STATES[0]
    to_r2 = site.asked[0]
    site.tell(site.answer(to_r2))
    to_r1 = site.asked[0]
    site.tell(site.answer(to_r1))
    assert site.view == STATES[1]
    while site.asked:
        site.tell(site.answer(site.asked[0]))
    assert site.view == STATES[2]


def test_figure_5_nested_sweep_takes_all_three_together() -> None:
    site = figure_5(NestedSweep)
    first = site.commit("2", {"R2": {(3, 5): 1}})
    site.tell(first)
    query = site.asked[0]
    for source, changes in (("3", {"R3": {(7, 8): -1}}), ("1", {"R1": {(2, 3): -1}})):
        site.tell(site.commit(source, changes))
    site.tell(site.answer(query))
    queries = 1
    while site.asked:
        queries += 1
        site.tell(site.answer(site.asked[0]))
    assert site.view == STATES[2]
    assert site.machine.versions == {"1": 2, "2": 2, "3": 2}, "one change of the view for three updates"
    assert [type(message) for message in site.out] == [Apply]
    assert queries <= 3 * 2


def test_nested_sweep_ends_though_updates_keep_interfering() -> None:
    site = figure_5(NestedSweep, patience=3)
    site.tell(site.commit("2", {"R2": {(3, 5): 1}}))
    applied: list[object] = []
    for i in range(40):
        query = site.asked[0]
        table, row = ("R1", (10 + i, 3)) if query.source == "1" else ("R3", (5, 10 + i))
        if query.source == "2":
            table, row = "R2", (3, 10 + i)
        site.tell(site.commit(query.source, {table: {row: 1}}))
        assert not site.out
        site.tell(site.answer(query))
        applied += [message for message in site.out if isinstance(message, Apply)]
    assert len(applied) > 3
    for change in applied:
        assert isinstance(change, Apply)
    assert site.view == expected(FIGURE_5, FIGURE_5_COLUMNS, site.sources, site.machine.versions)


# --- version-numbers-2000, examples 1 to 4 ----------------------------------------------------------------------------

PAIR = Core(
    "v",
    nodes(R1=("1", "AB", ("A",)), R2=("2", "BC", ("B",))),
    (Link("R1", "R2", (("B", "B"),)),),
    (Output("C", "R2", "C"),),
)
PAIR_COLUMNS = {"R1": ("A", "B"), "R2": ("B", "C")}
A1, A2, B1 = ("a1", "b1"), ("a2", "b1"), ("b1", "c1")


def pair() -> Site:
    return Site(PAIR, PAIR_COLUMNS, {"R1": {A1: 1}, "R2": {}}, VersionNumbers)


def run(site: Site) -> None:
    waiting = site.asked
    while waiting:
        site.tell(site.answer(waiting.pop(0)))
        waiting += site.asked


def test_example_1_updates_far_apart() -> None:
    site = pair()
    site.tell(site.commit("1", {"R1": {A2: 1}}))
    run(site)
    assert site.view == {}
    site.tell(site.commit("2", {"R2": {B1: 1}}))
    assert sorted(site.answer(site.asked[0]).rows["R1"]) == [A1, A2]
    run(site)
    assert site.view == {("c1",): 2}


def test_example_2_an_interfering_update() -> None:
    site = pair()
    site.tell(site.commit("1", {"R1": {A2: 1}}))
    query = site.asked[0]
    late = site.commit("2", {"R2": {B1: 1}})
    answer = site.answer(query)
    assert answer.rows["R2"] == {B1: 1} and answer.versions == {"R2": 2}
    site.tell(late)
    second = site.asked[0]
    site.tell(answer)
    assert site.view == {}, "without compensation it would be (c1,1), and (c1,3) in the end"
    site.tell(site.answer(second))
    assert site.view == {("c1",): 2}


def test_example_3_the_answer_overtakes_the_notification() -> None:
    site = pair()
    site.tell(site.commit("1", {"R1": {A2: 1}}))
    query = site.asked[0]
    late = site.commit("2", {"R2": {B1: 1}})
    assert site.tell(site.answer(query)) == [], "its version tells that an update is not known yet: it waits"
    site.tell(late)
    run(site)
    assert site.view == {("c1",): 2}


def test_example_4_a_lost_notification_is_read_again() -> None:
    site = pair()
    site.tell(site.commit("1", {"R1": {A2: 1}}))
    query = site.asked[0]
    lost = site.commit("2", {"R2": {B1: 1}})
    site.tell(site.answer(query))
    again = site.machine.tick()
    assert ReadLog("2", 1) in again
    site.tell(lost)
    run(site)
    assert site.view == {("c1",): 2}


# --- example 5 --------------------------------------------------------------------------------------------------------

FIGURE_1 = Core(
    "v",
    nodes(
        R1=("1", ("a", "b"), ()),
        R2=("1", ("c",), ()),
        R3=("1", ("d", "e"), ()),
        R4=("1", ("a", "c", "d"), ()),
        R5=("2", ("b",), ()),
        R6=("2", ("e",), ()),
    ),
    (
        Link("R1", "R4", (("a", "a"),)),
        Link("R2", "R4", (("c", "c"),)),
        Link("R3", "R4", (("d", "d"),)),
        Link("R1", "R5", (("b", "b"),)),
        Link("R3", "R6", (("e", "e"),)),
    ),
    tuple(Output(f"{node}{column}", node, column) for node, column in (("R1", "a"), ("R2", "c"), ("R6", "e"))),
)


def test_example_5_three_sub_queries_instead_of_five() -> None:
    path = full_path(FIGURE_1, "R1", Kind.INSERT)
    assert [(q.source, q.nodes, q.wave) for q in path.queries] == [
        ("1", ("R4", "R2", "R3"), 1),
        ("2", ("R5",), 1),
        ("2", ("R6",), 2),
    ]
    assert path.messages == 3 and path.waves == 2
    assert len(sub_queries(FIGURE_1, "R1", one_table=True)) == 5


def test_example_5_runs_with_three_messages() -> None:
    columns = {node.table: node.columns for node in FIGURE_1.nodes}
    tables: Rows = {
        "R1": {},
        "R2": {(3,): 1},
        "R3": {(4, 5): 1},
        "R4": {(1, 3, 4): 2},
        "R5": {(2,): 1},
        "R6": {(5,): 3},
    }
    site = Site(FIGURE_1, columns, tables, VersionNumbers)
    site.tell(site.commit("1", {"R1": {(1, 2): 1}}))
    first, second = site.asked
    site.tell(site.answer(first))
    (third,) = site.asked
    assert [ask.node.name for ask in third.asks] == ["R6"], "sent before the second is answered"
    site.tell(site.answer(third))
    site.tell(site.answer(second))
    assert site.view == {(1, 3, 5): 6}


# --- examples 6 to 12 -------------------------------------------------------------------------------------------------

CHAIN = Core(
    "v",
    nodes(R1=("1", "ABC", ("A",)), R2=("2", "CDE", ("C",)), R3=("2", "EFG", ("E",))),
    (Link("R1", "R2", (("C", "C"),)), Link("R2", "R3", (("E", "E"),))),
    (Output("B", "R1", "B"), Output("C", "R1", "C"), Output("F", "R3", "F")),
)
CHAIN_COLUMNS = {"R1": ("A", "B", "C"), "R2": ("C", "D", "E"), "R3": ("E", "F", "G")}
CHAIN_ROWS: Rows = {
    "R1": {("a1", "b1", "c1"): 1},
    "R2": {("c1", "d1", "e1"): 1, ("c2", "d2", "e2"): 1},
    "R3": {("e1", "f1", "g1"): 1, ("e2", "f2", "g2"): 1},
}
INSERTED = {("a3", "b3", "c1"): 1, ("a2", "b2", "c2"): 1}


def chain() -> Site:
    return Site(CHAIN, CHAIN_COLUMNS, CHAIN_ROWS, VersionNumbers)


def test_example_6_the_view_answers_for_what_it_holds() -> None:
    site = chain()
    assert site.view == {("b1", "c1", "f1"): 1}
    site.tell(site.commit("1", {"R1": INSERTED}))
    (query,) = site.asked
    assert query.source == "2" and [ask.node.name for ask in query.asks] == ["R2", "R3"]
    assert query.asks[0].keys == {("c2",)}, "c1 is answered by the view"
    site.tell(site.answer(query))
    assert site.view == {("b1", "c1", "f1"): 1, ("b3", "c1", "f1"): 1, ("b2", "c2", "f2"): 1}
    assert site.machine.refreshed == {"R1": 2, "R2": 1, "R3": 1}


def test_example_7_a_modification_is_applied_by_key() -> None:
    site = chain()
    site.tell(site.commit("1", {"R1": INSERTED}))
    run(site)
    site.tell(site.commit("2", {"R3": {("e1", "f1", "g1"): -1, ("e1", "f2", "g1"): 1}}))
    (query,) = site.asked
    assert [ask.node.name for ask in query.asks] == ["R2"], "R1 is not asked: the key of R2 is in the view"
    assert site.answer(query).rows["R2"] == {("c1", "d1", "e1"): 1}
    site.tell(site.answer(query))
    assert site.view == {("b1", "c1", "f2"): 1, ("b3", "c1", "f2"): 1, ("b2", "c2", "f2"): 1}


class AskForDeletes(VersionNumbers):
    """Examples 8 to 12 ask for the deletion of R2 too, to show its compensation."""

    def _path(self, node, kind, whole):  # type: ignore[no-untyped-def]
        return super()._path(node, Kind.INSERT if (node, kind) == ("R2", Kind.DELETE) else kind, whole)


def test_examples_8_to_12_interfering_and_missing_updates() -> None:
    site = Site(CHAIN, CHAIN_COLUMNS, CHAIN_ROWS, AskForDeletes)
    updates = [
        site.commit("2", {"R2": {("c1", "d1", "e1"): -1}}),
        site.commit("1", {"R1": INSERTED}),
        site.commit("2", {"R3": {("e2", "f2", "g2"): -1}}),
    ]
    site.tell(updates[0])
    to_r1, to_r3 = site.asked
    assert site.machine._units[0].steps[0].tasks[0].required == {"R1": 1, "R2": 2, "R3": 1}
    table_1 = site.answer(to_r1), site.answer(to_r3)
    assert table_1[0].rows["R1"] == {("a1", "b1", "c1"): 1, ("a3", "b3", "c1"): 1} and table_1[0].versions == {"R1": 2}
    assert table_1[1].rows["R3"] == {("e1", "f1", "g1"): 1} and table_1[1].versions == {"R3": 2}

    site.tell(updates[1])
    (to_2,) = site.asked
    insertion = site.machine._units[1].steps[0].tasks[0]
    assert insertion.required == {"R1": 2, "R2": 2, "R3": 1}
    assert to_2.asks[0].keys == {("c2",)}, (
        "example 9: the view tells of c1, and the missing deletion drops it (lemma 2)"
    )
    assert insertion.parts.get("R2", {}) == {}
    table_2 = site.answer(to_2)
    assert table_2.rows == {"R2": {("c2", "d2", "e2"): 1}, "R3": {}}

    site.tell(updates[2])
    (to_r2,) = site.asked
    deletion = site.machine._units[2].steps[0].tasks[0]
    assert deletion.required == {"R1": 2, "R2": 2, "R3": 2}
    table_3 = site.answer(to_r2)
    assert table_3.rows["R2"] == {("c2", "d2", "e2"): 1}

    site.tell(table_2)
    table_5 = insertion.parts
    assert table_5["R2"] == {("c2", "d2", "e2"): 1}
    assert table_5["R3"] == {("e2", "f2", "g2"): 1}, "example 10: an interfering deletion is undone (lemma 5)"
    site.tell(table_3)
    assert site.view == {("b1", "c1", "f1"): 1}, "theorem 2: nothing is applied before its turn"

    first = site.machine._units[0].steps[0].tasks[0]
    site.tell(table_1[0])
    assert first.parts["R1"] == {("a1", "b1", "c1"): 1}, "example 11: an interfering insertion is undone (lemma 6)"
    applied = [message.rows for message in site.tell(table_1[1]) if isinstance(message, Apply)]
    assert applied == [{("b1", "c1", "f1"): -1}, {("b2", "c2", "f2"): 1}, {("b2", "c2", "f2"): -1}], "example 12"
    assert site.view == {}


def test_a_deletion_whose_key_is_in_the_view_asks_nobody() -> None:
    site = chain()
    site.tell(site.commit("2", {"R2": {("c1", "d1", "e1"): -1}}))
    assert not site.asked
    assert site.view == {}


@pytest.mark.parametrize("kind", [Kind.INSERT, Kind.DELETE])
def test_referential_integrity_makes_changes_irrelevant(kind: Kind) -> None:
    core = Core(CHAIN.name, CHAIN.nodes, CHAIN.links, CHAIN.outputs, references=(("R2", "R3"),))
    path = plan_path(core, "R3", kind)
    assert path.messages == 0 and "R2" in path.skipped
    site = Site(core, CHAIN_COLUMNS, CHAIN_ROWS, VersionNumbers)
    if kind is Kind.DELETE:
        site.tell(site.commit("2", {"R2": {("c2", "d2", "e2"): -1}}))
        site.tell(site.commit("2", {"R3": {("e2", "f2", "g2"): -1}}))
    else:
        site.tell(site.commit("2", {"R3": {("e3", "f3", "g3"): 1}}))
    assert not site.asked and site.machine.is_idle
    assert site.machine.versions["2"] == len(site.sources["2"].log) + 1


def test_a_table_and_what_refers_to_it_inserted_in_one_transaction() -> None:
    core = Core(CHAIN.name, CHAIN.nodes, CHAIN.links, CHAIN.outputs, references=(("R2", "R3"),))
    site = Site(core, CHAIN_COLUMNS, {**CHAIN_ROWS, "R1": {("a1", "b1", "c3"): 1}}, VersionNumbers)
    site.tell(site.commit("2", {"R2": {("c3", "d3", "e3"): 1}, "R3": {("e3", "f3", "g3"): 1}}))
    run(site)
    assert site.view == {("b1", "c3", "f3"): 1}


# --- where the view must not answer -----------------------------------------------------------------------------------


def asked_for(site: Site, update: Update) -> set[tuple[str, frozenset[tuple[object, ...]]]]:
    site.tell(update)
    return {(ask.node.name, ask.keys) for query in site.asked for ask in query.asks}


def test_the_view_does_not_answer_for_a_row_whose_join_column_is_being_changed() -> None:
    site = chain()
    moved = site.commit("2", {"R2": {("c1", "d1", "e1"): -1, ("c1", "d1", "e2"): 1}})
    site.tell(moved)
    waiting = site.asked
    assert waiting and site.view == {("b1", "c1", "f1"): 1}
    insertion = site.commit("1", {"R1": {("a3", "b3", "c1"): 1}})
    assert ("R2", frozenset({("c1",)})) in asked_for(site, insertion)
    for query in waiting + site.asked:
        site.tell(site.answer(query))
    assert site.view == {("b1", "c1", "f2"): 1, ("b3", "c1", "f2"): 1}


def test_the_view_does_not_answer_where_it_cannot_recognise_a_missing_update() -> None:
    site = chain()
    modified = site.commit("2", {"R3": {("e1", "f1", "g1"): -1, ("e1", "f9", "g1"): 1}})
    site.tell(modified)
    waiting = site.asked
    insertion = site.commit("1", {"R1": {("a3", "b3", "c1"): 1}})
    assert ("R2", frozenset({("c1",)})) in asked_for(site, insertion), "the key of R3 is not in the view"
    for query in waiting + site.asked:
        site.tell(site.answer(query))
    assert site.view == {("b1", "c1", "f9"): 1, ("b3", "c1", "f9"): 1}


def test_the_view_does_not_answer_inside_of_a_cycle() -> None:
    links = (*CHAIN.links, Link("R1", "R3", (("B", "G"),)))
    core = Core("v", CHAIN.nodes, links, CHAIN.outputs)
    tables: Rows = {**CHAIN_ROWS, "R1": {("a1", "g1", "c1"): 1}}
    site = Site(core, CHAIN_COLUMNS, tables, VersionNumbers)
    assert site.view == {("g1", "c1", "f1"): 1}
    site.tell(site.commit("1", {"R1": {("a2", "g1", "c1"): 1, ("a3", "g9", "c1"): 1}}))
    run(site)
    assert site.view == {("g1", "c1", "f1"): 2}
