"""Real PostgreSQL servers: what `source install` makes of one, and views maintained over three of them."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from deltafold.compiler.pipeline import compile_text
from deltafold.sources.install import install_sql, remove_sql
from deltafold.sources.maintainer import Maintainer, Patience, SourceError, Unavailable
from deltafold.sources.messages import Apply
from deltafold.sources.versions import VersionNumbers
from servers import Server, binaries, server_folder
from stress_sources import VIEWS, connected, load, stress, three_servers

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed: apt-get install postgresql"),
]
PLAN = compile_text(VIEWS)


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    with server_folder() as folder, three_servers(folder) as running:
        yield running


@pytest.fixture
def shop(servers: dict[str, Server]) -> Iterator[Server]:
    """One server, its tables empty and its versions at 0."""
    source = next(s for s in PLAN.catalog.sources if s.name == "shop")
    servers["shop"].run(remove_sql(source, PLAN.catalog))
    servers["shop"].run("TRUNCATE lines, orders")
    servers["shop"].run(install_sql(source, PLAN.catalog))
    return servers["shop"]


def numbers(server: Server) -> list[tuple[str, int, int]]:
    with psycopg.connect(server.url) as connection:
        statement = "SELECT relation, version, relation_version FROM deltafold.touched ORDER BY version, relation"
        return connection.execute(statement).fetchall()


def require_dense(found: list[tuple[str, int, int]]) -> None:
    versions = sorted({version for _, version, _ in found})
    assert versions == list(range(1, len(versions) + 1))
    for table in ("lines", "orders"):
        own = [n for relation, _, n in found if relation == table]
        assert own == list(range(1, len(own) + 1)), f"{table}: counted in the order of commits"


def test_several_tables_in_one_transaction_have_one_version(shop: Server) -> None:
    shop.run("INSERT INTO orders VALUES (1, 1, '2024-01-02 03:04:05.25')")
    shop.run("BEGIN; INSERT INTO orders VALUES (2, 1, NULL); INSERT INTO lines VALUES (1, 2, 7, 3); COMMIT")
    shop.run("BEGIN; INSERT INTO orders VALUES (9, 1, NULL); ROLLBACK")
    shop.run("UPDATE lines SET qty = 4 WHERE id = 1")
    assert numbers(shop) == [("orders", 1, 1), ("lines", 2, 1), ("orders", 2, 2), ("lines", 3, 2)]
    source = connected(PLAN, {s.name: shop.url for s in PLAN.catalog.sources})["shop"]
    first, second, third = source.updates(0)
    source.close()
    assert set(second.changes) == {"orders", "lines"} and second.version == 2
    assert dict(third.changes["lines"].rows) == {(1, 2, 7, 3): -1, (1, 2, 7, 4): 1}
    ((placed,),) = [row[2:] for row in first.changes["orders"].rows]
    assert placed.isoformat() == "2024-01-02T03:04:05.250000"


def test_a_number_that_was_rolled_back_is_taken_again(shop: Server) -> None:
    shop.run("INSERT INTO orders VALUES (1, 1, NULL)")
    with psycopg.connect(shop.url) as connection, pytest.raises(psycopg.errors.ForeignKeyViolation):
        connection.execute("SET CONSTRAINTS ALL DEFERRED")
        connection.execute("INSERT INTO orders VALUES (2, 1, NULL)")
        connection.execute("SET CONSTRAINTS deltafold.number IMMEDIATE")  # takes a number, long before the commit
        connection.execute("INSERT INTO lines VALUES (1, 77, 7, 3)")  # no such order: the commit fails
        connection.commit()
    shop.run("BEGIN; INSERT INTO lines VALUES (1, 1, 7, 3); COMMIT")
    shop.run("INSERT INTO orders VALUES (3, 1, NULL)")
    assert numbers(shop) == [("orders", 1, 1), ("lines", 2, 1), ("orders", 3, 2)]


def test_truncate_is_a_deletion_of_every_row(shop: Server) -> None:
    shop.run("INSERT INTO orders VALUES (1, 1, NULL), (2, 1, NULL)")
    shop.run("TRUNCATE lines, orders")
    source = connected(PLAN, {s.name: shop.url for s in PLAN.catalog.sources})["shop"]
    last = source.updates(0)[-1]
    source.close()
    assert dict(last.changes["orders"].rows) == {(1, 1, None): -1, (2, 1, None): -1}


def test_versions_follow_commits_at_every_isolation_level_and_over_a_crash(shop: Server) -> None:
    failures: list[str] = []

    def write(number: int, level: psycopg.IsolationLevel, seconds: float) -> None:
        rng = random.Random(number)
        end = time.monotonic() + seconds
        try:
            with psycopg.connect(shop.url) as connection:
                connection.isolation_level = level
                while time.monotonic() < end:
                    with connection.transaction() as transaction:
                        order = 1000 * number + rng.randrange(50)
                        connection.execute("INSERT INTO orders VALUES (%s, 1, NULL) ON CONFLICT DO NOTHING", [order])
                        if rng.random() < 0.5:
                            statement = "INSERT INTO lines VALUES (%s, %s, 1, 1) ON CONFLICT (id) DO UPDATE SET qty = 2"
                            connection.execute(statement, [order, order])
                        if rng.random() < 0.2:
                            raise psycopg.Rollback(transaction)
        except psycopg.errors.SerializationFailure as error:
            failures.append(str(error))
        except (psycopg.Error, psycopg.Rollback):
            pass  # the crash

    def round_of_writers(seconds: float) -> list[threading.Thread]:
        levels = [psycopg.IsolationLevel(level) for level in (2, 3, 4)]
        threads = [threading.Thread(target=write, args=(n, level, seconds)) for n, level in enumerate(levels)]
        for thread in threads:
            thread.start()
        return threads

    for thread in round_of_writers(1.0):
        thread.join()
    require_dense(numbers(shop))
    assert not failures, "writers do not get in each other's way"
    cut_off = round_of_writers(5.0)
    time.sleep(0.5)
    shop.stop(signal.SIGQUIT)
    for thread in cut_off:
        thread.join()
    shop.start()
    for thread in round_of_writers(0.5):
        thread.join()
    require_dense(numbers(shop))


@pytest.mark.parametrize(("algorithm", "seconds"), [("version-numbers", 6.0), ("nested-sweep", 3.0)])
def test_a_view_is_maintained_while_writers_commit_at_full_speed(
    servers: dict[str, Server], algorithm: str, seconds: float
) -> None:
    outcome = stress(servers, seconds, algorithm)
    assert sum(outcome.committed.values()) > 100 and outcome.checked == outcome.applied > 1


def test_a_source_that_stays_down_ends_the_run_and_the_next_one_catches_up(servers: dict[str, Server]) -> None:
    core = PLAN.cores[0].core
    urls = {name: server.url for name, server in servers.items()}
    sources = connected(PLAN, urls)
    rows, versions, relations = load(core, sources)
    machine = VersionNumbers(core, rows, versions, relations)
    applied: list[Apply] = []
    maintainer = Maintainer(machine, sources, applied.append, patience=Patience(first=0.05, in_all=0.3))
    servers["stock"].stop()
    servers["crm"].run("INSERT INTO customers VALUES (501, 'x', NULL)")
    maintainer.start()
    with pytest.raises(Unavailable, match="stock"):
        maintainer.run(lambda: False)
    health = maintainer.status()["stock"]
    maintainer.stop()
    assert health["state"] == "down" and health["error"]
    servers["stock"].start()
    servers["stock"].run("INSERT INTO products VALUES (501, 'x', 1)")
    again = Maintainer(
        VersionNumbers(core, machine.view.rows, machine.versions, machine.refreshed),
        connected(PLAN, urls),
        applied.append,
    )
    again.start()
    target = {name: source.version() for name, source in connected(PLAN, urls).items()}
    deadline = time.monotonic() + 20
    again.run(lambda: again.reached(target) or time.monotonic() > deadline)
    again.stop()
    assert again.machine.versions == target
    assert again.machine.view.rows == load(core, connected(PLAN, urls))[0]


def test_a_log_that_was_forgotten_is_not_skipped(shop: Server) -> None:
    for i in range(1, 4):
        shop.run(f"INSERT INTO orders VALUES ({i}, 1, NULL)")
    shop.run("SELECT deltafold.forget(2)")
    source = connected(PLAN, {s.name: shop.url for s in PLAN.catalog.sources})["shop"]
    assert [update.version for update in source.updates(2)] == [3]
    with pytest.raises(SourceError, match="forgotten"):
        source.updates(1)
    source.close()
    shop.run("INSERT INTO orders VALUES (4, 1, NULL)")
    assert numbers(shop)[-1] == ("orders", 4, 4)


def test_a_server_without_triggers_is_named(servers: dict[str, Server]) -> None:
    source = next(s for s in PLAN.catalog.sources if s.name == "crm")
    servers["crm"].run(remove_sql(source, PLAN.catalog))
    reached = connected(PLAN, {s.name: servers["crm"].url for s in PLAN.catalog.sources})["crm"]
    with pytest.raises(SourceError, match="source install"):
        reached.version()
    reached.close()
    servers["crm"].run(install_sql(source, PLAN.catalog))
