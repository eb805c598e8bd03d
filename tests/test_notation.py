"""The plan notation: what is printed parses back to the same plan."""

from __future__ import annotations

import pytest
from deltafold.compiler import scalar
from deltafold.compiler.algebra import (
    Cell,
    Column,
    ExceptAll,
    Expand,
    GPivot,
    GroupBy,
    GUnpivot,
    IntersectAll,
    Item,
    Join,
    JoinKind,
    Limit,
    Measure,
    Project,
    Ref,
    Rel,
    Scan,
    Select,
    SortKey,
    State,
    UnionAll,
    Values,
    Window,
    col,
    scans,
)
from deltafold.grammar.notation import WIDTH, print_ref, print_rel
from deltafold.grammar.plan_reader import NotationError, parse_rel
from golden import Case, Golden
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot import exp

TABLES = {
    "pos": (Column("storeID", "int"), Column("date", "date"), Column("qty", "int")),
    "stores": (Column("id", "int"), Column("city", "string")),
}
RELATIONS = {print_ref(Ref(name, state)): columns for name, columns in TABLES.items() for state in State}

plain_names = st.sampled_from(
    [
        "a",
        "b",
        "qty",
        "storeID",
        "date",
        "select",
        "Scan",
        "Join",
        "left",
        "old",
        "order",
        "first",
        "x1",
        "__sign",
        "count",
    ]
)
odd_names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
written_names = st.text("ab`'\"[]{}(),:= \\-\nß", min_size=1, max_size=6)
names = st.one_of(plain_names, odd_names, written_names)
strings = st.one_of(st.text(max_size=8), st.text("ab`'\"[]{}(),:= \\-\n%", max_size=8))


def expressions(columns: tuple[str, ...]) -> st.SearchStrategy[exp.Expr]:
    literals = st.one_of(
        strings.map(exp.Literal.string),
        st.integers(0, 1000).map(exp.Literal.number),
        st.just(exp.null()),
    )
    leaves = st.one_of(st.sampled_from(columns).map(col), literals) if columns else literals

    def larger(smaller: st.SearchStrategy[exp.Expr]) -> st.SearchStrategy[exp.Expr]:
        pairs = st.tuples(smaller, smaller)
        return st.one_of(
            st.tuples(st.sampled_from([exp.Add, exp.Mul, exp.EQ, exp.LT, exp.And, exp.Or]), pairs).map(
                lambda t: t[0](this=exp.Paren(this=t[1][0]), expression=exp.Paren(this=t[1][1]))
            ),
            pairs.map(lambda p: exp.Coalesce(this=p[0], expressions=[p[1]])),
            pairs.map(lambda p: exp.Case(ifs=[exp.If(this=p[0], true=p[1])])),
            st.tuples(smaller, st.lists(literals, min_size=1, max_size=3)).map(
                lambda p: exp.In(this=exp.Paren(this=p[0]), expressions=p[1])
            ),
        )

    return st.recursive(leaves, larger, max_leaves=6).map(lambda e: scalar.canonical(e.copy()))


KINDS = ["scan", "values", "select", "project", "expand", "join", "group", "pivot", "window", "limit", "union", "set"]
types = st.sampled_from(["int", "string", "decimal(10,2)", "array<int>", "struct<a:int,b:string>"])
constants = st.one_of(strings.map(exp.Literal.string), st.integers(0, 9).map(exp.Literal.number), st.just(exp.null()))


@st.composite
def cells(draw: st.DrawFn, by: int, new: list[str], measures: list[str]) -> tuple[Cell, ...]:
    places = [tuple(exp.Literal.number(number + n) for n in range(by)) for number in range(len(new))]
    return tuple(Cell(name, draw(st.sampled_from(measures)), place) for name, place in zip(new, places, strict=True))


@st.composite
def plans(draw: st.DrawFn, depth: int = 3) -> Rel:
    kind = draw(st.sampled_from(KINDS)) if depth else "scan"
    if kind == "values":
        columns = [Column(n, draw(types), draw(st.booleans())) for n in draw(st.lists(names, max_size=3, unique=True))]
        rows = draw(st.lists(st.tuples(*(constants.map(scalar.canonical) for _ in columns)), max_size=3))
        return Values(tuple(columns), tuple(rows))
    if kind == "scan":
        ref = Ref(draw(names), draw(st.sampled_from(list(State))))
        columns = draw(st.lists(names, max_size=4, unique=True))
        return Scan(ref, tuple(Column(name, "int") for name in columns))
    rel = draw(plans(depth=depth - 1))
    if kind == "select":
        return Select(rel, draw(expressions(rel.names)))
    if kind == "project":
        new = draw(st.lists(names, max_size=5, unique=True))
        items = [Item(name, draw(expressions(rel.names))) for name in new]
        return Project(rel, (*(Item(name, col(name)) for name in rel.names if name not in new), *items))
    if kind == "join":
        right = draw(plans(depth=depth - 1))
        while set(right.names) & set(rel.names):
            taken = set(right.names) | set(rel.names)
            fresh = {name: f"{name}_{number}" for number, name in enumerate(right.names) if name in rel.names}
            if set(fresh.values()) & taken:
                return rel
            right = Project(right, tuple(Item(fresh.get(name, name), col(name)) for name in right.names))
        condition = draw(expressions(rel.names + right.names))
        return Join(rel, right, condition, draw(st.sampled_from(list(JoinKind))))
    if kind == "group":
        keys = tuple(draw(st.sets(st.sampled_from(rel.names)).map(sorted))) if rel.names else ()
        new = [name for name in draw(st.lists(names, max_size=4, unique=True)) if name not in keys]
        function = st.sampled_from(["sum", "min", "count", "first", "any_value", "not plain"])
        arguments = st.lists(expressions(rel.names), max_size=2).map(tuple)
        measures = [Measure(name, draw(function), draw(arguments), draw(st.booleans())) for name in new]
        return GroupBy(rel, keys, tuple(measures))
    if kind == "expand":
        new = draw(st.lists(names, min_size=1, max_size=3, unique=True))
        items = st.tuples(*(expressions(rel.names).map(lambda e, n=name: Item(n, e)) for name in new))
        return Expand(rel, tuple(draw(st.lists(items, min_size=1, max_size=3))))
    if kind == "pivot" and len(rel.names) >= 3:
        by = rel.names[: draw(st.integers(1, len(rel.names) - 2))]
        measures = list(rel.names[len(by) : len(by) + draw(st.integers(1, 2))])
        new = draw(st.lists(names.filter(lambda name: name not in rel.names), min_size=1, max_size=3, unique=True))
        pivot = GPivot(rel, by, draw(cells(len(by), new, measures)))
        if draw(st.booleans()):
            return pivot
        return GUnpivot(pivot, by, pivot.cells, draw(st.booleans()))
    if kind == "window" and rel.names:
        partition = ", ".join(f"`{name.replace('`', '``')}`" for name in draw(st.permutations(rel.names))[:2])
        order = f"`{rel.names[0].replace('`', '``')}`"
        calls = ["ROW_NUMBER()", "SUM(1)", f"LAG({order}, 2)"]
        new = draw(st.lists(names.filter(lambda name: name not in rel.names), min_size=1, max_size=2, unique=True))
        over = f"OVER (PARTITION BY {partition} ORDER BY {order} DESC)"
        return Window(
            rel, tuple(Item(n, scalar.canonical(scalar.parse(f"{draw(st.sampled_from(calls))} {over}"))) for n in new)
        )
    if kind == "limit":
        sort_keys = st.builds(SortKey, expressions(rel.names), st.booleans(), st.booleans())
        order = tuple(draw(st.lists(sort_keys, max_size=2)))
        return Limit(rel, order, draw(st.one_of(st.none(), st.integers(0, 9))), draw(st.integers(0, 3)))
    if kind == "set":
        return draw(st.sampled_from([ExceptAll, IntersectAll]))(rel, rel)
    return UnionAll((rel,) * draw(st.integers(1, 3)))


def relations_of(rel: Rel) -> dict[str, tuple[Column, ...]]:
    return {print_ref(scan.ref): scan.schema for scan in scans(rel)}


def consistent(rel: Rel) -> bool:
    """Whether each relation has one schema throughout the plan."""
    return all(relations_of(rel)[print_ref(scan.ref)] == scan.schema for scan in scans(rel))


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(plans().filter(consistent))
def test_round_trip(rel: Rel) -> None:
    printed = print_rel(rel)
    assert parse_rel(printed, relations_of(rel)) == rel
    assert print_rel(parse_rel(printed, relations_of(rel))) == printed


def test_golden(golden: Golden) -> None:
    def run(case: Case) -> str:
        try:
            return print_rel(parse_rel(case.input, RELATIONS))
        except NotationError as error:
            line = [*case.input.split("\n"), ""][error.line - 1]
            return f"{error}\n  {line}\n  {' ' * (error.column - 1)}^"

    golden("notation.txt", run)


def test_wide_operators_break() -> None:
    wide = "Project { " + ", ".join(f"column_number_{n} := qty + {n}" for n in range(9)) + " }\n  Scan pos"
    printed = print_rel(parse_rel(wide, RELATIONS))
    assert max(len(line) for line in printed.split("\n")) <= WIDTH
    assert printed.split("\n")[-2:] == ["}", "  Scan pos"]
    assert print_rel(parse_rel(printed, RELATIONS)) == printed


def test_indented_and_blank_lines_around() -> None:
    assert parse_rel("\n\nSelect [qty > 1]\n\n  Scan pos\n\n", RELATIONS) == parse_rel(
        "Select [qty > 1]\n  Scan pos", RELATIONS
    )


@given(st.text("aScanPro{}[](),'`\n =:", max_size=30))
def test_anything_else_is_a_notation_error(text: str) -> None:
    try:
        parse_rel(text, RELATIONS)
    except NotationError as error:
        assert 1 <= error.line <= text.count("\n") + 2


def test_unclosed_brackets_do_not_leak_into_the_next_plan() -> None:
    with pytest.raises(NotationError):
        parse_rel("Select [(((qty\n  Scan pos", RELATIONS)
    assert parse_rel("Select [qty]\n  Scan pos", RELATIONS).names == ("storeID", "date", "qty")
