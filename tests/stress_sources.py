"""Three PostgreSQL servers, writers at full speed, one server killed and restarted, the view maintained all the while.

    python tests/stress_sources.py [SECONDS] [version-numbers|strong|convergent|sweep|nested-sweep]

At the end every state that the core went through is compared with the join of the tables as the servers' own logs
say that they were at the versions the core claimed.
"""

from __future__ import annotations

import contextlib
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
from deltafold.compiler.joingraph import Core
from deltafold.compiler.pipeline import compile_text
from deltafold.compiler.plan import Plan
from deltafold.sources.bag import Bag, add
from deltafold.sources.install import install_sql
from deltafold.sources.joining import Joiner
from deltafold.sources.maintainer import Machine, Maintainer, Patience
from deltafold.sources.messages import Apply, Update
from deltafold.sources.nested import NestedSweep
from deltafold.sources.postgres import Postgres
from deltafold.sources.versions import Consistency, Sweep, VersionNumbers
from servers import Server, server_folder

VIEWS = """
CREATE TABLE customers (id INT NOT NULL PRIMARY KEY, region STRING, since DATE);
CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, customer INT, placed TIMESTAMP);
CREATE TABLE lines (id INT NOT NULL PRIMARY KEY, orderID INT REFERENCES orders, product INT, qty INT);
CREATE TABLE products (id INT NOT NULL PRIMARY KEY, name STRING, price DECIMAL(10,2));
CREATE SOURCE crm TYPE postgres OPTIONS (url '${CRM_URL}') TABLES (customers);
CREATE SOURCE shop TYPE postgres OPTIONS (url '${SHOP_URL}') TABLES (orders, lines);
CREATE SOURCE stock TYPE postgres OPTIONS (url '${STOCK_URL}') TABLES (products);
CREATE VIEW sales AS
SELECT region, customers.id AS customer, product, placed, qty, price
FROM customers JOIN orders ON customer = customers.id
  JOIN lines ON orderID = orders.id JOIN products ON product = products.id
WHERE qty > 0;
"""
TABLES = {
    "crm": "CREATE TABLE customers (id int PRIMARY KEY, region text, since date)",
    "shop": """CREATE TABLE orders (id int PRIMARY KEY, customer int, placed timestamp);
               CREATE TABLE lines (id int PRIMARY KEY, orderID int REFERENCES orders DEFERRABLE, product int, qty int);
               CREATE INDEX ON orders (customer); CREATE INDEX ON lines (orderID); CREATE INDEX ON lines (product)""",
    "stock": "CREATE TABLE products (id int PRIMARY KEY, name text, price numeric(10,2))",
}
ALGORITHMS: dict[str, Callable[..., Machine]] = {
    "version-numbers": VersionNumbers,
    "strong": lambda *start: VersionNumbers(*start, consistency=Consistency.STRONG),
    "convergent": lambda *start: VersionNumbers(*start, consistency=Consistency.CONVERGENT),
    "sweep": lambda *start: Sweep(*start, in_flight=8),
    "nested-sweep": NestedSweep,
}
IDS = 30


def _write(source: str, run: Callable[[str, list[Any]], Any], rng: random.Random) -> None:
    """One transaction."""
    some = rng.randrange(IDS)
    match source:
        case "crm":
            region = rng.choice(["north", "süd", "o'east", None])
            day = f"2024-01-{rng.randint(1, 28)}"
            if rng.random() < 0.3:
                run("DELETE FROM customers WHERE id = %s", [some])
            else:
                statement = (
                    "INSERT INTO customers VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET region = excluded.region"
                )
                run(statement, [some, region, day])
        case "stock":
            price = Decimal(rng.randrange(10000)) / 100
            if rng.random() < 0.3:
                run("DELETE FROM products WHERE id = %s", [some])
            else:
                statement = (
                    "INSERT INTO products VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET price = excluded.price"
                )
                run(statement, [some, f"p{some}", price])
        case _:
            chance = rng.random()
            if chance < 0.3:
                run("DELETE FROM lines WHERE orderID = %s", [some])
                run("DELETE FROM orders WHERE id = %s", [some])
            elif chance < 0.6:
                placed = f"2024-01-02 03:04:{rng.randrange(60):02}.25"
                statement = (
                    "INSERT INTO orders VALUES (%s, %s, %s) ON CONFLICT (id) DO UPDATE SET customer = excluded.customer"
                )
                run(statement, [some, rng.randrange(IDS), placed])
                run(
                    "INSERT INTO lines VALUES (%s, %s, %s, 1) ON CONFLICT DO NOTHING",
                    [rng.randrange(4 * IDS), some, some],
                )
            else:
                run("UPDATE lines SET qty = qty + %s WHERE product = %s", [rng.choice((-1, 0, 1)), some])


def writer(source: str, url: str, seed: int, until: threading.Event, done: list[int]) -> None:
    """Commits as fast as it can, rolls some back, reconnects when the server goes away."""
    rng = random.Random(seed)
    while not until.is_set():
        try:
            with psycopg.connect(url, connect_timeout=2) as connection:
                connection.isolation_level = psycopg.IsolationLevel(rng.choice((2, 2, 3)))
                while not until.is_set():
                    try:
                        with connection.transaction() as transaction:
                            for _ in range(rng.choice((1, 1, 3))):
                                _write(source, connection.execute, rng)
                            if rng.random() < 0.05:
                                raise psycopg.Rollback(transaction)
                        done[0] += 1
                    except (
                        psycopg.errors.IntegrityError,
                        psycopg.errors.SerializationFailure,
                        psycopg.errors.DeadlockDetected,
                    ):
                        continue
        except (psycopg.Error, psycopg.Rollback):
            time.sleep(0.05)


def connected(plan: Plan, urls: dict[str, str]) -> dict[str, Postgres]:
    """The sources of a plan, at these addresses."""
    made = {}
    for source in plan.catalog.sources:
        options = (*((k, v) for k, v in source.options if k != "url"), ("url", urls[source.name]))
        made[source.name] = Postgres(replace(source, options=options), plan.catalog)
    return made


def load(core: Core, sources: dict[str, Postgres]) -> tuple[Bag, dict[str, int], dict[str, int]]:
    """The core from nothing, and the versions it is at."""
    rows: dict[str, Bag] = {}
    versions, relations = {}, {}
    for name, source in sources.items():
        nodes = [node for node in core.nodes if node.source == name]
        versions[name], tables, found = source.snapshot(nodes)
        rows |= found
        relations |= {node.name: tables[node.table] for node in nodes}
    return Joiner(core).whole(rows), versions, relations


@dataclass
class Outcome:
    committed: dict[str, int]
    applied: int
    checked: int
    queries: int


@contextlib.contextmanager
def three_servers(folder: Path) -> Iterator[dict[str, Server]]:
    """Servers with empty tables and triggers installed."""
    plan = compile_text(VIEWS)
    first, *others = TABLES
    servers = {first: Server(folder / first)}
    servers |= {name: Server(folder / name, copied_from=servers[first]) for name in others}
    try:
        for name, server in servers.items():
            server.start()
            server.run(TABLES[name])
            source = next(s for s in plan.catalog.sources if s.name == name)
            server.run(install_sql(source, plan.catalog))
        yield servers
    finally:
        for server in servers.values():
            server.stop()


def stress(servers: dict[str, Server], seconds: float, algorithm: str, kill: bool = True) -> Outcome:
    """Writes and maintains at once; raises AssertionError where a state is not one of the sources'."""
    plan = compile_text(VIEWS)
    core = plan.cores[0].core
    urls = {name: server.url for name, server in servers.items()}
    sources = connected(plan, urls)
    rows, versions, relations = load(core, sources)
    for source in sources.values():
        source.close()
    machine = ALGORITHMS[algorithm](core, rows, versions, relations)
    applied: list[Apply] = []
    maintainer = Maintainer(machine, sources, applied.append, patience=Patience(in_all=60))
    until = threading.Event()
    done: list[list[int]] = []
    writers = []
    for number, name in enumerate([*TABLES, *TABLES]):
        done.append([0])
        writers.append(threading.Thread(target=writer, args=(name, urls[name], number, until, done[-1]), daemon=True))
    maintainer.start()
    for thread in writers:
        thread.start()
    try:
        began = time.monotonic()
        maintainer.run(lambda: time.monotonic() > began + seconds / 2)
        if kill:
            servers["shop"].stop(signal.SIGQUIT)
            killed = time.monotonic()
            maintainer.run(lambda: time.monotonic() > killed + 0.7)
            assert maintainer.status()["shop"]["state"] == "down"
            servers["shop"].start()
        maintainer.run(lambda: time.monotonic() > began + seconds)
        until.set()
        for thread in writers:
            thread.join(10)
        final = {}
        for name, source in connected(plan, urls).items():
            final[name] = source.version()
            source.close()
        deadline = time.monotonic() + 120 + 10 * seconds
        maintainer.run(lambda: maintainer.reached(final) or time.monotonic() > deadline)
        assert machine.versions == final, f"every transaction arrives: {machine.versions} of {final}"
    finally:
        until.set()
        maintainer.stop()
    checked = check(plan, core, connected(plan, urls), rows, versions, applied, exactly=algorithm != "convergent")
    return Outcome(final, len(applied), checked, machine.queries_sent)


def check(
    plan: Plan,
    core: Core,
    sources: dict[str, Postgres],
    start: Bag,
    versions: dict[str, int],
    applied: list[Apply],
    exactly: bool,
) -> int:
    """Replays the servers' logs beside the applied changes; gives the number of states compared."""
    joiner = Joiner(core)
    log: dict[str, list[Update]] = {}
    for name, source in sources.items():
        log[name] = []
        while more := source.updates(len(log[name])):
            log[name] += more
        assert [update.version for update in log[name]] == list(range(1, len(log[name]) + 1)), "no gaps in a log"
        source.close()
    tables: dict[str, Bag] = {node.name: {} for node in core.nodes}
    at = dict.fromkeys(versions, 0)

    def move(to: dict[str, int]) -> bool:
        moved = False
        for name, version in to.items():
            for update in log[name][at[name] : version]:
                for node in core.nodes:
                    change = update.changes.get(node.table)
                    if change is not None:
                        moved = True
                        add(tables[node.name], joiner.changed(node, change))
            at[name] = max(at[name], version)
        return moved

    move(versions)
    state = dict(start)
    assert state == joiner.whole(tables), "the first load"
    checked = 0
    for change in applied:
        add(state, change.rows)
        moved = move(dict(change.versions))
        if exactly or change is applied[-1]:
            assert not change.rows or moved
            assert state == joiner.whole(tables), change.versions
            checked += 1
    return checked


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    algorithm = sys.argv[2] if len(sys.argv) > 2 else "version-numbers"
    with server_folder() as folder, three_servers(folder) as servers:
        outcome = stress(servers, seconds, algorithm)
    committed = sum(outcome.committed.values())
    print(
        f"{algorithm}: {committed} transactions {outcome.committed} in {seconds:.0f} s, a server killed and restarted;"
        f" {outcome.applied} changes of the core, {outcome.checked} states compared, all equal;"
        f" {outcome.queries / max(committed, 1):.2f} sub-queries a transaction"
    )


if __name__ == "__main__":
    main()
