"""From PostgreSQL servers to stored views: `source run` keeps a warehouse, and may be stopped anywhere."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltafold.codegen.emit import emit, write
from deltafold.codegen.warehouse import read_view, status
from deltafold.compiler.pipeline import compile_text
from deltafold.runner import Scripts, load_scripts
from deltafold.sources.coretable import CoreTable
from deltafold.sources.install import install_sql
from deltafold.sources.maintainer import Patience
from deltafold.sources.messages import Apply
from deltafold.sources.running import loaded, run, sources_of
from deltafold.sources.status import description_of, status_of
from servers import Server, binaries, server_folder

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed: apt-get install postgresql"),
]

VIEWS = """
CREATE TABLE customers (id INT NOT NULL PRIMARY KEY, region STRING, since DATE);
CREATE TABLE orders (id INT NOT NULL PRIMARY KEY, customer INT, amount DECIMAL(10,2), placed TIMESTAMP);
CREATE SOURCE crm TYPE postgres OPTIONS (url '${TEST_CRM_URL}') TABLES (customers);
CREATE SOURCE shop TYPE postgres OPTIONS (url '${TEST_SHOP_URL}') TABLES (orders);

CREATE VIEW revenue AS
SELECT region, COUNT(*) AS n, SUM(amount) AS total, MAX(amount * 2) AS most
FROM orders JOIN customers ON customer = customers.id GROUP BY region;

-- deltafold: consistency = strong
CREATE VIEW recent AS
SELECT orders.id, region, amount + 1 AS more, placed, since
FROM orders JOIN customers ON customer = customers.id WHERE amount > 10;

CREATE VIEW regions AS SELECT n, COUNT(*) AS regions FROM revenue GROUP BY n;
"""
TABLES = {
    "crm": "CREATE TABLE customers (id int PRIMARY KEY, region text, since date)",
    "shop": "CREATE TABLE orders (id int PRIMARY KEY, customer int, amount numeric(10,2), placed timestamptz)",
}


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    with server_folder() as folder:
        yield from started(folder)


def started(folder: Path) -> Iterator[dict[str, Server]]:
    plan = compile_text(VIEWS)
    crm = Server(folder / "crm")
    running = {"crm": crm, "shop": Server(folder / "shop", copied_from=crm)}
    try:
        for source in plan.catalog.sources:
            server = running[source.name]
            server.start()
            server.run(TABLES[source.name])
            server.run(install_sql(source, plan.catalog))
            os.environ[f"TEST_{source.name.upper()}_URL"] = server.url
        yield running
    finally:
        for server in running.values():
            server.stop()


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    write(emit(compile_text(VIEWS), "parquet"), tmp_path / "compiled")
    return tmp_path / "compiled"


def transactions(servers: dict[str, Server], rng: random.Random, count: int) -> None:
    for _ in range(count):
        some = rng.randrange(8)
        if rng.random() < 0.5:
            region = rng.choice(("'north'", "'süd, \"x\"'", "NULL"))
            servers["crm"].run(
                f"INSERT INTO customers VALUES ({some}, {region}, '2024-02-29') "
                "ON CONFLICT (id) DO UPDATE SET region = excluded.region"
            )
        elif rng.random() < 0.2:
            servers["shop"].run(f"DELETE FROM orders WHERE id = {some}")
        else:
            servers["shop"].run(
                f"INSERT INTO orders VALUES ({some}, {rng.randrange(8)}, {rng.randrange(3000) / 100}, "
                f"'2024-03-31 01:30:00.5+{rng.randrange(3):02}') "
                "ON CONFLICT (id) DO UPDATE SET amount = excluded.amount"
            )


def expected(compiled: Path, spark: SparkSession) -> dict[str, Counter[tuple[Any, ...]]]:
    """The views from the sources as they are, without deltafold's own query."""
    description = description_of(compiled)
    (revenue, recent) = description.cores
    rows, _, _ = loaded(recent.core, sources_of(recent.core, description, spark))
    names = [output.name for output in recent.core.outputs]
    found: Counter[tuple[Any, ...]] = Counter()
    for row, count in rows.items():
        r = dict(zip(names, row, strict=True))
        found[r["id"], r["region"], r["amount"] + 1, r["placed"].isoformat(), r["since"]] += count
    groups: dict[Any, list[Decimal]] = {}
    rows, _, _ = loaded(revenue.core, sources_of(revenue.core, description, spark))
    names = [output.name for output in revenue.core.outputs]
    for row, count in rows.items():
        r = dict(zip(names, row, strict=True))
        groups.setdefault(r["region"], []).extend([r["amount"]] * count)
    totals = Counter((region, len(a), sum(a), max(a) * 2) for region, a in groups.items())
    sizes = Counter(Counter(len(amounts) for amounts in groups.values()).items())
    return {"recent": found, "revenue": totals, "regions": sizes}


def stored(spark: SparkSession, warehouse: Path) -> dict[str, Counter[tuple[Any, ...]]]:
    recent = read_view(spark, str(warehouse), "recent")
    recent = recent.selectExpr("id", "region", "more", "date_format(placed, \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\")", "since")
    others = {name: read_view(spark, str(warehouse), name) for name in ("revenue", "regions")}
    return {name: Counter(map(tuple, df.collect())) for name, df in {"recent": recent, **others}.items()}


def catch_up(spark: SparkSession, scripts: Scripts, compiled: Path, warehouse: Path, **options: Any) -> dict[str, Any]:
    description = description_of(compiled)
    return run(spark, scripts, description, str(warehouse), None, Patience(in_all=20), lambda _: None, **options)


def test_views_follow_their_sources(
    spark: SparkSession, servers: dict[str, Server], compiled: Path, tmp_path: Path
) -> None:
    scripts, warehouse, rng = load_scripts(compiled), tmp_path / "w", random.Random(7)
    transactions(servers, rng, 12)
    catch_up(spark, scripts, compiled, warehouse)
    assert stored(spark, warehouse) == expected(compiled, spark)
    assert sum(expected(compiled, spark)["recent"].values()) > 0

    transactions(servers, rng, 3)
    reached = catch_up(spark, scripts, compiled, warehouse)
    assert stored(spark, warehouse) == expected(compiled, spark)
    told = status_of(compiled, str(warehouse))
    assert told is not None
    assert told["cores"]["core_revenue"]["reflects"] == reached["core_revenue"]
    assert told["cores"]["core_recent"]["sources"]["crm"]["state"] == "up"
    assert not status(str(warehouse))["staged"]

    # Stopped between writing a batch and applying it: the next run applies it first, and once.
    servers["shop"].run("UPDATE orders SET amount = amount + 1")
    table = CoreTable(spark, scripts, str(warehouse), description_of(compiled).cores[0])
    before = table.position
    assert before is not None
    sources = sources_of(table.view.core, description_of(compiled), spark)
    fresh, versions, refreshed = loaded(table.view.core, sources)
    old = table.rows()
    change = {row: n for row in {*fresh, *old} if (n := fresh.get(row, 0) - old.get(row, 0))}
    table.scripts = Scripts("parquet", scripts.initialize, _killed, scripts.refresh)
    with pytest.raises(KeyboardInterrupt):
        table.apply(Apply(change, versions, refreshed))
    catch_up(spark, scripts, compiled, warehouse)
    assert stored(spark, warehouse) == expected(compiled, spark)

    # Read whole again: the difference is a batch like any other.
    transactions(servers, rng, 8)
    catch_up(spark, scripts, compiled, warehouse, reload=True)
    assert stored(spark, warehouse) == expected(compiled, spark)


def _killed(*_: object) -> dict[str, Any]:
    raise KeyboardInterrupt


def test_the_command_line(servers: dict[str, Server], tmp_path: Path) -> None:
    file = tmp_path / "views.sql"
    file.write_text(VIEWS, encoding="utf-8")

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "deltafold.cli", *arguments]
        return subprocess.run(line, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=300)

    printed = command("source", "install", "views.sql", "crm", "--apply")
    assert printed.returncode == 0, printed.stderr
    assert "CREATE OR REPLACE TRIGGER deltafold_log" in printed.stdout and '"orders"' not in printed.stdout
    assert command("source", "install", "views.sql", "nowhere").returncode == 2
    assert command("verify", "views.sql").returncode == 2
    assert command("compile", "views.sql", "-o", "out").returncode == 0
    done = command("source", "run", "out", "-w", "w", "--once")
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == {"core_revenue", "core_recent"}
    report = json.loads(command("status", "out", "-w", "w", "--format", "json").stdout)
    assert report["sources"]["cores"]["core_recent"]["consistency"] == "strong"

    assert "core_recent (recent; strong): reflects crm" in command("status", "out", "-w", "w").stdout

    servers["crm"].stop()
    down = command("source", "run", "out", "-w", "w", "--once", "--give-up-after", "1")
    servers["crm"].start()
    assert down.returncode == 2 and "deltafold:" in down.stderr and "bug" not in down.stderr
