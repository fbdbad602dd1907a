"""`explain` of an event answers for the whole network: each node has a verdict (N7)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from broker.client.client import Client
from broker.cluster.network_question import ANSWER_TIME, Question
from broker.cluster.traffic.messages import RoutedMessage
from broker.config import Settings
from broker.event.envelope import EventType, SecurityLevel
from broker.event.writer import write_event
from broker.log.event_log import EventLog
from broker.testing.simulated_network import NetworkWorld
from broker.tracing import tracing
from tests.simulation.network.watching import Publisher, Reader, read
from tests.simulation.test_identities import ACCOUNTS
from tests.simulation.watching import INTERESTS, flight

KEY = b"k" * 32


class Site:
    """Nodes a and b of a cluster, and c of another one behind b; somebody asks at `asked`."""

    def __init__(self, *, settings: Settings | None = None, **of_c: Any) -> None:
        self.world = world = NetworkWorld(1, settings=settings)
        said = {"key_file": world.key_file(KEY), "cleartext_clearance": SecurityLevel.HIGH}
        self.said = said
        world.add("a", "one", **said)
        world.add("b", "one", join=["a"], **said)
        world.add("c", "two", gateways=["b"], **{**said, **of_c})
        world.run(3.0)
        self._incarnation = 0

    def join(self, publisher: str = "publisher", **login: str) -> Client:
        client = self.world.client(publisher, "a", **login)
        self.world.run(0.5)
        return client

    def publish(self, client: Client, stream: str = "asdi.zbw.tz", **kind: Any) -> bytes:
        """One event; its document."""
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
def sites() -> Iterator[list[Site]]:
    made: list[Site] = []
    yield made
    for site in made:
        site.world.close()


def verdicts(answer: dict[str, Any]) -> dict[str, str]:
    return {each["node"]: each["verdict"] for each in answer["network"]["nodes"]}


def fates(answer: dict[str, Any]) -> dict[str, list[str]]:
    return {
        each["node"]: [row["verdict"] for row in each["subscriptions"]]
        for each in answer["network"]["nodes"]
        if each["subscriptions"]
    }


@pytest.mark.parametrize("at", ["a", "b", "c"])
def test_each_node_says_whether_it_has_the_event(sites: list[Site], at: str) -> None:
    site = Site()
    sites.append(site)
    reader = Reader(site.world, site.world.client("reader", "c"))
    low = Reader(site.world, site.world.client("low", "b"), INTERESTS[3])
    site.world.run(1.0)
    document = site.publish(site.join())
    read(site.world, reader, low)
    assert len(reader.events) == 1
    answer = site.explain(at, document, "reader")
    assert verdicts(answer) == {"one/a": "origin", "one/b": "filtered", "two/c": "logged"}
    assert fates(answer) == {"two/c": ["delivered"]}
    assert answer["network"]["known"] and answer["network"]["place"] == str(reader.events[0].place)
    assert not answer["network"]["silent"]
    # One whose query does not match is told so where it is.
    assert fates(site.explain(at, document, "low")) == {"one/b": ["query"]}


@pytest.mark.parametrize("at", ["a", "c"])
def test_an_event_that_was_denied_on_the_way_is_not_called_delivered(
    sites: list[Site], at: str
) -> None:
    site = Site(clearance=SecurityLevel.LOW)
    sites.append(site)
    reader = Reader(site.world, site.world.client("reader", "c"))
    site.world.run(1.0)
    publisher = site.join()
    low = site.publish(publisher, security_level=SecurityLevel.LOW)
    high = site.publish(publisher, security_level=SecurityLevel.HIGH)
    read(site.world, reader)
    assert len(reader.events) == 1
    assert fates(site.explain(at, low, "reader")) == {"two/c": ["delivered"]}
    answer = site.explain(at, high, "reader")
    assert verdicts(answer) == {"one/a": "origin", "one/b": "filtered", "two/c": "denied"}
    if at == "c":
        assert fates(answer) == {"two/c": ["denied"]}
        assert [row["verdict"] for row in answer["client"]["subscriptions"]] == ["denied"]


def test_what_has_not_come_yet_is_missing(sites: list[Site]) -> None:
    site = Site()
    sites.append(site)
    world = site.world
    reader = Reader(world, world.client("reader", "c"))
    publisher = site.join()
    world.run(1.0)
    site.publish(publisher)
    world.set_disk_full("c", True)
    document = site.publish(publisher)
    answer = site.explain("a", document, "reader")
    assert verdicts(answer)["two/c"] == "missing"
    assert fates(answer) == {"two/c": ["missing"]}
    world.set_disk_full("c", False)
    read(world, reader, seconds=20.0)
    assert verdicts(site.explain("a", document, "reader"))["two/c"] == "logged"


def test_a_node_that_is_away_is_named(sites: list[Site]) -> None:
    site = Site()
    sites.append(site)
    document = site.publish(site.join())
    site.world.kill("b")
    site.world.run(1.0)
    began = site.world.clock.seconds()
    answer = site.explain("a", document, "reader")
    assert site.world.clock.seconds() - began < 3 * ANSWER_TIME / 1000
    assert verdicts(answer)["one/a"] == "origin"
    assert "one/b" in answer["network"]["silent"]


def test_an_event_that_nobody_has_published_is_told_as_one_that_might_be(
    sites: list[Site],
) -> None:
    site = Site()
    sites.append(site)
    Reader(site.world, site.world.client("reader", "a"))
    client = site.join()
    event_id = client._mint.next_id(site.world.wall_clock())
    document = write_event(event_id, "asdi.zbw.tz", EventType("flight", "1.0"), flight(1))
    answer = site.explain("a", document, "reader")
    assert answer["network"]["known"] is False and answer["network"]["nodes"] == ()
    assert [row["verdict"] for row in answer["client"]["subscriptions"]] == ["delivered"]


def test_what_a_subscription_had_before_or_gets_later_is_told(sites: list[Site]) -> None:
    site = Site()
    sites.append(site)
    world = site.world
    publisher = site.join()
    early = Reader(world, world.client("early", "c"), durable="d")
    world.run(1.0)
    document = site.publish(publisher)
    read(world, early)
    late = world.client("late", "c")
    Reader(world, late)
    world.run(1.0)
    assert fates(site.explain("a", document, "early")) == {"two/c": ["delivered"]}
    # It began after the event.
    assert fates(site.explain("a", document, "late")) == {"two/c": ["before"]}
    # It is away, and has processed the one event, not the other.
    world.wait(early.client.close())
    newer = site.publish(publisher)
    assert fates(site.explain("a", document, "early")) == {"two/c": ["before"]}
    assert fates(site.explain("a", newer, "early")) == {"two/c": ["away"]}
    asker = world.client("operator", "c")
    world.wait(asker.ask("durable-pause", client="early", name="d"))
    assert fates(site.explain("a", newer, "early")) == {"two/c": ["paused"]}
    world.wait(asker.ask("durable-resume", client="early", name="d"))
    # At the node where it was before nothing comes; at the new one it is recovered.
    Reader(world, world.client("early", "b", incarnation=2), durable="d")
    world.run(1.0)
    told = fates(site.explain("a", newer, "early"))
    assert told == {"one/b": ["passed-over"], "two/c": ["moved"]}


def test_an_account_is_told_nothing_of_an_event_that_it_may_not_read(sites: list[Site]) -> None:
    settings = attrs.evolve(Settings(), accounts=ACCOUNTS)
    site = Site(settings=settings)
    sites.append(site)
    publisher = site.join(account="all", secret="right")
    readable = site.publish(publisher, security_level=SecurityLevel.LOW)
    secret = site.publish(publisher, security_level=SecurityLevel.HIGH)
    closed = site.publish(publisher, stream="closed", security_level=SecurityLevel.LOW)
    low = {"account": "low", "secret": "right", "asker": "low-1"}
    assert verdicts(site.explain("b", readable, "low-1", **low))["one/a"] == "origin"
    for document in (secret, closed):
        answer = site.explain("b", document, "low-1", **low)
        assert answer["network"]["known"] is None and answer["network"]["nodes"] == ()
        assert not answer["client"]["accepted"]


def test_a_neighbour_of_the_previous_version_is_not_sent_a_question(sites: list[Site]) -> None:
    site = Site()
    sites.append(site)
    network = site.world.network_of("a")
    neighbour = network.neighbours.get("b")
    assert neighbour is not None and neighbour.version == 2
    neighbour.version = 1
    sent: list[RoutedMessage] = []
    heard = site.world.network_of("b").driver.on_other_message
    site.world.network_of("b").driver.on_other_message = lambda said: (
        sent.append(said),
        heard(said),
    )
    document = site.publish(site.join())
    answer = site.explain("a", document, "reader")
    assert not [each for each in sent if isinstance(each, Question)]
    assert sorted(answer["network"]["silent"]) == ["one/b", "two"]


def test_a_deletion_reaches_all_nodes(sites: list[Site]) -> None:
    site = Site()
    sites.append(site)
    world = site.world
    publisher = Publisher(world, world.client("publisher", "a"))
    reader = Reader(world, world.client("reader", "c"), durable="d")
    world.run(1.0)
    publisher.publish()
    read(world, reader)
    # It is at c, and a node asks that has it not.
    asker = world.client("asker", "a")
    world.run(0.5)
    told = world.wait(asker.ask("durable-delete", client="reader", name="d"))
    assert not told["here"] and told["elsewhere"] == ("two/c",) and not told["silent"]
    world.run(0.5)
    assert reader.subscription is not None and reader.subscription.over
    assert world["c"].durables.get("reader", "d") is None
    # Its former node forgets it, too.
    world.kill_client(reader.client)
    first = Reader(world, world.client("rover", "a"), durable="r")
    world.run(1.0)
    world.kill_client(first.client)
    Reader(world, world.client("rover", "c", incarnation=2), durable="r")
    world.run(1.0)
    told = world.wait(asker.ask("durable-delete", client="rover", name="r"))
    world.run(1.0)
    for name in world.names:
        assert world[name].durables.get("rover", "r") is None, name


# ----------------------------------------------------------------------------- long logs


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search looks at eight events in each stretch."""
    monkeypatch.setattr(tracing, "MOST_PAGES", 4)
    monkeypatch.setattr(tracing, "PAGE_EVENTS", 2)


@pytest.mark.usefixtures("short_search")
def test_an_event_of_a_busy_node_is_found_by_its_time(sites: list[Site]) -> None:
    site = Site()
    sites.append(site)
    world = site.world
    reader = Reader(world, world.client("r", "c"))
    publisher = site.join()
    documents = [site.publish(publisher) for _ in range(30)]
    read(world, reader)
    for document in (documents[0], documents[20], documents[-1]):
        answer = site.explain("b", document, "r")
        assert verdicts(answer)["one/a"] == "origin"
        assert verdicts(answer)["two/c"] == "logged"


@pytest.mark.usefixtures("short_search")
def test_a_node_that_searched_a_part_says_so_and_finds_by_the_place(sites: list[Site]) -> None:
    site = Site()
    sites.append(site)
    world = site.world
    reader = Reader(world, world.client("r", "c"))
    publisher = site.join()
    other = world.client("other", "a")
    world.run(0.5)
    event_id = publisher._mint.next_id(world.wall_clock())
    document = write_event(event_id, "asdi.zbw", EventType("flight", "1.0"), flight(7))
    # It waits with its publisher while others publish.
    for _ in range(20):
        site.publish(other)
    world.wait(publisher.publish_document(document, event_id))
    read(world, reader)
    assert not world.wait(publisher.ask("explain", document, query="//id"))["network"]["nodes"]
    answer = site.explain("b", document, "r")
    assert answer["network"]["known"] is False
    assert answer["network"]["partly"] == ("one/a", "two/c")
    # One node that finds it is enough.
    search = tracing.NodeTrace._find

    async def at_origin(self: Any, question: Any) -> Any:
        if self._log is world["a"].event_log:
            events = await EventLog.read(self._log, self._log.bounds.last, 1, 1 << 20)
            return events[0], False
        return await search(self, question)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(tracing.NodeTrace, "_find", at_origin)
        answer = site.explain("b", document, "r")
    assert verdicts(answer) == {"one/a": "origin", "one/b": "filtered", "two/c": "logged"}
    assert fates(answer) == {"two/c": ["delivered"]}
