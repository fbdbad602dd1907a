"""Remote workers receive our code and return events."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from broker.replay.engine.spark_engine import SparkEngine
from broker.replay.engine.spark_session import SparkSettings
from tests.capability import needs
from tests.recovery.answers import answers, compare
from tests.recovery.world import CATALOGUE, archive_world, make_world, some_requests
from tests.replay.engine.spark_standalone import Standalone

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),
    needs("pyspark", "java"),
]


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = make_world(1)
        self.archive = archive_world(self.world, str(folder / "archive"), 1)
        self.requests = some_requests(self.world, 1, 20)

    def engine(self, master: str) -> SparkEngine:
        return SparkEngine(self.archive, CATALOGUE, SparkSettings(master, "512m", self.folder))

    def check(self, engine: SparkEngine, spool: str) -> None:
        got = answers(engine, self.requests, self.folder / spool)
        for request, answer in zip(self.requests, got, strict=True):
            compare(self.world, request, answer)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.soak
def test_a_remote_master_gives_the_same_results(place: Place) -> None:
    with closing(place.engine("local-cluster[1,1,1024]")) as engine:
        place.check(engine, "spool")


@pytest.mark.soak
def test_a_cluster_gives_the_same_results_after_the_loss_of_a_worker(place: Place) -> None:
    with Standalone(place.folder, 2) as cluster, closing(place.engine(cluster.uri)) as engine:
        place.check(engine, "before")
        cluster.kill_worker()
        place.check(engine, "after")
