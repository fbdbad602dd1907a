"""Messages that wait have a bound: beyond it no site is waited for."""

from __future__ import annotations

import pytest

from broker.errors import ProtocolError
from broker.transport.order import VARIANTS, Message, MessageId, OrderSettings, Stamp, Suspect
from broker.transport.order.effects import OVERDUE
from broker.transport.order.instant import MICROSECONDS
from broker.transport.order.packet import MESSAGE_COST
from broker.transport.order.sequencer import numbered_core
from broker.transport.order.sequencer.packet import Header, Numbers
from tests.transport.order.group import Group

MOST = 20
SMALL = OrderSettings(queue=MOST * (MESSAGE_COST + 100))
STAMPED = pytest.mark.parametrize("variant", [name for name in VARIANTS if name != "sequencer"])


def send_without_delivery(group: Group, sender: str, receiver: str, count: int) -> list[str]:
    """Only the receiver gets the messages, and nothing else."""
    texts = [f"{number:0100}" for number in range(count)]
    for text in texts:
        group.send(sender, text)
        group.move(sender, receiver)
    return texts


def test_a_full_queue_waits_for_no_clock() -> None:
    group = Group("logical", settings=SMALL)
    texts = send_without_delivery(group, "a", "b", MOST)
    assert group.texts("b") == []
    texts += send_without_delivery(group, "a", "b", 1)
    assert ("b", Suspect("c", OVERDUE)) in group.suspected
    assert group.texts("b") == texts
    assert group.failures == []


def test_a_full_queue_waits_for_no_sequencer() -> None:
    group = Group("sequencer", settings=SMALL)
    send_without_delivery(group, "c", "b", MOST + 1)
    assert group.texts("b") == []
    group.advance_without_packets(SMALL.request_after)
    assert ("b", Suspect("a", OVERDUE)) in group.suspected
    group.disconnect("b", "a")
    group.advance_without_packets(SMALL.patience)
    assert len(group.texts("b")) == MOST + 1


def test_a_full_queue_waits_for_no_message_of_a_number() -> None:
    group = Group("sequencer", settings=SMALL)
    group.send("c", "lost")
    group.move("c", "a")
    for _ in range(MOST + 1):
        group.send("a", "x" * 100)
    group.move("a", "b")
    assert len(group.texts("b")) == MOST + 1
    group.move("c", "b")
    assert group.texts("b")[-1] == "!lost"


def test_numbers_without_messages_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbered_core, "MOST_ENTRIES", 10)
    group = Group("sequencer")
    epoch = group.cores["b"]._epoch  # type: ignore[attr-defined]
    ids = (MessageId("c", 1, number) for number in range(1, 100))
    group.receive("b", "a", Numbers(epoch, 0, tuple(Header(id, frozenset("ab")) for id in ids)))
    entries = group.cores["b"]._delivery.entries  # type: ignore[attr-defined]
    assert len(entries) == 10


@STAMPED
def test_a_queue_that_waits_for_no_site_refuses_more(variant: str) -> None:
    """Real time waits for the clock, and every variant for an own commit."""
    group = Group(variant, "ab", settings=SMALL)
    group.stamp("a")
    group.advance(0.01)
    begin = group.at.site_clock if variant != "logical" else 5_000
    for number in range(2 * MOST):
        stamp = Stamp(begin + number, "b")
        message = Message(MessageId("b", 1, number + 1), b"x" * 100, frozenset("a"), stamp)
        group.receive("a", "b", message)
    assert [type(error) for error in group.failures] == [ProtocolError] * (MOST - 1)
    assert group.cores["a"].refused == MOST - 1
    group.release("a", "own")
    group.advance(1.0)
    assert len(group.texts("a")) == MOST + 2


@STAMPED
def test_an_answer_too_far_ahead_is_refused(variant: str) -> None:
    group = Group(variant, "ab", connected=False)
    with pytest.raises(ProtocolError, match="too far ahead"):
        group.cores["a"].connect("b", group.at.site_clock + 2**41 * MICROSECONDS, group.at)
