"""The output component with links that only write down what they are told."""

from __future__ import annotations

import itertools
from typing import Any, cast

from broker.delivery.commit_share import CommitShare, SharedEncodings
from broker.delivery.feed import Feed
from broker.delivery.output import Output
from broker.log.logged_event import LoggedEvent
from broker.wire.codec import WireTimes


class FakeDelivery:
    def __init__(self, output: Output) -> None:
        self._output = output
        self.told: list[Any] = []
        self.leaving = False
        self.on_wait: Any = None

    def add_feed(self, feed: Feed) -> None:
        self.told.append("add")

    def remove_feed(self, number: int) -> None:
        self.told.append("remove")

    def close(self) -> None:
        self.told.append("close")

    def deliver_share(self, share: CommitShare, shared: SharedEncodings) -> None:
        feeds = itertools.chain.from_iterable([each] * count for count, each in share.runs)
        self.told.append(
            [
                (event.offset, [feed.number for feed in each])
                for event, each in zip(share.events, feeds, strict=True)
            ]
        )

    def resume_after_commit(self) -> None:
        self._say("committed")

    def send_progress(self, times: WireTimes = ()) -> None:
        self._say("progress")

    def roll_back(self, offset: int) -> None:
        self.told.append(offset)

    def _say(self, what: str) -> None:
        self.told.append(what)
        if self.leaving:
            self._output.remove_session(cast(Any, self))


def setting(*numbers: int) -> tuple[Output, dict[int, FakeDelivery]]:
    """An output with a link for each tens digit, and subscriptions with these matcher's numbers."""
    output = Output()
    links: dict[int, FakeDelivery] = {}
    for number in numbers:
        if number // 10 not in links:
            links[number // 10] = FakeDelivery(output)
            output.add_session(cast(Any, links[number // 10]))
        feed = Feed(number % 10, matcher_number=number, is_durable=False, cut=(1, 0), cursor=1)
        output.add_feed(cast(Any, links[number // 10]), feed)
    for link in links.values():
        link.told.clear()
    return output, links


def event(offset: int) -> LoggedEvent:
    return LoggedEvent(1, offset, 0, 0, b"", b"<e/>", "n", offset)


def test_each_link_gets_its_share_of_a_commit_in_one_piece() -> None:
    output, links = setting(11, 12, 21, 31)
    links[2].on_wait(links[2])
    output.deliver_commit([event(1), event(2), event(3)], [(11, 12, 21), (), (12, 99)])
    assert links[1].told == [[(1, [1, 2]), (3, [2])]]
    assert links[2].told == [[(1, [1])], "committed"]
    assert links[3].told == []


def test_the_counts_of_a_subscription_outlive_it() -> None:
    output, links = setting(11, 12)
    for number in (11, 12):
        found = output.find_feed(number)
        assert found is not None
        found[1].outcomes.delivered += number
    output.remove_feed(11)
    assert output.find_feed(11) is None and output.ended_outcomes.delivered == 11
    output.remove_session(cast(Any, links[1]))
    assert output.ended_outcomes.delivered == 23 and list(output.session_deliveries) == []


def test_a_link_that_leaves_while_all_are_told_keeps_no_other_from_being_told() -> None:
    for what in ("committed", "progress"):
        output, links = setting(11, 21, 31)
        links[2].leaving = True
        for link in links.values():
            link.on_wait(link)
        if what == "committed":
            output.deliver_commit([], [])
        else:
            output.send_progress()
        assert links[1].told == [what]
        assert links[3].told == [what]


def test_all_are_told_that_places_were_taken_back() -> None:
    output, links = setting(11, 21)
    output.roll_back(7)
    assert [link.told for link in links.values()] == [[7], [7]]
