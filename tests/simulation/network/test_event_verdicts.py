"""`explain` of an event has a verdict of each node (N7)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.cluster.handshake_messages import PROTOCOL_VERSIONS
from broker.cluster.network_question import ANSWER_TIME, Question
from broker.cluster.traffic.messages import RoutedMessage
from broker.config import Settings
from broker.event.envelope import EventType, SecurityLevel
from broker.event.writer import write_event
from broker.log.event_log import EventLog
from broker.testing.flights import INTERESTS, flight
from broker.testing.simulated_network import NetworkWorld
from broker.testing.simulated_publisher import Publisher
from broker.testing.simulated_reader import Reader, read
from broker.tracing import log_search, node_trace
from tests.simulation.test_identities import ACCOUNTS

KEY = b"k" * 32


class ThreeNodes:
    """a and b form a cluster; c is behind b."""

    def __init__(self, *, settings: Settings | None = None, **of_c: Any) -> None:
        self.world = world = NetworkWorld(1, settings=settings)
        key = world.key_file(KEY)
        add = partial(world.add, key_file=key, cleartext_clearance=SecurityLevel.HIGH)
        add("a", "one")
        add("b", "one", join=["a"])
        add("c", "two", gateways=["b"], **of_c)
        world.run(3.0)
        self._incarnation = 0

    def join(self, publisher: str = "publisher", **login: Any) -> Client:
        client = self.world.client(publisher, "a", **login)
        self.world.run(0.5)
        return client

    def publish(self, client: Client, stream: str = "asdi.zbw.tz", **kind: Any) -> bytes:
        """Return the document."""
        event_type = EventType("flight", "1.0", **kind)
        event_id = client._mint.next_id(self.world.wall_clock())
        document = write_event(event_id, stream, event_type, flight(1000))
        self.world.wait(client.publish_document(document, event_id))
        self.world.run(1.0)
        return document

    def explain(self, at: str, document: bytes, client: str, **login: Any) -> dict[str, Any]:
        self._incarnation += 1
        name = login.pop("asker", "asker")
        asker = self.world.client(name, at, incarnation=self._incarnation, **login)
        self.world.run(0.5)
        answer: dict[str, Any] = self.world.wait(asker.ask("explain", document, client=client))
        self.world.wait(asker.close())
        return answer


@pytest.fixture
def all_nodes() -> Iterator[list[ThreeNodes]]:
    made: list[ThreeNodes] = []
    yield made
    for nodes in made:
        nodes.world.close()


def verdicts(answer: dict[str, Any]) -> dict[str, str]:
    return {each["node"]: each["verdict"] for each in answer["network"]["nodes"]}


def subscription_verdicts(answer: dict[str, Any]) -> dict[str, list[str]]:
    return {
        each["node"]: [row["verdict"] for row in each["subscriptions"]]
        for each in answer["network"]["nodes"]
        if each["subscriptions"]
    }


@pytest.mark.parametrize("at", ["a", "b", "c"])
def test_each_node_reports_if_it_has_the_event(all_nodes: list[ThreeNodes], at: str) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    reader = Reader(nodes.world, nodes.world.client("reader", "c"))
    low = Reader(nodes.world, nodes.world.client("low", "b"), INTERESTS[3])
    nodes.world.run(1.0)
    document = nodes.publish(nodes.join())
    read(nodes.world, reader, low)
    assert len(reader.events) == 1
    answer = nodes.explain(at, document, "reader")
    assert verdicts(answer) == {"one/a": "origin", "one/b": "filtered", "two/c": "logged"}
    assert subscription_verdicts(answer) == {"two/c": ["delivered"]}
    assert answer["network"]["known"] and answer["network"]["place"] == str(reader.events[0].place)
    assert not answer["network"]["silent"]
    assert subscription_verdicts(nodes.explain(at, document, "low")) == {"one/b": ["query"]}


@pytest.mark.parametrize("at", ["a", "c"])
def test_event_denied_on_the_way_is_reported_as_denied(
    all_nodes: list[ThreeNodes], at: str
) -> None:
    nodes = ThreeNodes(clearance=SecurityLevel.LOW)
    all_nodes.append(nodes)
    reader = Reader(nodes.world, nodes.world.client("reader", "c"))
    nodes.world.run(1.0)
    publisher = nodes.join()
    low = nodes.publish(publisher, security_level=SecurityLevel.LOW)
    high = nodes.publish(publisher, security_level=SecurityLevel.HIGH)
    read(nodes.world, reader)
    assert len(reader.events) == 1
    assert subscription_verdicts(nodes.explain(at, low, "reader")) == {"two/c": ["delivered"]}
    answer = nodes.explain(at, high, "reader")
    assert verdicts(answer) == {"one/a": "origin", "one/b": "filtered", "two/c": "denied"}
    if at == "c":
        assert subscription_verdicts(answer) == {"two/c": ["denied"]}
        assert [row["verdict"] for row in answer["client"]["subscriptions"]] == ["denied"]


def test_event_that_has_not_arrived_is_missing(all_nodes: list[ThreeNodes]) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    world = nodes.world
    reader = Reader(world, world.client("reader", "c"))
    publisher = nodes.join()
    world.run(1.0)
    nodes.publish(publisher)
    world.set_disk_full("c", True)
    document = nodes.publish(publisher)
    answer = nodes.explain("a", document, "reader")
    assert verdicts(answer)["two/c"] == "missing"
    assert subscription_verdicts(answer) == {"two/c": ["missing"]}
    world.set_disk_full("c", False)
    read(world, reader, seconds=20.0)
    assert verdicts(nodes.explain("a", document, "reader"))["two/c"] == "logged"


def test_unreachable_node_is_listed_as_silent(all_nodes: list[ThreeNodes]) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    document = nodes.publish(nodes.join())
    nodes.world.kill("b")
    nodes.world.run(1.0)
    began = nodes.world.clock.seconds()
    answer = nodes.explain("a", document, "reader")
    assert nodes.world.clock.seconds() - began < 3 * ANSWER_TIME / 1000
    assert verdicts(answer)["one/a"] == "origin"
    assert "one/b" in answer["network"]["silent"]


def test_unpublished_event_is_explained_as_a_possible_one(
    all_nodes: list[ThreeNodes],
) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    Reader(nodes.world, nodes.world.client("reader", "a"))
    client = nodes.join()
    event_id = client._mint.next_id(nodes.world.wall_clock())
    document = write_event(event_id, "asdi.zbw.tz", EventType("flight", "1.0"), flight(1))
    answer = nodes.explain("a", document, "reader")
    assert answer["network"]["known"] is False and answer["network"]["nodes"] == []
    assert [row["verdict"] for row in answer["client"]["subscriptions"]] == ["delivered"]


def test_verdicts_name_events_before_and_after_the_position(all_nodes: list[ThreeNodes]) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    world = nodes.world
    publisher = nodes.join()
    early = Reader(world, world.client("early", "c"), durable="d")
    world.run(1.0)
    document = nodes.publish(publisher)
    read(world, early)
    late = world.client("late", "c")
    Reader(world, late)
    world.run(1.0)
    assert subscription_verdicts(nodes.explain("a", document, "early")) == {"two/c": ["delivered"]}
    assert subscription_verdicts(nodes.explain("a", document, "late")) == {"two/c": ["before"]}
    # The client has processed the first event only.
    world.wait(early.client.close())
    newer = nodes.publish(publisher)
    assert subscription_verdicts(nodes.explain("a", document, "early")) == {"two/c": ["before"]}
    assert subscription_verdicts(nodes.explain("a", newer, "early")) == {"two/c": ["away"]}
    asker = world.client("operator", "c")
    world.wait(asker.ask("durable-pause", client="early", name="d"))
    assert subscription_verdicts(nodes.explain("a", newer, "early")) == {"two/c": ["paused"]}
    world.wait(asker.ask("durable-resume", client="early", name="d"))
    # The new node recovers the event.
    Reader(world, world.client("early", "b", incarnation=2), durable="d")
    world.run(1.0)
    result = subscription_verdicts(nodes.explain("a", newer, "early"))
    assert result == {"one/b": ["passed-over"], "two/c": ["moved"]}


def test_account_gets_no_verdict_on_an_event_it_may_not_read(all_nodes: list[ThreeNodes]) -> None:
    settings = attrs.evolve(Settings(), accounts=ACCOUNTS)
    nodes = ThreeNodes(settings=settings)
    all_nodes.append(nodes)
    publisher = nodes.join(account="all", secret="right")
    readable = nodes.publish(publisher, security_level=SecurityLevel.LOW)
    secret = nodes.publish(publisher, security_level=SecurityLevel.HIGH)
    other_stream = nodes.publish(publisher, stream="closed", security_level=SecurityLevel.LOW)
    low = {"account": "low", "secret": "right", "asker": "low-1"}
    assert verdicts(nodes.explain("b", readable, "low-1", **low))["one/a"] == "origin"
    for document in (secret, other_stream):
        answer = nodes.explain("b", document, "low-1", **low)
        assert answer["network"]["known"] is None and answer["network"]["nodes"] == []
        assert not answer["client"]["accepted"]


def test_neighbour_of_the_previous_version_gets_no_question(all_nodes: list[ThreeNodes]) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    network = nodes.world.network_of("a")
    neighbour = network.neighbours.get("b")
    assert neighbour is not None and neighbour.version == PROTOCOL_VERSIONS[-1]
    neighbour.version = 1
    sent: list[RoutedMessage] = []
    receive = nodes.world.network_of("b").driver.on_other_message

    def receive_message(message: RoutedMessage) -> None:
        sent.append(message)
        receive(message)

    nodes.world.network_of("b").driver.on_other_message = receive_message
    document = nodes.publish(nodes.join())
    answer = nodes.explain("a", document, "reader")
    assert not [each for each in sent if isinstance(each, Question)]
    assert sorted(answer["network"]["silent"]) == ["one/b", "two"]


def test_deletion_reaches_all_nodes(all_nodes: list[ThreeNodes]) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    world = nodes.world
    publisher = Publisher(world.client("publisher", "a"))
    reader = Reader(world, world.client("reader", "c"), durable="d")
    world.run(1.0)
    publisher.publish()
    read(world, reader)
    asker = world.client("asker", "a")
    world.run(0.5)
    result = world.wait(asker.ask("durable-delete", client="reader", name="d"))
    assert not result["here"] and result["elsewhere"] == ["two/c"] and not result["silent"]
    world.run(0.5)
    assert reader.subscription is not None and reader.subscription.over
    assert world["c"].durables.get("reader", "d") is None
    world.kill_client(reader.client)
    first = Reader(world, world.client("rover", "a"), durable="r")
    world.run(1.0)
    world.kill_client(first.client)
    Reader(world, world.client("rover", "c", incarnation=2), durable="r")
    world.run(1.0)
    result = world.wait(asker.ask("durable-delete", client="rover", name="r"))
    world.run(1.0)
    for name in world.names:
        assert world[name].durables.get("rover", "r") is None, name


# ----------------------------------------------------------------------------- long logs


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search at most eight events."""
    monkeypatch.setattr(log_search, "MAX_PAGES", 4)
    monkeypatch.setattr(log_search, "PAGE_EVENTS", 2)


@pytest.mark.usefixtures("short_search")
def test_event_of_a_busy_node_is_found_by_its_time(all_nodes: list[ThreeNodes]) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    world = nodes.world
    reader = Reader(world, world.client("r", "c"))
    publisher = nodes.join()
    documents = [nodes.publish(publisher) for _ in range(30)]
    read(world, reader)
    for document in (documents[0], documents[20], documents[-1]):
        answer = nodes.explain("b", document, "r")
        assert verdicts(answer)["one/a"] == "origin"
        assert verdicts(answer)["two/c"] == "logged"


@pytest.mark.usefixtures("short_search")
def test_partial_search_is_reported_and_completed_by_the_place(all_nodes: list[ThreeNodes]) -> None:
    nodes = ThreeNodes()
    all_nodes.append(nodes)
    world = nodes.world
    reader = Reader(world, world.client("r", "c"))
    publisher = nodes.join()
    other = world.client("other", "a")
    world.run(0.5)
    event_id = publisher._mint.next_id(world.wall_clock())
    document = write_event(event_id, "asdi.zbw", EventType("flight", "1.0"), flight(7))
    for _ in range(20):
        nodes.publish(other)
    world.wait(publisher.publish_document(document, event_id))
    read(world, reader)
    assert not world.wait(publisher.ask("explain", document, query="//id"))["network"]["nodes"]
    answer = nodes.explain("b", document, "r")
    assert answer["network"]["known"] is False
    assert answer["network"]["partly"] == ["one/a", "two/c"]
    search = log_search.search_log

    async def at_origin(log: EventLog, *question: Any) -> Any:
        if log is world["a"].event_log:
            events = await EventLog.read(log, log.bounds.last, 1, 1 << 20)
            return events[0], False
        return await search(log, *question)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(node_trace, "search_log", at_origin)
        answer = nodes.explain("b", document, "r")
    assert verdicts(answer) == {"one/a": "origin", "one/b": "filtered", "two/c": "logged"}
    assert subscription_verdicts(answer) == {"two/c": ["delivered"]}
