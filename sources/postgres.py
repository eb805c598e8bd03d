"""A PostgreSQL source: reads its log and answers sub-queries, each in one statement with the versions it saw.

Through psycopg, not Spark's JDBC reader: a sub-query is a few keys in and a few rows out, thousands of times. JDBC
in Spark plans a job, opens a connection and reads a schema for each of them, tens of milliseconds where a statement on
an open connection takes less than one; it cannot bind an array of keys; and it gives no hold on which statement, hence
which snapshot, the rows and the version come from.

Under READ COMMITTED a statement has one snapshot, so the versions that it selects are those of the rows that it
selects. Values travel as text in both directions, in the log as well as in answers, and are read by the types that the
view file declares; a value is then the same wherever it came from.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import set_json_loads

from ..compiler.catalog import Catalog, Source
from ..compiler.joingraph import Node
from .bag import Bag, Row, add, where
from .conditions import condition
from .install import option, server_name
from .maintainer import SourceError, Unavailable
from .messages import Answer, Ask, Change, Query, Update
from .values import Reader, reader

STATEMENT_TIMEOUT = "30s"


def expanded(text: str) -> str:
    """`${NAME}` from the environment."""

    def value(match: re.Match[str]) -> str:
        if match[1] not in os.environ:
            raise SourceError(f"the environment variable {match[1]} is not set")
        return os.environ[match[1]]

    return re.sub(r"\$\{(\w+)\}", value, text)


def _text(value: Any) -> str:
    return value.isoformat(sep=" ") if isinstance(value, dt.datetime) else str(value)


class Postgres:
    """One connection to one source; not for use by two threads at a time."""

    def __init__(self, source: Source, catalog: Catalog) -> None:
        self.source = source
        self.name = source.name
        self._columns: dict[str, tuple[str, ...]] = {}
        self._readers: dict[tuple[str, str], Reader] = {}
        for name in source.tables:
            table = catalog.table(name)
            if table is not None:
                self._columns[table.name] = table.names
                self._readers |= {(table.name, column.name): reader(column.type) for column in table.columns}
        self._types: dict[tuple[str, str], str] = {}
        self._connection: psycopg.Connection[Any] | None = None

    # --- connection --------------------------------------------------------------------------------------------------

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                expanded(option(self.source, "url", "")), autocommit=True, connect_timeout=10
            )
            self._connection.execute(sql.SQL("SET statement_timeout = {}").format(STATEMENT_TIMEOUT))
            set_json_loads(partial(json.loads, parse_float=str), self._connection)  # decimals stay exact
            self._types = self._read_types(self._connection)
        return self._connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _read_types(self, connection: psycopg.Connection[Any]) -> dict[tuple[str, str], str]:
        statement = """
            SELECT c.relname, a.attname, format_type(a.atttypid, NULL)
            FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE n.nspname = %s AND a.attnum > 0 AND NOT a.attisdropped"""
        rows = connection.execute(statement, [option(self.source, "schema", "public")])
        found = {(table, column): kind for table, column, kind in rows}
        types = {}
        for table, columns in self._columns.items():
            for column in columns:
                kind = found.get((server_name(self.source, table), server_name(self.source, column)))
                if kind is None:
                    raise SourceError(f"source {self.name} has no column {column} of {table}")
                types[table, column] = kind
        return types

    def _execute(self, statement: sql.SQL | sql.Composed, parameters: list[Any]) -> list[tuple[Any, ...]]:
        try:
            found: list[tuple[Any, ...]] = self._connected().execute(statement, parameters).fetchall()
            return found
        except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
            raise SourceError(f"source {self.name} is not installed: deltafold source install FILE --apply") from error
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            self.close()
            raise Unavailable(str(error).strip()) from error

    def run_script(self, script: str) -> None:
        """Runs statements, as `deltafold source install` prints them."""
        with psycopg.connect(expanded(option(self.source, "url", "")), autocommit=True, connect_timeout=10) as link:
            link.execute(sql.SQL(script))

    # --- the log -----------------------------------------------------------------------------------------------------

    def version(self) -> int:
        """The newest data source version."""
        return int(self._execute(sql.SQL("SELECT coalesce(max(version), 0) FROM deltafold.touched"), [])[0][0])

    def updates(self, after: int, through: int | None = None, limit: int = 1000) -> list[Update]:
        """The transactions after a version, in order; at most `limit` of them."""
        statement = sql.SQL("""
            SELECT t.version, t.relation, t.relation_version, l.sign, l.row_image, f.through
            FROM deltafold.forgotten f LEFT JOIN deltafold.touched t ON t.version > {after} AND t.version <= {through}
            LEFT JOIN deltafold.log l ON l.xid = t.xid AND l.relation = t.relation
            ORDER BY t.version, l.id""")
        last = after + limit if through is None else min(through, after + limit)
        rows = self._execute(statement.format(after=after, through=last), [])
        if rows and rows[0][5] > after:
            raise SourceError(
                f"source {self.name} has forgotten its changes up to version {rows[0][5]}, of which only those up to "
                f"{after} were read: load the views again with deltafold source run --reload"
            )
        changes: dict[int, dict[str, tuple[int, Bag]]] = {}
        known = {name.lower(): name for name in self._columns}
        for version, relation, relation_version, sign, image, _ in rows:
            if version is not None:
                touched = changes.setdefault(version, {})
                table = known.get(relation)
                if table is not None:
                    _, bag = touched.setdefault(table, (relation_version, {}))
                    if image is not None:
                        add(bag, {self._row(table, image): sign})
        return [Update(self.name, version, self._changes(made)) for version, made in sorted(changes.items())]

    def _changes(self, made: Mapping[str, tuple[int, Bag]]) -> dict[str, Change]:
        return {table: Change(version, self._columns[table], rows) for table, (version, rows) in made.items()}

    def _row(self, table: str, image: Mapping[str, Any]) -> Row:
        values = (image[server_name(self.source, column)] for column in self._columns[table])
        return tuple(
            None if value is None else self._read(table, column, value)
            for column, value in zip(self._columns[table], values, strict=True)
        )

    def _read(self, table: str, column: str, value: Any) -> Any:
        if isinstance(value, bool):
            return value
        return self._readers[table, column](value if isinstance(value, str) else str(value))

    # --- sub-queries -------------------------------------------------------------------------------------------------

    def answer(self, query: Query) -> tuple[int, Answer]:
        """The data source version, and the rows asked for with their tables' versions, in one statement."""
        parameters: list[Any] = []
        parents = {ask.parent for ask in query.asks}
        parts = []
        for ask in query.asks:
            name = sql.Identifier(f"rows of {ask.node.name}")
            parts.append(sql.SQL("{} AS ({})").format(name, self._found(ask, parameters)))
            if ask.node.name in parents:
                name = sql.Identifier(f"reach of {ask.node.name}")
                parts.append(sql.SQL("{} AS ({})").format(name, self._reach(ask)))
        tables = list(dict.fromkeys(ask.node.table for ask in query.asks))
        versions, rows = self._run(parts, {ask.node.name: ask.node for ask in query.asks}, tables, parameters)
        return versions.pop(""), Answer(query.number, self.name, versions, rows)

    def snapshot(self, nodes: list[Node]) -> tuple[int, dict[str, int], dict[str, Bag]]:
        """All rows of some nodes, the data source version and the tables' versions, in one statement."""
        parts = []
        for node in nodes:
            name = sql.Identifier(f"rows of {node.name}")
            parts.append(sql.SQL("{} AS ({})").format(name, self._selected(node, sql.SQL("TRUE"))))
        versions, rows = self._run(
            parts, {node.name: node for node in nodes}, list(dict.fromkeys(node.table for node in nodes)), []
        )
        return versions.pop(""), versions, rows

    def _run(
        self, parts: list[sql.Composed], nodes: Mapping[str, Node], tables: list[str], parameters: list[Any]
    ) -> tuple[dict[str, int], dict[str, Bag]]:
        newest = sql.SQL("(SELECT coalesce(max(relation_version), 0)::text FROM deltafold.touched WHERE relation = {})")
        seen: list[sql.Composable] = [sql.SQL("(SELECT coalesce(max(version), 0)::text FROM deltafold.touched)")]
        seen += [newest.format(table.lower()) for table in tables]
        branches = [sql.SQL("SELECT 0, ARRAY[{}]").format(sql.SQL(", ").join(seen))]
        for i, (name, node) in enumerate(nodes.items()):
            texts = [sql.SQL("{}::text").format(sql.Identifier(column)) for column in node.columns]
            shown = sql.SQL("SELECT {}, ARRAY[{}] FROM {}")
            branches.append(shown.format(i + 1, sql.SQL(", ").join(texts), sql.Identifier(f"rows of {name}")))
        statement = sql.SQL("WITH {} {}").format(sql.SQL(", ").join(parts), sql.SQL(" UNION ALL ").join(branches))
        versions: dict[str, int] = {}
        rows: dict[str, Bag] = {name: {} for name in nodes}
        by_number = list(nodes.values())
        for number, values in self._execute(statement, parameters):
            if number == 0:
                versions = dict(zip(["", *tables], map(int, values), strict=True))
            else:
                node = by_number[number - 1]
                read = [self._readers[node.table, column] for column in node.columns]
                row = tuple(None if v is None else r(v) for r, v in zip(read, values, strict=True))
                add(rows[node.name], {row: 1})
        return versions, {
            name: where(rows[name], condition(node.filters, node.columns)) for name, node in nodes.items()
        }

    def _server(self, column: str) -> sql.Identifier:
        return sql.Identifier(server_name(self.source, column))

    def _selected(self, node: Node, where: sql.Composable) -> sql.Composed:
        """A node's columns under the names of the view file; its conditions are tested in Python, as Spark would."""
        columns = [sql.SQL("{} AS {}").format(self._server(c), sql.Identifier(c)) for c in node.columns]
        table = sql.Identifier(option(self.source, "schema", "public"), server_name(self.source, node.table))
        return sql.SQL("SELECT {} FROM {} WHERE {}").format(sql.SQL(", ").join(columns), table, where)

    def _found(self, ask: Ask, parameters: list[Any]) -> sql.Composed:
        left = sql.SQL(", ").join(self._server(column) for column in ask.columns)
        if ask.parent is not None:
            wanted = sql.SQL("SELECT {} FROM {}").format(
                sql.SQL(", ").join(map(sql.Identifier, ask.parent_columns)), sql.Identifier(f"reach of {ask.parent}")
            )
        elif not ask.keys:
            return self._selected(ask.node, sql.SQL("FALSE"))
        else:
            keys = sorted(ask.keys, key=repr)
            casts = [self._cast(ask.node, column, sql.Identifier(f"k{i}")) for i, column in enumerate(ask.columns)]
            names = [sql.Identifier(f"k{i}") for i in range(len(ask.columns))]
            arrays = [sql.SQL("%s::text[]")] * len(names)
            parameters += [[_text(key[i]) for key in keys] for i in range(len(names))]
            comma = sql.SQL(", ")
            wanted = sql.SQL("SELECT {} FROM unnest({}) AS k ({})").format(
                comma.join(casts), comma.join(arrays), comma.join(names)
            )
        return self._selected(ask.node, sql.SQL("({}) IN ({})").format(left, wanted))

    def _cast(self, node: Node, column: str, value: sql.Composable) -> sql.Composed:
        # The type is the server's own name of it, from its catalog.
        return sql.SQL("{}::{}").format(value, sql.SQL(self._types[node.table, column]))

    def _reach(self, ask: Ask) -> sql.Composed:
        """The rows found, and those that are in the log since the version that the answer is needed at."""
        node = ask.node
        logged = []
        for column in node.columns:
            value = sql.SQL("(l.row_image ->> {})").format(server_name(self.source, column))
            logged.append(self._cast(node, column, value))
        return sql.SQL(
            "SELECT * FROM {} UNION SELECT {} FROM deltafold.log l JOIN deltafold.touched t USING (xid, relation)"
            " WHERE t.relation = {} AND t.relation_version > {}"
        ).format(sql.Identifier(f"rows of {node.name}"), sql.SQL(", ").join(logged), node.table.lower(), ask.since)
