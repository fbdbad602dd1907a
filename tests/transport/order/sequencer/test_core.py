"""The sequencer variant (L3): numbers, takeovers, requests, and wrong packets."""

from __future__ import annotations

import pytest

from broker.errors import ProtocolError
from broker.transport.order import MessageId, Stamp
from broker.transport.order.effects import LATE, OVERDUE
from broker.transport.order.sequencer.packet import (
    Answer,
    Begin,
    Epoch,
    Follow,
    Header,
    Known,
    Numbers,
    Refusal,
    Request,
    Takeover,
)
from tests.transport.order.group import SETTINGS, Group


def epochs(group: Group, site: str) -> list[int]:
    return [each.stamp.time >> 32 for each in group.delivered[site]]


def test_a_number_needs_two_one_way_delays() -> None:
    group = Group("sequencer")
    group.send("c", "x")
    group.move("c", "b")
    assert group.texts("b") == []
    group.move("c", "a")
    assert group.texts("a") == ["x"]
    group.move("a", "b")
    group.move("a", "c")
    assert group.texts("b") == group.texts("c") == ["x"]


def test_a_number_waits_for_its_message() -> None:
    group = Group("sequencer")
    group.send("c", "x")
    group.move("c", "a")
    group.send("a", "y")
    group.move("a", "b")
    assert group.texts("b") == []
    group.move("c", "b")
    assert group.texts("b") == ["x", "y"]


def test_the_next_site_takes_over_in_a_higher_epoch() -> None:
    group = Group("sequencer")
    group.send("b", "x")
    group.settle()
    group.isolate("a")
    group.settle(("a", "b"), ("a", "c"))
    group.send("c", "y")
    group.settle(("a", "b"), ("a", "c"))
    assert group.texts("b") == group.texts("c") == ["x", "y"]
    assert epochs(group, "c")[1] > epochs(group, "c")[0]


def test_a_takeover_adopts_what_only_one_site_has_delivered() -> None:
    group = Group("sequencer")
    group.send("c", "x")
    group.move("c", "a")
    group.send("b", "y")
    group.move("b", "a")
    group.move("a", "c")
    group.move("b", "c")
    assert group.texts("c") == ["x", "y"]
    group.isolate("a")
    group.settle(("a", "b"), ("a", "c"), ("b", "a"), ("c", "a"))
    # b has seen no number of the old epoch, and gets both places from c.
    assert group.texts("b") == ["x", "y"]
    assert [each.stamp for each in group.delivered["b"]] == [
        each.stamp for each in group.delivered["c"]
    ]


def test_numbers_of_an_epoch_are_refused_after_the_answer_to_a_higher_one() -> None:
    group = Group("sequencer")
    group.isolate("a")
    group.settle(("a", "b"), ("a", "c"))
    group.send("c", "x")
    header = Header(MessageId("c", 1, 1), frozenset("b"))
    old = Epoch(1, "a")
    group.receive("c", "a", Begin(old, (), {}), Numbers(old, 0, (header,)))
    assert group.texts("c") == []
    group.settle(("a", "b"), ("a", "c"))
    assert group.texts("c") == ["x"]
    assert group.failures == []


def test_a_site_refuses_the_takeover_of_a_site_that_is_not_its_lowest() -> None:
    group = Group("sequencer")
    epoch = Epoch(100, "b")
    group.receive("c", "b", Takeover(epoch, {}, {}))
    assert group.transit["c", "b"].pop() == Refusal(epoch, 0)


def test_a_takeover_below_a_known_epoch_begins_again_above_it() -> None:
    group = Group("sequencer", connected=False)
    for _ in range(5):
        assert group.connect("c", "b")
        group.disconnect("c", "b")
    group.receive("c", "b", Follow(40))
    assert group.connect("a", "c")
    assert group.connect("c", "a")
    group.settle()
    group.send("c", "x")
    group.settle()
    assert group.texts("a") == group.texts("c") == ["x"]


def test_a_site_that_left_and_returned_unnoticed_gets_nothing_late() -> None:
    group = Group("sequencer")
    group.disconnect("b", "a")
    group.disconnect("b", "c")
    group.send("b", "alone")
    assert group.texts("b") == ["alone"]
    group.transit["b", "c"].clear()
    assert group.connect("b", "a")
    group.send("a", "x")
    group.settle()
    assert group.texts("b") == ["alone", "x"]


def test_places_of_a_higher_epoch_make_a_follower_ask_for_another_epoch() -> None:
    group = Group("sequencer", "ab")
    epoch = group.cores["a"]._epoch  # type: ignore[attr-defined]
    header = Header(MessageId("b", 1, 1), frozenset("a"))
    group.send("b", "x")
    group.transit["b", "a"].clear()
    # A place that a site behind another sequencer has passed on.
    higher = Epoch(epoch.counter + 3, "0")
    group.receive("b", "a", Known(((higher.stamp(0), header),)))
    assert group.texts("b") == ["x"]
    assert Follow(higher.counter) in group.transit["b", "a"]
    group.settle()
    group.send("a", "y")
    group.settle()
    assert group.texts("b") == ["x", "y"]


def test_a_long_backlog_is_numbered_in_several_packets() -> None:
    group = Group("sequencer", "ab")
    group.send("a", *map(str, range(10_001)))
    numbers = [each for each in group.transit["a", "b"] if isinstance(each, Numbers)]
    assert [len(each.headers) for each in numbers] == [10_000, 1]
    group.settle()
    assert len(group.texts("b")) == 10_001


def test_a_sequencer_numbers_above_the_epochs_of_a_site_that_follows_another() -> None:
    """d sees a and b, which do not see each other, and loses a."""
    group = Group("sequencer", "abd", connected=False)
    for one, other in ("bd", "db", "ad", "da"):
        assert group.connect(one, other)
        group.settle()
    group.send("d", "x")
    group.settle()
    group.disconnect("a", "d")
    group.disconnect("d", "a")
    group.send("b", "y")
    group.settle(("a", "b"), ("b", "a"))
    assert group.texts("d") == ["x", "y"]


def test_a_takeover_goes_on_without_an_answer_and_takes_the_site_in_later() -> None:
    group = Group("sequencer")
    held = ("c", "a"), ("c", "b")
    for one, other in (("a", "c"), ("a", "b")):
        group.disconnect(one, other)
        assert group.connect(one, other)
    group.settle(*held)
    group.send("a", "x")
    group.settle(*held)
    assert group.texts("a") == []
    group.advance_without_packets(SETTINGS.patience)
    group.settle(*held)
    assert group.texts("a") == group.texts("b") == ["x"]
    group.settle()
    assert group.texts("c") == ["x"]


def test_a_sequencer_passes_numbers_to_a_site_behind_another_one() -> None:
    """Statuses are not transitive: a and b are connected, and b and c, but not a and c."""
    group = Group("sequencer", connected=False)
    for one, other in ("ab", "ba", "bc", "cb"):
        assert group.connect(one, other)
    group.settle()
    for site in "abc":
        group.send(site, f"from {site}")
        group.transit["a", "c"].clear()
        group.transit["c", "a"].clear()
    group.settle()
    group.advance(4 * SETTINGS.request_after)
    assert sorted(group.texts("c")) == ["from b", "from c"]
    assert sorted(group.texts("b")) == ["from a", "from b", "from c"]
    assert sorted(group.texts("a")) == ["from a", "from b"]


def test_a_place_reaches_a_site_behind_one_that_did_not_get_the_message() -> None:
    group = Group("sequencer", "abcd", connected=False)
    for one, other in ("ab", "ba", "bc", "cb", "cd", "dc"):
        assert group.connect(one, other)
    group.settle()
    group.send("b", "x")
    group.transit["b", "c"].clear()
    group.settle()
    group.advance(6 * SETTINGS.request_after)
    assert group.texts("d") == ["x"]


def test_a_follower_suspects_a_sequencer_that_never_answers() -> None:
    group = Group("sequencer", connected=False)
    assert group.connect("b", "a")
    group.send("b", "x")
    group.advance_without_packets(SETTINGS.entry_patience + 2 * SETTINGS.patience)
    assert [(site, each.site, each.reason) for site, each in group.suspected][0] == (
        *("b", "a"),
        OVERDUE,
    )
    group.disconnect("b", "a")
    assert group.texts("b") == ["x"]


def test_a_number_whose_message_does_not_come_is_passed_over() -> None:
    group = Group("sequencer")
    group.send("c", "lost")
    group.move("c", "a")
    group.send("a", "x")
    group.move("a", "b")
    assert group.texts("b") == []
    group.advance_without_packets(SETTINGS.entry_patience)
    assert group.texts("b") == ["x"]
    group.move("c", "b")
    assert group.texts("b") == ["x", "!lost"]
    assert [(site, each.site, each.reason) for site, each in group.suspected] == [("b", "c", LATE)]


def test_a_site_is_not_suspected_for_an_overdue_message_that_is_still_in_time() -> None:
    group = Group("sequencer")
    group.send("c", "x")
    group.move("c", "a")
    group.move("a", "b")
    group.advance_without_packets(SETTINGS.entry_patience)
    group.move("c", "b")
    assert group.texts("b") == ["x"]
    assert group.suspected == []


def test_a_site_is_not_suspected_for_a_late_message_that_it_sent_before_its_return() -> None:
    group = Group("sequencer")
    group.send("c", "lost")
    group.move("c", "a")
    group.send("a", "x")
    group.move("a", "b")
    group.advance_without_packets(SETTINGS.entry_patience)
    for one, other in ("bc", "cb"):
        group.disconnect(one, other)
        assert group.connect(one, other)
    group.move("c", "b")
    assert group.texts("b") == ["x", "!lost"]
    assert group.suspected == []


def test_a_number_is_passed_over_at_once_if_its_message_is_reported_as_missing() -> None:
    group = Group("sequencer")
    group.send("c", "lost")
    group.move("c", "a")
    group.send("a", "x")
    group.move("a", "b")
    group.apply("b", group.cores["b"].miss_messages(MessageId("c", 1, 1), group.at))
    assert group.texts("b") == ["x"]


FOREIGN = Epoch(9, "c")
UNSENT = Header(MessageId("b", 1, 7), frozenset())


def test_requests_for_messages_that_were_never_sent_are_counted_and_ignored() -> None:
    """The site may have them from another one."""
    group = Group("sequencer")
    group.receive("a", "c", Request((Header(MessageId("a", 1, 1), frozenset()),)))
    assert group.cores["a"].refused == 1
    assert group.failures == []
    group.send("a", "x")
    group.settle()
    assert group.texts("a") == group.texts("c") == ["x"]


@pytest.mark.parametrize(
    ("packet", "text"),
    [
        (Numbers(FOREIGN, 0, ()), "not the sequencer"),
        (Begin(FOREIGN, (), {}), "not the sequencer"),
        (Takeover(FOREIGN, {}, {}), "not the sequencer"),
        (Takeover(Epoch(2**30, "a"), {}, {}), "too far ahead"),
        (Follow(2**30), "too far ahead"),
        (Refusal(Epoch(1, "b"), 2**30), "too far ahead"),
        (Request((UNSENT,) * 10_001), "10001 headers"),
        (Takeover(Epoch(9, "a"), {("b", 1): 7}, {}), "never sent"),
        (Answer(Epoch(1, "b"), {("b", 1): 7}, {}, (), ()), "never sent"),
        (Known(((Stamp(2**62, "a"), UNSENT),)), "too far ahead"),
        (Answer(Epoch(1, "b"), {}, {}, (), (UNSENT,)), "never sent"),
    ],
)
def test_a_wrong_packet_is_refused(packet: object, text: str) -> None:
    group = Group("sequencer")
    group.receive("b", "a", packet)
    assert [text in str(error) for error in group.failures] == [True]
    group.send("b", "x")
    group.settle()
    assert group.texts("b") == group.texts("c") == ["x"]


def test_numbers_after_a_gap_are_refused() -> None:
    group = Group("sequencer")
    epoch = group.cores["b"]._epoch  # type: ignore[attr-defined]
    group.receive("b", "a", Numbers(epoch, 5, (UNSENT,)))
    assert ["sent number 5 after" in str(error) for error in group.failures] == [True]


def test_numbers_of_messages_that_were_never_sent_are_counted_and_passed_over() -> None:
    """The sequencer may have them from another site."""
    group = Group("sequencer")
    epoch = group.cores["b"]._epoch  # type: ignore[attr-defined]
    group.receive("b", "a", Numbers(epoch, 0, (UNSENT,)))
    assert group.cores["b"].refused == 1
    assert group.failures == []
    group.send("b", *"123456")
    group.transit["b", "a"].clear()
    group.send("b", "7", "8")
    assert group.texts("b") == list("1234567")


def test_an_answer_with_an_epoch_too_far_ahead_is_refused() -> None:
    group = Group("sequencer", connected=False)
    with pytest.raises(ProtocolError, match="too far ahead"):
        group.cores["a"].connect("b", 2**30, group.at)
