from __future__ import annotations

from broker.delivery.feed import Feed, FeedState


def live_from(offset: int) -> Feed:
    feed = Feed(number=1, matcher_number=1, is_durable=True, cut=offset - 1, cursor=offset)
    feed.go_live(offset)
    return feed


def test_a_new_feed_waits_until_its_client_knows_it() -> None:
    feed = Feed(number=1, matcher_number=1, is_durable=True, cut=4, cursor=5)
    assert feed.state is FeedState.UNCONFIRMED
    feed.count_filtered(10)
    assert feed.outcomes.seen == 0


def test_live_events_that_do_not_match_are_filtered() -> None:
    feed = live_from(5)
    feed.count_filtered(9)
    assert (feed.outcomes.seen, feed.outcomes.filtered) == (4, 4)


def test_counting_again_counts_nothing_twice() -> None:
    feed = live_from(5)
    for end in (9, 9, 7, 9):
        feed.count_filtered(end)
    assert feed.outcomes.seen == 4


def test_a_match_is_not_filtered_if_counted_before_or_after() -> None:
    for settle_first in (True, False):
        feed = live_from(5)
        if settle_first:
            feed.count_filtered(9)
        feed.outcomes.filtered -= 1
        feed.outcomes.delivered += 1
        feed.count_filtered(9)
        outcomes = feed.outcomes
        assert (outcomes.seen, outcomes.filtered, outcomes.delivered) == (4, 3, 1)


def test_events_read_from_the_log_are_counted_by_the_reader() -> None:
    feed = live_from(5)
    feed.fall_behind(8)
    assert (feed.state, feed.cursor, feed.outcomes.seen) == (FeedState.CATCHING_UP, 8, 3)
    feed.count_filtered(20)
    assert feed.outcomes.seen == 3
    feed.go_live(20)
    feed.count_filtered(21)
    assert feed.outcomes.seen == 4


def test_serials_of_a_failed_commit_are_counted_when_assigned_again() -> None:
    # It subscribed during a commit of 5 to 9, which then failed.
    feed = live_from(10)
    feed.roll_back(5)
    feed.count_filtered(8)
    assert feed.outcomes.seen == 3
    feed.roll_back(8)
    feed.count_filtered(9)
    assert feed.outcomes.seen == 4


def test_a_cursor_returns_to_serials_that_were_rolled_back() -> None:
    feed = Feed(number=1, matcher_number=1, is_durable=True, cut=9, cursor=8)
    feed.roll_back(5)
    assert feed.cursor == 5
    feed.roll_back(7)
    assert feed.cursor == 5
