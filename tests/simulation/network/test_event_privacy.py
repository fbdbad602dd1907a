"""`explain` and `durable show` tell an account nothing of an event that it may not read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import msgpack
import pytest

from broker.cluster.network_question import Question, Reply
from broker.cluster.traffic.messages import RoutedMessage
from broker.config import Settings
from broker.event.envelope import EventType, SecurityLevel
from broker.event.writer import write_event
from broker.log.event_log import EventLog
from tests.simulation.network.test_event_fate import Site, fates
from tests.simulation.network.watching import Reader, read
from tests.simulation.test_identities import ACCOUNTS, asdi
from tests.simulation.watching import Interest, flight

LOW = {"account": "low", "secret": "right"}
ALL = {"account": "all", "secret": "right"}


@pytest.fixture
def site() -> Iterator[Site]:
    site = Site(settings=attrs.evolve(Settings(), accounts=ACCOUNTS))
    yield site
    site.world.close()


def counted_reads(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The serials at which pages of a log are read from now on."""
    reads: list[int] = []
    read_page = log.read

    def counted(start: int, *args: Any, **named: Any) -> Any:
        reads.append(start)
        return read_page(start, *args, **named)

    monkeypatch.setattr(log, "read", counted)
    return reads


def without_times(answer: Any) -> Any:
    """An answer without what is measured."""
    explanation = answer["explanation"] and {**answer["explanation"], "measured": None}
    return {**answer, "explanation": explanation}


def forged(document: bytes, *changes: tuple[bytes, bytes]) -> bytes:
    """A readable event of one's own making, under the EventId of another one."""
    for before, after in ((b'"high"', b'"low"'), (b"1000<", b"1001<"), *changes):
        assert before in document
        document = document.replace(before, after)
    return document


@pytest.mark.parametrize("here", ["", "yes"])
@pytest.mark.parametrize("client", ["", "low-1"])
def test_an_event_id_that_exists_is_answered_as_one_that_does_not(
    site: Site, here: str, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = site.publish(site.join(**ALL), security_level=SecurityLevel.HIGH)
    number = b"SequenceNumber>%d<"
    exists = forged(secret)
    absent = forged(secret, (number % 1, number % 77))
    assert exists != absent
    asker = site.world.client("low-1", "a", **LOW)
    site.world.run(0.5)
    said = {"client": client, "here": here, "query": "//altitude = 1000", "streams": "asdi.>"}
    reads = counted_reads(site.world["a"].event_log, monkeypatch)
    answers, pages = [], []
    for document in (exists, absent):
        reads.clear()
        answer = site.world.wait(asker.ask("explain", document, **said))
        pages.append(list(reads))
        answer["explanation"]["event"].pop("sequence_number")
        answers.append(without_times(answer))
        site.world.run(20.0)
    assert answers[0] == answers[1]
    assert answers[0]["network"]["known"] is False
    # Nor does the time tell that the search takes.
    assert pages[0] == pages[1]
    # Nor a refusal: of the secret itself as of any other document of its level.
    other = secret.replace(number % 1, number % 77)
    told = []
    for document in (secret, other):
        answer = site.world.wait(asker.ask("explain", document, **said))
        answer["explanation"]["event"].pop("sequence_number")
        told.append(without_times(answer))
        site.world.run(20.0)
    assert told[0] == told[1] and told[0]["network"]["known"] is None


def test_counts_do_not_tell_whether_what_is_denied_would_match(site: Site) -> None:
    world = site.world
    interests = [Interest("asdi.>", f"//altitude = {n}", lambda *_: True) for n in (1000, 7)]
    clients = [world.client(f"low-{n}", "a", **LOW) for n in range(2)]
    for client, interest in zip(clients, interests, strict=True):
        Reader(world, client, interest, durable="d")
    world.run(1.0)
    publisher = site.join(**ALL)
    site.publish(publisher, security_level=SecurityLevel.HIGH)
    public = site.publish(publisher, stream="public", security_level=SecurityLevel.LOW)
    told = []
    for n, client in enumerate(clients):
        shown = world.wait(client.ask("durable-show", name="d"))
        answer = world.wait(client.ask("explain", public, client=f"low-{n}"))
        (row,) = answer["client"]["subscriptions"]
        (there,) = (r for node in answer["network"]["nodes"] for r in node["subscriptions"])
        rows = (shown["session"], row, there)
        told.append([{k: r[k] for k in ("seen", "filtered", "denied")} for r in rows])
        assert row["denied"] == 0 and row["seen"] == 2
    assert told[0] == told[1]
    # Who may administer sees it.
    shown = world.wait(publisher.ask("durable-show", client="low-0", name="d"))
    assert shown["session"]["denied"] == 1


def test_shapes_of_what_others_published_are_not_shown(site: Site) -> None:
    publisher = site.join(**ALL)
    for _ in range(3):
        secret = site.publish(publisher, security_level=SecurityLevel.HIGH)
    assert site.world["a"].matcher.statistics()["shapes"] > 0
    asker = site.world.client("low-1", "a", **LOW)
    site.world.run(0.5)
    answer = site.world.wait(asker.ask("explain", secret, query="//altitude = 1"))
    explanation = answer["explanation"]
    assert explanation["withheld"] and not explanation["types"]
    assert explanation["event"]["recognised"] is None
    assert explanation["measured"]["lookup"] is None


def test_an_account_asks_about_all_its_clients_and_about_no_other(site: Site) -> None:
    world = site.world
    reader = Reader(world, world.client("low-1", "b", **LOW), asdi(), durable="d")
    document = site.publish(site.join(**ALL), security_level=SecurityLevel.LOW)
    read(world, reader)
    # Without an end of its subscriber's session.
    answer = site.explain("a", document, "low-1", asker="low-ops", **LOW)
    assert fates(answer) == {"one/b": ["delivered"]}
    assert reader.client.connected
    with pytest.raises(Exception, match="administer"):
        site.explain("a", document, "publisher", asker="low-ops", **LOW)


@pytest.mark.parametrize("shown", [True, False])
def test_a_link_that_is_not_cleared_carries_nothing_of_a_value(shown: bool) -> None:
    site = Site(clearance=SecurityLevel.LOW)
    world = site.world
    Reader(world, world.client("reader", "c"), Interest(">", "//altitude = 1000", lambda *_: True))
    Reader(world, world.client("reader", "a"), Interest(">", "//altitude = 1000", lambda *_: True))
    world.run(1.0)
    document = site.publish(site.join(), security_level=SecurityLevel.HIGH)
    crossed: list[RoutedMessage] = []
    for name in "abc":
        driver = world.network_of(name).driver
        heard = driver.on_other_message

        def watch(said: RoutedMessage, heard: Any = heard, name: str = name) -> Any:
            if (said.source.node == "c") is not (name == "c"):
                crossed.append(said)
            return heard(said)

        driver.on_other_message = watch
    site.explain("a" if shown else "c", document, "reader")
    questions = [each for each in crossed if isinstance(each, Question)]
    replies = [each for each in crossed if isinstance(each, Reply)]
    assert questions and replies
    for question in questions:
        assert document not in question.content and not question.rank
    for reply in replies:
        for _, content in reply.answers:
            assert msgpack.unpackb(content).keys() <= {"place", "is_origin", "onward", "partly"}
    world.close()


def test_what_nobody_has_published_teaches_and_counts_nothing(site: Site) -> None:
    world, node = site.world, site.world["a"]
    asker = world.client("low-1", "a", **LOW)
    mint = site.join(**ALL)._mint

    def counted() -> dict[str, int | float]:
        figures = dict(node.matcher.statistics())
        # The names of a document are known to the parser from then on.
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
