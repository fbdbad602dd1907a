"""No event above the clearance of a session is sent to it, whatever the matcher has found."""

from __future__ import annotations

from collections import deque

from broker.delivery.commit_share import CommitShare, SharedEncodings
from tests.delivery.test_session_delivery import Setting, event


def test_matched_events_above_the_clearance_are_not_sent_live() -> None:
    setting = Setting(delivery=100_000, clearance=1)
    feed = setting.subscribe()
    events = [event(1, level=1), event(2, level=2), event(3)]
    setting.log.events += events
    share = CommitShare(events, deque([(3, [feed])]))
    setting.delivery.deliver_share(share, SharedEncodings())
    assert setting.writer.deliveries == [[1, 3]]


def test_catching_up_counts_events_above_the_clearance_as_denied() -> None:
    events = [event(1, level=1), event(2, level=2), event(3)]
    setting = Setting(*events, delivery=100_000, clearance=1)
    setting.unwanted = {1}
    feed = setting.subscribe(cut=(1, 3))
    assert (feed.outcomes.filtered, feed.outcomes.denied) == (2, 1)
    assert setting.writer.deliveries == []


def test_a_skipped_event_within_the_clearance_counts_as_filtered() -> None:
    """For example one of a type that the node does not have, if no query can match it."""
    setting = Setting(clearance=1)
    feed = setting.subscribe()
    for number in (1, 2):
        setting.delivery._catch_up._skip_event(feed, event(number, level=number))
    assert (feed.outcomes.filtered, feed.outcomes.denied) == (1, 1)
