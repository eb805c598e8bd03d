"""Declarations and pragmas of the view file."""

from __future__ import annotations

import pytest
from deltafold.compiler.catalog import Changes, Level, Source
from deltafold.compiler.source import InputError, SourceFile, Span
from deltafold.grammar.declarations import (
    AlterChanges,
    Declaration,
    Include,
    is_declaration,
    parse_declaration,
    parse_pragma,
)
from golden import Case, Golden
from hypothesis import given
from hypothesis import strategies as st


def span_of(text: str, before: str = "", after: str = "") -> Span:
    return Span(SourceFile("views.sql", before + text + after), len(before), len(before) + len(text))


def declaration(text: str) -> Declaration:
    assert is_declaration(text)
    return parse_declaration(span_of(text))


def test_errors(golden: Golden) -> None:
    def run(case: Case) -> str:
        before = "-- above\n" if case.directive == "declaration" else "-- deltafold:"
        span = span_of(case.input, before, ";\n")
        with pytest.raises(InputError) as caught:
            (parse_declaration if case.directive == "declaration" else parse_pragma)(span)
        return str(caught.value)

    golden("declarations.txt", run)


def test_dimension() -> None:
    text = """create dimension stores_dim -- of the shops
      LEVEL store IS stores.storeID LEVEL level IS (stores.city, stores.`re``gion`) level größe IS stores.region
      /* both */ HIERARCHY geo (store CHILD OF Level child of größe) HIERARCHY other (store CHILD OF größe);"""
    span = span_of(text)
    dimension = parse_declaration(span)
    assert dimension.span is span
    assert dimension == type(dimension)(
        "stores_dim",
        (
            Level("store", "stores", ("storeID",)),
            Level("level", "stores", ("city", "re`gion")),
            Level("größe", "stores", ("region",)),
        ),
        (("geo", ("store", "level", "größe")), ("other", ("store", "größe"))),
        span,
    )


def test_source() -> None:
    text = r"CREATE SOURCE crm TYPE postgres OPTIONS (url '${CRM_URL}', 'a b' 'it''s', x.y '\'\\') TABLES (a, `b c`)"
    options = (("url", "${CRM_URL}"), ("a b", "it's"), ("x.y", "'\\"))
    assert declaration(text) == Source("crm", "postgres", options, ("a", "b c"), span_of(text))
    assert declaration("CREATE SOURCE s TYPE t TABLES (tables)") == Source("s", "t", (), ("tables",), span_of(""))


@pytest.mark.parametrize(
    ("written", "changes"),
    [
        ("INSERT ONLY", Changes(insert_only=True)),
        ("NEW VALUES OF date", Changes(new_values_of=("date",))),
        ("insert only, new values of date, qty", Changes(True, ("date", "qty"))),
        ("NEW VALUES OF date, qty, `insert`, values, INSERT ONLY", Changes(True, ("date", "qty", "insert", "values"))),
    ],
)
def test_changes(written: str, changes: Changes) -> None:
    text = f"ALTER TABLE pos SET CHANGES ({written})"
    assert declaration(text) == AlterChanges("pos", changes, span_of(text))


def test_include() -> None:
    assert declaration("include /* the tables */ 'schema.sql';") == Include("schema.sql", span_of(""))


@pytest.mark.parametrize(
    "text",
    [
        "CREATE TABLE dimension (a INT)",
        "ALTER TABLE pos ADD CONSTRAINT k PRIMARY KEY (a)",
        "ALTER TABLE pos SET TBLPROPERTIES ('changes' = '1')",
        "-- CREATE SOURCE x\nSELECT 1",
        "includes",
        "",
        "-- " * 5000,
    ],
)
def test_sql_is_no_declaration(text: str) -> None:
    assert not is_declaration(text)


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("strategy=summary-delta", "strategy", "summary-delta"),
        (" require incremental ", "require", "incremental"),
        ("Consistency = complete", "consistency", "complete"),
        ("note = 'a b'", "note", "a b"),
        ("trace", "trace", None),
    ],
)
def test_pragma(text: str, name: str, value: str | None) -> None:
    pragma = parse_pragma(span_of(text))
    assert (pragma.name, pragma.value) == (name, value)


@given(st.text(min_size=1), st.text())
def test_any_name_and_string(name: str, value: str) -> None:
    quoted = "`" + name.replace("`", "``") + "`"
    string = "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    source = declaration(f"CREATE SOURCE {quoted} TYPE t OPTIONS (k {string}) TABLES ({quoted})")
    assert source == Source(name, "t", (("k", value),), (name,), span_of(""))


@given(
    st.lists(
        st.sampled_from(
            [
                "create",
                "source",
                "dimension",
                "level",
                "is",
                "(",
                ")",
                ",",
                ".",
                "a",
                "`b`",
                "'c'",
                "'",
                "`",
                ";",
                "@",
                "--",
                "/*",
                "of",
                "\n",
            ]
        )
    )
)
def test_anything_else_is_an_input_error(words: list[str]) -> None:
    span = span_of(" ".join(words), "-- above\n", " rest")
    try:
        parse_declaration(span)
    except InputError as error:
        for diagnostic in error.diagnostics:
            assert span.start <= diagnostic.span.start <= span.end
            assert diagnostic.render()
