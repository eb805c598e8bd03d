"""Stage 2a, bind the schema: CREATE TABLE and the declarations become the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from ..grammar.declarations import AlterChanges, AlterStatistics
from .catalog import Catalog, Changes, Dimension, ForeignKey, Source, Statistics, Table, did_you_mean, find_name
from .constraints import Draft, alter_table, read_table
from .constraints import check_name as check_name
from .read import AlterTable, CreateTable, CreateView, Statement, place_of
from .source import Diagnostic, Span


def bind_schema(statements: list[Statement]) -> tuple[Catalog, list[Diagnostic]]:
    """The catalog of a file, and what is wrong with its declarations."""
    errors: list[Diagnostic] = []
    drafts: list[Draft] = []
    views = {s.name.casefold() for s in statements if isinstance(s, CreateView)}
    for statement in statements:
        if isinstance(statement, CreateTable):
            draft = read_table(statement, errors)
            if find_name(draft.name, drafts):
                message = f"table {draft.name} is declared twice"
                errors.append(Diagnostic("DF0101", message, place_of(statement.schema.this, statement.span)))
            else:
                drafts.append(draft)
    for statement in statements:
        if isinstance(statement, AlterTable):
            altered = find_name(statement.table, drafts)
            if altered is None:
                errors.append(_no_table(statement.table, drafts, views, statement.span))
            else:
                alter_table(statement, altered)
    tables = _with_foreign_keys(drafts, errors)
    for statement in statements:
        if isinstance(statement, AlterChanges):
            tables = _with_changes(tables, statement, views, errors)
        if isinstance(statement, AlterStatistics):
            tables = _with_statistics(tables, statement, views, errors)
    dimensions = tuple(s for s in statements if isinstance(s, Dimension))
    sources = tuple(s for s in statements if isinstance(s, Source))
    for dimension in dimensions:
        _check_dimension(dimension, tables, errors)
    return Catalog(tuple(tables), dimensions, sources), errors


def _no_table(name: str, among: Sequence[Draft | Table], views: set[str], place: Span) -> Diagnostic:
    kind = "a view, not a table" if name.casefold() in views else "not declared"
    remedy = did_you_mean(name, (table.name for table in among))
    return Diagnostic("DF0110", f"ALTER TABLE {name}: it is {kind}", place, remedy)


def _with_foreign_keys(drafts: list[Draft], errors: list[Diagnostic]) -> list[Table]:
    tables = [draft.finished() for draft in drafts]
    found: dict[str, list[ForeignKey]] = {}
    for draft in drafts:
        for reference, names, place in draft.references:
            schema = reference.this
            other_name = schema.this.name if isinstance(schema, exp.Schema) else schema.name
            other = find_name(other_name, tables)
            if other is None:
                known = did_you_mean(other_name, (table.name for table in tables))
                errors.append(Diagnostic("DF0108", f"REFERENCES {other_name}: there is no such table", place, known))
                continue
            if isinstance(schema, exp.Schema):
                resolved = [other.column(node.name) for node in schema.expressions]
                referenced = tuple(column.name for column in resolved if column)
            else:
                referenced = other.keys[0] if other.keys else ()
            if len(referenced) != len(names) or set(referenced) not in [set(key) for key in other.keys]:
                message = f"REFERENCES {other_name}: the columns are not a key of it"
                remedy = f"declare PRIMARY KEY or UNIQUE on {other_name}"
                errors.append(Diagnostic("DF0109", message, place, remedy))
                continue
            found.setdefault(draft.name, []).append(ForeignKey(names, other.name, referenced))
    return [replace(table, foreign_keys=tuple(found.get(table.name, ()))) for table in tables]


def _with_changes(tables: list[Table], alter: AlterChanges, views: set[str], errors: list[Diagnostic]) -> list[Table]:
    table = _altered(tables, alter, views, errors)
    if table is None:
        return tables
    resolved = [(name, table.column(name)) for name in alter.changes.new_values_of]
    for name, column in resolved:
        if column is None:
            message, known = f"table {table.name} has no column {name}", did_you_mean(name, table.names)
            errors.append(Diagnostic("DF0104", message, alter.span, known))
    changes = Changes(alter.changes.insert_only, tuple(column.name for _, column in resolved if column))
    return [replace(t, changes=changes) if t.name == table.name else t for t in tables]


def _with_statistics(
    tables: list[Table], alter: AlterStatistics, views: set[str], errors: list[Diagnostic]
) -> list[Table]:
    table = _altered(tables, alter, views, errors)
    if table is None:
        return tables
    resolved = [(name, table.column(name), count) for name, count in alter.statistics.distinct]
    for name, column, _ in resolved:
        if column is None:
            message, known = f"table {table.name} has no column {name}", did_you_mean(name, table.names)
            errors.append(Diagnostic("DF0104", message, alter.span, known))
    distinct = tuple((column.name, count) for _, column, count in resolved if column)
    statistics = Statistics(alter.statistics.rows, alter.statistics.changes, distinct)
    return [replace(t, statistics=statistics) if t.name == table.name else t for t in tables]


def _altered(
    tables: list[Table], alter: AlterChanges | AlterStatistics, views: set[str], errors: list[Diagnostic]
) -> Table | None:
    table = find_name(alter.table, tables)
    if table is None:
        errors.append(_no_table(alter.table, tables, views, alter.span))
    return table


def _check_dimension(dimension: Dimension, tables: list[Table], errors: list[Diagnostic]) -> None:
    for level in dimension.levels:
        table = find_name(level.table, tables)
        if table is None:
            known = did_you_mean(level.table, (t.name for t in tables))
            errors.append(Diagnostic("DF0111", f"LEVEL {level.name}: no table {level.table}", dimension.span, known))
            continue
        for name in level.columns:
            if table.column(name) is None:
                message = f"LEVEL {level.name}: {table.name} has no column {name}"
                errors.append(Diagnostic("DF0104", message, dimension.span, did_you_mean(name, table.names)))
