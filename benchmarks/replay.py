"""Recovery of many clients from one archive in one job, against one client.

Each event matches one query, so additional time is the cost of the requests.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import attrs

from benchmarks.harness.context import BenchmarkContext
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.report import Floor, Report, Sheet, format_number
from benchmarks.workloads.archived_flights import FLUSH, band_queries, write_flights
from broker.archive.archive import Archive
from broker.dtd.catalogue import Catalogue, shipped_folder
from broker.errors import EngineUnavailable
from broker.replay.engine.contract import Engine
from broker.replay.engine.local_engine import LocalEngine
from broker.replay.engine.spark_engine import SparkEngine
from broker.replay.engine.spark_session import SparkSettings
from broker.replay.request import ReplayRequest
from broker.replay.spool import Spool

DESCRIPTION: Final = "1, 100 and 1,000 clients recover from an archive in one job"

EVENTS: Final = 1_000_000
QUICK_EVENTS: Final = 20_000
REQUESTS: Final = (1, 100, 1_000)
#: The last one counts: the JVM compiles, and workers start, before.
RUNS: Final = 2
#: Bound: a job for a thousand clients in times of one client's.
MAX_RATIO: Final = 10.0


@attrs.frozen
class Run:
    """One job, warm."""

    engine: str
    requests: int
    seconds: float
    events: int
    reading: float
    """Seconds to read all spools afterwards, page by page, as for sending."""


@attrs.frozen
class Comparison:
    """The same queries on the same files in another way."""

    way: str
    queries: int
    seconds: float
    matches: int


def run(context: BenchmarkContext) -> Report:
    count = context.events or (QUICK_EVENTS if context.quick else EVENTS)
    with context.empty_folder() as folder:
        archive = write_flights(
            str(folder / "archive"),
            count,
            lambda done: context.report_progress(f"{done} events archived"),
        )
        catalogue = Catalogue.load(shipped_folder())
        runs = _measure_engine(context, LocalEngine(archive, catalogue), folder, count)
        spark = SparkEngine(archive, catalogue, SparkSettings(folder=folder / "spark"))
        compared: list[Comparison] = []
        missing = ""
        try:
            context.report_progress("Spark starts")
            began = time.perf_counter()
            spark.warm_up()
            start = time.perf_counter() - began
            runs += _measure_engine(context, spark, folder, count)
            compared += _measure_spark_alone(context, spark, archive)
        except EngineUnavailable as error:
            missing, start = str(error), 0.0
        finally:
            spark.close()
    return report(count, runs, compared, start, missing)


def _measure_engine(
    context: BenchmarkContext, engine: Engine, folder: Path, count: int
) -> list[Run]:
    found = []
    for requests in REQUESTS:
        for number_of_run in range(1 if context.quick else RUNS):
            context.report_progress(f"{engine.name}: {requests} requests, run {number_of_run + 1}")
            made = _run_job(engine, requests, folder / "spool")
            if made.events != count:
                raise BenchmarkFailed(f"{made.events} of {count} events were delivered")
        found.append(made)
    return found


def _run_job(engine: Engine, requests: int, folder: Path) -> Run:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    asked = [ReplayRequest(">", query) for query in band_queries(requests)]
    began = time.perf_counter()
    reports = engine.run(asked, folder, lambda done, of: None, lambda: False)
    over = time.perf_counter()
    spool = Spool(folder)
    for place, each in enumerate(reports):
        first = 0
        while first < each.events:
            first += len(spool.read_events(place, first, 512, 1 << 18))
    read = time.perf_counter()
    events = sum(each.events for each in reports)
    return Run(engine.name, requests, over - began, events, read - over)


# ------------------------------------------------------------------------ Spark by itself


def _measure_spark_alone(
    context: BenchmarkContext, engine: SparkEngine, archive: Archive
) -> list[Comparison]:
    """Spark's own XPath parses each document for each query."""
    session: Any = engine.session
    files = [archive.file_uri(file) for file in archive.state().files.values()]
    found = []
    for count in (1, 10) if not context.quick else (1,):
        context.report_progress(f"Spark's xpath_boolean: {count} queries")
        queries = [query.replace("'", "\\'") for query in band_queries(count)]
        found.append(_timed("xpath_boolean", count, partial(_xpath, session, files, queries)))
    return found


def _timed(way: str, queries: int, matching: Callable[[], int]) -> Comparison:
    began = time.perf_counter()
    matches = matching()
    return Comparison(way, queries, time.perf_counter() - began, matches)


def _xpath(session: Any, files: Sequence[str], queries: Sequence[str]) -> int:
    # Queries address the payload; Java's parser has no DTD.
    payload = "regexp_extract(decode(document, 'UTF-8'), '<flight>.*</flight>', 0)"
    wanted = [f"cast(xpath_boolean(p, '{query}') as int)" for query in queries]
    rows = session.read.parquet(*files).selectExpr(f"{payload} as p")
    [(matches,)] = rows.selectExpr(f"sum({' + '.join(wanted)})").collect()
    return int(matches)


# ------------------------------------------------------------------------ what came of it


def report(
    count: int, runs: Sequence[Run], compared: Sequence[Comparison], start: float, missing: str
) -> Report:
    by_engine = {each.engine: each for each in runs if each.requests == 1}
    rows = [
        (
            *(each.engine, format_number(each.requests), f"{each.seconds:.2f}"),
            f"{each.seconds / by_engine[each.engine].seconds:.2f}",
            f"{each.seconds / each.events * 1e6:.1f}",
            *(format_number(each.events / each.seconds), f"{each.reading:.2f}"),
        )
        for each in runs
    ]
    others = [
        (
            *(each.way, format_number(each.queries), f"{each.seconds:.2f}"),
            *(f"{each.seconds / count * 1e6:.1f}", format_number(each.matches)),
        )
        for each in compared
    ]
    columns = ("engine", "requests", "s", "one request = 1", "us/event", "events/s", "reading s")
    sheets = [Sheet(f"One job over {count:,} events, each delivered once", columns, rows)]
    if others:
        alone = ("Spark alone", "queries", "s", "us/event", "matches")
        sheets.append(Sheet("The same files without our index", alone, others))
    notes = [
        f"{count:,} flight events in files of {FLUSH:,}; requests have distinct queries, of which "
        "each event matches one, so deliveries are the same in all rows",
        "s: from the requests to their spools on disk, ordered and without copies, warm; reading: "
        "all spools, page by page",
        f"Spark started in {start:.1f} s" if not missing else f"without Spark: {missing}",
        "Spark alone reads the Parquet files and counts matches by xpath_boolean; nothing is "
        "validated, ordered or spooled",
    ]
    many = [each for each in runs if each.requests == max(REQUESTS)]
    floors = [
        Floor(
            f"{each.engine}: {each.requests} requests against one",
            *(each.seconds / by_engine[each.engine].seconds, MAX_RATIO, "times"),
            at_least=False,
        )
        for each in many
    ]
    figures = {
        "events": count,
        "runs": [attrs.asdict(each) for each in runs],
        "spark_alone": [attrs.asdict(each) for each in compared],
        "spark_start": start,
    }
    return Report("replay", sheets, floors, notes, figures, lambda figure: _draw(runs, figure))


def _draw(runs: Sequence[Run], figure: Any) -> None:
    axis = figure.subplots()
    for engine in dict.fromkeys(each.engine for each in runs):
        mine = [each for each in runs if each.engine == engine]
        places = [each.requests for each in mine]
        axis.plot(places, [each.seconds for each in mine], marker="o", label=engine)
    axis.set_xscale("log")
    axis.set_ylim(bottom=0)
    axis.set_xlabel("requests in one job")
    axis.set_ylabel("seconds")
    axis.legend()
