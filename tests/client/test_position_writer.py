"""Positions are written in a thread: one write at a time, the newest last."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from twisted.internet.task import Clock

from broker.client.asyncio_face import AsyncioLoop
from broker.client.effects import ResumePoint
from broker.client.position_writer import PositionWriter
from broker.client.positions_file import PositionsFile
from broker.client.twisted_face import TwistedLoop
from broker.errors import ConfigurationError, SessionSuperseded
from broker.event.place import Position


class FakeFile(PositionsFile):
    def __init__(self) -> None:
        self.written: list[Mapping[str, ResumePoint]] = []
        self.error: Exception | None = None
        self.meanwhile: Callable[[], None] = lambda: None

    def write(self, durables: Mapping[str, ResumePoint]) -> None:
        if self.error is not None:
            raise self.error
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.written.append(durables)


def points(offset: int) -> dict[str, ResumePoint]:
    return {"d": ResumePoint(Position({"n": (1, offset)}))}


def test_newer_positions_replace_pending_ones() -> None:
    file, calls = FakeFile(), list[Callable[[], None]]()
    writer = PositionWriter(file, calls.append)
    writer.write_soon(points(1))
    writer.write_soon(points(2))
    assert len(calls) == 1 and not file.written
    calls[0]()
    assert file.written == [points(2)]


def test_positions_that_arrive_during_a_write_are_written_after_it() -> None:
    file, calls = FakeFile(), list[Callable[[], None]]()
    writer = PositionWriter(file, calls.append)
    file.meanwhile = lambda: writer.write_soon(points(2))
    writer.write_soon(points(1))
    while calls:
        calls.pop()()
    assert file.written == [points(1), points(2)]


def test_nothing_older_is_written_after_the_newest() -> None:
    file, calls = FakeFile(), list[Callable[[], None]]()
    writer = PositionWriter(file, calls.append)
    writer.write_soon(points(1))
    writer.write_soon(points(2))
    writer.write_now()
    calls[0]()
    assert file.written == [points(2)]


def test_a_failing_disk_is_logged_once_and_retried(caplog: pytest.LogCaptureFixture) -> None:
    file = FakeFile()
    writer = PositionWriter(file, lambda call: call())
    file.error = ConfigurationError("full")
    with caplog.at_level(logging.WARNING):
        writer.write_soon(points(1))
        writer.write_soon(points(2))
    assert writer.error is file.error and [r.message for r in caplog.records] == ["full"]
    file.error = None
    writer.write_soon(points(3))
    assert writer.error is None and file.written == [points(3)]


def test_a_superseded_process_stops_writing() -> None:
    file = FakeFile()
    writer = PositionWriter(file, lambda call: call())
    file.error = SessionSuperseded("newer")
    writer.write_soon(points(1))
    file.error = None
    writer.write_soon(points(2))
    assert writer.error is None and file.written == []


def test_threads_of_both_loops_write() -> None:
    threads: list[threading.Thread] = []

    async def under_asyncio() -> None:
        AsyncioLoop(asyncio.get_running_loop()).run_in_thread(note)

    def note() -> None:
        threads.append(threading.current_thread())

    # `asyncio.run` joins the executor.
    asyncio.run(under_asyncio())
    assert len(threads) == 1 and threads[0] is not threading.main_thread()
    calls: list[Callable[[], None]] = []
    reactor: Any = Clock()
    reactor.callInThread = calls.append
    TwistedLoop(reactor).run_in_thread(note)
    assert calls == [note]
