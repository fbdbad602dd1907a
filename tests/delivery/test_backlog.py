from __future__ import annotations

from collections import deque

import pytest

from broker.delivery.backlog import Backlog
from broker.delivery.commit_share import CommitShare, QueueLimits, SharedEncodings
from broker.delivery.feed import Feed, FeedState
from broker.errors import QueueFull
from broker.log.logged_event import LoggedEvent
from broker.streams.queue_policy import BLOCK, DROP_NEWEST, FAIL, Coalesce, IQueuePolicy
from broker.wire.messages import Gap
from tests.delivery.test_session_delivery import Setting, event


def subscribe(setting: Setting, number: int, policy: IQueuePolicy) -> Feed:
    feed = Feed(number, number, False, cut=0, cursor=1, newest_at_start=(1, 0), policy=policy)
    setting.delivery.add_feed(feed)
    setting.delivery.start_feed(number)
    return feed


def test_queues_send_in_turn() -> None:
    backlog = Backlog(QueueLimits(events=30, bytes=100_000, delivery=1))
    feeds = [Feed(n, n, False, 0, 1, policy=DROP_NEWEST) for n in (1, 2)]
    feeds.append(Feed(3, 3, False, 0, 1))
    for feed in feeds:
        backlog.add_feed(feed)
    for number in (1, 2):
        backlog.add_event(event(number), feeds)
    sent = []
    while backlog.has_pending:
        losses, taken = backlog.take_delivery()
        assert losses == []
        sent += [(one.serial, [feed.number for feed in of]) for one, of in taken]
    assert sent == [(1, [3]), (1, [1]), (1, [2]), (2, [3]), (2, [1]), (2, [2])]
    assert (len(backlog), backlog.bytes) == (0, 0)


def test_subscriptions_that_drop_the_oldest_share_a_queue_and_its_deliveries() -> None:
    setting = Setting(delivery=100_000)
    setting.subscribe(1), setting.subscribe(2)
    setting.writer.room = 0
    setting.commit(event(1), event(2))
    assert setting.delivery.queued[0] == 2
    setting.writer.room = 10
    setting.delivery.send_waiting()
    assert setting.writer.deliveries == [[1, 2]]


@pytest.mark.parametrize("policy", [DROP_NEWEST, Coalesce()], ids=str)
def test_a_reread_brings_lost_events_of_the_queue_too(policy: IQueuePolicy) -> None:
    """Only those before the first queued event stay lost."""
    setting = Setting(delivery=100_000)
    setting.log.events.append(event(1))
    feed = subscribe(setting, 1, policy)
    other = subscribe(setting, 2, FAIL)
    setting.delivery.send_waiting()
    setting.writer.room = 0
    setting.commit(event(2), event(3), event(4))
    assert feed.outcomes.dropped > 0
    setting.delivery.reread_from_log(5, ["s"])
    assert feed.state is FeedState.CATCHING_UP
    setting.writer.room = 10
    setting.delivery.send_waiting()
    gaps = [each for each in setting.writer.out if isinstance(each, Gap) and each.number == 1]
    first_read = 2 if policy is DROP_NEWEST else 4
    assert feed.cursor == 5
    assert sum(gap.count for gap in gaps) == feed.outcomes.dropped == first_read - 2
    assert feed.outcomes.delivered == 1 + 5 - first_read
    for each in (feed, other):
        setting.check(each)


def test_a_full_queue_fails_its_subscription_once() -> None:
    setting = Setting(delivery=100_000)
    failing, blocking = subscribe(setting, 1, FAIL), subscribe(setting, 2, BLOCK)
    other = setting.subscribe(3)
    setting.writer.room = 0
    setting.commit(*map(event, range(1, 6)))
    ((failed, failure),) = setting.failures
    assert failed is failing and failure.check(QueueFull)
    assert blocking.state is FeedState.CATCHING_UP
    setting.delivery.remove_feed(1)
    assert failing.outcomes.dropped == failing.outcomes.seen == 5
    for each in (blocking, other):
        setting.check(each)


def test_an_ended_subscription_leaves_its_part_to_the_others() -> None:
    setting = Setting(delivery=100_000)
    setting.subscribe(1)
    for number in (2, 3):
        subscribe(setting, number, DROP_NEWEST)
    setting.writer.room = 0
    setting.commit(event(1), event(2))
    assert setting.delivery.queued[0] == 3
    for number in (2, 3):
        setting.delivery.remove_feed(number)
    setting.commit(event(3), event(4))
    assert setting.delivery.queued[0] == 3
    setting.delivery.close()
    assert setting.delivery.queued == (0, 0)


def test_sessions_without_another_policy_read_no_key() -> None:
    setting = Setting()
    setting.subscribe(1)
    setting.writer.room = 0
    broken = LoggedEvent(1, 1, 0, 0, b"no record", b"no document", "n", 1)
    share = CommitShare([broken], deque([(1, list(setting.delivery.feeds))]))
    setting.delivery.deliver_share(share, SharedEncodings())
    assert setting.delivery.queued[0] == 1
