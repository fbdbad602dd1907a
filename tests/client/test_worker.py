"""Processing with retries: a failed event is retried, and becomes a dead letter at last."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from lxml import etree
from twisted.internet.defer import CancelledError, Deferred

from broker.client.attempts_file import RECORDED_AFTER_CRASH, Attempts, AttemptsFile
from broker.client.client import Client
from broker.client.received import ReceivedEvent
from broker.client.worker import DEAD_LETTER, Working, WorkResult
from broker.config import Settings
from broker.errors import BadName, ConfigurationError, NotAllowed, TooLarge
from broker.event.envelope import EventType, SecurityLevel
from broker.event.place import Place
from broker.testing.simulation import World
from tests.simulation.test_identities import ACCOUNTS

FLIGHT = EventType("flight", "1.0")
WORKING = Working(max_deliver=3, ack_timeout=10.0, pause=1.0)
Handle = Callable[[ReceivedEvent], Awaitable[None]]


def payload(number: int) -> bytes:
    return b"<flight><id>F%d</id><flightleg/></flight>" % number


def number_of(event: ReceivedEvent) -> int:
    return int((event.payload or b"")[13:].partition(b"<")[0])


class Handler:
    def __init__(self) -> None:
        self.given: list[int] = []
        self.faults: dict[int, Handle] = {}

    async def __call__(self, event: ReceivedEvent) -> None:
        self.given.append(number_of(event))
        if self.given[-1] in self.faults:
            await self.faults[self.given[-1]](event)


async def fails(event: ReceivedEvent) -> None:
    raise ValueError(f"no\x00thing & <{number_of(event)}>")


async def hangs(_: ReceivedEvent) -> None:
    await Deferred()


def at_work(
    client: Client, handle: Handler, working: Working = WORKING
) -> tuple[Deferred[WorkResult], list[Any]]:
    """The list receives the outcome."""
    outcome: list[Any] = []
    working_on = Deferred.fromCoroutine(
        client.work(handle, "/flight", durable="d", working=working)
    )
    working_on.addBoth(outcome.append)
    return working_on, outcome


def publish(world: World, *numbers: int, incarnation: int = 1) -> None:
    publisher = world.client("publisher", incarnation=incarnation)
    for number in numbers:
        publisher.publish("s", payload(number), FLIGHT)
    world.wait(publisher.drained())
    world.wait(publisher.close())


def test_a_failed_event_is_retried_before_later_ones() -> None:
    with World(1) as world:
        handle = Handler()
        tries: list[int] = []

        async def fails_twice(event: ReceivedEvent) -> None:
            tries.append(number_of(event))
            if len(tries) < 3:
                raise ValueError("not yet")

        handle.faults[2] = fails_twice
        _, outcome = at_work(world.client("worker"), handle)
        world.run(1.0)
        publish(world, 1, 2, 3)
        world.run(0.5)
        assert handle.given == [1, 2]
        world.run(1.0)
        assert handle.given == [1, 2, 2]
        world.run(2.0)
        assert handle.given == [1, 2, 2, 2, 3]
        assert not outcome


@pytest.mark.parametrize(
    ("fault", "seconds", "reason"),
    [(fails, 3.0, "ValueError: no?thing & <2>"), (hangs, 33.0, "it timed out after 10 s")],
)
def test_an_event_that_always_fails_becomes_a_dead_letter(
    fault: Handle, seconds: float, reason: str
) -> None:
    with World(2) as world:
        handle = Handler()
        handle.faults[2] = fault
        client = world.client("worker")
        at_work(client, handle)
        letters = world.wait(world.client("undertaker").subscribe("/deadletter"))
        publish(world, 1, 2, 3)
        world.run(seconds - 0.5)
        assert letters.take_ready() == []
        assert 3 not in handle.given
        world.run(2.0)
        assert handle.given == [1, 2, 2, 2, 3]
        (letter,) = letters.take_ready()
        assert letter.stream == "dead-letters"
        assert (letter.header.type_name, letter.header.version) == (
            DEAD_LETTER.name,
            DEAD_LETTER.version,
        )
        root = etree.fromstring(letter.payload)
        assert root.get("client") == "worker"
        assert root.get("subscription") == "d"
        assert root.get("tries") == "3"
        assert root.findtext("reason") == reason
        again = etree.fromstring((root.findtext("document") or "").encode())
        assert again.findtext("flight/id") == "F2"
        assert root.get("place", "").endswith(f":{world.node.event_log.bounds.epoch}:2")
        assert root.get("id", "").startswith("publisher/")


def test_an_interrupted_event_comes_again() -> None:
    with World(3) as world:
        first, second = Handler(), Handler()
        first.faults[2] = hangs
        client = world.client("worker")
        working_on, outcome = at_work(client, first)
        world.run(1.0)
        publish(world, 1, 2, 3)
        world.run(1.0)
        working_on.cancel()
        (failure,) = outcome
        assert failure.check(CancelledError)
        world.wait(client.close())
        at_work(world.client("worker", incarnation=2), second)
        world.run(1.0)
        assert (first.given, second.given) == ([1, 2], [2, 3])


def test_only_unacknowledged_events_come_again() -> None:
    with World(4) as world:
        first, second = Handler(), Handler()
        client = world.client("worker")
        at_work(client, first)
        world.run(1.0)
        publish(world, *range(1, 21))
        world.run(2.0)
        world.kill_client(client)
        publish(world, 21, incarnation=2)
        at_work(world.client("worker", incarnation=2), second)
        world.run(2.0)
        assert first.given + second.given == [*range(1, 22)]


def test_a_dead_letter_that_is_too_long_omits_the_document(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with World(5) as world:
        handle = Handler()
        handle.faults[1] = fails
        client = world.client("worker")
        publish_as_usual = client.publish

        def small(stream: str, payload: bytes, *rest: Any, **more: Any) -> Any:
            if len(payload) > 300:
                raise TooLarge("too long")
            return publish_as_usual(stream, payload, *rest, **more)

        monkeypatch.setattr(client, "publish", small)
        at_work(client, handle)
        letters = world.wait(world.client("undertaker").subscribe("/deadletter"))
        publish(world, 1, 2)
        world.run(10.0)
        (letter,) = letters.take_ready()
        assert etree.fromstring(letter.payload).find("document") is None
        assert handle.given == [1, 1, 1, 2]


def test_a_refused_dead_letter_ends_the_work_without_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with World(6) as world:
        handle = Handler()
        handle.faults[1] = fails
        client = world.client("worker")

        def refused(*_: Any, **__: Any) -> Any:
            raise BadName("no such stream here")

        monkeypatch.setattr(client, "publish", refused)
        _, outcome = at_work(client, handle)
        world.run(1.0)
        publish(world, 1, 2)
        world.run(10.0)
        (failure,) = outcome
        assert failure.check(BadName)
        world.wait(client.close())
        again = Handler()
        at_work(world.client("worker", incarnation=2), again)
        world.run(1.0)
        assert again.given == [1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        {"max_deliver": 0},
        {"ack_timeout": 0.0},
        {"ack_timeout": float("inf")},
        {"pause": -1.0},
        {"dead_letters": "no stream"},
    ],
)
def test_an_invalid_policy_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises((ConfigurationError, BadName)):
        Working(**wrong)


# --------------------------------------------------------------------------- processes that die

AT = Place("n", 1, 7)


def test_a_crash_during_a_try_counts_as_a_try(tmp_path: Path) -> None:
    def process() -> Attempts:
        attempts = Attempts(AttemptsFile(tmp_path, "c"), "d")
        attempts.start()
        return attempts

    # After a clean end nothing is recorded before a try.
    first = process()
    first.record_try(AT, 1)
    for tries in (0, 1, 2):
        died = process()
        assert died.count_tries(AT) == tries
        assert died.count_tries(Place("n", 1, 8)) == 0
        died.record_try(AT, tries + 1)
    good = process()
    assert good.count_tries(AT) == 3
    good.finish()
    assert process().count_tries(AT) == 0


def test_attempts_are_recorded_only_until_the_doubtful_events_are_done(tmp_path: Path) -> None:
    file = AttemptsFile(tmp_path, "c")
    Attempts(file, "d").start()
    attempts = Attempts(file, "d")
    attempts.start()
    for _ in range(RECORDED_AFTER_CRASH):
        attempts.record_done()
    attempts.record_try(AT, 1)
    assert file.read("d") == (True, None, 0)
    assert file.read("another") == (False, None, 0)


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    file = AttemptsFile(tmp_path, "c")
    for wrong in ("{}", "no json", '{"format": "xmlbroker-attempts-1", "durables": {"d": 1}}'):
        file.path.write_text(wrong)
        with pytest.raises(ConfigurationError, match="remove it"):
            Attempts(file, "d").start()


@pytest.mark.parametrize("level", list(SecurityLevel))
def test_a_dead_letter_has_the_level_of_its_event(level: SecurityLevel) -> None:
    with World(2) as world:
        handle = Handler()
        handle.faults[2] = fails
        at_work(world.client("worker"), handle)
        letters = world.wait(world.client("undertaker").subscribe("/deadletter"))
        publisher = world.client("publisher")
        kind = attrs.evolve(FLIGHT, security_level=level)
        publisher.publish("s", payload(2), kind)
        world.run(5.0)
        letter = world.wait(Deferred.fromCoroutine(anext(aiter(letters))))
        assert letter.header.security_level is level


def test_an_event_comes_again_if_its_dead_letter_is_refused() -> None:
    accounts = (
        *ACCOUNTS,
        attrs.evolve(ACCOUNTS[-1], name="worker", publish=(), client_ids=("worker",)),
    )
    login: dict[str, Any] = {"secret": "right"}
    with World(2, settings=attrs.evolve(Settings(), accounts=accounts)) as world:
        handle = Handler()
        handle.faults[2] = fails
        _, outcome = at_work(world.client("worker", account="worker", **login), handle)
        publisher = world.client("publisher", account="all", **login)
        world.run(1.0)
        publisher.publish("s", payload(2), attrs.evolve(FLIGHT, security_level=SecurityLevel.HIGH))
        world.run(5.0)
        assert outcome[0].check(NotAllowed)
        later = Handler()
        client = world.client("worker", incarnation=2, account="worker", **login)
        _, outcome = at_work(client, later)
        world.run(1.0)
        assert later.given == [2] and not outcome
