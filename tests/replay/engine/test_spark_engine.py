"""The Spark engine gives the same results as the pure-Python one (A17), even if its JVM dies."""

from __future__ import annotations

import os
import shutil
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.archive.archive import Archive
from broker.errors import ArchiveUnavailable, EngineUnavailable, Overloaded, ReplayCancelled
from broker.replay.engine import spark_engine, spark_session
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.engine.spark_engine import SparkEngine
from broker.replay.engine.spark_session import SparkSettings, check_java
from broker.replay.request import ReplayRequest
from broker.replay.spool import Spool
from tests.capability import needs
from tests.recovery.answers import answers, compare
from tests.recovery.world import CATALOGUE, archive_world, make_world, some_requests
from tests.seeds import seeds
from tests.system.mounts import mounted_tmpfs

SEED = 3


pytestmark = [
    pytest.mark.slow,
    needs("pyspark", "java"),
    # From PySpark, about pandas and sockets to a killed JVM.
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
        engine.warm_up()
    yield engine
    engine.close()


def jvm() -> int:
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    return int(gateway.proc.pid)


def at(engine: SparkEngine, archive: Archive) -> SparkEngine:
    engine._archive = archive
    return engine


@pytest.mark.parametrize("seed", seeds(1, 2))
def test_results_equal_those_of_the_pure_python_engine(
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


def test_damage_is_reported_as_by_the_pure_python_engine(
    spark: SparkEngine, tmp_path: Path
) -> None:
    archive_world(make_world(SEED), str(tmp_path / "archive"), SEED)
    files = sorted((tmp_path / "archive" / "events").rglob("*.parquet"))
    files[0].unlink()
    files[1].write_bytes(files[1].read_bytes()[:100])
    files[2].write_bytes(b"")
    sorted((tmp_path / "archive" / "manifests").rglob("*.json"))[-1].unlink()
    shutil.copytree(tmp_path / "archive", tmp_path / "copy")
    told = []
    for name, folder in (("local", "archive"), ("spark", "copy")):
        archive = Archive.open(str(tmp_path / folder), create=False)
        engine = LocalEngine(archive, CATALOGUE) if name == "local" else at(spark, archive)
        [(report, got)] = answers(engine, [ReplayRequest(">", "true()")], tmp_path / name)
        assert len(archive.state().aside) == 3
        told.append((report.to_wire()[:-2], set(report.notes), [event.place for event in got]))
    assert told[0] == told[1]
    assert told[0][0][7]


def test_an_archive_lost_during_a_job_raises_archive_unavailable(
    spark: SparkEngine, tmp_path: Path
) -> None:
    """The subscription then waits for the archive instead of failing."""
    archive = archive_world(make_world(SEED), str(tmp_path / "archive"), SEED)

    def rename(done: int, of: int) -> None:
        if (tmp_path / "archive").exists():
            (tmp_path / "archive").rename(tmp_path / "away")

    (tmp_path / "spool").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkEngine, "wave_rows", 60)
        with pytest.raises(ArchiveUnavailable):
            at(spark, archive).run(
                [ReplayRequest(">", "true()")], tmp_path / "spool", rename, lambda: False
            )


def test_a_worker_whose_disk_is_full_does_not_break_the_engine(
    spark: SparkEngine, tmp_path: Path
) -> None:
    archive = archive_world(make_world(SEED), str(tmp_path / "archive"), SEED)
    with (
        mounted_tmpfs(tmp_path / "spool", "size=16k") as spool,
        pytest.raises(Overloaded, match="the spool cannot be written"),
    ):
        at(spark, archive).run(
            [ReplayRequest(">", "true()")], spool, lambda done, of: None, lambda: False
        )


def test_a_cancelled_job_ends(spark: SparkEngine, tmp_path: Path) -> None:
    archive = archive_world(make_world(SEED), str(tmp_path / "archive"), SEED)
    looks = iter([False])
    (tmp_path / "spool").mkdir()
    with pytest.raises(ReplayCancelled):
        at(spark, archive).run(
            [ReplayRequest(">", "/flight")],
            tmp_path / "spool",
            lambda done, of: None,
            lambda: next(looks, True),
        )


def test_a_job_survives_a_killed_jvm(
    spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(SEED)
    archive = archive_world(world, str(tmp_path / "archive"), SEED)
    requests = [request for request in some_requests(world, SEED, 40) if not request.last]
    killed: list[int] = []
    told: list[str] = []

    def kill(done: int, of: int) -> None:
        # Between two waves, and when the next one has just begun.
        if not killed and done < of:
            killed.append(jvm())
            os.kill(killed[0], signal.SIGKILL)

    monkeypatch.setattr(SparkEngine, "wave_rows", 60)
    engine = at(spark, archive)
    monkeypatch.setattr(engine, "_notice", told.append)
    (tmp_path / "spool").mkdir()
    reports = engine.run(requests, tmp_path / "spool", kill, lambda: False)
    spool = Spool(tmp_path / "spool")
    for number, (request, report) in enumerate(zip(requests, reports, strict=True)):
        compare(world, request, (report, spool.read_events(number, 0, 100_000, 1 << 30)))
    assert killed
    assert jvm() != killed[0]
    assert told == ["the JVM died: starting another one, 1 of 3"]


@pytest.mark.soak
def test_a_jvm_that_dies_repeatedly_fails_the_job(
    spark: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = archive_world(make_world(SEED), str(tmp_path / "archive"), SEED)
    started: list[int] = []

    def start(settings: SparkSettings) -> Any:
        session = real(settings)
        started.append(jvm())
        os.kill(started[-1], signal.SIGKILL)
        return session

    real = spark_session.start_session
    monkeypatch.setattr(spark_session, "start_session", start)
    monkeypatch.setattr(spark_engine, "_MAX_JVM_FAILURES", 1)
    spark.close()
    with pytest.raises(EngineUnavailable, match="the JVM died 2 times"):
        answers(at(spark, archive), [ReplayRequest(">", "/flight")], tmp_path / "spool")
    assert len(started) == 2


def test_local_sessions_answer_nobody_without_their_secret() -> None:
    options = spark_session._spark_options
    assert options(SparkSettings("local[2]"))["spark.authenticate"] == "true"
    # The operator of a cluster sets its secret.
    assert "spark.authenticate" not in options(SparkSettings("spark://master:7077"))


@pytest.mark.parametrize("home", ["nowhere", ""])
def test_the_error_without_java_names_the_package_to_install(
    home: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / home) if home else "")
    monkeypatch.setenv("PATH", str(tmp_path))
    engine = SparkEngine(Archive.open(str(tmp_path / "a")), CATALOGUE, SparkSettings())
    with pytest.raises(EngineUnavailable, match="install Debian's openjdk-17-jre-headless"):
        engine.warm_up()


def test_an_old_java_is_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="11"):
        check_java()
