"""Runs in processes of a pool, for experiments in virtual time."""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.pool import AsyncResult, Pool
from typing import Any

from benchmarks.harness.context import BenchmarkContext


class ParallelRuns:
    """Runs in the processes of a pool, with a count of those that have ended."""

    def __init__(self, pool: Pool, context: BenchmarkContext) -> None:
        self._pool = pool
        self._context = context
        self._started = self._ended = 0

    def start(self, measure: Callable[..., Any], *arguments: object) -> AsyncResult[Any]:
        self._started += 1
        return self._pool.apply_async(_run_alone, (measure, *arguments))

    def wait(self, run: AsyncResult[Any]) -> Any:
        result = run.get()
        self._ended += 1
        self._context.report_progress(f"{self._ended} of {self._started} runs")
        return result


@contextmanager
def parallel_runs(context: BenchmarkContext) -> Iterator[ParallelRuns]:
    """Yield runs in a process for each processor. The end of the block ends them all."""
    # A fork would copy the state of the caller.
    with multiprocessing.get_context("spawn").Pool(initializer=_begin_process) as pool:
        yield ParallelRuns(pool, context)


def _begin_process() -> None:
    gc.disable()
    # The caller ends the processes.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run_alone(measure: Callable[..., Any], *arguments: object) -> Any:
    """Run in a process of the pool, and free what the run leaves behind."""
    try:
        return measure(*arguments)
    finally:
        gc.collect()
