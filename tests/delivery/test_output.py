"""The output component with links that only write down what they are told."""

from __future__ import annotations

import itertools
from typing import Any, cast

from broker.delivery.feed import Feed
from broker.delivery.outgoing import Encodings, Share
from broker.delivery.output import Output
from broker.log.logged_event import LoggedEvent
from broker.wire.codec import WireTimes


class FakeLink:
    def __init__(self, output: Output) -> None:
        self._output = output
        self.told: list[Any] = []
        self.leaving = False
        self.on_wait: Any = None

    def add(self, feed: Feed) -> None:
        self.told.append("add")

    def remove(self, number: int) -> None:
        self.told.append("remove")

    def close(self) -> None:
        self.told.append("close")

    def deliver(self, share: Share, shared: Encodings) -> None:
        feeds = itertools.chain.from_iterable([each] * count for count, each in share.runs)
        self.told.append(
            [
                (event.offset, [feed.number for feed in each])
                for event, each in zip(share.events, feeds, strict=True)
            ]
        )

    def committed(self) -> None:
        self._say("committed")

    def progress(self, times: WireTimes = ()) -> None:
        self._say("progress")

    def begin_again(self, offset: int) -> None:
        self.told.append(offset)

    def _say(self, what: str) -> None:
        self.told.append(what)
        if self.leaving:
            self._output.remove_link(cast(Any, self))


def setting(*numbers: int) -> tuple[Output, dict[int, FakeLink]]:
    """An output with a link for each tens digit, and subscriptions with these matcher's numbers."""
    output = Output()
    links: dict[int, FakeLink] = {}
    for number in numbers:
        if number // 10 not in links:
            links[number // 10] = FakeLink(output)
            output.add_link(cast(Any, links[number // 10]))
        feed = Feed(number % 10, matcher_number=number, durable=False, cut=(1, 0), cursor=1)
        output.subscribe(cast(Any, links[number // 10]), feed)
    for link in links.values():
        link.told.clear()
    return output, links


def event(offset: int) -> LoggedEvent:
    return LoggedEvent(1, offset, 0, 0, b"", b"<e/>", "n", offset)


def test_each_link_gets_its_share_of_a_commit_in_one_piece() -> None:
    output, links = setting(11, 12, 21, 31)
    links[2].on_wait(links[2])
    output.committed([event(1), event(2), event(3)], [(11, 12, 21), (), (12, 99)])
    assert links[1].told == [[(1, [1, 2]), (3, [2])]]
    assert links[2].told == [[(1, [1])], "committed"]
    assert links[3].told == []


def test_the_counts_of_a_subscription_outlive_it() -> None:
    output, links = setting(11, 12)
    for number in (11, 12):
        found = output.subscriber(number)
        assert found is not None
        found[1].outcomes.delivered += number
    output.unsubscribe(11)
    assert output.subscriber(11) is None and output.ended.delivered == 11
    output.remove_link(cast(Any, links[1]))
    assert output.ended.delivered == 23 and list(output.links) == []


def test_a_link_that_leaves_while_all_are_told_keeps_no_other_from_being_told() -> None:
    for what in ("committed", "progress"):
        output, links = setting(11, 21, 31)
        links[2].leaving = True
        for link in links.values():
            link.on_wait(link)
        if what == "committed":
            output.committed([], [])
        else:
            output.progress()
        assert links[1].told == [what]
        assert links[3].told == [what]


def test_all_are_told_that_places_were_taken_back() -> None:
    output, links = setting(11, 21)
    output.begin_again(7)
    assert [link.told for link in links.values()] == [[7], [7]]
