"""Changes of the benchmarks' tables that matter to their queries.

At a small scale most queries of TPC-DS select nothing: their conditions name one state, one month, one category. So
for each SELECT of a query *witnesses* are made: one row of each of its tables, such that all of them satisfy the
conditions on single tables and meet in the joins. Some are part of the data from the start, others come with a batch;
a batch also deletes and updates witnesses and other rows. Primary and foreign keys hold before and after it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp
from tpc import PRIMARY_KEYS, Query, foreign_keys

FEW = 8  # rows of a table that a batch deletes, and as many that it updates, besides witnesses
MOST = 300  # a row that more rows depend on is not deleted
CALENDAR = ("date_dim", "time_dim")  # have every day and every second
Row = dict[str, Any]


@dataclass
class Placed:
    """A FROM clause, and the row that stands for each of its tables."""

    tables: dict[str, str]  # by alias
    rows: dict[str, Row] = field(default_factory=dict)


class Database:
    """The tables of a benchmark, changed by batches."""

    def __init__(self, connection: duckdb.DuckDBPyConnection, benchmark: str, seed: int) -> None:
        self.connection = connection
        self.benchmark = benchmark
        self.chance = random.Random(seed)
        self.keys = {table: key.split(", ") for table, key in PRIMARY_KEYS[benchmark].items()}
        self.references = foreign_keys(benchmark)
        self.columns: dict[str, dict[str, str]] = {table: {} for table in self.keys}
        found = connection.execute(
            "SELECT table_name, column_name, data_type FROM information_schema.columns"
            f" WHERE table_schema = '{benchmark}' ORDER BY table_name, ordinal_position"
        )
        for table, name, kind in found.fetchall():
            self.columns[table][name] = kind
        self.witnesses: list[tuple[str, tuple[Any, ...]]] = []
        connection.execute(f"SET threads = 1; USE {benchmark}")

    @property
    def tables(self) -> tuple[str, ...]:
        return tuple(self.keys)

    def write(self, folder: Path) -> None:
        """All tables as Parquet, a folder each."""
        for table in self.tables:
            (folder / table).mkdir(parents=True)
            self.connection.execute(f"COPY {table} TO '{folder / table / 'part-0.parquet'}' (FORMAT parquet)")

    # ---- a batch

    def batch(self, queries: tuple[Query, ...], folder: Path) -> dict[str, dict[str, int]]:
        """Changes the tables and writes what changed; how many rows of each kind, by table."""
        run = self.connection.execute
        run("DROP SCHEMA IF EXISTS before CASCADE; CREATE SCHEMA before")
        for table in self.tables:
            run(f"CREATE TABLE before.{table} AS FROM {table}")
        known = list(self.witnesses)
        self.insert_witnesses(queries, rounds=2)
        for table, key in self.chance.sample(known, len(known) // 4):
            self._delete(table, key)
        for table, key in self.chance.sample(known, len(known) // 4):
            self._update(table, key)
        for table in self.tables:
            few = FEW if table in self.references else 1
            for key in self._some_keys(table, few):
                self._delete(table, key)
            for key in self._some_keys(table, few):
                self._update(table, key)
        return {table: changes for table in self.tables if (changes := self._write_changes(table, folder))}

    def _write_changes(self, table: str, folder: Path) -> dict[str, int]:
        key = ", ".join(self.keys[table])
        gone, came = f"(FROM before.{table} EXCEPT FROM {table})", f"(FROM {table} EXCEPT FROM before.{table})"
        kinds = []
        for rows, others, alone, paired in (
            (gone, came, "delete", "update_preimage"),
            (came, gone, "insert", "update_postimage"),
        ):
            kind = f"CASE WHEN ({key}) IN (SELECT ({key}) FROM {others}) THEN '{paired}' ELSE '{alone}' END"
            kinds.append(f"SELECT *, {kind} AS _change_type FROM {rows}")
        self.connection.execute(f"CREATE OR REPLACE TEMP TABLE changed AS {' UNION ALL '.join(kinds)}")
        counts = dict(self.connection.execute("SELECT _change_type, count(*) FROM changed GROUP BY 1").fetchall())
        if counts:
            (folder / table).mkdir(parents=True)
            self.connection.execute(f"COPY changed TO '{folder / table / 'part-0.parquet'}' (FORMAT parquet)")
        return counts

    def _some_keys(self, table: str, how_many: int) -> list[tuple[Any, ...]]:
        listed = ", ".join(self.keys[table])
        order = f"hash({listed}, {self.chance.randrange(10**9)})"
        return self.connection.execute(f"SELECT {listed} FROM {table} ORDER BY {order} LIMIT {how_many}").fetchall()

    def _where(self, table: str) -> str:
        return " AND ".join(f"{name} = ?" for name in self.keys[table])

    def _delete(self, table: str, key: tuple[Any, ...]) -> None:
        """Deletes a row with those that refer to it, unless they are many or all."""
        chosen = self._dependent(table, [key])
        if sum(map(len, chosen.values())) > MOST:
            return
        left = self.connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        if left is None or left[0] <= 1:
            return
        for name, keys in chosen.items():
            self.connection.executemany(f"DELETE FROM {name} WHERE {self._where(name)}", keys)

    def _dependent(self, table: str, keys: list[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
        """Rows by their keys, and the rows that refer to them, and so on."""
        found: dict[str, list[tuple[Any, ...]]] = {table: keys}
        waiting = [(table, keys)]
        while waiting and sum(map(len, found.values())) <= MOST:
            target, among = waiting.pop()
            for other, referring in self.references.items():
                for columns, referred in referring.items():
                    if referred != target:
                        continue
                    condition = " AND ".join(f"{name} = ?" for name in columns)
                    listed = ", ".join(self.keys[other])
                    more = [
                        row
                        for key in among
                        for row in self.connection.execute(
                            f"SELECT {listed} FROM {other} WHERE {condition} LIMIT {MOST + 1}", key
                        ).fetchall()
                    ]
                    new = [row for row in dict.fromkeys(more) if row not in found.get(other, ())]
                    if new:
                        found.setdefault(other, []).extend(new)
                        waiting.append((other, new))
        return found

    def _update(self, table: str, key: tuple[Any, ...]) -> None:
        """Gives a row some values of another."""
        paired = {name for columns in self.references.get(table, {}) if len(columns) > 1 for name in columns}
        free = [name for name in self.columns[table] if name not in self.keys[table] and name not in paired]
        others = self._some_keys(table, 1)
        if not free or not others:
            return
        for name in self.chance.sample(free, min(2, len(free))):
            value = f"(SELECT {name} FROM {table} WHERE {self._where(table)})"
            self.connection.execute(
                f"UPDATE {table} SET {name} = {value} WHERE {self._where(table)}", [*others[0], *key]
            )

    # ---- witnesses

    def insert_witnesses(self, queries: tuple[Query, ...], rounds: int) -> None:
        for query in queries:
            parsed = sqlglot.parse_one(query.text, dialect="spark")
            for _ in range(rounds):
                self._witness(parsed, self.chance.randrange(10**9))

    def _witness(self, query: exp.Expr, salt: int) -> None:
        placed: dict[int, Placed] = {}
        chance = random.Random(salt)
        for select in query.find_all(exp.Select):
            if select.find_ancestor(exp.Not) and chance.random() < 0.7:
                continue  # would hide the witnesses of the query around it
            scope = Placed({a: t for a, t in _sources(select) if t in self.columns})
            placed[id(select)] = scope
            self._place(select, scope, placed, salt, chance)

    def _place(
        self, select: exp.Select, scope: Placed, placed: dict[int, Placed], salt: int, chance: random.Random
    ) -> None:
        around = [scope]
        outer = select.parent_select
        while outer is not None:
            around += [placed[id(outer)]] if id(outer) in placed else []
            outer = outer.parent_select
        parts = [part for condition in _conditions(select) for part in _conjuncts(condition, chance)]
        equal: list[tuple[tuple[Placed, str, str], tuple[Placed, str, str]]] = []
        alone: dict[str, list[exp.Expr]] = {}
        for part in parts:
            found = [self._resolve(column, around) for column in part.find_all(exp.Column)]
            if part.find(exp.Select) or any(one is None for one in found) or not found:
                continue
            if (
                isinstance(part, exp.EQ)
                and isinstance(part.this, exp.Column)
                and isinstance(part.expression, exp.Column)
            ):
                equal.append((found[0], found[1]))  # type: ignore[arg-type]
            elif len({(id(one[0]), one[1]) for one in found if one}) == 1 and found[0] and found[0][0] is scope:
                alone.setdefault(found[0][1], []).append(part)
        if isinstance(select.parent, exp.In | exp.Subquery):
            tested = select.find_ancestor(exp.In)
            first = select.expressions[0].unalias() if select.expressions else None
            if tested is not None and isinstance(tested.this, exp.Column) and isinstance(first, exp.Column):
                a, b = self._resolve(first, around), self._resolve(tested.this, around[1:])
                if a and b:
                    equal.append((a, b))
        order = list(self.tables)
        ranks = {table: place for place, table in enumerate(_referenced_first(order, self.references))}
        for alias in sorted(scope.tables, key=lambda alias: ranks[scope.tables[alias]]):
            given = _given(equal, scope, alias)
            row = self._row(scope.tables[alias], alone.get(alias, []), given, salt)
            if row is None:
                return
            scope.rows[alias] = row

    def _resolve(self, column: exp.Column, around: list[Placed]) -> tuple[Placed, str, str] | None:
        for scope in around:
            for alias, table in scope.tables.items():
                if column.name.lower() in self.columns[table] and column.table.lower() in ("", alias):
                    return scope, alias, column.name.lower()
            if column.table.lower() in scope.tables:
                return None
        return None

    def _row(self, table: str, conditions: list[exp.Expr], given: Row, salt: int) -> Row | None:
        """A row of a table with the given values: one that is there, or a new one."""
        key = self.keys[table]
        if all(name in given for name in key):
            there = self._first(table, " AND ".join(f"{name} = ?" for name in key), [given[name] for name in key], salt)
            if there is not None or table in CALENDAR:
                return there
        where = " AND ".join(_bare(condition) for condition in conditions) or "true"
        try:
            model = self._first(table, where, [], salt)
            if model is not None and not given:
                return model
            if table in CALENDAR:
                return model
            if model is None:
                model = self._invented(table, conditions, where, salt) or self._first(table, "true", [], salt)
        except duckdb.Error:  # a condition that DuckDB spells in another way
            model = self._first(table, "true", [], salt)
        if model is None:
            return None
        row = model | given
        fresh = [name for name in key if name not in given]
        fixed = [columns for columns in self.references.get(table, {}) for name in columns if name in key]
        for name in fresh:
            if any(name in columns and len(columns) == 1 for columns in fixed):
                continue
            if table == "lineitem" and name == "l_orderkey":
                continue
            top = self.connection.execute(f"SELECT max({name}) FROM {table}").fetchone()
            row[name] = top[0] + 1 if top and top[0] is not None else 1
        same = [row[name] for name in key]
        there = self._first(table, " AND ".join(f"{name} = ?" for name in key), same, salt)
        if there is not None:
            return there
        if not self._refers(table, row, salt):
            return None
        marks = ", ".join("?" for _ in row)
        self.connection.execute(f"INSERT INTO {table} VALUES ({marks})", list(row.values()))
        self.witnesses.append((table, tuple(row[name] for name in key)))
        return row

    def _refers(self, table: str, row: Row, salt: int) -> bool:
        """Whether the rows that a new row refers to are there, or can be made."""
        for columns, target in self.references.get(table, {}).items():
            given = dict(zip(self.keys[target], (row[name] for name in columns), strict=True))
            if None not in given.values() and self._row(target, [], given, salt) is None:
                return False
        return True

    def _first(self, table: str, where: str, values: list[Any], salt: int) -> Row | None:
        key = ", ".join(self.keys[table])
        found = self.connection.execute(
            f"SELECT * FROM {table} WHERE {where} ORDER BY hash({key}, {salt}) LIMIT 1", values
        ).fetchone()
        return None if found is None else dict(zip(self.columns[table], found, strict=True))

    def _invented(self, table: str, conditions: list[exp.Expr], where: str, salt: int) -> Row | None:
        """A row with values that the conditions name, tried at random."""
        choices: dict[str, list[str]] = {}
        for condition in conditions:
            for column in condition.find_all(exp.Column):
                choices.setdefault(column.name.lower(), []).extend(_constants(condition))
        replaced = []
        for name, constants in choices.items():
            kind = self.columns[table][name]
            spelled = [f"TRY_CAST({text} AS {kind})" for text in constants]
            if kind not in ("VARCHAR",):
                spelled += [f"{text} {shift}" for text in spelled for shift in ("+ 1", "- 1")]
            spelled = [f"TRY_CAST({text} AS {kind})" for text in (*spelled, "NULL", name)]
            replaced.append(f"[{', '.join(spelled)}][1 + (hash(i, '{name}', {salt}) % {len(spelled)})::INT] AS {name}")
        columns = ", ".join(self.columns[table])
        found = self.connection.execute(
            f"SELECT {columns} FROM (SELECT * REPLACE ({', '.join(replaced)}) FROM {table}, range(2000) r (i)"
            f" WHERE ({', '.join(self.keys[table])}) IN (SELECT ({', '.join(self.keys[table])}) FROM {table}"
            f" ORDER BY hash({', '.join(self.keys[table])}, {salt}) LIMIT 1)) WHERE {where} LIMIT 1"
        ).fetchone()
        return None if found is None else dict(zip(self.columns[table], found, strict=True))


def _sources(select: exp.Select) -> Iterator[tuple[str, str]]:
    first = select.args.get("from_") or select.args.get("from")
    joined = [join.this for join in select.args.get("joins") or []]
    for source in [*([first.this] if first else []), *joined]:
        if isinstance(source, exp.Table):
            yield source.alias_or_name.lower(), source.name.lower()


def _conditions(select: exp.Select) -> Iterator[exp.Expr]:
    where = select.args.get("where")
    if where is not None:
        yield where.this
    for join in select.args.get("joins") or []:
        if join.args.get("on") is not None:
            yield join.args["on"]


def _conjuncts(condition: exp.Expr, chance: random.Random) -> Iterator[exp.Expr]:
    """What must hold for the condition to hold; of an OR, one side."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from _conjuncts(condition.this, chance)
        yield from _conjuncts(condition.expression, chance)
    elif isinstance(condition, exp.Or):
        yield from _conjuncts(chance.choice(list(condition.flatten())), chance)
    else:
        yield condition


def _given(equal: list[tuple[tuple[Placed, str, str], tuple[Placed, str, str]]], scope: Placed, alias: str) -> Row:
    """The values that the rows placed so far ask of the columns of one more."""
    values: dict[tuple[int, str, str], Any] = {}
    changed = True
    while changed:
        changed = False
        for pair in equal:
            for one, other in (pair, pair[::-1]):
                place = (id(one[0]), one[1], one[2])
                if place in values:
                    continue
                if one[1] in one[0].rows:
                    values[place] = one[0].rows[one[1]][one[2]]
                    changed = True
                elif (id(other[0]), other[1], other[2]) in values:
                    values[place] = values[id(other[0]), other[1], other[2]]
                    changed = True
    return {
        name: value
        for (at, one, name), value in values.items()
        if at == id(scope) and one == alias and value is not None
    }


def _bare(condition: exp.Expr) -> str:
    """The condition in DuckDB's SQL, without the tables of its columns."""

    def unqualified(node: exp.Expr) -> exp.Expr:
        return exp.column(node.name) if isinstance(node, exp.Column) else node

    return f"({condition.transform(unqualified).sql(dialect='duckdb')})"


def _constants(condition: exp.Expr) -> list[str]:
    """The largest parts of a condition that name no column."""
    found = []

    def visit(node: exp.Expr) -> None:
        if isinstance(node, exp.DataType | exp.Column | exp.Interval):
            return
        if isinstance(node, exp.Expr) and not isinstance(node, exp.Condition) and not node.find(exp.Column):
            return
        if not node.find(exp.Column) and node.find(exp.Literal):
            text = node.sql(dialect="duckdb")
            found.append(text.replace("%", "") if isinstance(node.parent, exp.Like) else text)
            return
        for child in node.iter_expressions():
            visit(child)

    visit(condition)
    return found


def _referenced_first(tables: list[str], references: dict[str, dict[tuple[str, ...], str]]) -> list[str]:
    ordered: dict[str, None] = {}

    def visit(table: str, path: tuple[str, ...]) -> None:
        if table in ordered or table in path:
            return
        for target in references.get(table, {}).values():
            visit(target, (*path, table))
        ordered[table] = None

    for table in tables:
        visit(table, ())
    return list(ordered)
