from __future__ import annotations

import itertools
from typing import Any, cast

from broker.delivery.commit_share import CommitShare, SharedEncodings
from broker.delivery.feed import Feed, FeedState
from broker.delivery.output import Output
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent
from broker.wire.codec import WireTimes


class FakeDelivery:
    clearance = 2

    def __init__(self, output: Output) -> None:
        self._output = output
        self.calls: list[Any] = []
        self.leaving = False
        self.on_wait: Any = None
        self.site_notices = self
        self.find_statuses: Any = None

    def add_feed(self, feed: Feed) -> None:
        self.calls.append("add")

    def remove_feed(self, number: int) -> None:
        self.calls.append("remove")

    def close(self) -> None:
        self.calls.append("close")

    def deliver_share(self, share: CommitShare, shared: SharedEncodings) -> None:
        feeds = itertools.chain.from_iterable([each] * count for count, each in share.runs)
        self.calls.append(
            [
                (event.offset, [feed.number for feed in each])
                for event, each in zip(share.events, feeds, strict=True)
            ]
        )

    def resume_after_commit(self) -> None:
        self._say("committed")

    def send_progress(self, times: WireTimes = ()) -> None:
        self._say("progress")

    def deliver_notice(self, *_: object) -> None:
        self._say("notice")

    def roll_back(self, offset: int) -> None:
        self.calls.append(offset)

    def _say(self, what: str) -> None:
        self.calls.append(what)
        if self.leaving:
            self._output.remove_session(cast(Any, self))


def setting(*numbers: int) -> tuple[Output, dict[int, FakeDelivery]]:
    """Return an output with these subscriptions, and a session for each tens digit."""
    output = Output()
    deliveries: dict[int, FakeDelivery] = {}
    for number in numbers:
        if number // 10 not in deliveries:
            deliveries[number // 10] = FakeDelivery(output)
            output.add_session(cast(Any, deliveries[number // 10]))
        feed = Feed(number % 10, matcher_number=number, is_durable=False, cut=0, cursor=1)
        output.add_feed(cast(Any, deliveries[number // 10]), feed)
    for delivery in deliveries.values():
        delivery.calls.clear()
    return output, deliveries


def event(offset: int) -> LoggedEvent:
    return LoggedEvent(1, offset, 0, 0, b"", b"<e/>", "n", offset)


def test_each_session_gets_its_share_of_a_commit_at_once() -> None:
    output, deliveries = setting(11, 12, 21, 31)
    deliveries[2].on_wait(deliveries[2])
    output.deliver_commit([event(1), event(2), event(3)], [(11, 12, 21), (), (12, 99)])
    assert deliveries[1].calls == [[(1, [1, 2]), (3, [2])]]
    assert deliveries[2].calls == [[(1, [1])], "committed"]
    assert deliveries[3].calls == []


def test_the_counts_of_an_ended_subscription_are_added_up() -> None:
    output, deliveries = setting(11, 12)
    for number in (11, 12):
        found = output.find_feed(number)
        assert found is not None
        found[1].outcomes.delivered += number
    output.remove_feed(11)
    assert output.find_feed(11) is None and output.ended_outcomes.delivered == 11
    output.remove_session(cast(Any, deliveries[1]))
    assert output.ended_outcomes.delivered == 23 and list(output.session_deliveries) == []


def test_a_session_that_ends_during_a_call_does_not_hide_others() -> None:
    for what in ("committed", "progress", "notice"):
        output, deliveries = setting(11, 21, 31)
        deliveries[2].leaving = True
        for delivery in deliveries.values():
            delivery.on_wait(delivery)
        if what == "committed":
            output.deliver_commit([], [])
        elif what == "notice":
            output.deliver_notice(cast(Any, None), [], 1)
        else:
            output.send_progress()
        assert deliveries[1].calls == [what]
        assert deliveries[3].calls == [what]


def test_all_sessions_roll_back() -> None:
    output, deliveries = setting(11, 21)
    output.roll_back(7)
    assert [delivery.calls for delivery in deliveries.values()] == [[7], [7]]


def test_a_subscription_that_is_not_live_lags_in_the_flows_of_its_streams() -> None:
    output, _ = setting(10, 11)
    live, paused = (output._feeds[number][1] for number in (10, 11))
    live.pattern, paused.pattern = StreamPattern.parse(">"), StreamPattern.parse("boats.*")
    live.go_live(1)
    paused.state = FeedState.CATCHING_UP
    assert output.has_lagging_subscription("o") and output.has_lagging_subscription("o/boats.>")
    assert not output.has_lagging_subscription("o/asdi.>")
    paused.go_live(1)
    assert not output.has_lagging_subscription("o")
    live.is_active = False
    assert output.has_lagging_subscription("o/asdi.>")
