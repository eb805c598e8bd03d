"""A catalog as SQL: declarations that read back as the same catalog."""

from __future__ import annotations

from ..compiler.catalog import Catalog, Dimension, Source, Table
from ..compiler.scalar import quote, text


def catalog_sql(catalog: Catalog) -> str:
    """CREATE TABLE statements and declarations, in the order of the catalog."""
    parts = [_table(table) for table in catalog.tables]
    parts += [_dimension(dimension) for dimension in catalog.dimensions]
    parts += [_source(source) for source in catalog.sources]
    parts += [changes for table in catalog.tables if (changes := _changes(table))]
    return "\n\n".join(parts) + "\n" if parts else ""


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(quote(name) for name in names)


def _table(table: Table) -> str:
    computed = {generated.column: generated.expression for generated in table.generated}
    lines = []
    for column in table.columns:
        line = f"{quote(column.name)} {column.type if '<' in column.type else column.type.upper()}"
        line += "" if column.nullable else " NOT NULL"
        if column.name in computed:
            line += f" GENERATED ALWAYS AS ({text(computed[column.name])})"
        lines.append(line)
    required = {column.name for column in table.columns if not column.nullable}
    for place, key in enumerate(table.keys):
        kind = "PRIMARY KEY" if place == 0 and required.issuperset(key) else "UNIQUE"
        lines.append(f"{kind} ({_names(key)})")
    for foreign_key in table.foreign_keys:
        target = f"{quote(foreign_key.table)} ({_names(foreign_key.referenced)})"
        lines.append(f"FOREIGN KEY ({_names(foreign_key.columns)}) REFERENCES {target}")
    lines += [f"CHECK ({text(condition)})" for condition in table.checks]
    body = ",\n".join(f"  {line}" for line in lines)
    return f"CREATE TABLE {quote(table.name)} (\n{body}\n);"


def _dimension(dimension: Dimension) -> str:
    lines = [f"CREATE DIMENSION {quote(dimension.name)}"]
    for level in dimension.levels:
        columns = ", ".join(f"{quote(level.table)}.{quote(name)}" for name in level.columns)
        lines.append(f"  LEVEL {quote(level.name)} IS {columns if len(level.columns) == 1 else f'({columns})'}")
    for name, steps in dimension.hierarchies:
        lines.append(f"  HIERARCHY {quote(name)} ({' CHILD OF '.join(quote(step) for step in steps)})")
    return "\n".join(lines) + ";"


def _source(source: Source) -> str:
    pairs = ", ".join(f"{_string(name)} {_string(value)}" for name, value in source.options)
    options = f" OPTIONS ({pairs})" if pairs else ""
    return f"CREATE SOURCE {quote(source.name)} TYPE {quote(source.type)}{options} TABLES ({_names(source.tables)});"


def _changes(table: Table) -> str:
    said = ["INSERT ONLY"] if table.changes.insert_only else []
    if table.changes.new_values_of:
        said.append(f"NEW VALUES OF {_names(table.changes.new_values_of)}")
    return f"ALTER TABLE {quote(table.name)} SET CHANGES ({', '.join(said)});" if said else ""


def _string(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
