"""One Spark session for the whole run, with Delta where its jars can be had."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from golden import Golden

if TYPE_CHECKING:
    from house import House
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.driver.memory": "3g",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.maxPlanStringLength": "2000",  # plans of many views fill the memory with their own text
    "spark.ui.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    "spark.databricks.delta.snapshotPartitions": "1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update", action="store_true", help="rewrite the outputs in tests/golden")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Checks, or with --update rewrites, a file of tests/golden."""
    return Golden(update=bool(request.config.getoption("--update")), test=request.node.nodeid)


def _builder(settings: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder
    builder = builder.master("local[2]").appName("deltafold tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def _start(warehouse: str) -> SparkSession:
    """A session with Delta, or one without if its jars cannot be resolved."""
    settings = {**SETTINGS, "spark.sql.warehouse.dir": warehouse}
    try:
        from delta import configure_spark_with_delta_pip

        spark: SparkSession = configure_spark_with_delta_pip(_builder({**settings, **DELTA})).getOrCreate()
    except Exception:
        builder = _builder(settings)
        for name in ("spark.jars.packages", *DELTA):  # the builder's options are shared by all builders
            builder._options.pop(name, None)
        spark = builder.getOrCreate()
    return spark


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of all tests."""
    session = _start(str(tmp_path_factory.mktemp("spark-warehouse")))
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def delta_available(spark: SparkSession) -> bool:
    """Whether the session has the Delta jars."""
    from deltafold.codegen.warehouse import has_delta

    return has_delta(spark)


@pytest.fixture(scope="session")
def initialized(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A warehouse of each format, initialized once and copied for every test."""
    from house import START, House

    @cache
    def made(format: str) -> Path:
        house = House(spark, tmp_path_factory.mktemp(format) / "w h", format)
        house.write_base(START)
        house.initialize()
        return house.path

    return made


@pytest.fixture(params=["parquet", pytest.param("delta", marks=pytest.mark.delta)])
def house(
    request: pytest.FixtureRequest, spark: SparkSession, initialized: Callable[[str], Path], tmp_path: Path
) -> House:
    """A warehouse of its own in either format, initialized."""
    from house import House

    if request.param == "delta" and not request.getfixturevalue("delta_available"):
        pytest.skip("no Delta jars")
    return House(spark, Path(shutil.copytree(initialized(request.param), tmp_path / "w h")), request.param)


@pytest.fixture
def plain(spark: SparkSession, initialized: Callable[[str], Path], tmp_path: Path) -> House:
    """A warehouse of its own in Parquet, initialized."""
    from house import House

    return House(spark, Path(shutil.copytree(initialized("parquet"), tmp_path / "w")), "parquet")
