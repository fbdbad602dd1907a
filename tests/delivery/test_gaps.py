"""A subscription that reads on lacks what does not come by its log: it is recovered, or a gap."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import pytest
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from broker.delivery.commit_share import CommitShare, SharedEncodings
from broker.delivery.feed import Feed, FeedState
from broker.delivery.recovery_contract import ActiveRecovery, LostRange, MarkRange
from broker.event.place import Mark
from broker.wire.messages import Gap
from tests.delivery.test_recovered_feeds import Log, Recovery, far, made_link
from tests.delivery.test_session_delivery import FakeOutlet, event


class Setting:
    """A live subscription has had two events of its node, and up to the third of a far one."""

    def __init__(self, recovery: Recovery | None, **told: Mark) -> None:
        self.outlet, self.log = FakeOutlet(), Log(event(1), event(2))
        self.recovery = recovery
        self.asked: list[tuple[Mapping[str, MarkRange], str]] = []
        self.archived: list[bool] = []
        """Whether only an archive may have it, each time."""
        self.link = made_link(self.outlet, self.log, Failure.raiseException, Clock())
        self.feed = Feed(
            1, matcher_number=1, is_durable=False, cut=2, cursor=3, newest_at_start=(1, 2)
        )
        self.feed.reported_marks = {"n": (1, 2), **told}
        self.feed.start_recovery = self.recover
        self.feed.is_accepted = True
        self.link.add_feed(self.feed)
        self.link.start_feed(1)
        assert self.feed.state is FeedState.LIVE

    def recover(
        self, ranges: Mapping[str, MarkRange], reason: str, archived: bool
    ) -> ActiveRecovery | None:
        self.asked.append((ranges, reason))
        self.archived.append(archived)
        return self.recovery

    def comes(self, after: int, upto: int, reason: str) -> None:
        """The log has nothing of the far origin behind `after` and up to `upto`, and then one."""
        self.log.events.append(far(upto + 1))
        self.link.recover_or_report("far", (1, after) if after else (0, 0), (1, upto), reason)
        share = CommitShare([self.log.events[-1]], deque([(1, [self.feed])]))
        self.link.deliver_share(share, SharedEncodings())
        self.link.resume_after_commit()

    @property
    def gaps(self) -> list[Gap]:
        return [each for each in self.outlet.out if isinstance(each, Gap)]


@pytest.mark.parametrize(
    ("after", "reason", "archived"), [(0, "lost", False), (0, "retention", True), (3, "lost", True)]
)
def test_what_others_have_is_recovered_and_the_log_goes_on_behind_it(
    after: int, reason: str, archived: bool
) -> None:
    """Before the place where the node begins, logs have it. Elsewhere they were asked before."""
    it = Setting(recovery := Recovery(), far=(1, 3))
    it.comes(after, 8, reason)
    assert it.asked == [({"far": ((1, 3), (1, 9))}, reason)] and it.archived == [archived]
    assert it.feed.state is FeedState.RECOVERING and it.outlet.deliveries == []
    recovery.give(far(5), far(9))
    recovery.give()
    assert it.outlet.deliveries == [[5], [9]]
    assert it.gaps == []
    it.link.update_outcomes()
    assert it.feed.state is FeedState.LIVE


def test_what_nobody_has_is_a_gap() -> None:
    it = Setting(recovery := Recovery(LostRange("far", (1, 3), (1, 8), "lost")), far=(1, 3))
    it.comes(0, 8, "lost")
    recovery.give()
    assert it.gaps == [Gap(1, "far", (1, 4), (1, 8), 5, "lost")]


@pytest.mark.parametrize(("reason", "counted"), [("retention", 5), ("lost", 0)])
def test_where_nobody_can_be_asked_it_is_a_gap_at_once_and_once(reason: str, counted: int) -> None:
    it = Setting(None, far=(1, 3))
    it.comes(3, 8, reason)
    wanted = [Gap(1, "far", (1, 4), (1, 8), 5, reason)]
    assert it.gaps == wanted
    assert it.outlet.deliveries == [[9]]
    # What is lost never was in this log: it is none of its events that are gone.
    assert it.feed.outcomes.gone == counted
    it.link.recover_or_report("far", (1, 3), (1, 8), reason)
    assert it.gaps == wanted


def test_a_gap_is_told_once_also_where_nothing_follows_it() -> None:
    it = Setting(None, far=(1, 3))
    for last in (8, 8, 7, 10):
        it.link.recover_or_report("far", (1, 3), (1, last), "lost")
    assert [(gap.first, gap.last) for gap in it.gaps] == [((1, 4), (1, 8)), ((1, 9), (1, 10))]


@pytest.mark.parametrize(("goes_on", "begins"), [(False, (1, 6)), (True, (0, 0))])
def test_of_an_origin_that_its_client_does_not_know_one_that_goes_on_wants_all(
    goes_on: bool, begins: Mark
) -> None:
    it = Setting(Recovery())
    it.feed.is_continuous, it.feed.active_from = goes_on, {"far": (1, 6)}
    it.log.events.append(far(8))
    assert it.link._gap_recovery.recover_trimmed(it.feed)
    assert it.asked == [({"far": (begins, (1, 8))}, "retention")]


def test_what_it_has_read_in_its_log_meanwhile_is_not_recovered_again() -> None:
    it = Setting(Recovery(), far=(1, 3))
    it.feed.state, it.feed.unreported_marks = FeedState.CATCHING_UP, {"far": (1, 5), "near": (1, 2)}
    it.link.recover_or_report("far", (1, 5), (1, 8), "lost")
    assert it.asked == [({"far": ((1, 5), (1, 8))}, "lost")]
    assert it.feed.unreported_marks == {}


def test_who_has_not_waited_for_an_origin_lacks_nothing_of_it() -> None:
    it = Setting(Recovery())
    it.comes(0, 8, "lost")
    assert it.asked == [] and it.gaps == []
    assert it.outlet.deliveries == [[9]]


@pytest.mark.parametrize("after", [0, 4])
def test_of_an_origin_that_its_client_does_not_know_it_lacks_what_the_node_has_waited_for(
    after: int,
) -> None:
    it = Setting(recovery := Recovery())
    it.comes(after, 8, "retention")
    assert it.asked == [({"far": ((1, after) if after else (0, 0), (1, 9))}, "retention")]
    recovery.give(far(6), far(9))
    recovery.give()
    assert it.outlet.deliveries == [[6], [9]] and it.gaps == []


def test_what_waited_for_a_slow_session_comes_again_in_its_order() -> None:
    it = Setting(recovery := Recovery(), far=(1, 3))
    it.outlet.room = 0
    it.log.events.append(third := event(3))
    it.link.deliver_share(CommitShare([third], deque([(1, [it.feed])])), SharedEncodings())
    assert it.link.queued[0] == 1
    it.comes(0, 8, "lost")
    it.outlet.room = 10
    it.link.send_waiting()
    recovery.give(far(5), far(9))
    recovery.give()
    assert it.outlet.deliveries == [[5], [9], [3]]
    assert it.gaps == []


def test_one_thing_is_recovered_after_the_other() -> None:
    it = Setting(first := Recovery(), far=(1, 3), near=(1, 3))
    it.comes(0, 8, "lost")
    for origin in ("far", "near"):
        it.link.recover_or_report(origin, (0, 0), (1, 12), "lost")
    it.recovery = second = Recovery()
    first.give()
    assert [list(ranges) for ranges, _ in it.asked] == [["far"], ["far"]]
    it.recovery = third = Recovery()
    second.give()
    assert it.asked[2:] == [({"near": ((1, 3), (1, 12))}, "lost")]
    third.give()
    assert len(it.asked) == 3 and it.gaps == []


def test_an_epoch_in_which_there_is_nothing_is_no_gap() -> None:
    it = Setting(Recovery(), far=(1, 8))
    it.log.events.append(far(9))
    it.link.recover_or_report("far", (0, 0), (2, 8), "retention")
    assert it.asked == [] and it.gaps == []


@pytest.mark.parametrize("waits", [False, True])
def test_a_gap_is_wider_for_a_session_that_has_not_got_to_it(waits: bool) -> None:
    it = Setting(None, far=(1, 3))
    if waits:
        it.outlet.room = 0
        it.log.events.append(third := event(3))
        it.link.deliver_share(CommitShare([third], deque([(1, [it.feed])])), SharedEncodings())
    it.link.recover_or_report("far", (1, 5), (1, 8), "lost")
    assert [(gap.first, gap.last) for gap in it.gaps] == [((1, 4 if waits else 6), (1, 8))]


@pytest.mark.parametrize("name", ["is_accepted", "is_active"])
def test_before_a_subscription_is_accepted_and_flows_it_lacks_nothing(name: str) -> None:
    it = Setting(None, far=(1, 3))
    setattr(it.feed, name, False)
    it.link.recover_or_report("far", (1, 3), (1, 8), "lost")
    assert it.asked == [] and it.gaps == []


@pytest.mark.parametrize(
    ("goes_on", "told", "lacks"),
    [(False, {"far": (1, 3)}, False), (True, {}, False), (True, {"far": (1, 3)}, True)],
    ids=["begins", "unknown-origin", "goes-on"],
)
def test_what_lies_before_the_flow_is_lacked_by_who_goes_on_alone(
    goes_on: bool, told: dict[str, Mark], lacks: bool
) -> None:
    it = Setting(None, **told)
    it.feed.is_continuous, it.feed.active_from = goes_on, {"far": (1, 6)}
    it.link.recover_or_report("far", (1, 3), (1, 5), "lost")
    assert bool(it.gaps) is lacks


def test_events_that_did_not_match_are_counted_before_a_recovery_begins() -> None:
    it = Setting(Recovery(), far=(1, 3))
    before = it.feed.outcomes.filtered
    for number in (3, 4, 5):
        it.log.events.append(event(number))
    it.link.recover_or_report("far", (0, 0), (1, 8), "lost")
    assert it.feed.state is FeedState.RECOVERING
    assert it.feed.outcomes.filtered - before == 3
