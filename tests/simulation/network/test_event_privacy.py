"""`explain` and `durable show` reveal nothing of an event that the account may not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypedDict

import attrs
import msgpack
import pytest

from broker.cluster.network_question import Question, Reply
from broker.cluster.traffic.messages import RoutedMessage
from broker.config import Settings
from broker.event.envelope import EventType, SecurityLevel
from broker.event.writer import write_event
from broker.log.event_log import EventLog
from broker.testing.flights import Interest, flight
from broker.testing.simulated_reader import Reader, read
from tests.simulation.network.test_event_verdicts import ThreeNodes, subscription_verdicts
from tests.simulation.test_identities import ACCOUNTS, asdi


class Login(TypedDict):
    account: str
    secret: str


LOW: Login = {"account": "low", "secret": "right"}
ALL: Login = {"account": "all", "secret": "right"}


@pytest.fixture
def nodes() -> Iterator[ThreeNodes]:
    nodes = ThreeNodes(settings=attrs.evolve(Settings(), accounts=ACCOUNTS))
    yield nodes
    nodes.world.close()


def counted_reads(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    reads: list[int] = []
    read_page = log.read

    def counted(start: int, *args: Any, **named: Any) -> Any:
        reads.append(start)
        return read_page(start, *args, **named)

    monkeypatch.setattr(log, "read", counted)
    return reads


def without_times(answer: Any) -> Any:
    explanation = answer["explanation"] and {**answer["explanation"], "measured": None}
    return {**answer, "explanation": explanation}


def forged(document: bytes, *changes: tuple[bytes, bytes]) -> bytes:
    """Readable for the account, with the EventId of another event."""
    for before, after in ((b'"high"', b'"low"'), (b"1000<", b"1001<"), *changes):
        assert before in document
        document = document.replace(before, after)
    return document


@pytest.mark.parametrize("here", ["", "yes"])
@pytest.mark.parametrize("client", ["", "low-1"])
def test_existing_event_id_gets_the_same_answer_as_an_unknown_one(
    nodes: ThreeNodes, here: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = nodes.publish(nodes.join(**ALL), security_level=SecurityLevel.HIGH)
    number = b"SequenceNumber>%d<"
    exists = forged(secret)
    absent = forged(secret, (number % 1, number % 77))
    assert exists != absent
    asker = nodes.world.client("low-1", "a", **LOW)
    nodes.world.run(0.5)
    arguments = {"client": client, "here": here, "query": "//altitude = 1000", "streams": "asdi.>"}
    reads = counted_reads(nodes.world["a"].event_log, monkeypatch)
    answers, pages = [], []
    for document in (exists, absent):
        reads.clear()
        answer = nodes.world.wait(asker.ask("explain", document, **arguments))
        pages.append(list(reads))
        answer["explanation"]["event"].pop("sequence_number")
        answers.append(without_times(answer))
        nodes.world.run(20.0)
    assert answers[0] == answers[1]
    assert answers[0]["network"]["known"] is False
    # The time reveals nothing.
    assert pages[0] == pages[1]
    other = secret.replace(number % 1, number % 77)
    answers_seen = []
    for document in (secret, other):
        answer = nodes.world.wait(asker.ask("explain", document, **arguments))
        answer["explanation"]["event"].pop("sequence_number")
        answers_seen.append(without_times(answer))
        nodes.world.run(20.0)
    assert answers_seen[0] == answers_seen[1] and answers_seen[0]["network"]["known"] is None


def test_counts_do_not_reveal_if_a_denied_event_matches(nodes: ThreeNodes) -> None:
    world = nodes.world
    interests = [Interest("asdi.>", f"//altitude = {n}", lambda *_: True) for n in (1000, 7)]
    clients = [world.client(f"low-{n}", "a", **LOW) for n in range(2)]
    for client, interest in zip(clients, interests, strict=True):
        Reader(world, client, interest, durable="d")
    world.run(1.0)
    publisher = nodes.join(**ALL)
    nodes.publish(publisher, security_level=SecurityLevel.HIGH)
    public = nodes.publish(publisher, stream="public", security_level=SecurityLevel.LOW)
    answers_seen = []
    for n, client in enumerate(clients):
        shown = world.wait(client.ask("durable-show", name="d"))
        answer = world.wait(client.ask("explain", public, client=f"low-{n}"))
        (row,) = answer["client"]["subscriptions"]
        (there,) = (r for node in answer["network"]["nodes"] for r in node["subscriptions"])
        rows = (shown["session"], row, there)
        figures = ("seen", "filtered", "denied", "elsewhere", "gone", "delivered", "queued")
        answers_seen.append([{k: each[k] for k in figures if k in each} for each in rows])
        assert row["delivered"] == 0 and not row.keys() & set(figures[:5])
    assert answers_seen[0] == answers_seen[1]
    shown = world.wait(publisher.ask("durable-show", client="low-0", name="d"))
    assert shown["session"]["denied"] == 1


def test_shapes_of_unreadable_events_are_not_shown(nodes: ThreeNodes) -> None:
    publisher = nodes.join(**ALL)
    for _ in range(3):
        secret = nodes.publish(publisher, security_level=SecurityLevel.HIGH)
    assert nodes.world["a"].matcher.statistics()["shapes"] > 0
    asker = nodes.world.client("low-1", "a", **LOW)
    nodes.world.run(0.5)
    answer = nodes.world.wait(asker.ask("explain", secret, query="//altitude = 1"))
    explanation = answer["explanation"]
    assert explanation["withheld"] and not explanation["types"]
    assert explanation["event"]["recognised"] is None
    assert explanation["measured"]["lookup"] is None


def test_account_inspects_only_its_own_clients(nodes: ThreeNodes) -> None:
    world = nodes.world
    reader = Reader(world, world.client("low-1", "b", **LOW), asdi(), durable="d")
    document = nodes.publish(nodes.join(**ALL), security_level=SecurityLevel.LOW)
    read(world, reader)
    answer = nodes.explain("a", document, "low-1", asker="low-ops", **LOW)
    assert subscription_verdicts(answer) == {"one/b": ["delivered"]}
    assert reader.client.connected
    with pytest.raises(Exception, match="administer"):
        nodes.explain("a", document, "publisher", asker="low-ops", **LOW)


@pytest.mark.parametrize("shown", [True, False])
def test_uncleared_link_carries_no_values_of_an_event(shown: bool) -> None:
    nodes = ThreeNodes(clearance=SecurityLevel.LOW)
    world = nodes.world
    Reader(world, world.client("reader", "c"), Interest(">", "//altitude = 1000", lambda *_: True))
    Reader(world, world.client("reader", "a"), Interest(">", "//altitude = 1000", lambda *_: True))
    world.run(1.0)
    document = nodes.publish(nodes.join(), security_level=SecurityLevel.HIGH)
    crossed: list[RoutedMessage] = []
    for name in "abc":
        driver = world.network_of(name).driver
        receive = driver.on_other_message

        def watch(message: RoutedMessage, receive: Any = receive, name: str = name) -> Any:
            if (message.source.node == "c") is not (name == "c"):
                crossed.append(message)
            return receive(message)

        driver.on_other_message = watch
    nodes.explain("a" if shown else "c", document, "reader")
    questions = [each for each in crossed if isinstance(each, Question)]
    replies = [each for each in crossed if isinstance(each, Reply)]
    assert questions and replies
    for question in questions:
        assert document not in question.content and not question.rank
    for reply in replies:
        for _, content in reply.answers:
            assert msgpack.unpackb(content).keys() <= {"place", "is_origin", "onward", "partly"}
    world.close()


def test_explaining_unpublished_events_changes_no_state(nodes: ThreeNodes) -> None:
    world, node = nodes.world, nodes.world["a"]
    asker = world.client("low-1", "a", **LOW)
    mint = nodes.join(**ALL)._mint

    def counted() -> dict[str, int | float]:
        figures = dict(node.matcher.statistics())
        # The parser interns the names of the document.
        del figures["undeclared_names"]
        return figures

    before = counted()
    for size in range(5):
        event_id = mint.next_id(world.wall_clock())
        payload = flight(1).replace(b"</id>", b"</id>" + b"<!-- -->" * size)
        document = write_event(
            event_id,
            "asdi.zbw",
            EventType("flight", "1.0", security_level=SecurityLevel.LOW),
            payload,
        )
        answer = world.wait(asker.ask("explain", document, query="//id"))
        assert answer["network"]["known"] is False
        world.run(10.0)
    assert counted() == before
