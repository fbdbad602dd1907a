"""Reading of a merged subscription."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from broker.client.effects import EventBatch, Item, PositionMoved, SharedDelivery, SubscriptionEnded
from broker.client.loop import Loop
from broker.client.merged import MergedEvent, MergedSubscription, Merging
from broker.client.received import FlowStarted, Gap, ReceivedEvent
from broker.client.twisted_face import DeferredPromise
from broker.errors import BadQuery
from broker.event.envelope import (
    Bundle,
    EventLinkage,
    EventType,
    Header,
    Liveness,
    Order,
    SecurityLevel,
)
from broker.event.event_id import EventId
from broker.event.merging.held_event import MissingNumbers
from broker.event.place import Place, Position
from broker.event.site_notice import SiteStatus
from broker.event.writer import write_event

PAIR = EventLinkage(time_constraint="within 1s", order=(Order("fp"), Order("tz")))


def at(offset: int) -> Position:
    return Position({"n": (1, offset)})


def received(
    offset: int, stream: str = "s", time: int = 0, linkage: EventLinkage = EventLinkage()
) -> ReceivedEvent:
    event_id = EventId(stream, time, offset, 1)
    document = write_event(event_id, stream, EventType("t", "1.0"), linkage=linkage)
    header = Header(event_id, stream, "t", "1.0", SecurityLevel.MED, Liveness.LIVE)
    return ReceivedEvent(Place("n", 1, offset), header, Liveness.LIVE, document)


def tz(offset: int, time: int) -> ReceivedEvent:
    return received(offset, "tz", time, PAIR)


def fp(offset: int, time: int) -> ReceivedEvent:
    return received(offset, "fp", time, PAIR)


def batch(*events: ReceivedEvent) -> EventBatch:
    places = [event.place for event in events]
    return EventBatch(events, SharedDelivery(1, 100), Position().advanced(places))


class FakeOwner:
    def __init__(self) -> None:
        self.positions: list[Position] = []
        self.freed: list[int] = []
        self.ended: list[bool] = []

    def mark_processed(self, number: int, item: Item) -> None:
        assert isinstance(item, PositionMoved), "portions may not move the position"
        self.positions.append(item.position)

    def discard(self, item: Item) -> None:
        if isinstance(item, EventBatch):
            self.freed += [event.place.offset for event in item.events]

    def end_subscription(self, number: int, forget: bool) -> None:
        self.ended.append(forget)

    def duplicates_of(self, number: int) -> int:
        return 0

    def position_of(self, number: int) -> Position:
        return self.positions[-1] if self.positions else Position()


class FakeLoop:
    def __init__(self) -> None:
        self.clock = Clock()

    def make_promise(self) -> DeferredPromise:
        return DeferredPromise()


class MergedSubscriptionTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.owner = FakeOwner()
        self.loop = FakeLoop()
        self.gaps: list[Gap] = []
        self.subscription = self.new()

    def new(self, streams: str = ">") -> MergedSubscription:
        loop = cast(Loop, self.loop)
        made = MergedSubscription(
            Merging(wait=1.0), self.owner, loop, 1, "q", streams, self.gaps.append
        )
        made.receive_item(FlowStarted(Position()))
        return made

    def arrive(self, *items: Item) -> None:
        for item in items:
            self.subscription.receive_item(item)

    def next(self) -> Deferred[MergedEvent]:
        return Deferred.fromCoroutine(cast(Any, self.subscription.__anext__()))

    def offset(self) -> int:
        return self.successResultOf(self.next()).place.offset

    def ready(self) -> list[int]:
        return [event.place.offset for event in self.subscription.take_ready()]

    def test_events_come_in_the_declared_order(self) -> None:
        self.arrive(batch(tz(1, 1000), fp(2, 1200), tz(3, 3001), fp(4, 3000)))
        self.assertEqual([self.offset(), self.offset(), self.offset()], [2, 1, 4])
        waiting = self.next()
        self.assertNoResult(waiting)
        self.loop.clock.advance(2.0)
        event = self.successResultOf(waiting)
        self.assertEqual((event.place.offset, event.late), (3, False))
        self.assertEqual(event.event.linkage, PAIR)

    def test_stream_times_release_an_event_and_do_not_accumulate(self) -> None:
        self.arrive(batch(tz(1, 2)))
        self.assertEqual(self.ready(), [])
        for second in range(1_000):
            self.arrive(
                PositionMoved(at(3), (("n", 1),)),
                PositionMoved(Position(), (("n", 2_000 + second),)),
            )
        self.assertEqual(len(self.subscription._items), 1)
        self.assertEqual(self.ready(), [1])
        self.ready()
        self.assertEqual(self.owner.positions[-1], at(3))

    def test_held_events_leave_the_window_and_move_no_position(self) -> None:
        self.arrive(batch(received(1), tz(2, 1000)), PositionMoved(at(5)), batch(received(6)))
        self.assertEqual([self.offset(), self.offset()], [1, 6])
        self.assertEqual(self.owner.freed, [1, 2, 6])
        self.assertEqual(self.owner.positions, [at(1)])
        waiting = self.next()
        self.assertEqual(self.subscription.held, 1)
        self.loop.clock.advance(2.0)
        self.assertEqual(self.successResultOf(waiting).place.offset, 2)
        self.assertEqual(self.owner.positions, [at(1)])
        self.assertNoResult(self.next())
        self.assertEqual(self.owner.positions, [at(1), at(6)])
        self.assertEqual(self.subscription.position, at(6))

    def test_before_the_flow_events_alone_move_no_position(self) -> None:
        incomplete = EventBatch([received(7), tz(4, 1000)], SharedDelivery(1, 100))
        self.arrive(incomplete)
        self.assertEqual(self.ready(), [7])
        self.assertEqual(self.ready(), [])
        self.assertEqual(self.owner.positions, [])
        # Nothing is missing up to here; but one event is held.
        self.arrive(PositionMoved(at(9)), batch(received(11)))
        self.assertEqual(self.ready(), [11])
        self.assertEqual(self.ready(), [])
        self.assertEqual(self.owner.positions, [])
        self.loop.clock.advance(2.0)
        self.assertEqual(self.ready(), [4])
        self.assertEqual(self.ready(), [])
        self.assertEqual(self.owner.positions, [at(11)])

    def test_a_batch_of_duplicates_moves_the_position(self) -> None:
        # The event came before, from another place.
        self.arrive(EventBatch([], SharedDelivery(1, 100), at(3)))
        self.assertEqual(self.ready(), [])
        self.assertEqual(self.owner.positions, [at(3)])

    def test_progress_alone_moves_the_position(self) -> None:
        self.arrive(PositionMoved(at(9)))
        self.assertNoResult(self.next())
        self.assertEqual(self.owner.positions, [at(9)])

    def test_a_slow_reader_gets_the_declared_order(self) -> None:
        self.arrive(batch(received(1), tz(2, 1000)))
        self.assertEqual(self.offset(), 1)
        self.arrive(batch(fp(3, 1100)))
        self.loop.clock.advance(100.0)
        # Arrived events are merged before timeouts apply.
        self.assertEqual([self.offset(), self.offset()], [3, 2])

    def test_ready_events_come_as_one_batch(self) -> None:
        self.arrive(batch(tz(1, 1000), fp(2, 1200), tz(3, 9000), fp(4, 8000)))
        self.assertEqual(self.ready(), [2, 1, 4])
        self.assertEqual(self.owner.positions, [])
        self.assertEqual(self.ready(), [])
        self.assertEqual(self.owner.positions, [at(2)])
        self.loop.clock.advance(2.0)
        self.assertEqual(self.ready(), [3])

    def test_stopping_in_the_middle_reports_the_processed_events(self) -> None:
        self.arrive(batch(tz(1, 1000), fp(2, 1200), tz(3, 9000), fp(4, 8000)))
        events = self.subscription.take_ready()
        self.subscription.processed(events[0])
        self.assertEqual(self.owner.positions, [])
        self.subscription.processed(events[1])
        self.assertEqual(self.owner.positions, [at(2)])
        self.subscription.processed(events[1])
        self.assertEqual(self.owner.positions, [at(2)])

    def test_a_late_event_is_marked(self) -> None:
        self.arrive(batch(tz(1, 5000)))
        self.assertEqual(self.ready(), [])
        self.loop.clock.advance(2.0)
        self.assertEqual(self.ready(), [1])
        self.arrive(batch(fp(2, 1000)))
        event = self.successResultOf(self.next())
        self.assertEqual((event.place.offset, event.late), (2, True))
        self.assertEqual(self.subscription.counts.late, 1)

    def test_gaps_are_reported(self) -> None:
        gap = Gap(Place("n", 1, 2), Place("n", 1, 5), 4, "retention")
        self.arrive(batch(tz(1, 1000)), gap, PositionMoved(at(5)))
        self.assertEqual(self.ready(), [])
        self.assertEqual((self.gaps, list(self.subscription.gaps)), ([gap], [gap]))
        self.assertEqual(self.owner.positions, [])

    def test_notices_about_sites_are_reported(self) -> None:
        status = SiteStatus("ops", "c", "suspected", "silent", 5)
        self.arrive(batch(tz(1, 1000)), status)
        self.ready()
        self.assertEqual(list(self.subscription.notices), [status])

    def chain(self, offset: int, number: int) -> ReceivedEvent:
        linkage = EventLinkage(bundles=(Bundle("b", number),), merge_scheme="bundle")
        return received(offset, "s", 0, linkage)

    def test_missing_numbers_of_a_bundle_are_reported_in_place(self) -> None:
        reported: list[tuple[MissingNumbers, int]] = []
        self.arrive(batch(self.chain(1, 1), self.chain(2, 4)))
        self.assertEqual(self.ready(), [1])
        self.subscription.on_missing = lambda missing: reported.append(
            (missing, self.subscription.held)
        )
        self.loop.clock.advance(1.0)
        self.assertEqual(self.ready(), [2])
        missing = MissingNumbers("s", "b", 2, 3)
        self.assertEqual((reported, list(self.subscription.missing)), ([(missing, 1)], [missing]))

    def test_missing_numbers_are_logged_without_a_callback(self) -> None:
        odd = EventLinkage(merge_scheme="zip")
        self.arrive(batch(self.chain(1, 1), self.chain(2, 3), received(3, "x", 0, odd)))
        with self.assertLogs("broker.client.merged", "WARNING") as logged:
            self.ready()
            self.loop.clock.advance(1.0)
            self.ready()
        self.assertIn("the word 'zip'", logged.output[0])
        self.assertIn("bundle 'b' of s lacks 2 to 2", logged.output[1])

    def test_unsubscribing_drops_held_events(self) -> None:
        self.arrive(batch(received(1), tz(2, 1000)))
        self.assertEqual(self.offset(), 1)
        self.arrive(batch(received(3)))
        self.subscription.unsubscribe()
        self.assertEqual(self.owner.freed, [1, 2, 3])
        self.arrive(SubscriptionEnded(None, self.owner.position_of(1)))
        self.failureResultOf(self.next(), StopAsyncIteration)
        self.assertEqual(self.subscription.position, Position())
        self.assertEqual(self.loop.clock.getDelayedCalls(), [])

    def test_held_events_can_be_read_after_the_end(self) -> None:
        self.arrive(batch(tz(1, 1000), fp(2, 1100)))
        self.assertEqual(self.ready(), [])
        self.arrive(SubscriptionEnded(BadQuery("too dear"), Position()))
        self.assertEqual([self.offset(), self.offset()], [2, 1])
        self.failureResultOf(self.next(), BadQuery)
        self.assertEqual(self.subscription.position, at(2))
        self.assertEqual(self.loop.clock.getDelayedCalls(), [])

    def test_streams_outside_the_pattern_are_not_awaited(self) -> None:
        self.subscription = self.new(streams="fp")
        self.arrive(batch(fp(1, 1000)))
        self.assertEqual(self.ready(), [1])

    def test_a_bad_pattern_is_left_to_the_node(self) -> None:
        self.subscription = self.new(streams="a..b")
        self.arrive(batch(received(1)))
        self.assertEqual(self.ready(), [1])

    def test_an_unreadable_event_is_delivered(self) -> None:
        broken = ReceivedEvent(Place("n", 1, 1), received(1).header, Liveness.LIVE, b"<e/>")
        self.arrive(batch(broken))
        self.assertEqual(self.ready(), [1])


@pytest.mark.parametrize("reading", ["ready", "offset"])
def test_unread_events_stay_in_the_window(reading: str) -> None:
    owner, loop = FakeOwner(), FakeLoop()
    subscription = MergedSubscription(Merging(), owner, cast(Loop, loop), 1, "q", ">", None)
    subscription.receive_item(batch(received(1)))
    # Unread: the credit stays used, which slows the node.
    assert owner.freed == []
    ask: dict[str, Callable[[], object]] = {
        "ready": subscription.take_ready,
        "offset": lambda: Deferred.fromCoroutine(cast(Any, subscription.__anext__())),
    }
    ask[reading]()
    assert owner.freed == [1]
