"""One place for each message: two sequencers number it, or none before a kill (L3; X13)."""

from __future__ import annotations

import pytest

from broker.transport.order import VARIANTS, MessageId, Move, Place, Stamp
from broker.transport.order.sequencer.packet import Answer, Begin, Header, Known
from tests.transport.order.group import SETTINGS, Group


def test_a_message_that_two_sequencers_have_numbered_moves_to_the_lower_number() -> None:
    group = Group("sequencer", "abc")
    group.send("c", "x")
    # a numbers it, and c does not get the number.
    group.move("c", "a")
    group.isolate("a")
    held = ("a", "b"), ("a", "c"), ("b", "a"), ("c", "a")
    group.settle(*held)
    for path in held:
        group.transit[path].clear()
    group.send("b", "y")
    group.settle(*held)
    for site, texts in (("a", ["x"]), ("b", ["x", "y"]), ("c", ["x", "y"])):
        assert group.texts(site) == texts
    assert not group.moved
    lowest, higher = group.delivered["a"][0].stamp, group.delivered["b"][0].stamp
    assert lowest < higher
    for one, other in ("ba", "ab", "ca", "ac"):
        assert group.connect(one, other)
    group.settle()
    id = MessageId("c", 1, 1)
    assert sorted(group.moved, key=lambda each: each[0]) == [
        ("b", Move(id, higher, lowest, Place(None, MessageId("b", 1, 1)))),
        ("c", Move(id, higher, lowest, Place(None, MessageId("b", 1, 1)))),
    ]
    group.isolate("a")
    group.settle()
    assert len(group.moved) == 2


def test_a_follower_with_a_lower_place_asks_for_another_epoch() -> None:
    group = Group("sequencer")
    lower = Stamp(1, "b")
    header = Header(MessageId("c", 1, 1), frozenset("ab"))
    group.receive("b", "a", Known(((lower, header),)))
    group.send("c", "x")
    group.settle()
    assert {each.stamp for site in "abc" for each in group.delivered[site]} >= {lower}
    assert {(site, each.stamp) for site, each in group.moved} == {("a", lower), ("c", lower)}
    group.send("a", "y")
    group.settle()
    assert [group.texts(site)[-1] for site in "abc"] == ["y"] * 3


@pytest.mark.parametrize("has_restarted", [False, True])
def test_known_numbers_are_not_told_again(has_restarted: bool) -> None:
    group = Group("sequencer")
    for site in "abcabc":
        group.send(site, "x")
        group.settle()
    group.isolate("c")
    if has_restarted:
        delivered, floor = group.delivered["c"], group.cores["c"].floor
        group.cores["c"] = VARIANTS["sequencer"].create_core("c", 2, SETTINGS, floor)
        for each in delivered:
            group.cores["c"].place(each.message.id, each.stamp)
    assert group.connect("a", "c")
    assert group.connect("c", "a")
    sent: list[object] = []
    while any(group.transit.values()):
        for (sender, receiver), packets in group.transit.items():
            sent += packets
            group.move(sender, receiver)
    told = [each.places for each in sent if isinstance(each, Answer | Begin)]
    assert told and not any(told)


def test_a_message_without_a_number_gets_one_from_its_site_alone() -> None:
    """It was committed by an earlier process, and may have a number at other sites."""
    group = Group("sequencer", "ab")
    group.send("b", "x")
    group.settle()
    group.isolate("b")
    group.cores["b"] = core = VARIANTS["sequencer"].create_core(
        "b", 2, SETTINGS, group.cores["b"].floor
    )
    known, other = MessageId("b", 1, 1), MessageId("b", 1, 2)
    found = [core.find_stamp(id, None, group.at) for id in (known, other)]
    stamps = [stamp for stamp in found if stamp is not None]
    assert len(stamps) == 2 and stamps[0] < stamps[1]
    for id, stamp in zip((known, other), stamps, strict=True):
        assert core.place(id, stamp) is None
        assert core.find_stamp(id, None, group.at) == stamp
    for one, peer in ("ab", "ba"):
        assert group.connect(one, peer)
    group.settle()
    lowest = group.delivered["a"][0].stamp
    assert lowest < stamps[0]
    assert group.moved == [("b", Move(known, stamps[0], lowest, Place(None, other)))]
    # a has not got it, and knows its place.
    assert group.cores["a"].find_stamp(other, None, group.at) == stamps[1]
    assert core.find_stamp(MessageId("b", 1, 3), None, group.at) is None
    assert core.find_stamp(MessageId("c", 1, 1), None, group.at) is None
    group.send("a", "y")
    group.settle()
    assert group.texts("b")[-1] == "y"


def test_a_message_that_came_without_a_number_moves_to_it() -> None:
    """b has read it from a log before the sequencer numbered it."""
    group = Group("sequencer")
    group.send("c", "x", "y")
    group.move("c", "a")
    x, y = (MessageId("c", 1, number) for number in (1, 2))
    for id in (x, y):
        assert group.cores["b"].find_stamp(id, None, group.at) is None
    group.transit["c", "b"].clear()
    group.settle()
    stamps = [each.stamp for each in group.delivered["a"]]
    assert group.moved == [
        ("b", Move(id, None, stamp, None)) for id, stamp in zip((x, y), stamps, strict=True)
    ]
    group.send("a", "z")
    group.settle()
    assert group.texts("b") == ["z"]
    assert group.cores["b"].find_stamp(x, None, group.at) == stamps[0]


def test_a_message_that_is_read_while_it_waits_for_its_number_gets_one_number() -> None:
    """b did not wait, and has logged it."""
    group = Group("sequencer")
    group.send("c", "x")
    group.move("c", "b")
    x = MessageId("c", 1, 1)
    assert group.cores["b"].find_stamp(x, None, group.at) is None
    group.settle()
    (delivered,) = group.delivered["b"]
    assert group.moved == [("b", Move(x, None, delivered.stamp, None))]
    group.isolate("b")
    group.settle()
    group.advance(2 * SETTINGS.request_after)
    # It is not numbered again.
    assert len(group.moved) == 1
    assert group.cores["b"].find_stamp(x, None, group.at) == delivered.stamp


def test_messages_that_all_sites_read_without_a_number_get_one() -> None:
    """Their site was killed before, and does not come back."""
    group = Group("sequencer", "abc")
    lost = [MessageId("d", 1, number) for number in (1, 2)]
    for id in lost:
        for site in "bc":
            assert group.cores[site].find_stamp(id, None, group.at) is None
    group.advance(4 * SETTINGS.request_after)
    # a has not read them yet.
    assert {(site, each.id) for site, each in group.moved} == {
        (site, id) for site in "bc" for id in lost
    }
    stamps = {(each.id, each.stamp) for _, each in group.moved}
    assert len(stamps) == 2
    assert {group.cores["a"].find_stamp(id, None, group.at) for id in lost} == {
        stamp for _, stamp in stamps
    }


def test_a_site_that_is_alone_numbers_no_messages_of_others_that_it_reads() -> None:
    """They may have numbers, which a newcomer does not know yet."""
    group = Group("sequencer", "ab", connected=False)
    group.send("a", "x")
    id = MessageId("a", 1, 1)
    assert group.cores["b"].find_stamp(id, None, group.at) is None
    group.send("b", "y")
    assert group.moved == []
    group.transit["a", "b"].clear()
    for one, other in ("ab", "ba"):
        assert group.connect(one, other)
    group.settle()
    place = group.delivered["a"][0].stamp
    assert [(site, each.id, each.stamp) for site, each in group.moved] == [("b", id, place)]
