"""`python -m broker.replay.replayer`: the replay process of one node.

It stops on SIGTERM or SIGINT, and when its connection, standard input, closes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from twisted.internet import task
from twisted.internet.defer import Deferred
from twisted.internet.error import ReactorNotRunning
from twisted.logger import globalLogBeginner, textFileLogObserver

from broker.archive.archive import Archive
from broker.archive.object_store import open_object_store
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.errors import BrokerError
from broker.replay.engine.contract import Engine, JobLimits
from broker.replay.engine.fallback_engine import AUTO, ENGINES, LOCAL, FallbackEngine
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.engine.spark_engine import SparkEngine
from broker.replay.engine.spark_session import SparkSettings
from broker.replay.garbage_collection import tune_garbage_collector
from broker.replay.replay_entry import ReplayerLimits
from broker.replay.replayer_service import ReplayerService

_JOB, _ALL = JobLimits(), ReplayerLimits()


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--archive", "uri", required=True, help="The archive's folder or URI.")
@click.option(
    "--spool", required=True, type=Path, help="Folder for spools, used by this process only."
)
@click.option("--engine", type=click.Choice(ENGINES), default=AUTO, show_default=True)
@click.option("--master", default="local[*]", show_default=True, help="Spark master.")
@click.option("--memory", default="1g", show_default=True, help="Memory of the JVM.")
@click.option("--dtds", type=Path, default=None, help="Catalogue for types that the archive lacks.")
@click.option("--request-bytes", default=_JOB.request_bytes, show_default=True)
@click.option("--deliveries", default=_JOB.deliveries, show_default=True, help="Events of one job.")
@click.option("--job-bytes", default=_JOB.disk_bytes, show_default=True)
@click.option(
    "--spool-bytes", default=_ALL.spool_bytes, show_default=True, help="Bytes of all spools."
)
@click.option("--replays", default=_ALL.replays, show_default=True, help="Maximum number.")
def main(
    uri: str,
    spool: Path,
    engine: str,
    master: str,
    memory: str,
    dtds: Path | None,
    request_bytes: int,
    deliveries: int,
    job_bytes: int,
    spool_bytes: int,
    replays: int,
) -> None:
    """Serve replays of an archive to the node that started this process."""
    globalLogBeginner.beginLoggingTo([textFileLogObserver(sys.stderr)], redirectStandardIO=False)
    try:
        # Creating a missing archive here would make it look empty.
        archive = Archive(open_object_store(uri))
        catalogue = Catalogue.load(dtds or shipped_folder())
    except BrokerError as error:
        raise click.ClickException(str(error)) from None
    job_limits = JobLimits(request_bytes, deliveries, job_bytes)
    settings = SparkSettings(master, memory, spool)

    def create_engine(notice: Callable[[str], object]) -> Engine:
        local = LocalEngine(archive, catalogue, job_limits)
        if engine == LOCAL:
            return local
        spark = SparkEngine(archive, catalogue, settings, job_limits, notice)
        return spark if engine != AUTO else FallbackEngine(spark, local, notice)

    tune_garbage_collector()
    limits = ReplayerLimits(replays=replays, spool_bytes=spool_bytes)

    def run(reactor: Any) -> Deferred[None]:
        # Setting the wall clock would delay timers.
        reactor.seconds = time.monotonic
        return Deferred.fromCoroutine(_serve(reactor, create_engine, spool, limits))

    task.react(run)


async def _serve(
    reactor: Any,
    engine: Callable[[Callable[[str], object]], Engine],
    spool: Path,
    limits: ReplayerLimits,
) -> None:
    def stop(_error: BrokerError | None) -> None:
        # Stopping closes the connection, too.
        with suppress(ReactorNotRunning):
            reactor.stop()

    replayer = ReplayerService(reactor, engine, spool, limits, stop)
    reactor.addSystemEventTrigger(
        "before", "shutdown", lambda: Deferred.fromCoroutine(replayer.stop())
    )
    await replayer.start()
    await Deferred()


if __name__ == "__main__":
    main()
