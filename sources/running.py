"""`deltafold source run`: the cores of a compiled directory kept up to date, and their views with them."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ..codegen.sources_json import Description
from ..codegen.warehouse.files import Files, located
from ..codegen.warehouse.state import newest_state
from ..compiler.joingraph import Core, Node
from ..compiler.plan import ViewCore
from ..runner import Scripts
from .bag import Bag, add
from .coretable import CoreTable
from .joining import Joiner
from .maintainer import Machine, Maintainer, Patience, Reachable, patiently, require_not_back
from .messages import Apply
from .nested import NestedSweep
from .postgres import Postgres
from .status import HEALTH
from .versions import Consistency, VersionNumbers
from .warehouse import WarehouseSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Progress = Callable[[str], None]


class Loadable(Reachable, Protocol):
    """A source that can be read whole as well."""

    def snapshot(self, nodes: list[Node]) -> tuple[int, dict[str, int], dict[str, Bag]]:
        """All rows of some nodes, the data source version and the tables' versions that they were read at."""


def sources_of(core: Core, description: Description, spark: SparkSession) -> dict[str, Loadable]:
    """A connection of its own to each source of a core."""
    catalog = description.catalog
    found: dict[str, Loadable] = {}
    for source in catalog.sources:
        if source.name in core.sources:
            is_warehouse = source.type.lower() == "warehouse"
            found[source.name] = WarehouseSource(source, catalog, spark) if is_warehouse else Postgres(source, catalog)
    return found


def loaded(core: Core, sources: Mapping[str, Loadable]) -> tuple[Bag, dict[str, int], dict[str, int]]:
    """The core from nothing: its rows, the data source versions and the base relation versions they are at.

    Each source is read at one version of its own. That is a valid state: sources have no common clock.
    """
    rows: dict[str, Bag] = {}
    versions: dict[str, int] = {}
    relations: dict[str, int] = {}
    for name, source in sources.items():
        nodes = [node for node in core.nodes if node.source == name]
        versions[name], tables, found = source.snapshot(nodes)
        rows |= found
        relations |= {node.name: tables[node.table] for node in nodes}
    return Joiner(core).whole(rows), versions, relations


def machine_for(view: ViewCore, rows: Bag, versions: Mapping[str, int], refreshed: Mapping[str, int]) -> Machine:
    """The algorithm for the consistency that the view asks for."""
    if view.consistency == Consistency.STRONG:
        return NestedSweep(view.core, rows, versions, refreshed)
    return VersionNumbers(view.core, rows, versions, refreshed, Consistency(view.consistency))


def run(
    spark: SparkSession,
    scripts: Scripts,
    description: Description,
    warehouse: str,
    until: Callable[[], bool] | None,
    patience: Patience,
    progress: Progress,
    reload: bool = False,
) -> dict[str, Any]:
    """Maintains every core until told to stop; without a condition, until all that had been committed is applied."""
    tables = [CoreTable(spark, scripts, warehouse, view) for view in description.cores]
    _, files = located(spark, warehouse)
    _first_load(tables, description, files, spark, patience, progress)
    maintainers: list[Maintainer] = []
    targets: list[dict[str, int]] = []
    for table in tables:
        progress(f"reading {table.name}")
        sources = sources_of(table.view.core, description, table.spark)
        newest = {name: patiently(source.version, patience) for name, source in sources.items()}
        targets.append(newest if until is None else {})
        for name, version in newest.items():
            if table.position is not None and not reload:
                require_not_back(name, version, table.position.versions[name])
        maintainers.append(_maintainer(table, sources, patience, reload))
    with _running(maintainers, tables, files):
        written = 0.0
        while not (until() if until else all(m.reached(t) for m, t in zip(maintainers, targets, strict=True))):
            waiting = 0.05 / len(maintainers)
            for maintainer in maintainers:
                maintainer.step(waiting)
            if time.monotonic() > written + 1:
                written = time.monotonic()
                _save(maintainers, tables, files)
                progress(_summary(maintainers, tables))
    return {table.name: table.position.versions for table in tables if table.position}


def _first_load(
    tables: list[CoreTable],
    description: Description,
    files: Files,
    spark: SparkSession,
    patience: Patience,
    progress: Progress,
) -> None:
    for table in tables:
        if table.position is None:
            progress(f"loading {table.name}")
            sources = sources_of(table.view.core, description, table.spark)
            table.load(*patiently(partial(loaded, table.view.core, sources), patience))
            for source in sources.values():
                source.close()
    state = newest_state(files)
    if state is None or any(table.name not in state["tables"] for table in tables):
        progress("storing the views")
        tables[0].scripts.initialize(spark, tables[0].warehouse)
    for table in tables:
        table.finish()


def _maintainer(table: CoreTable, sources: dict[str, Loadable], patience: Patience, reload: bool) -> Maintainer:
    assert table.position is not None
    rows = table.rows()
    if reload:
        fresh, versions, refreshed = patiently(partial(loaded, table.view.core, sources), patience)
        table.apply(Apply(add(dict(fresh), rows, -1), versions, refreshed))
        rows = fresh
    machine = machine_for(table.view, rows, table.position.versions, table.position.refreshed)
    return Maintainer(machine, sources, table.apply, patience=patience)


@contextmanager
def _running(maintainers: list[Maintainer], tables: list[CoreTable], files: Files) -> Iterator[None]:
    for maintainer in maintainers:
        maintainer.start()
    try:
        yield
    finally:
        _save(maintainers, tables, files)
        for maintainer in maintainers:
            maintainer.stop()


def _save(maintainers: list[Maintainer], tables: list[CoreTable], files: Files) -> None:
    for table in tables:
        table.save()
    health = {table.name: m.status() for table, m in zip(tables, maintainers, strict=True)}
    seen = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    files.replace(HEALTH, json.dumps({"seen": seen, "cores": health}, indent=1) + "\n")


def _summary(maintainers: list[Maintainer], tables: list[CoreTable]) -> str:
    parts = []
    for table, maintainer in zip(tables, maintainers, strict=True):
        shown = [
            f"{name} {health['applied']} of {health['delivered']}{'' if health['state'] == 'up' else ' (down)'}"
            for name, health in maintainer.status().items()
        ]
        parts.append(f"{table.name}: {', '.join(shown)}")
    return "; ".join(parts)
