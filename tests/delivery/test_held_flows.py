"""Flows that a client gets through a mesh are not delivered, and their ends are stated."""

from __future__ import annotations

from collections import deque

from broker.delivery.commit_share import CommitShare
from broker.delivery.delivery_sender import DeliverySender
from broker.delivery.feed import Feed, FeedState
from broker.delivery.held_flows import HeldFlows
from broker.event.envelope import Liveness
from broker.wire.codec import Message
from broker.wire.event_batch import encode_events
from broker.wire.held_flows import HeldBack
from tests.client.node_messages import event_at

RADAR = "n/radar.>"


class Writer:
    """A session whose output is not read."""

    writable = True
    version = 1

    def send_message(self, message: Message) -> None:
        """Do nothing."""

    def send_delivery(self, data: bytes) -> None:
        """Do nothing."""


def make_feed(number: int) -> Feed:
    feed = Feed(number, number, is_durable=False, cut=0, cursor=1)
    feed.state = FeedState.LIVE
    return feed


def test_events_of_held_flows_go_to_other_subscriptions_only() -> None:
    one, two = make_feed(1), make_feed(2)
    held = HeldFlows({1: one, 2: two}, clearance=1)
    held.hold_flows(1, ["radar.>", ""])
    held.hold_flows(3, ["radar.>"])
    events = [event_at(*each) for each in ((RADAR, 1), ("n", 2), (RADAR, 3), (RADAR, 4))]
    share = held.without_held(CommitShare(events, deque([(3, [one, two]), (1, [one])])))
    assert share.events == events[:3]
    assert list(share.runs) == [(1, [two]), (1, [one, two]), (1, [two])]
    assert list(held.take_messages()) == [HeldBack(1, ((RADAR, 1, 4),))]
    assert list(held.take_messages()) == []


def test_events_above_the_clearance_are_not_stated() -> None:
    feed = make_feed(1)
    held = HeldFlows({1: feed}, clearance=0)
    held.hold_flows(1, ["radar.>"])
    assert not held.without_held(CommitShare([event_at(RADAR, 1)], deque([(1, [feed])]))).events
    assert list(held.take_messages()) == []


def test_a_subscription_that_has_ended_is_forgotten() -> None:
    feeds = {1: make_feed(1)}
    held = HeldFlows(feeds, clearance=1)
    held.hold_flows(1, ["radar.>"])
    feeds[1].held_back[RADAR] = (1, 1)
    del feeds[1]
    assert list(held.take_messages()) == [] and held.numbers == set()


def test_events_of_a_catch_up_which_the_client_ignores_are_stated() -> None:
    feed = make_feed(1)
    held = HeldFlows({1: feed}, clearance=1)
    held.hold_flows(1, ["radar.>"])
    events = [event_at(*each) for each in ((RADAR, 1), ("n", 2), (RADAR, 3))]
    runs = [(3, [feed])]
    DeliverySender(Writer()).send_delivery(encode_events(events), events, runs, Liveness.LIVE)
    assert list(held.take_messages()) == [HeldBack(1, ((RADAR, 1, 3),))]
