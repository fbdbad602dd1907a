from __future__ import annotations

import pytest

from benchmarks.harness.delivery_count import DeliveryCount
from benchmarks.harness.failure import BenchmarkFailed
from broker.event.envelope import Liveness
from broker.log.logged_event import LoggedEvent
from broker.wire import messages
from broker.wire.event_batch import encode_delivery, encode_events
from broker.wire.messages import Flowing, Gap


def delivery(*offsets: int) -> bytes:
    events = [LoggedEvent(1, offset, 0, 0, b"\x90", b"<e/>", "n", offset) for offset in offsets]
    return encode_delivery(encode_events(events), [(len(events), (1,))], Liveness.LIVE, None)


def flowing_after(offset: int, *, everything: bool = True) -> DeliveryCount:
    count = DeliveryCount(everything=everything)
    count.count_message(messages.encode(Flowing(1, (("n", 1, offset),))))
    return count


def test_events_that_follow_each_other_are_counted() -> None:
    count = flowing_after(4)
    count.count_message(delivery(5, 6, 7))
    count.count_message(delivery(8))
    assert (count.flowing, count.events, count.total) == (True, 4, 4)


@pytest.mark.parametrize("offsets", [(6,), (5, 7), (5, 5), (4,)])
def test_a_hole_or_a_duplicate_ends_the_run(offsets: tuple[int, ...]) -> None:
    with pytest.raises(BenchmarkFailed, match="came instead of"):
        flowing_after(4).count_message(delivery(*offsets))


def test_the_first_event_of_an_origin_that_is_not_in_the_cut_may_have_any_place() -> None:
    count = DeliveryCount()
    count.count_message(messages.encode(Flowing(1, (("c", 1, 9),))))
    count.count_message(delivery(41, 42))
    with pytest.raises(BenchmarkFailed, match="came instead of"):
        count.count_message(delivery(44))


def test_a_query_that_picks_some_leaves_holes_but_nothing_comes_twice() -> None:
    count = flowing_after(4, everything=False)
    count.count_message(delivery(7))
    count.count_message(delivery(12))
    assert count.events == 2
    with pytest.raises(BenchmarkFailed, match="came instead of"):
        count.count_message(delivery(12))


def test_events_reported_as_dropped_are_counted_separately() -> None:
    count = flowing_after(4)
    count.count_message(messages.encode(Gap(1, "n", (1, 5), (1, 7), 3, "slow")))
    count.count_message(delivery(8))
    assert (count.events, count.dropped, count.total) == (1, 3, 4)


def test_a_delivery_that_lacks_bytes_ends_the_run() -> None:
    with pytest.raises(BenchmarkFailed, match="add up"):
        flowing_after(4).count_message(delivery(5)[:-1])
