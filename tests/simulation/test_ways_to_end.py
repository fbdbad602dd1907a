"""Each kind of subscription, and each way in which its process can end (docs/subscriptions.md).

One test is one column of the table there, run for each row.
"""

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
from broker.testing.simulation import World
from tests.simulation.watching import Publisher

NAME = "reader"
#: Longer than positions wait for company, at the client and in the node's log.
SETTLED = 1.0

KINDS = ("transient", "durable", "state", "working")
STORED = KINDS[1:]
WITH_FILE = ("state", "working")


class Process:
    """One process of the client. What it handled are the sequence numbers of events."""

    def __init__(self, site: Site, kind: str, *, hangs_at: int = 0) -> None:
        """A worker never ends with the event `hangs_at`."""
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
        """Handle what has arrived; what was handled before counts as processed now."""
        if self._subscription is not None:
            events = self._subscription.take_ready()
            self.handled += [event.event_id.sequence_number for event in events]

    def confirm(self) -> None:
        """Handle everything, and let it count as processed."""
        before = -1
        while before != len(self.handled):
            before = len(self.handled)
            self.handle()


class Site:
    """A node, a publisher, and processes of one client one after the other."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder = world, folder
        self.publisher = Publisher(world, world.client("publisher"))
        self._published = 0

    def start(self, kind: str, **how: Any) -> Process:
        process = Process(self, kind, **how)
        self.world.run(0.3)
        return process

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.publisher.publish()
        self._published += count
        self.world.run_until(lambda: not self.publisher.client.unacknowledged)
        self.world.run(0.05)

    def next(self, kind: str) -> Process:
        """Publish five more to nobody, and then five to another process of the client."""
        self.publish(5)
        process = self.start(kind)
        self.publish(5)
        self.world.run(0.3)
        process.confirm()
        assert process.error is None
        return process


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with World(1) as world:
        world.run(0.1)
        yield Site(world, tmp_path)


def numbers(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_clean_close_nothing_comes_again_though_the_node_is_killed_at_once(
    site: Site, kind: str
) -> None:
    first = site.start(kind)
    site.publish(10)
    first.confirm()
    assert site.world.wait(first.client.close()) is True
    site.world.kill_node()
    site.world.start_node()
    second = site.next(kind)
    assert first.handled == numbers(1, 10)
    assert second.handled == numbers(16 if kind == "transient" else 11, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_a_close_that_the_node_does_not_confirm_says_so(site: Site, kind: str) -> None:
    first = site.start(kind)
    site.publish(10)
    site.world.kill_node()
    first.confirm()
    began = site.world.clock.seconds()
    confirmed = site.world.wait(first.client.close())
    assert confirmed is (kind == "transient")
    assert site.world.clock.seconds() - began < CLOSE_TIMEOUT + 0.1
    site.world.start_node()
    second = site.next(kind)
    # A state folder knows what the node was not told.
    again = {"durable": 1, "state": 11, "working": 11, "transient": 16}[kind]
    assert second.handled == numbers(again, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_a_node_that_comes_back_confirms_a_close_that_waits(site: Site, kind: str) -> None:
    first = site.start(kind)
    site.publish(10)
    site.world.kill_node()
    first.confirm()
    closed: Any = first.client.close()
    site.world.run(1.0)
    site.world.start_node()
    assert site.world.wait(closed) is True
    second = site.next(kind)
    assert second.handled == numbers(16 if kind == "transient" else 11, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_crash_only_what_was_processed_just_before_comes_again(
    site: Site, kind: str
) -> None:
    first = site.start(kind)
    site.publish(5)
    first.confirm()
    site.world.run(SETTLED)
    site.publish(5)
    first.confirm()
    site.world.kill_client(first.client)
    second = site.next(kind)
    assert first.handled == numbers(1, 10)
    assert second.handled == numbers(16 if kind == "transient" else 6, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_handled_and_not_confirmed_comes_again_after_a_crash(
    site: Site, kind: str
) -> None:
    first = site.start(kind, hangs_at=10)
    site.publish(9)
    first.confirm()
    site.publish(1)
    first.handle()
    site.world.run(SETTLED)
    assert first.handled == numbers(1, 10)
    site.world.kill_client(first.client)
    second = site.next(kind)
    assert second.handled == numbers(16 if kind == "transient" else 10, 20)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wait", [0.0, 0.02, SETTLED])
def test_a_killed_node_makes_nothing_come_twice_to_one_process(
    site: Site, kind: str, wait: float
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
def test_a_restored_position_file_brings_back_only_what_the_node_does_not_know(
    site: Site, kind: str, node_knows: bool
) -> None:
    file = site.folder / f"{NAME}.positions"
    first = site.start(kind)
    site.publish(5)
    first.confirm()
    site.world.run(SETTLED)
    backup = shutil.copy(file, site.folder / "backup")
    site.publish(5)
    first.confirm()
    assert site.world.wait(first.client.close()) is True
    shutil.copy(backup, file)
    if not node_knows:
        site.world.node.durables.forget(NAME, "d")
    second = site.next(kind)
    assert second.handled == numbers(11 if node_knows else 6, 20)


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_process_under_one_name_ends_the_first(site: Site, kind: str) -> None:
    first = site.start(kind)
    site.publish(10)
    first.confirm()
    site.world.run(SETTLED)
    second = site.start(kind)
    site.publish(10)
    for process in (first, second):
        site.world.run(0.3)
        process.confirm()
    assert isinstance(first.client.last_error, SessionSuperseded)
    assert first.handled == numbers(1, 10)
    assert second.handled == numbers(11, 20)
    # The first one changes nothing any more, neither at the node nor in the folder, and says so.
    assert site.world.wait(first.client.close()) is (kind == "transient")
    assert site.world.wait(second.client.close()) is True
    third = site.next(kind)
    assert third.handled == numbers(26 if kind == "transient" else 21, 30)


def test_positions_that_a_process_sent_last_count_though_the_next_one_comes_first(
    site: Site,
) -> None:
    """The node has them in its hands, and has not looked at them, when the greeting comes."""
    first = site.start("durable")
    site.publish(10)
    first.confirm()
    (session,) = [s for s in site.world.node.reception.sessions if s.identity.client_id == NAME]
    taken: list[Any] = []
    # Nothing that comes has its turn any more.
    session._turns.work = lambda: taken.append(len(session._received))  # type: ignore[method-assign]
    site.world.run(SETTLED)
    assert taken
    site.world.kill_client(first.client)
    second = site.next("durable")
    assert second.handled == numbers(11, 20)
