"""The table of docs/subscriptions.md: a test is a column, and runs for each row."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from broker.client.attempts_file import AttemptsFile
from broker.client.client import CLOSE_TIMEOUT
from broker.client.incarnation import raise_incarnation
from broker.client.positions_file import PositionsFile
from broker.client.received import ReceivedEvent
from broker.errors import SessionSuperseded
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulation import World

NAME = "reader"
#: Client and node collect positions for less.
SAVE_SECONDS = 1.0

KINDS = ("transient", "durable", "state", "working")
STORED = KINDS[1:]
WITH_FILE = ("state", "working")


class ClientProcess:
    """`handled` holds sequence numbers of events."""

    def __init__(self, site: EndingSetup, kind: str, *, hangs_at: int = 0) -> None:
        """With `hangs_at`, a worker never finishes the event of that number."""
        self.site, self.kind = site, kind
        self.handled: list[int] = []
        self.error: Any = None
        self._hangs_at = hangs_at
        settings: dict[str, Any] = {}
        incarnation = raise_incarnation(site.folder, NAME, 0)
        if kind in WITH_FILE:
            positions = PositionsFile(site.folder, NAME, incarnation)
            settings = {
                "positions": positions,
                "resume_points": positions.read(),
                "attempts": AttemptsFile(site.folder, NAME),
            }
        self.client = site.world.client(NAME, incarnation=incarnation, **settings)
        self._subscription: Any = None
        if kind == "working":
            work = self.client.work(self._work, durable="d")
            Deferred.fromCoroutine(work).addErrback(self._failed)
        else:
            durable = "" if kind == "transient" else "d"
            asked: Any = self.client.subscribe(durable=durable)
            asked.addCallbacks(self._flows, self._failed)

    def _flows(self, subscription: Any) -> None:
        self._subscription = subscription

    def _failed(self, failure: Any) -> None:
        self.error = failure.value

    def _work(self, event: ReceivedEvent) -> Deferred[None]:
        self.handled.append(event.event_id.sequence_number)
        done: Deferred[None] = Deferred()
        if self.handled[-1] != self._hangs_at:
            done.callback(None)
        return done

    def handle(self) -> None:
        """The earlier events count as processed."""
        if self._subscription is not None:
            events = self._subscription.take_ready()
            self.handled += [event.event_id.sequence_number for event in events]

    def confirm(self) -> None:
        before = -1
        while before != len(self.handled):
            before = len(self.handled)
            self.handle()


class EndingSetup:
    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.publisher = Publisher(world.client("publisher"))
        self._published = 0

    def start(self, kind: str, **how: Any) -> ClientProcess:
        process = ClientProcess(self, kind, **how)
        self.world.run(0.3)
        return process

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.publisher.publish()
        self._published += count
        self.world.run_until(lambda: not self.publisher.client.unacknowledged)
        self.world.run(0.05)

    def start_next(self, kind: str) -> ClientProcess:
        """Five events come to nobody, then five to a new process."""
        self.publish(5)
        process = self.start(kind)
        self.publish(5)
        self.world.run(0.3)
        process.confirm()
        assert process.error is None
        return process


@pytest.fixture
def site(tmp_path: Path) -> Iterator[EndingSetup]:
    with World(1) as world:
        world.run(0.1)
        yield EndingSetup(world, tmp_path)


def numbers(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_clean_close_repeats_nothing_even_if_the_node_is_killed(
    site: EndingSetup, kind: str
) -> None:
    first = site.start(kind)
    site.publish(10)
    first.confirm()
    assert site.world.wait(first.client.close()) is True
    site.world.kill_node()
    site.world.start_node()
    second = site.start_next(kind)
    assert first.handled == numbers(1, 10)
    assert second.handled == numbers(16 if kind == "transient" else 11, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_close_reports_if_the_node_did_not_confirm(site: EndingSetup, kind: str) -> None:
    first = site.start(kind)
    site.publish(10)
    site.world.kill_node()
    first.confirm()
    began = site.world.clock.seconds()
    confirmed = site.world.wait(first.client.close())
    assert confirmed is (kind == "transient")
    assert site.world.clock.seconds() - began < CLOSE_TIMEOUT + 0.1
    site.world.start_node()
    second = site.start_next(kind)
    first_repeated = {"durable": 1, "state": 11, "working": 11, "transient": 16}[kind]
    assert second.handled == numbers(first_repeated, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_restarted_node_confirms_a_waiting_close(site: EndingSetup, kind: str) -> None:
    first = site.start(kind)
    site.publish(10)
    site.world.kill_node()
    first.confirm()
    closed: Any = first.client.close()
    site.world.run(1.0)
    site.world.start_node()
    assert site.world.wait(closed) is True
    second = site.start_next(kind)
    assert second.handled == numbers(16 if kind == "transient" else 11, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_crash_repeats_only_the_last_processed_events(site: EndingSetup, kind: str) -> None:
    first = site.start(kind)
    site.publish(5)
    first.confirm()
    site.world.run(SAVE_SECONDS)
    site.publish(5)
    first.confirm()
    site.world.kill_client(first.client)
    second = site.start_next(kind)
    assert first.handled == numbers(1, 10)
    assert second.handled == numbers(16 if kind == "transient" else 6, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_crash_repeats_unconfirmed_events(site: EndingSetup, kind: str) -> None:
    first = site.start(kind, hangs_at=10)
    site.publish(9)
    first.confirm()
    site.publish(1)
    first.handle()
    site.world.run(SAVE_SECONDS)
    assert first.handled == numbers(1, 10)
    site.world.kill_client(first.client)
    second = site.start_next(kind)
    assert second.handled == numbers(16 if kind == "transient" else 10, 20)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wait", [0.0, 0.02, SAVE_SECONDS])
def test_killed_node_repeats_nothing_to_a_running_process(
    site: EndingSetup, kind: str, wait: float
) -> None:
    process = site.start(kind)
    for _ in range(4):
        for _ in range(5):
            site.publisher.publish()
        site.world.run(wait)
        process.handle()
        site.world.kill_node()
        site.world.run(0.5)
        process.handle()
        site.world.start_node()
        site.world.run(0.1 + wait)
    site.world.run(3.0)
    process.confirm()
    assert process.error is None
    assert process.handled == numbers(1, 20)


@pytest.mark.parametrize("kind", WITH_FILE)
@pytest.mark.parametrize("node_knows", [True, False])
def test_restored_positions_file_repeats_only_events_unknown_to_the_node(
    site: EndingSetup, kind: str, node_knows: bool
) -> None:
    file = site.folder / f"{NAME}.positions"
    first = site.start(kind)
    site.publish(5)
    first.confirm()
    site.world.run(SAVE_SECONDS)
    backup = shutil.copy(file, site.folder / "backup")
    site.publish(5)
    first.confirm()
    assert site.world.wait(first.client.close()) is True
    shutil.copy(backup, file)
    if not node_knows:
        site.world.node.durables.delete(NAME, "d")
    second = site.start_next(kind)
    assert second.handled == numbers(11 if node_knows else 6, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_second_process_with_the_same_name_ends_the_first(site: EndingSetup, kind: str) -> None:
    first = site.start(kind)
    site.publish(10)
    first.confirm()
    site.world.run(SAVE_SECONDS)
    second = site.start(kind)
    site.publish(10)
    for process in (first, second):
        site.world.run(0.3)
        process.confirm()
    assert isinstance(first.client.last_error, SessionSuperseded)
    assert first.handled == numbers(1, 10)
    assert second.handled == numbers(11, 20)
    assert site.world.wait(first.client.close()) is (kind == "transient")
    assert site.world.wait(second.client.close()) is True
    third = site.start_next(kind)
    assert third.handled == numbers(26 if kind == "transient" else 21, 30)


def test_last_positions_of_a_process_count_before_the_next_hello(
    site: EndingSetup,
) -> None:
    """The node has not read the positions when the hello arrives."""
    first = site.start("durable")
    site.publish(10)
    first.confirm()
    (session,) = [s for s in site.world.node.acceptor.sessions if s.identity.client_id == NAME]
    taken: list[Any] = []
    session._slices.run = lambda: taken.append(len(session._received))  # type: ignore[method-assign]
    site.world.run(SAVE_SECONDS)
    assert taken
    site.world.kill_client(first.client)
    second = site.start_next("durable")
    assert second.handled == numbers(11, 20)
