from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.delivery.commit_share import CommitShare, SharedEncodings
from broker.delivery.feed import Feed, FeedState
from broker.delivery.recovery_contract import ActiveRecovery, LostRange, MarkRange
from broker.errors import QueueFull
from broker.event.gap_reason import LEFT_OUT
from broker.event.place import Mark
from broker.streams.dropped_count import QUEUE_FULL, DroppedCount
from broker.streams.queue_policy import BLOCK, DROP_OLDEST, FAIL
from broker.wire.messages import Gap
from tests.delivery.test_recovered_feeds import Log, Recovery, far, make_delivery
from tests.delivery.test_session_delivery import FakeWriter, event


class Setting:
    """A live subscription at the second own event and the third far one."""

    def __init__(self, recovery: Recovery | None, **told: Mark) -> None:
        self.writer, self.log = FakeWriter(), Log(event(1), event(2))
        self.recovery = recovery
        self.asked: list[tuple[Mapping[str, MarkRange], str]] = []
        self.archived: list[bool] = []
        """True if only an archive can serve them."""
        self.delivery = make_delivery(self.writer, self.log, Failure.raiseException, Clock())
        self.feed = Feed(
            1, matcher_number=1, is_durable=False, cut=2, cursor=3, newest_at_start=(1, 2)
        )
        self.feed.reported_marks = {"n": (1, 2), **told}
        self.feed.start_recovery = self.recover
        self.feed.is_accepted = True
        self.delivery.add_feed(self.feed)
        self.delivery.start_feed(1)
        assert self.feed.state is FeedState.LIVE

    def recover(
        self, ranges: Mapping[str, MarkRange], reason: str, archived: bool
    ) -> ActiveRecovery | None:
        self.asked.append((ranges, reason))
        self.archived.append(archived)
        return self.recovery

    def comes(self, after: int, upto: int, reason: str) -> None:
        """The log gets the far event behind `upto`, but none of the range."""
        self.log.events.append(far(upto + 1))
        self.delivery.recover_or_report("far", (1, after) if after else (0, 0), (1, upto), reason)
        share = CommitShare([self.log.events[-1]], deque([(1, [self.feed])]))
        self.delivery.deliver_share(share, SharedEncodings())
        self.delivery.resume_after_commit()

    @property
    def gaps(self) -> list[Gap]:
        return [each for each in self.writer.out if isinstance(each, Gap)]


@pytest.mark.parametrize(
    ("after", "reason", "archived"), [(0, "lost", False), (0, "retention", True), (3, "lost", True)]
)
def test_events_of_other_logs_are_recovered_and_the_log_continues(
    after: int, reason: str, archived: bool
) -> None:
    """Events before the node's start are in other logs."""
    it = Setting(recovery := Recovery(), far=(1, 3))
    it.comes(after, 8, reason)
    assert it.asked == [({"far": ((1, 3), (1, 9))}, reason)] and it.archived == [archived]
    assert (it.feed.state, it.writer.deliveries) == (FeedState.RECOVERING, [])
    recovery.give(far(5), far(9))
    recovery.give()
    assert it.writer.deliveries == [[5], [9]]
    assert it.gaps == []
    it.delivery.update_outcomes()
    assert it.feed.state is FeedState.LIVE


def test_events_that_are_not_found_are_a_gap() -> None:
    it = Setting(recovery := Recovery(LostRange("far", (1, 3), (1, 8), "lost")), far=(1, 3))
    it.comes(0, 8, "lost")
    recovery.give()
    assert it.gaps == [Gap(1, "far", (1, 4), (1, 8), 5, "lost")]


@pytest.mark.parametrize(("reason", "counted"), [("retention", 5), ("lost", 0)])
def test_without_sources_a_gap_is_reported_at_once_and_once(reason: str, counted: int) -> None:
    it = Setting(None, far=(1, 3))
    it.comes(3, 8, reason)
    wanted = [Gap(1, "far", (1, 4), (1, 8), 5, reason)]
    assert it.gaps == wanted
    assert it.writer.deliveries == [[9]]
    # Lost events were never in this log, so they do not count as `gone`.
    assert it.feed.outcomes.gone == counted
    it.delivery.recover_or_report("far", (1, 3), (1, 8), reason)
    assert it.gaps == wanted


def test_a_gap_without_later_events_is_reported_once() -> None:
    it = Setting(None, far=(1, 3))
    for last in (8, 8, 7, 10):
        it.delivery.recover_or_report("far", (1, 3), (1, last), "lost")
    assert [(gap.first, gap.last) for gap in it.gaps] == [((1, 4), (1, 8)), ((1, 9), (1, 10))]


@pytest.mark.parametrize(("goes_on", "begins"), [(False, (1, 6)), (True, (0, 0))])
def test_a_continuous_subscription_gets_all_of_an_unknown_origin(
    goes_on: bool, begins: Mark
) -> None:
    it = Setting(Recovery())
    it.feed.is_continuous, it.feed.active_from = goes_on, {"far": (1, 6)}
    it.log.events.append(far(8))
    assert it.delivery.gap_recovery.recover_trimmed(it.feed)
    assert it.asked == [({"far": (begins, (1, 8))}, "retention")]


def test_events_read_from_the_log_are_not_recovered_again() -> None:
    it = Setting(Recovery(), far=(1, 3))
    it.feed.state, it.feed.unreported_marks = FeedState.CATCHING_UP, {"far": (1, 5), "near": (1, 2)}
    it.delivery.recover_or_report("far", (1, 5), (1, 8), "lost")
    assert it.asked == [({"far": ((1, 5), (1, 8))}, "lost")]
    assert it.feed.unreported_marks == {}


def test_a_subscription_without_marks_of_an_origin_misses_nothing_of_it() -> None:
    it = Setting(Recovery())
    it.comes(0, 8, "lost")
    assert it.asked == [] and it.gaps == []
    assert it.writer.deliveries == [[9]]


@pytest.mark.parametrize("after", [0, 4])
def test_events_of_an_unknown_origin_are_missing_if_the_node_expected_them(
    after: int,
) -> None:
    it = Setting(recovery := Recovery())
    it.comes(after, 8, "retention")
    assert it.asked == [({"far": ((1, after) if after else (0, 0), (1, 9))}, "retention")]
    recovery.give(far(6), far(9))
    recovery.give()
    assert it.writer.deliveries == [[6], [9]] and it.gaps == []


def test_queued_events_of_a_slow_session_are_recovered_in_order() -> None:
    it = Setting(recovery := Recovery(), far=(1, 3))
    it.writer.room = 0
    it.log.events.append(third := event(3))
    it.delivery.deliver_share(CommitShare([third], deque([(1, [it.feed])])), SharedEncodings())
    assert it.delivery.queued[0] == 1
    it.comes(0, 8, "lost")
    it.writer.room = 10
    it.delivery.send_waiting()
    recovery.give(far(5), far(9))
    recovery.give()
    assert it.writer.deliveries == [[5], [9], [3]]
    assert it.gaps == []


def test_a_second_range_is_recovered_after_the_first() -> None:
    it = Setting(first := Recovery(), far=(1, 3), near=(1, 3))
    it.comes(0, 8, "lost")
    for origin in ("far", "near"):
        it.delivery.recover_or_report(origin, (0, 0), (1, 12), "lost")
    it.recovery = second = Recovery()
    first.give()
    assert [list(ranges) for ranges, _ in it.asked] == [["far"], ["far"]]
    it.recovery = third = Recovery()
    second.give()
    assert it.asked[2:] == [({"near": ((1, 3), (1, 12))}, "lost")]
    third.give()
    assert len(it.asked) == 3 and it.gaps == []


def test_an_epoch_without_events_is_no_gap() -> None:
    it = Setting(Recovery(), far=(1, 8))
    it.log.events.append(far(9))
    it.delivery.recover_or_report("far", (0, 0), (2, 8), "retention")
    assert it.asked == [] and it.gaps == []


@pytest.mark.parametrize("waits", [False, True])
def test_a_gap_is_wider_for_a_session_that_has_not_reached_it(waits: bool) -> None:
    it = Setting(None, far=(1, 3))
    if waits:
        it.writer.room = 0
        it.log.events.append(third := event(3))
        it.delivery.deliver_share(CommitShare([third], deque([(1, [it.feed])])), SharedEncodings())
    it.delivery.recover_or_report("far", (1, 5), (1, 8), "lost")
    assert [(gap.first, gap.last) for gap in it.gaps] == [((1, 4 if waits else 6), (1, 8))]


@pytest.mark.parametrize("name", ["is_accepted", "is_active"])
def test_a_subscription_misses_nothing_before_it_is_accepted_and_active(name: str) -> None:
    it = Setting(None, far=(1, 3))
    setattr(it.feed, name, False)
    it.delivery.recover_or_report("far", (1, 3), (1, 8), "lost")
    assert it.asked == [] and it.gaps == []


@pytest.mark.parametrize(
    ("goes_on", "told", "lacks"),
    [(False, {"far": (1, 3)}, False), (True, {}, False), (True, {"far": (1, 3)}, True)],
    ids=["begins", "unknown-origin", "goes-on"],
)
def test_only_a_continuous_subscription_misses_events_before_it_is_active(
    goes_on: bool, told: dict[str, Mark], lacks: bool
) -> None:
    it = Setting(None, **told)
    it.feed.is_continuous, it.feed.active_from = goes_on, {"far": (1, 6)}
    it.delivery.recover_or_report("far", (1, 3), (1, 5), "lost")
    assert bool(it.gaps) is lacks


def test_events_that_did_not_match_are_counted_before_a_recovery_begins() -> None:
    it = Setting(Recovery(), far=(1, 3))
    before = it.feed.outcomes.filtered
    for number in (3, 4, 5):
        it.log.events.append(event(number))
    it.delivery.recover_or_report("far", (0, 0), (1, 8), "lost")
    assert it.feed.state is FeedState.RECOVERING
    assert it.feed.outcomes.filtered - before == 3


def dropped(*counts: tuple[int, int, bool]) -> list[DroppedCount]:
    return [DroppedCount(*each) for each in counts]


def test_events_that_a_queue_on_the_way_dropped_are_a_gap_in_their_place() -> None:
    it = Setting(None, far=(1, 3))
    it.delivery.report_dropped("far", (1, 3), (1, 5), dropped((0, 1, True), (2, 1, True)))
    it.delivery.report_dropped("far", (1, 4), (1, 8), dropped((1, 2, True), (0, 1, False)))
    # The client has these, or has heard of them.
    it.delivery.report_dropped("far", (1, 4), (1, 8), dropped((1, 2, True)))
    assert it.gaps == [
        Gap(1, "far", (1, 4), (1, 5), 2, "coalesced"),
        Gap(1, "far", (1, 6), (1, 8), 3, "slow"),
    ]
    assert it.asked == []


@pytest.mark.parametrize(("rank", "count"), [(0, 0), (1, 2), (2, 5)])
def test_a_gap_counts_only_dropped_events_within_the_clearance(rank: int, count: int) -> None:
    it = Setting(None, far=(1, 3))
    it.delivery.gap_recovery._clearance = rank
    it.delivery.report_dropped("far", (1, 3), (1, 9), dropped((1, 2, True), (2, 3, False)))
    reason = "coalesced" if rank == 1 else "slow"
    assert it.gaps == ([Gap(1, "far", (1, 4), (1, 9), count, reason)] if count else [])


def test_a_subscription_that_blocks_recovers_what_a_queue_on_the_way_dropped() -> None:
    """It was added after the page was requested."""
    it = Setting(recovery := Recovery(), far=(1, 3))
    it.feed.policy = BLOCK
    it.log.events.append(far(9))
    it.delivery.report_dropped("far", (1, 3), (1, 8), dropped((0, 5, True)))
    assert it.asked == [({"far": ((1, 3), (1, 9))}, "slow")]
    recovery.give(far(5), far(9))
    recovery.give()
    assert it.writer.deliveries == [[5], [9]] and it.gaps == []


def test_a_full_queue_on_the_way_ends_subscriptions_with_the_policy_fail() -> None:
    failures: list[Failure] = []
    delivery = make_delivery(FakeWriter(), Log(event(1)), failures.append, Clock())
    for number, policy in enumerate((FAIL, DROP_OLDEST), 1):
        feed = Feed(number, number, False, cut=1, cursor=2, newest_at_start=(1, 1), policy=policy)
        feed.is_accepted = True
        delivery.add_feed(feed)
        delivery.start_feed(number)
    delivery.report_dropped("far", (1, 3), None, QUEUE_FULL)
    assert [type(each.value) for each in failures] == [QueueFull]


@pytest.mark.parametrize("rereads", [False, True])
def test_dropped_events_behind_a_queue_of_the_session_are_reported_behind_it(rereads: bool) -> None:
    it = Setting(None, n=(1, 2), far=(1, 3))
    it.writer.room = 0
    it.comes(3, 3, "lost")
    it.delivery.report_dropped("far", (1, 4), (1, 8), dropped((0, 2, False)))
    assert it.writer.out == []
    if rereads:
        it.delivery.reread_from_log(it.log.events[-1].serial, [""])
    it.log.events.append(far(9))
    it.delivery.deliver_share(CommitShare([far(9)], deque([(1, [it.feed])])), SharedEncodings())
    it.writer.room = 10
    it.delivery.send_waiting()
    gap = Gap(1, "far", (1, 4) if rereads else (1, 5), (1, 8), 5 if rereads else 2, "slow")
    out = [each for each in it.writer.out if each == gap or isinstance(each, list)]
    assert out == ([gap, [4], [9]] if rereads else [[4], gap, [9]])
    assert it.gaps == [gap]


def test_a_left_out_event_is_recovered_before_later_ones_of_its_flow() -> None:
    it = Setting(Recovery(), far=(1, 3))
    it.delivery.gap_recovery.handle_left_out(it.feed, "far", (1, 6), None)
    # Also without an archive.
    assert it.asked == [({"far": ((1, 3), (1, 6))}, LEFT_OUT)] and it.archived == [False]
    it.delivery.gap_recovery.handle_left_out(it.feed, "far", (1, 5), None)
    it.delivery.gap_recovery.handle_left_out(it.feed, "far", (1, 2), None)
    assert it.gaps == [Gap(1, "far", (1, 2), (1, 2), 1, LEFT_OUT)]


@pytest.mark.parametrize(("begins", "held"), [((1, 5), ""), ((0, 0), "radar.>")])
def test_a_left_out_event_behind_later_ones_is_a_gap_if_it_was_due(begins: Mark, held: str) -> None:
    flow = "far/radar.>"
    it = Setting(Recovery())
    it.feed.reported_marks[flow] = (1, 9)
    report = it.delivery.gap_recovery.handle_left_out
    report(it.feed, flow, (1, 7), None)
    assert it.gaps == [Gap(1, flow, (1, 7), (1, 7), 1, LEFT_OUT)] and it.asked == []
    # Not before the begin of the subscription, and not while a mesh brings the flow to the client.
    it.feed.active_from[flow] = begins
    it.feed.held_patterns = frozenset({held})
    report(it.feed, flow, (1, 5), None)
    assert len(it.gaps) == 1 and it.asked == []


def test_a_left_out_event_that_a_recovery_has_brought_is_no_gap() -> None:
    it = Setting(recovery := Recovery(), far=(1, 3))
    report = it.delivery.gap_recovery.handle_left_out
    report(it.feed, "far", (1, 6), None)
    recovery.give(far(5), far(6))
    recovery.give()
    it.delivery.resume_after_commit()
    for offset in (4, 6):
        report(it.feed, "far", (1, offset), None)
    assert it.gaps == [] and len(it.asked) == 1
    # It was passed before.
    report(it.feed, "far", (1, 3), None)
    assert it.gaps == [Gap(1, "far", (1, 3), (1, 3), 1, LEFT_OUT)]


def test_a_live_subscription_gets_a_left_out_event_if_it_has_got_no_later_one() -> None:
    it = Setting(Recovery(), far=(1, 3))
    for offset in (6, 5):
        it.delivery.gap_recovery.handle_left_out(it.feed, "far", (1, offset), far(offset))
    assert it.writer.deliveries == [[6]] and it.asked == []
    assert it.gaps == [Gap(1, "far", (1, 5), (1, 5), 1, LEFT_OUT)]
