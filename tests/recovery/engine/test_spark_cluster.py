"""Workers that do not see this machine's files: our code is sent to them, events come back."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.errors import EngineUnavailable
from broker.recovery.engine.spark import SparkEngine
from broker.recovery.engine.spark_session import SparkSettings, check_java
from tests.recovery.answers import answers, compare
from tests.recovery.world import CATALOGUE, archive_world, make_world, some_requests

pytest.importorskip("pyspark", reason="PySpark is not installed")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_master_of_other_machines_gives_the_same(tmp_path: Path) -> None:
    try:
        check_java()
    except EngineUnavailable as error:
        pytest.skip(str(error))
    world = make_world(1)
    archive = archive_world(world, str(tmp_path / "archive"), 1)
    requests = some_requests(world, 1, 20)
    settings = SparkSettings("local-cluster[1,1,1024]", "512m", tmp_path)
    engine = SparkEngine(archive, CATALOGUE, settings)
    try:
        got = answers(engine, requests, tmp_path / "spool")
    finally:
        engine.close()
    for request, answer in zip(requests, got, strict=True):
        compare(world, request, answer)
