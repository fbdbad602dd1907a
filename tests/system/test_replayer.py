"""The replay process as a node meets it: a process, a Unix socket, an archive on disk."""

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


class Node:
    """A node's end of the socket."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(SECONDS)
        self.socket.connect(str(path))
        self.file = self.socket.makefile("rb")

    def tell(self, message: messages.Message) -> None:
        data = messages.encode(message)
        self.socket.sendall(struct.pack(">I", len(data)) + data)

    def hear(self) -> messages.Message:
        (length,) = struct.unpack(">I", self.file.read(4))
        return messages.decode(self.file.read(length))

    def hear_for(self, kind: type[M]) -> M:
        """The next message of a kind, what comes before it is passed over."""
        while not isinstance(message := self.hear(), kind):
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


def started(archive: str, folder: Path, *options: str) -> subprocess.Popen[str]:
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


def ended(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(SECONDS)
    process.stdout.close()


@pytest.fixture
def folder(archive: str, tmp_path: Path) -> Iterator[Path]:
    process = started(archive, tmp_path, "--engine", "local", "--request-bytes", "40000")
    yield tmp_path
    ended(process)
    assert list((tmp_path / "spool").iterdir()) == []


def test_a_thousand_words_of_a_node_are_answered_rightly(world: World, folder: Path) -> None:
    node = Node(folder / "socket")
    requests = [request for request in some_requests(world, 5, 60) if request.query != "true()"]
    for number, request in enumerate(requests):
        node.tell(messages.Replay(number, request.to_wire()))
        node.tell(messages.More(number, 1_000))
    got: dict[int, list[LoggedEvent]] = {number: [] for number in range(len(requests))}
    found: dict[int, Report] = {}
    done: set[int] = set()
    while len(done) < len(requests):
        match message := node.hear():
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
        node.tell(messages.Cancel(number))
    node.tell(messages.Status())
    state = node.hear_for(messages.State)
    assert state.figures["bytes"] == 0
    node.close()


def test_a_broken_connection_is_resumed_from_the_event_that_did_not_come(
    world: World, folder: Path
) -> None:
    request = ReplayRequest("asdi.>", "/flight", clearance=1)
    right = expected(world, request).places
    node = Node(folder / "socket")
    node.tell(messages.Replay(7, request.to_wire()))
    node.hear_for(messages.Found)
    node.close()
    half = len(right) // 2
    node = Node(folder / "socket")
    node.tell(messages.Resume(7, half))
    node.tell(messages.More(7, 1))
    page = node.hear_for(messages.Page)
    assert page.first == half
    assert [(event.origin, event.mark) for event in events_of(page)] == right[half:]
    node.hear_for(messages.Done)
    node.tell(messages.Cancel(7))
    node.tell(messages.Resume(7, 0))
    gone = node.hear()
    assert isinstance(gone, messages.Failed)
    assert isinstance(from_wire(gone.error), UnknownSubscription)
    node.close()


def test_bad_requests_and_too_large_ones_fail_by_their_kind(folder: Path) -> None:
    node = Node(folder / "socket")
    node.tell(messages.Replay(1, [">", "//x[", {}, 2, [], True, 0, 0, 0, "publisher", []]))
    bad = node.hear()
    assert isinstance(bad, messages.Failed)
    assert isinstance(from_wire(bad.error), BadQuery)
    # More than the bound of this process: everything.
    node.tell(messages.Replay(2, ReplayRequest(">", "true()").to_wire()))
    node.tell(messages.Replay(3, ReplayRequest(">", "/flight/id = 'UAL7'").to_wire()))
    found = {}
    while len(found) < 2:
        message = node.hear()
        if isinstance(message, messages.Failed | messages.Found):
            found[message.id] = message
    assert isinstance(found[2], messages.Failed)
    assert isinstance(from_wire(found[2].error), ReplayTooLarge)
    assert isinstance(found[3], messages.Found)
    node.tell(messages.Cancel(3))
    node.close()


def test_a_full_disk_is_a_reason_to_try_again(archive: str, tmp_path: Path) -> None:
    """The node's recovery waits then. It gave up when this was an error of the engine."""
    with mounted_tmpfs(tmp_path / "disk", "size=32k") as disk:
        process = started(archive, disk, "--engine", "local")
        node = Node(disk / "socket")
        node.tell(messages.Replay(1, ReplayRequest(">", "true()").to_wire()))
        while not isinstance(failed := node.hear(), messages.Failed):
            assert isinstance(failed, messages.Accepted | messages.Progress)
        assert isinstance(from_wire(failed.error), Overloaded)
        node.tell(messages.Replay(2, ReplayRequest(">", "/flight/id = 'UAL7'").to_wire()))
        while not isinstance(found := node.hear(), messages.Found):
            assert isinstance(found, messages.Accepted | messages.Progress)
        node.close()
        ended(process)


def test_bytes_that_are_no_message_end_the_connection_alone(folder: Path) -> None:
    bad, good = Node(folder / "socket"), Node(folder / "socket")
    for data in (struct.pack(">I", 3) + b"\xff\xff\xff", struct.pack(">I", 1 << 31)):
        bad.socket.sendall(data)
        assert bad.file.read() == b""
        bad.close()
        bad = Node(folder / "socket")
    bad.close()
    good.tell(messages.Status())
    assert isinstance(good.hear(), messages.State)
    good.close()


def test_without_java_pure_python_serves_with_a_notice(
    world: World, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    process = started(archive, tmp_path, "--engine", "auto")
    node = Node(tmp_path / "socket")
    request = ReplayRequest("notes.>", "true()")
    node.tell(messages.Replay(1, request.to_wire()))
    heard: list[messages.Message] = []
    while not isinstance(message := node.hear(), messages.Found):
        heard.append(message)
    assert Report.from_wire(message.report).events == len(expected(world, request).places)
    [notice] = [each.text for each in heard if isinstance(each, messages.Notice)]
    assert "openjdk-17-jre-headless" in notice
    node.close()
    process.send_signal(signal.SIGTERM)
    ended(process)
