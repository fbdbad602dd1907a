"""Rules that all variants share (RCM R15-R18, R35; K21, K36; T16)."""

from __future__ import annotations

import pytest

from broker.errors import ConfigurationError, ProtocolError
from broker.transport.order import VARIANTS, Message, MessageId, OrderSettings, Stamp
from tests.transport.order.group import SETTINGS, Group

ALL = pytest.mark.parametrize("variant", VARIANTS)
STAMPED = pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "sequencer"])


@ALL
def test_all_sites_deliver_one_order_the_sender_too(variant: str) -> None:
    group = Group(variant)
    for round_ in range(3):
        for site in "cab":
            group.send(site, f"{site}{round_}")
    group.settle()
    group.advance(1.0)
    assert len(group.texts("a")) == 9
    assert group.texts("a") == group.texts("b") == group.texts("c")
    assert not any(text.startswith("!") for text in group.texts("a"))


@ALL
def test_a_site_alone_delivers_its_messages(variant: str) -> None:
    group = Group(variant, "a")
    group.send("a", "x", "y")
    group.advance(1.0)
    assert group.texts("a") == ["x", "y"]


@ALL
def test_reserved_numbers_and_stamps_are_those_of_the_released_messages(variant: str) -> None:
    group = Group(variant, "ab")
    reserved = [*group.stamp("a", 2), *group.stamp("a", 1)]
    assert [each.number for each in reserved] == [1, 2, 3]
    group.release("a", "x")
    group.release("a", "y", "z")
    group.settle()
    group.advance(2.0)
    for site in "ab":
        assert group.texts(site) == ["x", "y", "z"]
        messages = [each.message for each in group.delivered[site]]
        assert [each.id.number for each in messages] == [each.number for each in reserved]
        assert [each.stamp for each in messages] == [each.stamp for each in reserved]


@ALL
def test_numbers_of_a_failed_commit_are_used_again_and_its_stamps_are_not(variant: str) -> None:
    group = Group(variant, "ab")
    first, second, third = group.stamp("a", 3)
    group.release("a", "x")
    group.revoke("a")
    (again,) = group.stamp("a")
    assert again.number == second.number
    if again.stamp is not None:
        assert third.stamp is not None and again.stamp > third.stamp
    group.release("a", "y")
    with pytest.raises(IndexError):
        group.release("a", "z")
    group.settle()
    group.advance(2.0)
    assert group.texts("a") == group.texts("b") == ["x", "y"]
    assert group.failures == []


@STAMPED
@pytest.mark.parametrize("is_revoked", [False, True], ids=["released", "revoked"])
def test_a_site_delivers_nothing_above_a_reserved_stamp(variant: str, is_revoked: bool) -> None:
    group = Group(variant, "ab")
    (reserved,) = group.stamp("a")
    group.advance(0.01)
    group.send("b", "higher")
    group.settle()
    group.advance(5.0)
    assert group.texts("a") == []
    if is_revoked:
        group.revoke("a")
    else:
        group.release("a", "lower")
    group.settle()
    group.advance(1.0)
    assert group.texts("a") == (["higher"] if is_revoked else ["lower", "higher"])


@STAMPED
def test_no_answer_reaches_a_reserved_stamp(variant: str) -> None:
    group = Group(variant, "abc", connected=False)
    (reserved,) = group.stamp("a")
    group.advance(1.0)
    assert reserved.stamp is not None
    answer = group.cores["a"].answer_clock("b", 0, group.at)
    assert answer is not None and answer < reserved.stamp.time


@STAMPED
def test_the_next_incarnation_stamps_above_reserved_stamps(variant: str) -> None:
    group = Group(variant, "ab")
    *_, last = group.stamp("a", 100)
    floor = group.cores["a"].floor
    core = VARIANTS[variant].create_core("a", 2, SETTINGS, floor)
    reserved = core.stamp(1, group.at)
    assert reserved.stamp is not None and last.stamp is not None and reserved.stamp > last.stamp


@ALL
def test_no_site_waits_for_a_suspected_one(variant: str) -> None:
    group = Group(variant)
    group.isolate("c")
    group.send("a", "x")
    group.settle(("a", "c"), ("b", "c"))
    group.now += 1.0
    group.apply("a", group.cores["a"].handle_timeout(group.at))
    group.apply("b", group.cores["b"].handle_timeout(group.at))
    group.settle(("a", "c"), ("b", "c"))
    assert group.texts("a") == group.texts("b") == ["x"]


@ALL
def test_a_message_of_a_cut_off_site_is_late_with_its_neighbours(variant: str) -> None:
    group = Group(variant)
    group.send("a", "first")
    group.settle()
    group.advance(1.0)
    group.isolate("c")
    held = ("c", "a"), ("c", "b"), ("a", "c"), ("b", "c")
    group.send("c", "lost")
    group.now += 1.0
    group.apply("c", group.cores["c"].handle_timeout(group.at))
    for text in ("second", "third"):
        group.send("a", text)
        group.settle(*held)
        for site in "ab":
            group.now += 0.5
            group.apply(site, group.cores[site].handle_timeout(group.at))
        group.settle(*held)
    for one, other in (("c", "a"), ("a", "c"), ("c", "b"), ("b", "c")):
        while not group.connect(one, other):
            pass
    group.settle()
    group.advance(2.0)
    for site in "abc":
        assert sorted(text.strip("!") for text in group.texts(site)) == sorted(
            ["first", "lost", "second", "third"]
        )
    late = [each for site in "abc" for each in group.delivered[site] if each.late]
    assert late
    for site in "abc":
        stamps = {each.message.id: each.stamp for each in group.delivered[site]}
        for each in group.delivered[site]:
            if each.late and each.late.before and each.late.after:
                before, after = stamps[each.late.before], stamps[each.late.after]
                assert before < each.stamp < after


@ALL
def test_repeated_messages_are_dropped(variant: str) -> None:
    group = Group(variant, "ab")
    group.send("a", "x")
    message = next(each for each in group.transit["a", "b"] if isinstance(each, Message))
    group.settle()
    group.receive("b", "a", message)
    group.advance(1.0)
    assert group.texts("b") == ["x"]


@ALL
def test_a_new_incarnation_begins_with_number_1(variant: str) -> None:
    group = Group(variant, "ab")
    group.send("b", "old")
    group.settle()
    group.advance(1.0)
    group.isolate("b")
    floor = group.cores["b"].floor
    group.cores["b"] = VARIANTS[variant].create_core("b", 2, SETTINGS, floor)
    for one, other in (("a", "b"), ("b", "a")):
        while not group.connect(one, other):
            pass
    group.settle()
    group.send("b", "new")
    group.settle()
    group.advance(2.0)
    assert group.texts("a") == ["old", "new"]
    assert group.delivered["a"][1].message.id == MessageId("b", 2, 1)


@ALL
@pytest.mark.parametrize(
    "id", [MessageId("c", 1, 9), MessageId("b", 0, 9)], ids=["another site", "older incarnation"]
)
def test_a_message_in_a_wrong_name_is_refused(variant: str, id: MessageId) -> None:
    group = Group(variant, "ab")
    group.send("b", "x")
    group.settle()
    stamp = None if variant == "sequencer" else Stamp(group.at.site_clock, id.site)
    group.receive("a", "b", Message(id, b"forged", frozenset(), stamp))
    assert [type(error) for error in group.failures] == [ProtocolError]
    group.advance(1.0)
    assert group.texts("a") == ["x"]


@STAMPED
@pytest.mark.parametrize(("ahead", "text"), [(-1, "fall"), (2**41, "too far ahead")])
def test_a_stamp_that_falls_or_is_too_far_ahead_is_refused(
    variant: str, ahead: int, text: str
) -> None:
    group = Group(variant, "ab")
    group.send("b", "x")
    group.settle()
    group.advance(1.0)
    stamp = group.delivered["a"][0].stamp
    wrong = stamp._replace(time=stamp.time + ahead)
    group.receive("a", "b", Message(MessageId("b", 1, 2), b"", frozenset(), wrong))
    assert [text in str(error) for error in group.failures] == [True]
    group.send("a", "y")
    group.settle()
    group.advance(1.0)
    assert group.texts("a") == group.texts("b") == ["x", "y"]


@ALL
def test_a_packet_of_another_variant_is_refused(variant: str) -> None:
    group = Group(variant, "ab")
    group.receive("a", "b", object())
    assert [type(error) for error in group.failures] == [ProtocolError]


@STAMPED
def test_an_offer_too_far_ahead_is_refused(variant: str) -> None:
    group = Group(variant, "ab")
    with pytest.raises(ProtocolError, match="ahead"):
        group.cores["a"].answer_clock("b", group.at.site_clock + 2**41, group.at)


@ALL
def test_an_idle_group_sends_nothing(variant: str) -> None:
    group = Group(variant)
    group.send("b", "x")
    group.settle()
    group.advance(3.0)
    assert [core.next_timeout() for core in group.cores.values()] == [None] * 3
    assert not any(group.transit.values())


def test_a_setting_of_0_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="delta"):
        OrderSettings(delta=0.0)
