from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import attrs

from broker.cli.publishing.pace import AsFastAsPossible, OriginalPace, Pace
from broker.cli.publishing.publication import (
    PortionEnd,
    Publication,
    Refusal,
    SourceLocation,
)
from broker.cli.publishing.publish_run import PublishRun
from broker.cli.publishing.published_table import PublishedTable
from broker.cli.publishing.tally import MAX_REPORTED, Tally
from broker.cli.stop_signal import Stop
from broker.client.client import Client
from broker.errors import (
    AuthenticationFailed,
    GaveUp,
    LogUnavailable,
    NotConnected,
    NotValid,
    Overloaded,
    TableUnavailable,
)
from broker.event.envelope import EventType
from tests.cli.fake_node import FakeClient, FakeNode, Published

KIND = EventType("flight", "1.0")


def publication(number: int, **changes: Any) -> Publication:
    origin = SourceLocation("f", number)
    return attrs.evolve(Publication(origin, "s", KIND, b"<flight/>"), **changes)


class FakeItems:
    """Portions of a hundred; then the end, or blocking forever."""

    def __init__(
        self, items: Iterable[Publication | Refusal | PortionEnd], *, ends: bool = True
    ) -> None:
        self._items = list(items)
        self._ends = ends

    async def next_items(self) -> list[Publication | Refusal | PortionEnd]:
        portion, self._items = self._items[:100], self._items[100:]
        if not portion and not self._ends:
            await asyncio.get_running_loop().create_future()
        return portion


@attrs.define
class Outcome:
    tally: Tally
    reported: list[str]
    publishing: PublishRun
    client: FakeClient
    stop: Stop


def publish(
    node: FakeNode, supply: FakeItems, pace: Pace | None = None, **settings: Any
) -> Outcome:
    async def run() -> Outcome:
        reported: list[str] = []
        tally, stop = Tally(reported.append), Stop()
        client = node(client_id="", account="", secret="", state=None)
        publishing = PublishRun(
            cast(Client, client),
            tally,
            pace or AsFastAsPossible(),
            stop,
            **{"timeout": 10.0, **settings},
        )
        stops.append(stop)
        await publishing.run(supply)
        await client.close()
        await asyncio.sleep(0)
        return Outcome(tally, reported, publishing, client, stop)

    return asyncio.run(run())


#: Of the current run.
stops: list[Stop] = []


def test_everything_is_published_in_order_and_counted() -> None:
    node = FakeNode()
    outcome = publish(node, FakeItems(publication(n, stream=f"s.{n}") for n in range(1, 1001)))
    assert [each.stream for each in node.published] == [f"s.{n}" for n in range(1, 1001)]
    tally = outcome.tally
    assert (tally.found, tally.sent, tally.durable, tally.refused) == (1000, 1000, 1000, 0)
    summary = json.loads(tally.summary(2.0))
    assert summary == {
        "found": 1000,
        "known": 0,
        "sent": 1000,
        "durable": 1000,
        "duplicates": 0,
        "refused": 0,
        "unconfirmed": 0,
        "seconds": 2.0,
        "events_per_second": 500.0,
    }


def test_unanswered_events_are_bounded() -> None:
    node = FakeNode()
    outcome = publish(node, FakeItems(map(publication, range(500))), most_outstanding=20)
    assert outcome.client.most_outstanding == 20
    assert outcome.tally.durable == 500


def test_a_refusal_of_the_node_is_reported_with_its_line() -> None:
    def refuse(published: Published) -> NotValid | None:
        return NotValid("no such element", line=5) if published.stream == "bad" else None

    items = [publication(1), publication(7, stream="bad"), publication(9)]
    outcome = publish(FakeNode(refuse=refuse), FakeItems(items))
    # The envelope has two lines before the payload.
    assert outcome.reported == ["f:9: refused by the node: no such element"]
    assert (outcome.tally.durable, outcome.tally.refused) == (2, 1)


def test_a_rewritten_payload_has_no_line_numbers() -> None:
    node = FakeNode(refuse=lambda _: NotValid("bad", line=5))
    outcome = publish(node, FakeItems([publication(7, is_unchanged=False)]))
    assert outcome.reported == ["f:7: refused by the node: bad"]


def test_a_local_refusal_is_counted_and_the_rest_is_published() -> None:
    bad_stream = publication(2, stream="no such..name")
    outcome = publish(
        FakeNode(), FakeItems([Refusal(SourceLocation("f", 1), "bad"), bad_stream, publication(3)])
    )
    assert outcome.reported[0] == "f:1: bad"
    assert outcome.reported[1].startswith("f:2: the stream name")
    assert (outcome.tally.found, outcome.tally.refused, outcome.tally.durable) == (3, 2, 1)


def test_only_the_first_refusals_are_reported() -> None:
    refused = [Refusal(SourceLocation("f", n), "bad") for n in range(MAX_REPORTED + 50)]
    outcome = publish(FakeNode(), FakeItems(refused))
    assert len(outcome.reported) == MAX_REPORTED + 1
    assert outcome.tally.refused == MAX_REPORTED + 50


def test_fail_fast_stops_at_a_local_refusal() -> None:
    node = FakeNode()
    items: list[Publication | Refusal] = [publication(1), Refusal(SourceLocation("f", 2), "bad")]
    items += map(publication, range(100))
    outcome = publish(node, FakeItems(items), fail_fast=True)
    assert len(node.published) == 1
    assert (outcome.tally.durable, outcome.tally.refused) == (1, 1)


def test_fail_fast_stops_at_a_refusal_of_the_node() -> None:
    node = FakeNode(refuse=lambda _: NotValid("bad"))
    publish(node, FakeItems(map(publication, range(1000))), fail_fast=True, most_outstanding=1)
    assert len(node.published) == 1


def test_a_full_outbox_delays_publishing() -> None:
    node = FakeNode()

    def full(client: FakeClient) -> None:
        if len(node.published) % 7 == 6 and len(client._receipts) > 1:
            # The call was recorded before the refusal.
            node.published.pop()
            client._receipts.pop().cancel()
            node.on_publish = lambda _: setattr(node, "on_publish", full)
            raise Overloaded("the outbox is full")

    node.on_publish = full
    outcome = publish(node, FakeItems(publication(n, stream=f"s.{n}") for n in range(100)))
    assert [each.stream for each in node.published] == [f"s.{n}" for n in range(100)]
    assert outcome.tally.durable == 100


def test_an_event_larger_than_the_outbox_is_refused() -> None:
    def never(_: FakeClient) -> None:
        raise Overloaded("the outbox is too small")

    outcome = publish(FakeNode(on_publish=never), FakeItems([publication(1)]))
    assert outcome.reported == ["f:1: the outbox is too small"]


def test_a_stop_ends_reading_and_waits_for_receipts() -> None:
    node = FakeNode()

    def enough(_: FakeClient) -> None:
        if len(node.published) == 30:
            stops[-1].request(signal.SIGINT)

    node.on_publish = enough
    outcome = publish(node, FakeItems(map(publication, range(1000)), ends=False))
    assert len(node.published) == 30
    assert (outcome.tally.found, outcome.tally.durable, outcome.tally.unconfirmed) == (30, 30, 0)
    assert outcome.stop.exit_status == 130


def test_a_stop_interrupts_the_pace() -> None:
    node = FakeNode()
    node.on_publish = lambda _: stops[-1].request()
    items = [publication(1, time=0.0), publication(2, time=1e6)]
    outcome = publish(node, FakeItems(items), OriginalPace(1))
    assert outcome.tally.found == 1


def test_a_node_that_stays_away_ends_the_run() -> None:
    node = FakeNode(silent=True)

    def lost(client: FakeClient) -> None:
        assert client.on_state is not None
        client.last_error = NotConnected("refused")
        client.on_state(False, client.last_error)

    node.on_publish = lost
    outcome = publish(node, FakeItems([publication(1)]), timeout=0.001)
    assert isinstance(outcome.publishing.error, GaveUp)
    assert "no connection to the node for 0.001 s: refused" in str(outcome.publishing.error)
    assert (outcome.tally.unconfirmed, outcome.tally.outstanding) == (1, 0)


def test_a_node_that_comes_back_does_not_end_the_run() -> None:
    node = FakeNode()

    def away(client: FakeClient) -> None:
        assert client.on_state is not None
        client.on_state(False, None)
        client.on_state(True, None)

    node.on_publish = away
    outcome = publish(node, FakeItems(map(publication, range(20))), timeout=0.001)
    assert outcome.publishing.error is None
    assert outcome.tally.durable == 20


def test_a_blocked_node_is_reported() -> None:
    node = FakeNode()

    def full(client: FakeClient) -> None:
        assert client.on_trouble is not None
        client.on_trouble(LogUnavailable("no space left on device"))
        client.on_trouble(None)

    node.on_publish = full
    outcome = publish(node, FakeItems([publication(1)]))
    assert outcome.reported == [
        "the node accepts no events now, waiting: no space left on device",
        "the node accepts events again",
    ]
    assert (outcome.tally.durable, outcome.tally.refused) == (1, 0)


def test_an_end_of_the_session_by_the_node_ends_the_run() -> None:
    node = FakeNode(refuse=lambda _: AuthenticationFailed("the secret was changed"))
    outcome = publish(node, FakeItems(map(publication, range(1000)), ends=False))
    assert isinstance(outcome.publishing.error, AuthenticationFailed)
    assert outcome.tally.unconfirmed == outcome.tally.sent


def keyed(*keys: str) -> list[Publication]:
    return [publication(n, key=key.encode(), stream=key) for n, key in enumerate(keys, 1)]


def published(table: PublishedTable, node: FakeNode, *items: Publication | PortionEnd) -> Outcome:
    return publish(node, FakeItems(items), table=table)


def test_an_event_with_a_known_key_is_published_once(tmp_path: Path) -> None:
    node = FakeNode(refuse=lambda each: NotValid("bad") if each.stream == "c" else None)
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        tally = published(table, node, *keyed("a", "b", "a", "c")).tally
        assert (tally.found, tally.known, tally.durable, tally.refused) == (4, 1, 2, 1)
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        tally = published(table, node, *keyed("a", "c", "d", "b")).tally
        # A refused event is tried again.
        assert (tally.found, tally.known, tally.durable, tally.refused) == (4, 2, 1, 1)
    assert [each.stream for each in node.published] == ["a", "b", "c", "c", "d"]


def test_events_without_a_receipt_are_not_recorded(tmp_path: Path) -> None:
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        node = FakeNode(silent=True)
        node.on_publish = lambda client: client.on_state and client.on_state(False, None)
        outcome = publish(
            node, FakeItems([*keyed("a", "b"), PortionEnd(b"end")]), table=table, timeout=0.001
        )
        assert (outcome.tally.unconfirmed, outcome.tally.durable) == (2, 0)
        assert len(table) == 0


def test_receipts_of_one_turn_share_a_transaction(tmp_path: Path) -> None:
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        statements: list[str] = []
        table._database.set_trace_callback(statements.append)
        published(table, FakeNode(), *keyed(*map(str, range(100))), PortionEnd(b"end"))
        assert len(table) == 101
        assert statements.count("COMMIT") < 20


def test_a_table_that_can_not_be_written_ends_the_run(tmp_path: Path) -> None:
    node = FakeNode()
    with closing(PublishedTable(tmp_path / "t.db")) as table:
        node.on_publish = lambda _: table.close()
        outcome = publish(node, FakeItems(keyed("a", "b"), ends=False), table=table)
    assert isinstance(outcome.publishing.error, TableUnavailable)


def test_refusals_of_each_portion_are_reported() -> None:
    refused: list[Refusal | PortionEnd] = [
        Refusal(SourceLocation("f", n), "bad") for n in range(MAX_REPORTED + 50)
    ]
    outcome = publish(FakeNode(), FakeItems([*refused, PortionEnd(b""), *refused]))
    assert len(outcome.reported) == 2 * (MAX_REPORTED + 1)
