from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import pytest

from broker.delivery.feed import Feed, FeedState
from broker.delivery.site_notices import MOST_WAITING
from broker.errors import QueueFull
from broker.event.site_coverage import CoveredMessages
from broker.event.site_notice import MissingMessages, SiteCoverage, SiteNotice, SiteStatus
from broker.event.stream import StreamPattern
from broker.wire.messages import COVERAGE_VERSION, ORDER_VERSION, Gap
from broker.wire.site_notice import notice_to_message
from tests.delivery.test_session_delivery import Setting, event

PATTERNS = [StreamPattern.parse("s.>")]
UP = SiteStatus("ops", "c", "connected", "", 5)
SUSPECTED = SiteStatus("ops", "c", "suspected", "silent", 6, 60_006)
DOWN = SiteStatus("ops", "c", "disconnected", "silent", 7)
MISSING = MissingMessages("ops", "c", 7, 3, 5, "lost")


def coverage(*lasts: int, first: int = 1, site: str = "c") -> list[SiteNotice]:
    return [SiteCoverage("ops", site, (CoveredMessages("a", 7, first, last),)) for last in lasts]


class NoticeSetting(Setting):
    def notify(self, *notices: SiteNotice, patterns: Sequence[StreamPattern] = PATTERNS) -> None:
        for notice in notices:
            serial = self.log.bounds.last + 1
            self.delivery.site_notices.deliver_notice(notice, patterns, serial)

    @property
    def out(self) -> list[object]:
        """Deliveries as lists of offsets, notices as (subscription, notice), gaps."""
        return self.writer.out  # type: ignore[return-value]

    def expect(self, *expected: object) -> None:
        assert self.out == [
            notice_to_message(*each) if isinstance(each, tuple) else each for each in expected
        ]


def test_a_live_subscription_gets_notices_between_its_events() -> None:
    setting = NoticeSetting()
    setting.subscribe(1)
    setting.subscribe(2)
    setting.commit(event(1))
    setting.notify(SUSPECTED, DOWN)
    setting.commit(event(2))
    setting.notify(MISSING)
    setting.expect(
        *([1], (1, SUSPECTED), (2, SUSPECTED), (1, DOWN), (2, DOWN)),
        *([2], (1, MISSING), (2, MISSING)),
    )


def test_only_subscriptions_of_overlapping_streams_get_notices() -> None:
    setting = NoticeSetting()
    feeds = {name: setting.subscribe(n) for n, name in enumerate(("s.a", "s.>", ">", "t", "s"))}
    for name, feed in feeds.items():
        feed.pattern = StreamPattern.parse(name)
    setting.notify(UP, patterns=[StreamPattern.parse("u"), *PATTERNS])
    setting.expect((0, UP), (1, UP), (2, UP))


def test_a_client_of_an_earlier_version_gets_no_notices() -> None:
    setting = NoticeSetting()
    setting.writer.version = ORDER_VERSION - 1
    setting.delivery.site_notices.find_statuses = lambda _: [UP]
    feed = setting.subscribe()
    setting.notify(DOWN, MISSING)
    setting.expect()
    assert feed.notices == []


def test_a_client_of_version_4_gets_no_coverage() -> None:
    setting = NoticeSetting()
    setting.writer.version = COVERAGE_VERSION - 1
    setting.delivery.site_notices.find_statuses = lambda _: [UP, *coverage(1)]
    setting.subscribe()
    setting.notify(*coverage(2), DOWN)
    setting.expect((1, UP), (1, DOWN))


def test_coverage_comes_when_a_subscription_becomes_live_and_then_as_it_changes() -> None:
    setting = NoticeSetting(*map(event, range(1, 4)), delivery=100_000)
    present, later = coverage(5, 6)
    setting.delivery.site_notices.find_statuses = lambda _: [UP, present]
    setting.writer.room = 0
    setting.subscribe(cursor=1, cut=(1, 3))
    setting.notify(*coverage(4))
    setting.writer.room = 100
    setting.delivery.send_waiting()
    setting.notify(later)
    setting.expect([1, 2, 3], (1, UP), (1, present), (1, later))


@pytest.mark.parametrize("has_past", [False, True])
def test_a_subscription_that_becomes_live_gets_the_present_statuses_first(has_past: bool) -> None:
    setting = NoticeSetting(*map(event, range(1, 4)), delivery=100_000)
    setting.delivery.site_notices.find_statuses = lambda _: [UP, SUSPECTED]
    setting.writer.room = 0 if has_past else 100
    setting.subscribe(cursor=1 if has_past else 4, cut=(1, 3))
    # Statuses of this time are among the present ones, or older.
    earlier: list[SiteNotice] = [UP, MISSING] if has_past else []
    setting.notify(*earlier)
    setting.writer.room = 100
    setting.delivery.send_waiting()
    setting.commit(event(4))
    before = [[1, 2, 3], (1, MISSING)] if has_past else []
    setting.expect(*before, (1, UP), (1, SUSPECTED), [4])


def test_many_present_statuses_are_no_reason_to_fail() -> None:
    setting = NoticeSetting()
    many = [attrs.evolve(UP, site=f"s{number}") for number in range(MOST_WAITING + 5)]
    setting.delivery.site_notices.find_statuses = lambda _: many
    setting.subscribe()
    setting.expect(*((1, status) for status in many))
    assert setting.failures == []


def test_notices_wait_for_room_behind_the_queued_events() -> None:
    setting = NoticeSetting(delivery=100_000)
    first, second = setting.subscribe(1), setting.subscribe(2)
    setting.writer.room = 0
    setting.notify(UP)
    setting.commit(event(1))
    setting.notify(DOWN)
    setting.commit(event(2), event(3))
    setting.notify(MISSING)
    assert setting.out == [] and len(first.notices) == len(second.notices) == 3
    setting.writer.room = 100
    setting.delivery.send_waiting()
    setting.expect(
        *((1, UP), (2, UP), [1], (1, DOWN), (2, DOWN)),
        *([2, 3], (1, MISSING), (2, MISSING)),
    )
    assert first.notices == [] and not setting.delivery.site_notices.has_waiting
    setting.check(first)


def test_a_gap_of_a_full_queue_comes_before_the_notice_behind_it() -> None:
    setting = NoticeSetting(delivery=100_000)
    setting.subscribe()
    setting.writer.room = 0
    setting.commit(event(1), event(2))
    setting.notify(DOWN)
    setting.commit(*map(event, range(3, 6)))
    setting.writer.room = 100
    setting.delivery.send_waiting()
    setting.expect(Gap(1, "n", (1, 1), (1, 2), 2, "slow"), (1, DOWN), [3, 4, 5])


@pytest.mark.parametrize("room", [1, 2, 3, 100])
def test_a_subscription_that_blocks_reads_the_log_up_to_each_notice(room: int) -> None:
    setting = NoticeSetting(delivery=100_000)
    setting.delivery.site_notices.find_statuses = lambda _: [SUSPECTED]
    feed = setting.subscribe(durable=True)
    setting.writer.room = 0
    setting.commit(event(1), event(2))
    setting.notify(DOWN)
    setting.commit(event(3))
    setting.notify(UP, MISSING)
    setting.commit(event(4))
    for _ in range(6):
        setting.writer.room = room
        setting.delivery.send_waiting()
    assert feed.state is FeedState.LIVE
    # The present statuses do not come again.
    setting.expect((1, SUSPECTED), [1, 2], (1, DOWN), [3], (1, UP), (1, MISSING), [4])
    setting.check(feed)


def test_a_waiting_notice_is_sent_before_a_commit_that_finds_room() -> None:
    setting = NoticeSetting()
    setting.subscribe()
    setting.writer.room = 0
    setting.notify(DOWN)
    setting.writer.room = 100
    setting.commit(event(1))
    setting.expect((1, DOWN), [1])


def test_notices_that_wait_for_one_subscription_do_not_hold_up_others() -> None:
    setting = NoticeSetting(delivery=100_000)
    setting.subscribe(1)
    setting.subscribe(2, durable=True)
    setting.delivery.set_paused(2, True)
    setting.commit(event(1))
    setting.notify(DOWN)
    setting.writer.room = 0
    setting.commit(event(2), event(3))
    setting.writer.room = 100
    setting.delivery.send_waiting()
    setting.expect([1], (1, DOWN), [2, 3])


def test_notices_of_a_paused_subscription_wait() -> None:
    setting = NoticeSetting(delivery=100_000)
    feed = setting.subscribe(durable=True)
    setting.delivery.set_paused(1, True)
    setting.notify(DOWN)
    setting.commit(event(1))
    setting.delivery.send_waiting()
    setting.expect()
    setting.delivery.set_paused(1, False)
    setting.expect((1, DOWN), [1])
    assert feed.state is FeedState.LIVE


def test_notices_behind_events_that_retention_removed_come() -> None:
    setting = NoticeSetting(*map(event, range(1, 5)), delivery=100_000)
    feed = setting.subscribe(cursor=5, cut=(1, 4), durable=True)
    setting.writer.room = 0
    setting.commit(event(5))
    setting.notify(DOWN)
    setting.commit(event(6), event(7))
    del setting.log.events[:6]
    setting.log.begins_after = {"n": (1, 6)}
    setting.writer.room = 100
    setting.delivery.send_waiting()
    setting.expect(Gap(1, "n", (1, 5), (1, 6), 2, "retention"), (1, DOWN), [7])
    assert feed.state is FeedState.LIVE


def test_a_failed_commit_takes_back_the_serials_of_notices() -> None:
    setting = NoticeSetting(delivery=100_000)
    feed = setting.subscribe()
    setting.writer.room = 0
    setting.delivery.site_notices.deliver_notice(DOWN, PATTERNS, 9)
    setting.delivery.roll_back(1)
    setting.commit(event(1))
    setting.writer.room = 100
    setting.delivery.send_waiting()
    setting.expect((1, DOWN), [1])
    setting.check(feed)


def statuses(count: int) -> list[SiteNotice]:
    return [attrs.evolve(UP, at=number) for number in range(count)]


def missing(*firsts: int) -> list[SiteNotice]:
    return [attrs.evolve(MISSING, first=first, last=first) for first in firsts]


@pytest.mark.parametrize("neighbours", [False, True])
def test_waiting_notices_are_bounded_and_missing_messages_are_never_dropped(
    neighbours: bool,
) -> None:
    setting = NoticeSetting(delivery=100_000)
    feed = setting.subscribe()
    setting.writer.room = 0
    setting.notify(*statuses(MOST_WAITING), SUSPECTED)
    assert [each.notice for each in feed.notices] == [SUSPECTED]
    step = 1 if neighbours else 2
    setting.notify(*missing(*range(1, 1 + step * (MOST_WAITING - 1), step)))
    assert setting.failures == [] and len(feed.notices) == MOST_WAITING
    setting.notify(*missing(step * (MOST_WAITING - 1) + 1))
    if neighbours:
        assert setting.failures == []
        whole = attrs.evolve(MISSING, first=1, last=MOST_WAITING)
        assert [each.notice for each in feed.notices] == [SUSPECTED, whole]
    else:
        ((failed, failure),) = setting.failures
        assert failed is feed and failure.check(QueueFull)


def test_waiting_coverage_of_a_site_is_joined() -> None:
    setting = NoticeSetting(delivery=100_000)
    feed = setting.subscribe()
    setting.writer.room = 0
    before, others = coverage(*range(1, 100)), coverage(7, site="d")
    setting.notify(DOWN, *before, *others, *missing(1))
    setting.notify(*coverage(*range(100, 300), first=90))
    assert [each.notice for each in feed.notices[:4]] == [
        DOWN,
        *others,
        *missing(1),
        *coverage(254),
    ]
    assert feed.notices[-1].notice == coverage(299, first=90)[0] and setting.failures == []


@pytest.mark.parametrize(
    "change", [{"site": "d"}, {"incarnation": 8}, {"reason": "other"}, {"stack": "x"}, {"first": 7}]
)
def test_only_ranges_of_one_loss_are_joined(change: dict[str, Any]) -> None:
    setting = NoticeSetting()
    feed = setting.subscribe()
    setting.writer.room = 0
    other = attrs.evolve(MISSING, **{"first": 6, "last": 9, **change})
    setting.notify(MISSING, other, *statuses(MOST_WAITING))
    assert [each.notice for each in feed.notices][:2] == [MISSING, other]


def test_a_removed_subscription_gets_nothing() -> None:
    setting = NoticeSetting()
    setting.subscribe(1)
    setting.writer.room = 0
    setting.notify(DOWN)
    setting.delivery.remove_feed(1)
    setting.writer.room = 100
    setting.delivery.send_waiting()
    setting.expect()
    assert not setting.delivery.site_notices.has_waiting


def test_an_unconfirmed_subscription_gets_no_status_before_it_is_live() -> None:
    setting = NoticeSetting()
    feed = Feed(1, matcher_number=1, is_durable=False, cut=0, cursor=1, newest_at_start=(1, 0))
    setting.delivery.add_feed(feed)
    setting.notify(DOWN, MISSING)
    setting.expect()
    setting.delivery.site_notices.find_statuses = lambda _: [DOWN]
    setting.delivery.start_feed(1)
    setting.expect((1, MISSING), (1, DOWN))
