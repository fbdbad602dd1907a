"""A site between two sequencers gets no message of a connected site late (L3; R16)."""

from __future__ import annotations

from broker.transport.order import MessageId
from broker.transport.order.effects import OVERDUE
from broker.transport.order.sequencer.packet import (
    Answer,
    Begin,
    Epoch,
    Header,
    Left,
    Raised,
    Takeover,
)
from tests.transport.order.group import SETTINGS, Group


def between(sites: str = "abd") -> Group:
    """Return a group in which d sees a and b, which do not see each other."""
    group = Group("sequencer", sites, connected=False)
    for one, other in ("bd", "db", "ad", "da"):
        assert group.connect(one, other)
        group.settle(("a", "b"), ("b", "a"))
    return group


def raise_epoch(group: Group, count: int = 1) -> None:
    """Let a begin higher epochs, as its member d knows, and number a message."""
    for _ in range(count):
        group.disconnect("a", "d")
        assert group.connect("a", "d")
    for path in ("a", "d"), ("d", "a"), ("a", "d"):
        group.move(*path)
    group.send("a", "x")


def lose(group: Group, one: str, other: str) -> None:
    group.disconnect(one, other)
    group.disconnect(other, one)


def move_all(group: Group) -> None:
    group.settle(("a", "b"), ("b", "a"))


def test_numbers_wait_until_the_other_sequencer_has_left_lower_epochs() -> None:
    group = between()
    raise_epoch(group, 3)
    group.move("a", "d")
    # b gives numbers below those of a.
    assert group.texts("d") == []
    lose(group, "a", "d")
    group.send("b", "y")
    move_all(group)
    assert sorted(group.texts("d")) == ["x", "y"]


def test_numbers_wait_for_a_round_trip_to_the_other_sequencer() -> None:
    group = between()
    raise_epoch(group, 3)
    group.move("a", "d")
    group.move("d", "b")
    group.move("b", "d")
    assert group.texts("d") == ["x"]


def test_numbers_do_not_wait_for_a_sequencer_that_is_suspected() -> None:
    group = between()
    raise_epoch(group, 3)
    group.move("a", "d")
    group.disconnect("d", "b")
    assert group.texts("d") == ["x"]


def test_a_sequencer_that_does_not_leave_lower_epochs_is_suspected() -> None:
    group = between()
    raise_epoch(group, 3)
    group.move("a", "d")
    group.advance_without_packets(SETTINGS.entry_patience)
    assert [(site, each.site, each.reason) for site, each in group.suspected] == [
        ("d", "b", OVERDUE)
    ]


def test_a_message_that_has_waited_for_one_site_waits_for_another_one_only_shortly() -> None:
    group = between()
    group.send("d", "y")
    group.advance_without_packets(SETTINGS.entry_patience - 0.1)
    raise_epoch(group, 3)
    group.move("a", "d")
    assert group.texts("d") == []
    group.advance_without_packets(2 * SETTINGS.patience - 0.01)
    assert group.suspected == []
    group.advance_without_packets(0.02)
    assert [(site, each.site) for site, each in group.suspected] == [("d", "b")]
    group.disconnect("d", "b")
    assert sorted(group.texts("d")) == ["x", "y"]


def test_numbers_of_a_lost_sequencer_that_still_wait_are_dropped() -> None:
    group = between()
    raise_epoch(group, 3)
    group.move("a", "d")
    lose(group, "a", "d")
    # b has numbered this before it left its epoch.
    group.send("b", "y")
    group.move("d", "b")
    group.move("b", "d")
    assert group.texts("d") == []
    move_all(group)
    assert sorted(group.texts("d")) == ["x", "y"]


def test_a_sequencer_leaves_an_epoch_with_the_counter_of_another_one() -> None:
    group = Group("sequencer", "bd")
    group.send("b", "x")
    group.settle()
    counter = group.delivered["b"][0].stamp.time >> 32
    group.receive("b", "d", Raised(counter))
    group.settle()
    group.send("b", "y")
    assert group.delivered["b"][1].stamp.time >> 32 > counter


def test_a_sequencer_leaves_a_takeover_with_the_counter_of_another_one() -> None:
    group = Group("sequencer", "bd")
    group.disconnect("b", "d")
    assert group.connect("b", "d")
    pending = group.transit["b", "d"][-1]
    assert isinstance(pending, Takeover)
    counter = pending.epoch.counter
    group.receive("b", "d", Raised(counter))
    assert Left(counter) in group.transit["b", "d"]
    # d does not answer in time.
    group.advance_without_packets(SETTINGS.patience)
    group.send("b", "y")
    assert group.delivered["b"][0].stamp.time >> 32 > counter


def test_a_sequencer_leaves_a_takeover_below_an_offer() -> None:
    """Its peer has numbered messages meanwhile, and does not answer in time."""
    group = Group("sequencer", "abd")
    group.disconnect("a", "b")
    assert group.connect("a", "b")  # a takeover without answers
    lose(group, "a", "d")
    lose(group, "b", "d")
    group.disconnect("b", "a")
    for other in "ab":
        assert group.connect("d", other)
        group.disconnect("d", other)
    group.send("d", "x")
    assert group.connect("d", "a")
    assert group.connect("a", "d")
    group.advance_without_packets(SETTINGS.patience)
    group.send("a", "y")
    group.settle()
    assert [text for text in group.texts("d") if "y" in text] == ["y"]


def test_a_site_that_has_reached_an_epoch_above_an_answer_makes_another_offer() -> None:
    group = Group("sequencer", "abd", connected=False)
    for one, other in ("bd", "db"):
        assert group.connect(one, other)
        group.settle(("a", "b"), ("b", "a"))
    cores = group.cores
    answer = cores["a"].answer_clock("d", cores["d"].offer_clock("a", group.at), group.at)
    assert answer is not None
    for _ in range(3):
        group.disconnect("b", "d")
        assert group.connect("b", "d")
        group.settle()
    group.send("b", "x")
    group.settle()
    assert group.texts("d") == ["x"]
    assert cores["d"].connect("a", answer, group.at) is None
    assert group.connect("d", "a")


def test_numbers_of_a_sequencer_are_above_its_answer_to_an_offer() -> None:
    group = Group("sequencer", "ab")
    group.isolate("a")
    group.send("a", "x")
    answer = group.cores["a"].answer_clock("b", 1, group.at)
    assert answer is not None
    group.send("a", "y")
    assert all(each.stamp.time >> 32 > answer for each in group.delivered["a"])


def test_a_sequencer_numbers_above_places_of_an_answer() -> None:
    """They came from a site behind another sequencer."""
    group = Group("sequencer", "ab")
    group.disconnect("a", "b")
    assert group.connect("a", "b")
    takeover = group.transit["a", "b"].pop()
    assert isinstance(takeover, Takeover)
    place = Epoch(takeover.epoch.counter + 9, "c").stamp(0)
    header = Header(MessageId("c", 1, 1), frozenset())
    group.receive("a", "b", Answer(takeover.epoch, {}, {}, ((place, header),), ()))
    assert not any(isinstance(each, Begin) for each in group.transit["a", "b"])
    group.settle()
    group.send("a", "y")
    assert group.delivered["a"][0].stamp > place


def test_requested_places_wait_until_the_other_sequencer_has_left_lower_epochs() -> None:
    """d sees b and c. It requests numbers of b, which is itself a follower."""
    group = Group("sequencer", "abcd", connected=False)
    for one, other in ("ab", "ba", "bd", "db", "cd", "dc"):
        assert group.connect(one, other)
        group.settle()
    for _ in range(3):
        group.disconnect("a", "b")
        assert group.connect("a", "b")
        group.settle()
    group.send("d", "x")
    held = ("d", "c"), ("c", "d")
    group.settle(*held)
    for _ in range(6):
        group.advance_without_packets(SETTINGS.request_after)
        group.settle(*held)
    assert group.texts("b") == ["x"]
    assert group.texts("d") == []
    group.settle()
    group.advance(SETTINGS.request_after)
    assert group.texts("d") == ["x"]
