"""`deltafold schema`: CREATE TABLE text of tables that exist, in a folder of Parquet and Delta tables or in a catalog.

What is known without Spark is read without it: the state of a warehouse and the logs of Delta tables tell columns,
NOT NULL, CHECK and generated columns. Parquet files, checkpoints of Delta logs and catalogs need a session. Keys are
nowhere stored; the text is a start to which they are added.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from .codegen.catalog_sql import catalog_sql
from .compiler.catalog import Catalog
from .compiler.read import read_text
from .compiler.scalar import quote
from .compiler.schema import bind_schema
from .compiler.source import Diagnostic
from .runner import CannotRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from .codegen.warehouse.files import Files

Session = Callable[[], "SparkSession"]
CATALOG = "catalog:"


def schema_text(warehouse: str, session: Session) -> str:
    """The declarations of a warehouse's tables; `session` starts Spark, and is called only if it is needed."""
    if warehouse.startswith(CATALOG):
        statements = dict(_of_catalog(session(), warehouse.removeprefix(CATALOG)))
    else:
        statements = dict(_of_folder(warehouse, session))
    if not statements:
        raise CannotRun(
            f"{warehouse} holds no tables: give a warehouse, a folder of Parquet or Delta tables, or {CATALOG}NAME"
        )
    return _printed(statements)


def _printed(statements: dict[str, str]) -> str:
    """CREATE TABLE statements as deltafold reads them; what it does not understand of them becomes a comment."""
    catalog, errors = _bound(";\n".join(statements.values()))
    notes = [f"-- not understood: {' '.join(error.span.text.split())}: {error.message}" for error in errors]
    return "\n".join([*dict.fromkeys(notes), catalog_sql(catalog)])


def _bound(text: str) -> tuple[Catalog, list[Diagnostic]]:
    file = read_text(text, "schema.sql")
    catalog, errors = bind_schema(file.statements)
    return catalog, [error for error in (*file.errors, *errors) if error.code != "DF0009"]


def _create_table(name: str, schema: dict[str, Any], checks: tuple[str, ...] = ()) -> str:
    """CREATE TABLE of a schema in Spark's JSON form."""
    lines = []
    for field in schema["fields"]:
        line = f"{quote(field['name'])} {_type(field['type'])}{'' if field['nullable'] else ' NOT NULL'}"
        if computed := field.get("metadata", {}).get("delta.generationExpression"):
            line += f" GENERATED ALWAYS AS ({computed})"
        lines.append(line)
    lines += [f"CHECK ({condition})" for condition in checks]
    return f"CREATE TABLE {quote(name)} ({', '.join(lines)})"


def _type(kind: str | dict[str, Any]) -> str:
    """A type of Spark's JSON form as SQL."""
    if isinstance(kind, str):
        return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(kind, kind)
    match kind["type"]:
        case "array":
            return f"ARRAY<{_type(kind['elementType'])}>"
        case "map":
            return f"MAP<{_type(kind['keyType'])}, {_type(kind['valueType'])}>"
        case "struct":
            return f"STRUCT<{', '.join(quote(f['name']) + ': ' + _type(f['type']) for f in kind['fields'])}>"
        case "udt":
            return _type(kind["sqlType"])
    return str(kind["type"])


# ---- folders


def _of_folder(warehouse: str, session: Session) -> Iterator[tuple[str, str]]:
    from .codegen.warehouse.files import located
    from .codegen.warehouse.state import newest_state

    remote = "://" in warehouse and not warehouse.startswith("file:")
    root, files = located(session() if remote else None, warehouse)
    folder = "tables" if files.exists("tables") else "."
    state = newest_state(files)
    known = state["tables"] if state else {}
    for entry in sorted(files.names(folder)):
        name = unquote(entry.removesuffix(".parquet"))
        if entry.startswith((".", "_")):
            continue
        path = entry if folder == "." else f"{folder}/{entry}"
        if files.exists(f"{path}/_delta_log"):
            yield name, _of_delta(files, root, path, name, session)
        elif "schema" in known.get(name, {}):
            yield name, _create_table(name, known[name]["schema"])
        else:
            yield name, _of_parquet(f"{root}/{path}", name, session)


def _of_parquet(path: str, name: str, session: Session) -> str:
    try:
        schema = session().read.parquet(path).schema
    except Exception as error:
        raise CannotRun(f"{path} is no Parquet and no Delta table: {str(error).splitlines()[0]}") from None
    return _create_table(name, schema.jsonValue())


def _of_delta(files: Files, root: str, path: str, name: str, session: Session) -> str:
    """The newest metadata of a Delta log: in a commit, or in the last checkpoint where the commits were cleaned up."""
    logs = sorted(entry for entry in files.names(f"{path}/_delta_log") if entry[:20].isdigit())
    for commit in reversed([entry for entry in logs if entry.endswith(".json") and "checkpoint" not in entry]):
        for line in reversed(files.read(f"{path}/_delta_log/{commit}").splitlines()):
            if '"metaData"' in line and (found := json.loads(line).get("metaData")):
                return _of_metadata(name, found)
    checkpoints = [entry for entry in logs if "checkpoint" in entry and entry.endswith(".parquet")]
    newest = [entry for entry in checkpoints if entry[:20] == max(checkpoints)[:20]]
    if not newest:
        raise CannotRun(f"{root}/{path}/_delta_log tells no columns: is it a Delta table?")
    frame = session().read.parquet(*(f"{root}/{path}/_delta_log/{entry}" for entry in newest))
    (row,) = frame.where("metaData IS NOT NULL").select("metaData.schemaString", "metaData.configuration").collect()
    return _of_metadata(name, {"schemaString": row[0], "configuration": row[1]})


def _of_metadata(name: str, metadata: dict[str, Any]) -> str:
    configuration = dict(metadata.get("configuration") or {})
    checks = tuple(value for key, value in sorted(configuration.items()) if key.startswith("delta.constraints."))
    return _create_table(name, json.loads(metadata["schemaString"]), checks)


# ---- catalogs


def _of_catalog(spark: SparkSession, database: str) -> Iterator[tuple[str, str]]:
    """The tables of a database: as SHOW CREATE TABLE has them, or else by their columns."""
    place = ".".join(quote(part) for part in database.split("."))
    try:
        rows = spark.sql(f"SHOW TABLES IN {place}").collect()
    except Exception as error:
        raise CannotRun(f"{CATALOG}{database}: {str(error).splitlines()[0]}") from None
    for row in rows:
        if row["isTemporary"]:
            continue
        name = f"{place}.{quote(row['tableName'])}"
        try:
            shown = str(spark.sql(f"SHOW CREATE TABLE {name}").collect()[0][0])
        except Exception:
            shown = ""
        if shown.upper().startswith("CREATE VIEW"):
            continue
        understood = bool(shown) and not [e for e in _bound(shown)[1] if e.code != "DF0108"]
        yield (
            row["tableName"],
            shown if understood else _create_table(row["tableName"], spark.table(name).schema.jsonValue()),
        )
