"""The Spark engine gives what the pure-Python one gives (A17), whatever happens to its JVM."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.errors import EngineUnavailable
from broker.recovery.engine.local import LocalEngine
from broker.recovery.engine.spark import SparkEngine
from broker.recovery.engine.spark_session import SparkSettings, check_java
from broker.store.archive.archive import Archive
from tests.recovery.answers import answers, compare
from tests.recovery.world import CATALOGUE, archive_world, make_world, some_requests

SEED = 3


def missing() -> str:
    """Why Spark can not run here; empty if it can."""
    pytest.importorskip("pyspark", reason="PySpark is not installed")
    try:
        check_java()
    except EngineUnavailable as error:
        return str(error)
    return ""


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing()),
    # PySpark's own: of pandas, and of sockets to a JVM that was killed.
    pytest.mark.filterwarnings("ignore"),
]


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    folder = tmp_path_factory.mktemp("spark")
    archive = archive_world(make_world(SEED), str(folder / "archive"), SEED)
    settings = SparkSettings("local[2]", "512m", folder)
    engine = SparkEngine(archive, CATALOGUE, settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine.warm()
    yield engine
    engine.close()


def at(engine: SparkEngine, archive: Archive) -> SparkEngine:
    """The same session for another archive."""
    engine._archive = archive
    return engine


@pytest.mark.parametrize("seed", range(4))
def test_it_gives_what_the_pure_python_engine_gives(
    seed: int, spark: SparkEngine, tmp_path: Path
) -> None:
    world = make_world(seed)
    archive = archive_world(world, str(tmp_path / "archive"), seed)
    requests = some_requests(world, seed, 40)
    theirs = answers(LocalEngine(archive, CATALOGUE), requests, tmp_path / "local")
    mine = answers(at(spark, archive), requests, tmp_path / "spark")
    for request, (report, got), (other_report, other) in zip(requests, mine, theirs, strict=True):
        compare(world, request, (report, got))
        assert [event.place for event in got] == [event.place for event in other]
        assert set(report.notes) == set(other_report.notes)
        assert report.to_wire()[:-2] == other_report.to_wire()[:-2]
