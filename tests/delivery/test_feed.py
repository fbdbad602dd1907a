"""One subscription's counts: every event that it was asked about has one outcome."""

from __future__ import annotations

from broker.delivery.feed import Feed, FeedState


def live_from(offset: int) -> Feed:
    feed = Feed(number=1, matcher_number=1, is_durable=True, cut=offset - 1, cursor=offset)
    feed.go_live(offset)
    return feed


def test_a_new_feed_waits_until_its_client_knows_of_it() -> None:
    feed = Feed(number=1, matcher_number=1, is_durable=True, cut=4, cursor=5)
    assert feed.state is FeedState.UNCONFIRMED
    feed.count_filtered(10)
    assert feed.outcomes.seen == 0


def test_what_came_live_and_did_not_match_was_filtered() -> None:
    feed = live_from(5)
    feed.count_filtered(9)
    assert (feed.outcomes.seen, feed.outcomes.filtered) == (4, 4)


def test_settling_again_counts_nothing_twice() -> None:
    feed = live_from(5)
    for end in (9, 9, 7, 9):
        feed.count_filtered(end)
    assert feed.outcomes.seen == 4


def test_a_match_is_not_filtered_whether_it_is_settled_before_or_after() -> None:
    for settle_first in (True, False):
        feed = live_from(5)
        if settle_first:
            feed.count_filtered(9)
        feed.outcomes.filtered -= 1
        feed.outcomes.delivered += 1
        feed.count_filtered(9)
        outcomes = feed.outcomes
        assert (outcomes.seen, outcomes.filtered, outcomes.delivered) == (4, 3, 1)


def test_what_is_read_from_the_log_is_counted_there() -> None:
    feed = live_from(5)
    feed.fall_behind(8)
    assert (feed.state, feed.cursor, feed.outcomes.seen) == (FeedState.CATCHING_UP, 8, 3)
    feed.count_filtered(20)
    assert feed.outcomes.seen == 3
    feed.go_live(20)
    feed.count_filtered(21)
    assert feed.outcomes.seen == 4


def test_places_that_a_failed_commit_took_back_are_counted_when_they_are_given_again() -> None:
    # It subscribed while 5 to 9 were under way, which then failed.
    feed = live_from(10)
    feed.roll_back(5)
    feed.count_filtered(8)
    assert feed.outcomes.seen == 3
    feed.roll_back(8)
    feed.count_filtered(9)
    assert feed.outcomes.seen == 4


def test_a_cursor_beyond_places_that_were_taken_back_returns_to_them() -> None:
    feed = Feed(number=1, matcher_number=1, is_durable=True, cut=9, cursor=8)
    feed.roll_back(5)
    assert feed.cursor == 5
    feed.roll_back(7)
    assert feed.cursor == 5
