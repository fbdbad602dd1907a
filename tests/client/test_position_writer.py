"""Positions are written beside the loop: one write at a time, the newest last."""

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
    """Writes down what it is given; or fails."""

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


def left(offset: int) -> dict[str, ResumePoint]:
    return {"d": ResumePoint(Position({"n": (1, offset)}))}


def test_what_comes_before_a_write_begins_replaces_what_waits() -> None:
    file, calls = FakeFile(), list[Callable[[], None]]()
    keeping = PositionWriter(file, calls.append)
    keeping.write_soon(left(1))
    keeping.write_soon(left(2))
    assert len(calls) == 1 and not file.written
    calls[0]()
    assert file.written == [left(2)]


def test_what_comes_during_a_write_is_written_after_it() -> None:
    file, calls = FakeFile(), list[Callable[[], None]]()
    keeping = PositionWriter(file, calls.append)
    file.meanwhile = lambda: keeping.write_soon(left(2))
    keeping.write_soon(left(1))
    while calls:
        calls.pop()()
    assert file.written == [left(1), left(2)]


def test_at_the_end_nothing_older_is_written_after_the_newest() -> None:
    file, calls = FakeFile(), list[Callable[[], None]]()
    keeping = PositionWriter(file, calls.append)
    keeping.write_soon(left(1))
    keeping.write_soon(left(2))
    keeping.write_now()
    calls[0]()
    assert file.written == [left(2)]


def test_a_disk_that_fails_is_told_once_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    file = FakeFile()
    keeping = PositionWriter(file, lambda call: call())
    file.error = ConfigurationError("full")
    with caplog.at_level(logging.WARNING):
        keeping.write_soon(left(1))
        keeping.write_soon(left(2))
    assert keeping.error is file.error and [r.message for r in caplog.records] == ["full"]
    file.error = None
    keeping.write_soon(left(3))
    assert keeping.error is None and file.written == [left(3)]


def test_a_newer_process_is_left_alone() -> None:
    file = FakeFile()
    keeping = PositionWriter(file, lambda call: call())
    file.error = SessionSuperseded("newer")
    keeping.write_soon(left(1))
    file.error = None
    keeping.write_soon(left(2))
    assert keeping.error is None and file.written == []


def test_threads_of_both_loops_write() -> None:
    threads: list[threading.Thread] = []

    async def under_asyncio() -> None:
        AsyncioLoop(asyncio.get_running_loop()).run_in_thread(note)

    def note() -> None:
        threads.append(threading.current_thread())

    # `asyncio.run` waits for the executor at its end.
    asyncio.run(under_asyncio())
    assert len(threads) == 1 and threads[0] is not threading.main_thread()
    calls: list[Callable[[], None]] = []
    reactor: Any = Clock()
    reactor.callInThread = calls.append
    TwistedLoop(reactor).run_in_thread(note)
    assert calls == [note]
