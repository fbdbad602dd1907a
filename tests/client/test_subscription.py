"""Reading of a subscription."""

from __future__ import annotations

import logging
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from broker.client.effects import (
    EventBatch,
    Item,
    PositionMoved,
    SharedDelivery,
    SubscriptionAccepted,
    SubscriptionEnded,
)
from broker.client.loop import Loop
from broker.client.received import FlowStarted, Gap, ReceivedEvent, TypeChanged
from broker.client.subscription import Subscription
from broker.client.twisted_face import DeferredPromise
from broker.errors import BadQuery, Closed
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Place, Position
from broker.event.site_notice import MissingMessages, SiteNotice, SiteStatus

HEADER = Header(EventId("p", 1, 1, 1), "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)


def at(offset: int) -> Position:
    return Position({"n": (1, offset)})


def batch(*offsets: int, complete: bool = True) -> EventBatch:
    events = [ReceivedEvent(Place("n", 1, o), HEADER, Liveness.LIVE, b"<e/>") for o in offsets]
    return EventBatch(
        events, SharedDelivery(1, 100), at(offsets[-1]) if complete and offsets else Position()
    )


def gap(first: int, last: int, reason: str = "slow") -> Gap:
    return Gap(Place("n", 1, first), Place("n", 1, last), last - first + 1, reason)


CHANGE = TypeChanged(
    *("flight", "1.0", "2.0", "can-not-match-any-more", "no such element"),
    *(("/a",), (), ("/a",), (), 0),
)


STATUS = SiteStatus("ops", "c", "suspected", "silent", 5, 65)
LOST = MissingMessages("ops", "c", 7, 3, 5, "lost")


class FakeOwner:
    def __init__(self) -> None:
        self.calls: list[Any] = []
        self.position = Position()

    def mark_processed(self, number: int, item: Item) -> None:
        if isinstance(item, EventBatch):
            self.calls.append(("taken", [event.place.offset for event in item.events]))
        elif isinstance(item, PositionMoved):
            self.calls.append(("moved", item.position))

    def discard(self, item: Item) -> None:
        if isinstance(item, EventBatch):
            self.calls.append(("discarded", [event.place.offset for event in item.events]))

    def end_subscription(self, number: int, forget: bool) -> None:
        self.calls.append(("unsubscribe", forget))

    def position_of(self, number: int) -> Position:
        return self.position

    def duplicates_of(self, number: int) -> int:
        return 3


class FakeLoop:
    def make_promise(self) -> DeferredPromise:
        return DeferredPromise()


class SubscriptionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.owner = FakeOwner()
        self.gaps: list[Gap] = []
        loop = cast(Loop, FakeLoop())
        self.subscription = Subscription(self.owner, loop, 1, "q", "s", self.gaps.append)

    def arrive(self, *items: Item) -> None:
        for item in items:
            self.subscription.receive_item(item)

    def next(self) -> Deferred[ReceivedEvent]:
        return Deferred.fromCoroutine(self.subscription.__anext__())

    def offset(self) -> int:
        return self.successResultOf(self.next()).place.offset

    def test_flowing_fires_after_the_nodes_message(self) -> None:
        flowing = cast("Deferred[Subscription]", self.subscription.flowing)
        self.arrive(SubscriptionAccepted(("a warning",), None))
        self.assertNoResult(flowing)
        self.arrive(FlowStarted(at(7)))
        self.assertIs(self.successResultOf(flowing), self.subscription)
        self.assertEqual(self.subscription.cut, at(7))
        self.assertEqual(self.subscription.warnings, ("a warning",))

    def test_a_pending_next_resolves_with_the_next_event(self) -> None:
        waiting = self.next()
        self.assertNoResult(waiting)
        self.arrive(batch(1, 2))
        self.assertEqual(self.successResultOf(waiting).place.offset, 1)
        self.assertEqual(self.offset(), 2)

    def test_events_count_as_processed_when_the_next_one_is_requested(self) -> None:
        self.arrive(batch(1, 2), batch(3))
        self.assertEqual([self.offset(), self.offset()], [1, 2])
        self.assertEqual(self.owner.calls, [])
        self.assertEqual(self.offset(), 3)
        self.assertEqual(self.owner.calls, [("taken", [1, 2])])
        self.assertNoResult(self.next())
        self.assertEqual(self.owner.calls[1:], [("taken", [3])])

    def test_stopping_in_the_middle_marks_all_earlier_events_as_processed(self) -> None:
        places = [Place("n", 1, 1), Place("m", 1, 4), Place("k", 1, 9), Place("n", 1, 2)]
        events = [ReceivedEvent(each, HEADER, Liveness.LIVE, b"<e/>") for each in places]
        # Events of k before it may be missing.
        complete = Position({"n": (1, 2), "m": (1, 4)})
        self.arrive(EventBatch(events, SharedDelivery(1, 100), complete))
        taken = [self.successResultOf(self.next()) for _ in range(3)]
        self.subscription.processed(taken[-1])
        self.assertEqual(self.owner.calls, [("moved", Position({"n": (1, 1), "m": (1, 4)}))])

    def test_a_batch_counts_as_processed_with_the_next_one(self) -> None:
        self.arrive(batch(1, 2), PositionMoved(at(9)), gap(10, 12), batch(13))
        first = self.subscription.take_ready()
        self.assertEqual([event.place.offset for event in first], [1, 2])
        # Later items must neither move the position nor be reported.
        self.assertEqual((self.owner.calls, self.gaps), ([], []))
        second = self.subscription.take_ready()
        self.assertEqual([event.place.offset for event in second], [13])
        self.assertEqual(self.owner.calls, [("taken", [1, 2]), ("moved", at(9))])
        self.assertEqual(self.gaps, [gap(10, 12)])
        self.assertEqual(self.subscription.take_ready(), [])
        self.assertEqual(self.owner.calls[2:], [("taken", [13])])

    def test_iterating_and_taking_the_rest_gives_each_event_once(self) -> None:
        self.arrive(batch(1, 2, 3))
        self.assertEqual(self.offset(), 1)
        rest = self.subscription.take_ready()
        self.assertEqual([event.place.offset for event in rest], [2, 3])
        self.assertEqual(self.subscription.take_ready(), [])
        self.assertEqual(self.owner.calls, [("taken", [1, 2, 3])])

    def test_a_gap_is_reported_in_order_and_stored(self) -> None:
        self.arrive(batch(1), gap(2, 5), batch(6))
        self.assertEqual(self.offset(), 1)
        self.assertEqual(self.gaps, [])
        self.assertEqual(self.offset(), 6)
        self.assertEqual(self.gaps, [gap(2, 5)])
        self.assertEqual(list(self.subscription.gaps), [gap(2, 5)])

    def test_a_changed_type_is_reported_in_order_and_stored(self) -> None:
        reported: list[TypeChanged] = []
        loop = cast(Loop, FakeLoop())
        self.subscription = Subscription(self.owner, loop, 1, "q", "s", None, reported.append)
        self.arrive(batch(1), CHANGE, batch(2))
        self.assertEqual((self.offset(), reported), (1, []))
        self.assertEqual((self.offset(), reported), (2, [CHANGE]))
        self.assertEqual(list(self.subscription.changes), [CHANGE])

    def test_a_changed_type_is_logged_without_a_callback(self) -> None:
        with self.assertLogs("broker.client.subscription", "WARNING") as logged:
            self.arrive(CHANGE)
            self.assertNoResult(self.next())
        self.assertIn("flight 2.0 is newer than 1.0: can-not-match", logged.output[0])

    def test_unsubscribing_discards_unread_batches(self) -> None:
        self.owner.position = at(4)
        self.arrive(batch(5, 6), batch(7), PositionMoved(at(9)), batch(10))
        self.assertEqual(self.offset(), 5)
        self.subscription.unsubscribe(forget=True)
        self.assertEqual(
            self.owner.calls,
            [
                ("discarded", [5, 6]),
                ("discarded", [7]),
                ("discarded", [10]),
                ("unsubscribe", True),
            ],
        )
        self.arrive(SubscriptionEnded(None, at(4)))
        self.failureResultOf(self.next(), StopAsyncIteration)
        self.owner.position = Position()
        self.assertEqual(self.subscription.position, at(4))
        self.subscription.unsubscribe()
        self.assertEqual(len(self.owner.calls), 4)

    def test_arrived_events_can_be_read_after_the_end(self) -> None:
        self.arrive(batch(1), SubscriptionEnded(BadQuery("too dear"), at(1)))
        self.assertEqual(self.offset(), 1)
        self.failureResultOf(self.next(), BadQuery)
        self.assertEqual(self.subscription.position, at(1))

    def test_a_refused_subscription_never_flows(self) -> None:
        self.arrive(SubscriptionEnded(BadQuery("no")))
        self.failureResultOf(cast("Deferred[Subscription]", self.subscription.flowing), BadQuery)

    def test_closing_the_client_ends_iteration(self) -> None:
        waiting = self.next()
        self.subscription.mark_ended(None)
        self.failureResultOf(waiting, StopAsyncIteration)
        self.failureResultOf(cast("Deferred[Subscription]", self.subscription.flowing), Closed)


def test_a_gap_without_a_callback_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    subscription = Subscription(FakeOwner(), cast(Loop, FakeLoop()), 1, "q", "s", None)
    subscription.receive_item(gap(2, 5))
    assert subscription.take_ready() == []
    assert "4 events from n:1:2 to n:1:5 are lost (slow)" in caplog.text


def test_coalesced_events_are_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    subscription = Subscription(FakeOwner(), cast(Loop, FakeLoop()), 1, "q", "s", None)
    subscription.receive_item(gap(2, 5, "coalesced"))
    assert subscription.take_ready() == []
    assert caplog.text == "" and [each.reason for each in subscription.gaps] == ["coalesced"]


@pytest.mark.parametrize("has_callback", [False, True])
def test_notices_about_sites_are_passed_in_order_with_the_events(
    has_callback: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    passed: list[SiteNotice] = []
    on_notice = passed.append if has_callback else None
    loop = cast(Loop, FakeLoop())
    subscription = Subscription(FakeOwner(), loop, 1, "q", "s", None, None, on_notice)
    for item in (batch(1), STATUS, batch(2), LOST, batch(3)):
        subscription.receive_item(item)
    counts = []
    while events := subscription.take_ready():
        counts.append((events[0].place.offset, len(subscription.notices)))
    assert counts == [(1, 0), (2, 1), (3, 2)]
    assert list(subscription.notices) == [STATUS, LOST]
    assert passed == ([STATUS, LOST] if has_callback else [])
    assert ("MissingMessages" in caplog.text) is not has_callback
    assert "SiteStatus" not in caplog.text
