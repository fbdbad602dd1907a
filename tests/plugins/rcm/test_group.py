"""Events of another site that come over its link, and from its log."""

from __future__ import annotations

from collections.abc import Sequence

import msgpack

from broker.event.flow import make_flow
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.order import VARIANTS, OrderSettings
from plugins.rcm.effects import (
    DeliverBatch,
    DeliverMessage,
    GroupEffect,
    PassOn,
    ReportMissing,
    SendData,
    SendMessages,
)
from plugins.rcm.entries import Entries, GroupName
from plugins.rcm.group import Group
from plugins.rcm.payload import Channel

SITES = ("a", "b")
FLOW = make_flow("0a", "ops.>")
RECORD = msgpack.packb(["feed", 7, 1, 1, "ops.zbw", "flight", "1.0", "med", "live"])


def make_group(site: str) -> Group:
    variant = VARIANTS["logical"]
    core = variant.create_core(site, 1, OrderSettings(), 0)
    group = Group(
        *(site, 1, SITES, ["ops.>"], core, variant.create_codec(SITES)),
        *(Entries(GroupName("ops-order", "logical"), core, lambda _: 0), lambda now: round(now)),
    )
    group.origins["a"] = "0a"
    return group


def batch_of(events: Sequence[CarriedEvent]) -> FlowBatch:
    return FlowBatch(FLOW, "alps/a", (1, events[0].mark[1] - 1), events[-1].mark, events)


class Publisher:
    """Site a: its events as they are logged, and as they are sent."""

    def __init__(self) -> None:
        self._group = make_group("a")
        self.logged: list[CarriedEvent] = []
        self.sent: list[Sequence[bytes]] = []

    def publish(self) -> None:
        event = CarriedEvent((1, len(self.logged) + 1), RECORD, b"<e/>", 1)
        (entry,) = self._group.stamp([event], 0.0)
        self.logged.append(event.with_annotation(entry))
        effects = self._group.publish(batch_of(self.logged[-1:]), 0.0)
        (data,) = [effect.data for effect in effects if isinstance(effect, SendData)]
        self.sent.append(data)


def delivered(effects: Sequence[GroupEffect]) -> list[Mark]:
    batches = [effect.batch for effect in effects if isinstance(effect, DeliverBatch)]
    return [event.mark for batch in batches for event in batch.events]


def test_a_message_that_is_no_event_waits_for_events_before_it() -> None:
    publisher, group = make_group("a"), make_group("b")
    first, second = (CarriedEvent((1, number), RECORD, b"<e/>", 1) for number in (1, 2))
    (entry,) = publisher.stamp([first], 0.0)
    assert publisher.send(Channel.CLIENTS, b"hi", 0.0) == []
    publisher.stamp([second], 0.0)
    effects = publisher.publish(batch_of([first.with_annotation(entry)]), 0.0)
    assert len([each for each in effects if isinstance(each, DeliverMessage)]) == 1
    (data,) = [effect.data for effect in effects if isinstance(effect, SendMessages)]
    assert [type(each) for each in group.receive("a", [data], 1.0)] == [PassOn]
    # The commit of the second event fails: a message behind it is stamped anew.
    assert publisher.send(Channel.CLIENTS, b"again", 1.0) == []
    effects = publisher.revoke(1.0)
    (more,) = [effect.data for effect in effects if isinstance(effect, SendMessages)]
    assert group.receive("a", [more], 2.0) == []
    effects = group.order(batch_of([first.with_annotation(entry)]), 2.0)
    got = [each for each in effects if isinstance(each, DeliverBatch | DeliverMessage)]
    assert [type(each) for each in got] == [DeliverBatch, DeliverMessage, DeliverMessage]
    assert [each.data for each in got if isinstance(each, DeliverMessage)] == [b"hi", b"again"]


def test_a_page_with_events_that_have_come_over_the_link_is_ordered_in_turn() -> None:
    publisher, group = Publisher(), make_group("b")
    for _ in range(4):
        publisher.publish()
    # The link had no room for the first and the last one.
    for data in publisher.sent[1:3]:
        assert delivered(group.receive("a", data, 1.0)) == []
    effects = group.order(batch_of(publisher.logged), 2.0)
    assert delivered(effects) == [(1, 1), (1, 2), (1, 3), (1, 4)]
    assert not any(isinstance(effect, ReportMissing) for effect in effects)
