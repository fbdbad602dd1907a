"""Ranges from which a queue policy dropped events on the way."""

from __future__ import annotations

from broker.cluster.traffic.claims import REORDER_SECONDS
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.missing_range import RETRY_SECONDS
from broker.cluster.traffic.received_range import RequestPage
from broker.cluster.traffic.receiver import UNFILTERED_AFTER
from broker.streams.dropped_count import DroppedCount
from tests.cluster.traffic.frames import frame
from tests.cluster.traffic.test_receiver import ME, Log


def test_events_that_a_queue_policy_dropped_are_skipped_in_their_place_only() -> None:
    log = Log(o=(1, 5))
    log.may_drop = True
    log.receive(11, 12)
    # The page before this one is lost: its events are not. Both come again.
    assert log.receive(8, 11, gone=10, dropped=2) == []
    assert log.receiver.counts.dropped == 1
    assert log.receive(5, 8, gone=7, dropped=1) == [("take", 5, 8, 5)]
    assert log.receive(8, 11, gone=10, dropped=2) == [("take", 8, 11, 8), ("take", 11, 12, 11)]
    assert (log.receiver.counts.policy_dropped, log.receiver.counts.gone) == (3, 0)


def test_dropped_events_are_refused_and_requested_if_interest_needs_all_by_now() -> None:
    log = Log(o=(1, 5))
    log.may_drop = True
    log.receive(11, 12, now=0.0)
    (request,) = log.receiver.handle_timeout(REORDER_SECONDS)
    assert isinstance(request, RequestPage) and request.may_drop
    spans = [
        Range(ME, (1, 5), (1, 8)),
        Range(ME, (1, 8), (1, 11), (1, 10), dropped=(DroppedCount(0, 2, False),)),
    ]
    page = frame(spans)
    assert log.receiver.select_acceptable(page, (0, 1)) == (0, 1)
    log.may_drop = False
    assert log.receiver.select_acceptable(page, (0, 1)) == [0]
    assert log.receiver.counts.dropped == 1
    (request,) = log.receiver.handle_timeout(REORDER_SECONDS + RETRY_SECONDS)
    assert isinstance(request, RequestPage)
    assert (request.after, request.may_drop) == ((1, 5), False)


def test_an_unfiltered_page_has_all_events() -> None:
    log = Log(o=(1, 5))
    log.may_drop = True
    log.receive(5, 6, now=0.0)
    log.receive(8, 9, now=UNFILTERED_AFTER + 1.0)
    now = log.receiver.next_timeout()
    assert now is not None
    (request,) = log.receiver.handle_timeout(now)
    assert isinstance(request, RequestPage)
    assert request.is_unfiltered and not request.may_drop
