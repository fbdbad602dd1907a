from __future__ import annotations

import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from broker.errors import (
    BadQuery,
    Overloaded,
    ReplayTooLarge,
    UnknownSubscription,
    from_wire,
)
from broker.log.chunk import Chunk
from broker.log.logged_event import LoggedEvent
from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.request import ReplayRequest
from tests.recovery.world import World, archive_world, expected, make_world, some_requests
from tests.system.mounts import mounted_tmpfs

pytestmark = pytest.mark.system
SECONDS = 60.0
M = TypeVar("M", bound=messages.Message)


class ReplayerConnection:
    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def send(self, message: messages.Message) -> None:
        data = messages.encode(message)
        self.socket.sendall(struct.pack(">I", len(data)) + data)

    def receive(self) -> messages.Message:
        (length,) = struct.unpack(">I", self.file.read(4))
        return messages.decode(self.file.read(length))

    def receive_kind(self, kind: type[M]) -> M:
        while not isinstance(message := self.receive(), kind):
            assert not isinstance(message, messages.Failed), message
        return message

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def events_of(page: messages.Page) -> list[LoggedEvent]:
    return [event for data in page.chunks for event in Chunk(0, data).events_from(0)]


@pytest.fixture(scope="module")
def world() -> World:
    return make_world(5)


@pytest.fixture(scope="module")
def archive(world: World, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("archive")
    archive_world(world, str(folder), 5)
    return str(folder)


def start_replayer(archive: str, folder: Path, *options: str) -> subprocess.Popen[str]:
    arguments = ["--archive", archive, "--socket", f"{folder}/socket", "--spool", f"{folder}/spool"]
    process = subprocess.Popen(
        [sys.executable, "-m", "broker.replay.replayer", *arguments, *options, "--attached"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


def stop_replayer(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(SECONDS)
    process.stdout.close()


@pytest.fixture
def folder(archive: str, tmp_path: Path) -> Iterator[Path]:
    process = start_replayer(archive, tmp_path, "--engine", "local", "--request-bytes", "40000")
    yield tmp_path
    stop_replayer(process)
    assert list((tmp_path / "spool").iterdir()) == []


def test_many_requests_get_the_expected_events(world: World, folder: Path) -> None:
    node = ReplayerConnection(folder / "socket")
    requests = [request for request in some_requests(world, 5, 60) if request.query != "true()"]
    for number, request in enumerate(requests):
        node.send(messages.Replay(number, request.to_wire()))
        node.send(messages.More(number, 1_000))
    got: dict[int, list[LoggedEvent]] = {number: [] for number in range(len(requests))}
    found: dict[int, Report] = {}
    done: set[int] = set()
    while len(done) < len(requests):
        match message := node.receive():
            case messages.Page(id, first):
                assert first == len(got[id])
                got[id] += events_of(message)
            case messages.Found(id, report):
                found[id] = Report.from_wire(report)
            case messages.Done(id):
                assert len(got[id]) == found[id].events
                done.add(id)
            case messages.Failed():
                raise AssertionError(message)
    for number, request in enumerate(requests):
        right = expected(world, request).places
        assert [(event.origin, event.mark) for event in got[number]] == right
        node.send(messages.Cancel(number))
    node.send(messages.Status())
    state = node.receive_kind(messages.State)
    assert state.figures["bytes"] == 0
    node.close()


def test_broken_connection_resumes_at_the_next_event(world: World, folder: Path) -> None:
    request = ReplayRequest("asdi.>", "/flight", clearance=1)
    right = expected(world, request).places
    node = ReplayerConnection(folder / "socket")
    node.send(messages.Replay(7, request.to_wire()))
    node.receive_kind(messages.Found)
    node.close()
    half = len(right) // 2
    node = ReplayerConnection(folder / "socket")
    node.send(messages.Resume(7, half))
    node.send(messages.More(7, 1))
    page = node.receive_kind(messages.Page)
    assert page.first == half
    assert [(event.origin, event.mark) for event in events_of(page)] == right[half:]
    node.receive_kind(messages.Done)
    node.send(messages.Cancel(7))
    node.send(messages.Resume(7, 0))
    unknown = node.receive()
    assert isinstance(unknown, messages.Failed)
    assert isinstance(from_wire(unknown.error), UnknownSubscription)
    node.close()


def test_bad_and_too_large_requests_raise_typed_errors(folder: Path) -> None:
    node = ReplayerConnection(folder / "socket")
    node.send(messages.Replay(1, [">", "//x[", {}, 2, [], True, 0, 0, 0, "publisher", []]))
    bad = node.receive()
    assert isinstance(bad, messages.Failed)
    assert isinstance(from_wire(bad.error), BadQuery)
    # This process has a small limit.
    node.send(messages.Replay(2, ReplayRequest(">", "true()").to_wire()))
    node.send(messages.Replay(3, ReplayRequest(">", "/flight/id = 'UAL7'").to_wire()))
    found = {}
    while len(found) < 2:
        message = node.receive()
        if isinstance(message, messages.Failed | messages.Found):
            found[message.id] = message
    assert isinstance(found[2], messages.Failed)
    assert isinstance(from_wire(found[2].error), ReplayTooLarge)
    assert isinstance(found[3], messages.Found)
    node.send(messages.Cancel(3))
    node.close()


def test_full_disk_is_reported_as_overload(archive: str, tmp_path: Path) -> None:
    """Recovery waits at an overload; an engine error would end it."""
    with mounted_tmpfs(tmp_path / "disk", "size=32k") as disk:
        process = start_replayer(archive, disk, "--engine", "local")
        node = ReplayerConnection(disk / "socket")
        node.send(messages.Replay(1, ReplayRequest(">", "true()").to_wire()))
        while not isinstance(failed := node.receive(), messages.Failed):
            assert isinstance(failed, messages.Accepted | messages.Progress)
        assert isinstance(from_wire(failed.error), Overloaded)
        node.send(messages.Replay(2, ReplayRequest(">", "/flight/id = 'UAL7'").to_wire()))
        while not isinstance(found := node.receive(), messages.Found):
            assert isinstance(found, messages.Accepted | messages.Progress)
        node.close()
        stop_replayer(process)


def test_invalid_bytes_end_only_their_connection(folder: Path) -> None:
    bad, good = ReplayerConnection(folder / "socket"), ReplayerConnection(folder / "socket")
    for data in (struct.pack(">I", 3) + b"\xff\xff\xff", struct.pack(">I", 1 << 31)):
        bad.socket.sendall(data)
        assert bad.file.read() == b""
        bad.close()
        bad = ReplayerConnection(folder / "socket")
    bad.close()
    good.send(messages.Status())
    assert isinstance(good.receive(), messages.State)
    good.close()


def test_pure_python_engine_serves_without_java(
    world: World, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    process = start_replayer(archive, tmp_path, "--engine", "auto")
    node = ReplayerConnection(tmp_path / "socket")
    request = ReplayRequest("notes.>", "true()")
    node.send(messages.Replay(1, request.to_wire()))
    received: list[messages.Message] = []
    while not isinstance(message := node.receive(), messages.Found):
        received.append(message)
    assert Report.from_wire(message.report).events == len(expected(world, request).places)
    [notice] = [each.text for each in received if isinstance(each, messages.Notice)]
    assert "openjdk-17-jre-headless" in notice
    node.close()
    process.send_signal(signal.SIGTERM)
    stop_replayer(process)
