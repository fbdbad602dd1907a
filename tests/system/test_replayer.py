"""The replay process with an archive on disk."""

from __future__ import annotations

import signal
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from broker.errors import (
    BadQuery,
    Overloaded,
    ReplayTooLarge,
    from_wire,
)
from broker.log.chunk import Chunk
from broker.log.logged_event import LoggedEvent
from broker.replay import replayer_messages as messages
from broker.replay.engine.contract import Report
from broker.replay.request import ReplayRequest
from tests.child.started_child import StartedChild
from tests.recovery.world import World, archive_world, expected, make_world, some_requests
from tests.system.mounts import mounted_tmpfs

pytestmark = pytest.mark.system
M = TypeVar("M", bound=messages.Message)


class StartedReplayer(StartedChild[messages.Message]):
    def __init__(self, archive: str, folder: Path, *options: str) -> None:
        arguments = ["--archive", archive, "--spool", f"{folder}/spool", *options]
        super().__init__(messages.CODEC, "broker.replay.replayer", *arguments)

    def receive_kind(self, kind: type[M]) -> M:
        """Return the next message of a kind and drop those before it."""
        while not isinstance(message := self.receive(), kind):
            assert not isinstance(message, messages.Failed), message
        return message


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


@pytest.fixture
def node(archive: str, tmp_path: Path) -> Iterator[StartedReplayer]:
    options = ("--engine", "local", "--request-bytes", "40000")
    with StartedReplayer(archive, tmp_path, *options) as replayer:
        yield replayer
    assert list((tmp_path / "spool").iterdir()) == []


def test_many_requests_get_the_expected_events(world: World, node: StartedReplayer) -> None:
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


def test_bad_and_too_large_requests_raise_typed_errors(node: StartedReplayer) -> None:
    pattern, _, *rest = ReplayRequest(">", "true()").to_wire()
    node.send(messages.Replay(1, [pattern, "//x[", *rest]))
    bad = node.receive()
    assert isinstance(bad, messages.Failed)
    assert isinstance(from_wire(bad.error), BadQuery)
    # Everything exceeds the limit of this process.
    node.send(messages.Replay(2, ReplayRequest(">", "true()").to_wire()))
    node.send(messages.Replay(3, ReplayRequest(">", "/flight/id = 'UAL7'").to_wire()))
    found: dict[int, messages.Failed | messages.Found] = {}
    while len(found) < 2:
        message = node.receive()
        if isinstance(message, messages.Failed | messages.Found):
            found[message.id] = message
    assert isinstance(found[2], messages.Failed)
    assert isinstance(from_wire(found[2].error), ReplayTooLarge)
    assert isinstance(found[3], messages.Found)
    node.send(messages.Cancel(3))


def test_full_disk_is_reported_as_overload(archive: str, tmp_path: Path) -> None:
    """Recovery waits at an overload; an engine error would end it."""
    with mounted_tmpfs(tmp_path / "disk", "size=48k") as disk:
        with StartedReplayer(archive, disk, "--engine", "local") as node:
            node.send(messages.Replay(1, ReplayRequest(">", "true()").to_wire()))
            while not isinstance(failed := node.receive(), messages.Failed):
                assert isinstance(failed, messages.Accepted | messages.Progress)
            assert isinstance(from_wire(failed.error), Overloaded)
            node.send(messages.Replay(2, ReplayRequest(">", "/flight/id = 'UAL7'").to_wire()))
            while not isinstance(found := node.receive(), messages.Found):
                assert isinstance(found, messages.Accepted | messages.Progress)


@pytest.mark.parametrize(
    "data", [struct.pack(">I", 3) + b"\xff\xff\xff", struct.pack(">I", 1 << 31)]
)
def test_invalid_bytes_end_the_process(node: StartedReplayer, data: bytes) -> None:
    node.socket.sendall(data)
    assert node.is_closed()


def test_pure_python_engine_serves_without_java(
    world: World, archive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    request = ReplayRequest("notes.>", "true()")
    with StartedReplayer(archive, tmp_path, "--engine", "auto") as node:
        node.send(messages.Replay(1, request.to_wire()))
        received: list[messages.Message] = []
        while not isinstance(message := node.receive(), messages.Found):
            received.append(message)
        assert Report.from_wire(message.report).events == len(expected(world, request).places)
        [notice] = [each.text for each in received if isinstance(each, messages.Notice)]
        assert "openjdk-17-jre-headless" in notice
        node.process.send_signal(signal.SIGTERM)
        assert node.is_closed()
