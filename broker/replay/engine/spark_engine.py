"""The engine that uses all processors, or many machines.

Spark's Python workers scan parts inside `mapInArrow`, and read the archive themselves. With a local
master they write events into the job's folder, and return only keys.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from broker.archive.archive import Archive
from broker.dtd.catalogue import Catalogue
from broker.errors import ArchiveUnavailable, EngineUnavailable, Overloaded, ReplayCancelled
from broker.replay.engine import spark_session, spark_task
from broker.replay.engine.contract import DEFAULT_LIMITS, JobLimits, Report, ReportProgress
from broker.replay.engine.job import Job
from broker.replay.engine.part_scan import EVENT_SCHEMA, PartSummary
from broker.replay.engine.plan import Part
from broker.replay.engine.scanner import JobContext
from broker.replay.engine.spark_session import SparkSettings
from broker.replay.request import ReplayRequest
from broker.replay.spool import PartWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Rows between progress reports. A wave has about 50 ms of overhead.
_WAVE_ROWS: Final = 1_000_000
#: Per wave. More tasks balance uneven parts.
_TASKS_PER_CORE: Final = 3
#: JVM deaths per job after which it fails.
_MAX_JVM_FAILURES: Final = 3
#: Seconds between checks for cancellation.
_CANCEL_POLL_SECONDS: Final = 0.1


def _ignore_notice(_text: str) -> None:
    """Default for `notice`."""


class SparkEngine:
    """The session starts with `warm_up` or the first job."""

    name = "spark"
    wave_rows = _WAVE_ROWS

    def __init__(
        self,
        archive: Archive,
        catalogue: Catalogue,
        settings: SparkSettings,
        limits: JobLimits = DEFAULT_LIMITS,
        notice: Callable[[str], object] = _ignore_notice,
    ) -> None:
        """`notice` is called on the thread that runs jobs."""
        self._archive = archive
        self._catalogue = catalogue
        self._settings = settings
        self._limits = limits
        self._notice = notice
        self._session: SparkSession | None = None
        self._context: tuple[str, Any] | None = None
        self._jvm_failures = 0

    def warm_up(self) -> None:
        if self._session is not None:
            return
        self._session = spark_session.start_session(self._settings)
        try:
            # The first job should not wait for code generation and workers.
            self._session.range(1).mapInArrow(_pass_through, "id bigint").toArrow()
        except Exception as error:
            # The first job handles a JVM that is dead already.
            if spark_session.is_alive():
                self.close()
                raise EngineUnavailable(f"Spark does not work: {_error_line(error)}") from error

    @property
    def session(self) -> SparkSession | None:
        return self._session

    def run(
        self,
        requests: Sequence[ReplayRequest],
        folder: Path,
        progress: ReportProgress,
        cancelled: Callable[[], bool],
    ) -> list[Report]:
        self._jvm_failures = 0
        job = Job(
            *(self._archive, self._catalogue, self, self._limits, secrets.token_hex(8)),
            *(requests, folder, progress, cancelled),
        )
        return job.run()

    def close(self) -> None:
        if self._session is not None:
            session, self._session, self._context = self._session, None, None
            spark_session.stop_session(session)

    # ---------------------------------------------------------------- one wave

    def scan(
        self, context: JobContext, parts: Sequence[Part], cancelled: Callable[[], bool]
    ) -> Iterator[pa.RecordBatch | PartSummary]:
        """If the JVM dies, the wave is repeated with a new one."""
        if not parts:
            return
        table = self._scan_wave(context, parts, cancelled)
        while table is None:
            table = self._scan_wave(context, parts, cancelled)
        writers: dict[int, PartWriter] = {}
        for item in spark_task.decode_rows(table):
            if isinstance(item, PartSummary):
                yield item
            else:
                if item.events.num_columns:
                    _write_events(Path(context.folder), item.keys, item.events, writers)
                yield item.keys
        for writer in writers.values():
            writer.commit()

    def _scan_wave(
        self, context: JobContext, parts: Sequence[Part], cancelled: Callable[[], bool]
    ) -> pa.Table | None:
        """Return None if the JVM died and the wave can be repeated."""
        self.warm_up()
        try:
            with self._cancel_with_replay(context.job, cancelled):
                table = self._collect_rows(context, parts)
        except Exception as error:
            # The exceptions of py4j and Spark vary with the place.
            if cancelled():
                raise ReplayCancelled("the replay was cancelled") from None
            reason = _error_line(error)
            for kind in (ArchiveUnavailable, Overloaded):
                if f".{kind.__name__}: " in reason:
                    # The error comes from a worker.
                    raise kind(reason.partition(": ")[2]) from None
            if spark_session.is_alive():
                raise EngineUnavailable(f"Spark failed: {reason}") from error
            self.close()
            self._jvm_failures += 1
            if self._jvm_failures > _MAX_JVM_FAILURES:
                raise EngineUnavailable(f"the JVM died {self._jvm_failures} times") from None
            self._notice(
                f"the JVM died: starting another one, {self._jvm_failures} of {_MAX_JVM_FAILURES}"
            )
            return None
        if cancelled():
            # The table may be incomplete.
            raise ReplayCancelled("the replay was cancelled")
        return table

    def _collect_rows(self, context: JobContext, parts: Sequence[Part]) -> pa.Table:
        session = self._session
        assert session is not None
        spark = session.sparkContext
        if self._context is None or self._context[0] != context.job:
            if self._context is not None:
                self._context[1].destroy()
            self._context = (context.job, spark.broadcast(context))
        shared = self._settings.is_local
        schema = spark_task.WRITTEN_SCHEMA if shared else spark_task.RETURNED_SCHEMA
        slices = _slice_parts(parts, spark.defaultParallelism * _TASKS_PER_CORE)
        job_context, wave = self._context[1], spark.broadcast(slices)

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from spark_task.scan_parts(
                        job_context.value, wave.value[number], shared_folder=shared
                    )

        rows = session.range(0, len(slices), 1, len(slices)).mapInArrow(task, _spark_schema(schema))
        try:
            return rows.toArrow()
        finally:
            with suppress(Exception):
                # A dead JVM has nothing to free.
                wave.destroy()

    @contextmanager
    def _cancel_with_replay(self, group: str, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Cancel Spark's job while this thread waits for Spark."""
        assert self._session is not None
        spark = self._session.sparkContext
        spark.setJobGroup(group, "replay", interruptOnCancel=False)
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_CANCEL_POLL_SECONDS):
                if cancelled():
                    with suppress(Exception):
                        # The job may be over, or the JVM dead.
                        spark.cancelJobGroup(group)
                    return

        watcher = threading.Thread(target=watch, name="replay-cancelling", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            done.set()
            watcher.join()


def _pass_through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _slice_parts(parts: Sequence[Part], most: int) -> list[list[Part]]:
    """Neighbours in time stay together: they have similar document shapes."""
    total = sum(part.file.rows for part in parts)
    size = max(1, total // most)
    slices: list[list[Part]] = [[]]
    rows = 0
    for part in parts:
        if rows >= size:
            slices.append([])
            rows = 0
        slices[-1].append(part)
        rows += part.file.rows
    return slices


def _spark_schema(schema: pa.Schema) -> str:
    names = {
        pa.int8(): "tinyint",
        pa.int32(): "int",
        pa.int64(): "bigint",
        pa.string(): "string",
        pa.binary(): "binary",
        pa.list_(pa.int32()): "array<int>",
    }
    return ", ".join(f"`{field.name}` {names[field.type]}" for field in schema)


def _write_events(
    folder: Path, keys: pa.RecordBatch, events: pa.RecordBatch, writers: dict[int, PartWriter]
) -> None:
    for number in keys.column("part").unique().to_pylist():
        if number not in writers:
            writers[number] = PartWriter(folder, number, EVENT_SCHEMA)
        rows = pc.equal(keys.column("part"), number)
        writers[number].write(events.filter(rows).select(EVENT_SCHEMA.names).cast(EVENT_SCHEMA))


def _error_line(error: BaseException) -> str:
    """Return the last error line of a worker's traceback, or the first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    job_context = [line for line in lines if line.startswith("broker.errors.") or "Error:" in line]
    return (job_context or lines or [type(error).__name__])[0][:300]
