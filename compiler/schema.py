"""Stage 2a, bind the schema: CREATE TABLE and the declarations become the catalog."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from ..grammar.declarations import AlterChanges
from .algebra import Column
from .catalog import Catalog, Changes, Dimension, ForeignKey, Source, Table, find_name
from .read import CreateTable, CreateView, Statement, place_of
from .source import Diagnostic, Span
from .types import type_name


def bind_schema(statements: list[Statement]) -> tuple[Catalog, list[Diagnostic]]:
    """The catalog of a file, and what is wrong with its declarations."""
    errors: list[Diagnostic] = []
    tables: list[Table] = []
    references: list[tuple[str, exp.Reference, tuple[str, ...], Span]] = []
    for statement in statements:
        if isinstance(statement, CreateTable):
            table = _table(statement, references, errors)
            if find_name(table.name, tables):
                errors.append(Diagnostic("DF0101", f"table {table.name} is declared twice", statement.span))
            else:
                tables.append(table)
    tables = _with_foreign_keys(tables, references, errors)
    views = {s.name.casefold() for s in statements if isinstance(s, CreateView)}
    for statement in statements:
        if isinstance(statement, AlterChanges):
            tables = _with_changes(tables, statement, views, errors)
    dimensions = tuple(s for s in statements if isinstance(s, Dimension))
    sources = tuple(s for s in statements if isinstance(s, Source))
    for dimension in dimensions:
        _check_dimension(dimension, tables, errors)
    return Catalog(tuple(tables), dimensions, sources), errors


def check_name(name: str, place: Span, errors: list[Diagnostic]) -> None:
    """Names reach generated files: hidden ones are ours, and control characters are nobody's."""
    if name.startswith("__"):
        errors.append(
            Diagnostic("DF0102", f"{name}: names that start with two underscores are reserved", place, "rename it")
        )
    if not name or any(ord(c) < 32 or 0x7F <= ord(c) < 0xA0 or c in "\u2028\u2029" for c in name):
        errors.append(
            Diagnostic("DF0103", "a name may hold neither line breaks nor other control characters", place, "rename it")
        )


def _table(
    statement: CreateTable,
    references: list[tuple[str, exp.Reference, tuple[str, ...], Span]],
    errors: list[Diagnostic],
) -> Table:
    target = statement.schema.this
    name, span = target.name, statement.span
    check_name(name, place_of(target, span), errors)
    if target.args.get("db"):
        errors.append(Diagnostic("DF0009", "a table's name has one part", place_of(target, span)))
    columns: list[Column] = []
    keys: list[tuple[str, ...]] = []
    checks: list[str] = []

    def column_names(nodes: list[exp.Expr]) -> tuple[str, ...]:
        found = []
        for node in nodes:
            column = find_name(node.name, columns)
            if column is None:
                errors.append(Diagnostic("DF0104", f"table {name} has no column {node.name}", place_of(node, span)))
            else:
                found.append(column.name)
        return tuple(found)

    constraints = [e for e in statement.schema.expressions if not isinstance(e, exp.ColumnDef)]
    for definition in statement.schema.expressions:
        if not isinstance(definition, exp.ColumnDef):
            continue
        place = place_of(definition.this, span)
        check_name(definition.name, place, errors)
        if find_name(definition.name, columns):
            errors.append(Diagnostic("DF0105", f"column {definition.name} is declared twice", place))
            continue
        kinds = [constraint.kind for constraint in definition.constraints]
        required = any(isinstance(k, exp.NotNullColumnConstraint) and not k.args.get("allow_null") for k in kinds)
        primary = any(isinstance(k, exp.PrimaryKeyColumnConstraint) for k in kinds)
        if definition.kind is None:
            errors.append(Diagnostic("DF0106", f"column {definition.name} has no type", place))
            continue
        columns.append(Column(definition.name, type_name(definition.kind), not (required or primary)))
        for kind in kinds:
            match kind:
                case exp.PrimaryKeyColumnConstraint():
                    keys.insert(0, (definition.name,))
                case exp.UniqueColumnConstraint():
                    keys.append((definition.name,))
                case exp.Reference():
                    references.append((name, kind, (definition.name,), place))
                case exp.CheckColumnConstraint():
                    checks.append(kind.this.sql(dialect="spark"))
    for constraint in constraints:
        parts = constraint.expressions if isinstance(constraint, exp.Constraint) else [constraint]
        for part in parts:
            match part:
                case exp.PrimaryKey():
                    key = column_names(part.expressions)
                    keys.insert(0, key)
                    columns = [replace(c, nullable=c.nullable and c.name not in key) for c in columns]
                case exp.UniqueColumnConstraint():
                    keys.append(column_names(part.this.expressions if part.this else part.expressions))
                case exp.ForeignKey():
                    names = column_names(part.expressions)
                    references.append((name, part.args["reference"], names, place_of(part, span)))
                case exp.CheckColumnConstraint():
                    checks.append(part.this.sql(dialect="spark"))
                case exp.Identifier():
                    errors.append(Diagnostic("DF0106", f"column {part.name} has no type", place_of(part, span)))
                case _:
                    errors.append(Diagnostic("DF0107", "this constraint is not understood", place_of(part, span)))
    return Table(name, tuple(columns), span, tuple(dict.fromkeys(keys)), (), tuple(checks))


def _with_foreign_keys(
    tables: list[Table],
    references: list[tuple[str, exp.Reference, tuple[str, ...], Span]],
    errors: list[Diagnostic],
) -> list[Table]:
    found: dict[str, list[ForeignKey]] = {}
    for table_name, reference, names, place in references:
        schema = reference.this
        other_name = schema.this.name if isinstance(schema, exp.Schema) else schema.name
        other = find_name(other_name, tables)
        if other is None:
            errors.append(Diagnostic("DF0108", f"REFERENCES {other_name}: there is no such table", place))
            continue
        if isinstance(schema, exp.Schema):
            resolved = [other.column(node.name) for node in schema.expressions]
            referenced = tuple(column.name for column in resolved if column)
        else:
            referenced = other.keys[0] if other.keys else ()
        if len(referenced) != len(names) or set(referenced) not in [set(key) for key in other.keys]:
            errors.append(
                Diagnostic(
                    "DF0109",
                    f"REFERENCES {other_name}: the columns are not a key of it",
                    place,
                    f"declare PRIMARY KEY or UNIQUE on {other_name}",
                )
            )
            continue
        found.setdefault(table_name, []).append(ForeignKey(names, other.name, referenced))
    return [replace(table, foreign_keys=tuple(found.get(table.name, ()))) for table in tables]


def _with_changes(tables: list[Table], alter: AlterChanges, views: set[str], errors: list[Diagnostic]) -> list[Table]:
    table = find_name(alter.table, tables)
    if table is None:
        kind = "a view, not a table" if alter.table.casefold() in views else "not declared"
        errors.append(Diagnostic("DF0110", f"ALTER TABLE {alter.table}: it is {kind}", alter.span))
        return tables
    resolved = [(name, table.column(name)) for name in alter.changes.new_values_of]
    for name, column in resolved:
        if column is None:
            errors.append(Diagnostic("DF0104", f"table {table.name} has no column {name}", alter.span))
    changes = Changes(alter.changes.insert_only, tuple(column.name for _, column in resolved if column))
    return [replace(t, changes=changes) if t.name == table.name else t for t in tables]


def _check_dimension(dimension: Dimension, tables: list[Table], errors: list[Diagnostic]) -> None:
    for level in dimension.levels:
        table = find_name(level.table, tables)
        if table is None:
            errors.append(Diagnostic("DF0111", f"LEVEL {level.name}: no table {level.table}", dimension.span))
            continue
        for name in level.columns:
            if table.column(name) is None:
                errors.append(
                    Diagnostic("DF0104", f"LEVEL {level.name}: {table.name} has no column {name}", dimension.span)
                )
