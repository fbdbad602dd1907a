"""Events of another site that come over its link, and from its log."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import msgpack
import pytest

from broker.errors import ProtocolError
from broker.event.flow import make_flow
from broker.event.order_entry import decode_order_entry
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.order import VARIANTS, Instant, Message, MessageId, OrderSettings, Stamp
from broker.transport.view import LinkState
from plugins.rcm.addressing import MOST_MESSAGE_BYTES
from plugins.rcm.delivered_run import read_runs
from plugins.rcm.effects import (
    DeliverBatch,
    DeliverMessage,
    EndLink,
    GroupEffect,
    PassOn,
    ReportMissing,
    SendData,
    SendMessages,
)
from plugins.rcm.entries import Entries, GroupName
from plugins.rcm.group import Group
from plugins.rcm.own_messages import EVENT_BYTES, MOST_RUN_BYTES
from plugins.rcm.payload import Channel, ChannelMessage, encode_payload
from plugins.rcm.site_change import encode_change
from plugins.rcm.site_list import Change, SiteRecord

SITES = ("a", "b")
FLOW = make_flow("0a", "ops.>")
RECORD = msgpack.packb(["feed", 7, 1, 1, "ops.zbw", "flight", "1.0", "med", "live"])


def make_group(site: str, sites: Sequence[str] = SITES) -> Group:
    variant = VARIANTS["logical"]
    core = variant.create_core(site, 1, OrderSettings(), 0)
    group = Group(
        *(site, 1, sites, ["ops.>"], core, variant.create_codec(sites)),
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

    def publish(self, count: int = 1) -> None:
        first = len(self.logged) + 1
        events = [
            CarriedEvent((1, number), RECORD, b"<e/>", 1) for number in range(first, first + count)
        ]
        entries = self._group.stamp(events, 0.0)
        self.logged += map(CarriedEvent.with_annotation, events, entries)
        effects = self._group.publish(batch_of(self.logged[-count:]), 0.0)
        (data,) = [effect.data for effect in effects if isinstance(effect, SendData)]
        self.sent.append(data)


def delivered(effects: Sequence[GroupEffect]) -> list[Mark]:
    """Return the marks of delivered events, whose runs must be those of their entries."""
    deliveries = [effect for effect in effects if isinstance(effect, DeliverBatch)]
    for each in deliveries:
        assert list(each.runs) == read_runs("ops-order", each.batch.events)
    return [event.mark for each in deliveries for event in each.batch.events]


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


def numbers_of(effects: Sequence[GroupEffect]) -> list[int]:
    """Return the numbers of the messages in the entries of delivered events."""
    deliveries = [effect for effect in effects if isinstance(effect, DeliverBatch)]
    events = [event for each in deliveries for event in each.batch.events]
    assert delivered(effects) == [event.mark for event in events]
    entries = [decode_order_entry(event.annotation) for event in events]
    return [entry.number for entry in entries if entry is not None]


def publish_run(publisher: Publisher, count: int) -> Sequence[bytes]:
    """Publish the events of one commit, and return the packets."""
    publisher.publish(count)
    return publisher.sent[-1]


def test_the_events_of_a_commit_are_one_message() -> None:
    publisher, group = Publisher(), make_group("b")
    (packet,) = publish_run(publisher, 5)
    (passed,) = group.receive("a", [packet], 1.0)
    assert isinstance(passed, PassOn) and len(passed.batch.events) == 5
    effects = group.order(passed.batch, 1.0)
    assert len(effects) == 1 and numbers_of(effects) == [1, 2, 3, 4, 5]
    entries = [event.annotation for event in passed.batch.events]
    assert entries == [event.annotation for event in publisher.logged]


@pytest.mark.parametrize("cuts", [(2,), (1, 4), (1, 2, 3, 4)])
def test_a_run_is_cut_where_the_node_has_a_part_of_it(cuts: Sequence[int]) -> None:
    publisher, group = Publisher(), make_group("b")
    group.receive("a", publish_run(publisher, 5), 1.0)
    got: list[int] = []
    for begin, end in pairwise((0, *cuts, 5)):
        got += numbers_of(group.order(batch_of(publisher.logged[begin:end]), 1.0))
        assert got == [*range(1, end + 1)]
    assert group.snapshot()["waiting"] == 0


def test_a_run_whose_events_came_from_a_log_in_part_is_delivered_once() -> None:
    publisher, group = Publisher(), make_group("b")
    packets = publish_run(publisher, 6)
    first = numbers_of(group.order(batch_of(publisher.logged[:2]), 1.0))
    effects = group.receive("a", packets, 1.0)
    (passed,) = [each.batch for each in effects if isinstance(each, PassOn)]
    assert [event.mark for event in passed.events] == [(1, number) for number in (3, 4, 5, 6)]
    assert (passed.after, passed.upto) == ((1, 2), (1, 6))
    rest = numbers_of(group.order(passed, 1.0))
    assert [*first, *rest] == [1, 2, 3, 4, 5, 6]
    assert group.snapshot()["waiting"] == 0


def test_events_of_a_run_that_were_not_logged_come_again_alone() -> None:
    publisher, group = Publisher(), make_group("b")
    group.receive("a", publish_run(publisher, 6), 1.0)
    assert numbers_of(group.order(batch_of(publisher.logged), 1.0)) == [1, 2, 3, 4, 5, 6]
    taken = group.take_back(FLOW, (1, 3))
    assert [id.number for id, _ in taken] == [6, 5, 4]
    placed = group.place(batch_of(publisher.logged[3:]), 2.0)
    again = [decode_order_entry(event.annotation) for event in placed]
    assert [(each.number, each.is_late) for each in again if each] == [
        (4, False),
        (5, False),
        (6, False),
    ]


def test_a_flow_between_two_events_cuts_a_run() -> None:
    """Numbers of a commit are those of all its flows."""
    publisher = make_group("a")
    events = [CarriedEvent((1, number), RECORD, b"<e/>", 1) for number in (1, 2, 3, 4)]
    entries = publisher.stamp(events, 0.0)
    placed = list(map(CarriedEvent.with_annotation, events, entries))
    # The third event is of another flow.
    batch = FlowBatch(FLOW, "alps/a", (1, 0), (1, 4), [placed[0], placed[1], placed[3]])
    effects = publisher.publish(batch, 0.0)
    assert numbers_of(effects) == [1, 2]
    other = FlowBatch(make_flow("0a", "z.>"), "alps/a", (1, 0), (1, 4), [placed[2]])
    effects = publisher.publish(other, 0.0)
    assert numbers_of(effects) == [3, 4]
    sent = [each.batch for each in effects if isinstance(each, DeliverBatch)]
    assert [(each.after, each.upto) for each in sent] == [((1, 0), (1, 4)), ((1, 2), (1, 4))]


def test_events_that_were_stamped_apart_are_one_run() -> None:
    publisher = make_group("a")
    events = [CarriedEvent((1, number), RECORD, b"<e/>", 1) for number in (1, 2, 3, 4)]
    entries = [*publisher.stamp(events[:1], 0.0), *publisher.stamp(events[1:], 0.0)]
    placed = list(map(CarriedEvent.with_annotation, events, entries))
    effects = publisher.publish(FlowBatch(FLOW, "alps/a", (1, 0), (1, 4), placed), 0.0)
    assert [run.length for run in runs_of(effects)] == [4]


def test_an_event_without_a_stamp_cuts_a_run() -> None:
    publisher = make_group("a")
    events = [CarriedEvent((1, number), RECORD, b"<e/>", 1) for number in (1, 2, 3, 4, 5)]
    entries = publisher.stamp([*events[:2], *events[3:]], 0.0)
    placed = list(map(CarriedEvent.with_annotation, events, [*entries[:2], b"", *entries[2:]]))
    effects = publisher.publish(FlowBatch(FLOW, "alps/a", (1, 0), (1, 9), placed), 0.0)
    assert [(run.id.number, run.length) for run in runs_of(effects)] == [(1, 2), (3, 2)]
    sent = [each.batch for each in effects if isinstance(each, DeliverBatch)]
    assert [(each.after, each.upto) for each in sent] == [((1, 0), (1, 2)), ((1, 3), (1, 9))]


@pytest.mark.parametrize("size", [1, 100, 1_000, 100_000])
def test_two_runs_fit_into_a_message(size: int) -> None:
    publisher = make_group("a")
    count = 2 * MOST_MESSAGE_BYTES // (size + len(RECORD) + EVENT_BYTES)
    events = [CarriedEvent((2**62, 2**62 + each), RECORD, b"x" * size, 1) for each in range(count)]
    placed = list(map(CarriedEvent.with_annotation, events, publisher.stamp(events, 0.0)))
    batch = FlowBatch(FLOW, "alps/a", (1, 0), placed[-1].mark, placed)
    effects = publisher.publish(batch, 0.0)
    runs = runs_of(effects)
    assert sum(run.length for run in runs) == count
    assert all(len(run.payload) < MOST_RUN_BYTES + 100 for run in runs)
    if size == 1_000:
        sent = [data for each in effects if isinstance(each, SendData) for data in each.data]
        assert len(sent) <= (len(runs) + 1) // 2


def runs_of(effects: Iterable[GroupEffect]) -> list[Message]:
    codec = VARIANTS["logical"].create_codec(SITES)
    sent = [data for each in effects if isinstance(each, SendData) for data in each.data]
    packets = [packet for data in sent for packet in codec.decode("a", data)]
    return [packet for packet in packets if isinstance(packet, Message)]


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_run_with_another_number_of_events_is_refused(length: int) -> None:
    publisher, group = Publisher(), make_group("b")
    (packet,) = publish_run(publisher, 3)
    codec = VARIANTS["logical"].create_codec(SITES)
    (run,) = codec.decode("a", packet)
    assert isinstance(run, Message)
    effects = group.receive("a", [codec.encode([run._replace(length=length)])], 1.0)
    assert "3 events as" in error_of(effects)


def test_a_page_of_recovered_events_is_delivered_in_one_batch() -> None:
    publisher, group = Publisher(), make_group("b")
    for _ in range(50):
        publisher.publish()
    effects = group.order(batch_of(publisher.logged), 2.0)
    assert len(effects) == 1
    assert len(delivered(effects)) == 50


def change_messages(count: int, data: bytes) -> list[bytes]:
    """Return messages of site a that change the sites."""
    codec = VARIANTS["logical"].create_codec(SITES)
    payload = encode_payload(ChannelMessage(Channel.SITES, data))
    sent = [
        Message(MessageId("a", 1, number), payload, frozenset("b"), Stamp(number, "a"))
        for number in range(1, count + 1)
    ]
    return [codec.encode([each]) for each in sent]


def error_of(effects: Sequence[GroupEffect]) -> str:
    (error,) = [each.error for each in effects if isinstance(each, EndLink)]
    assert isinstance(error, ProtocolError)
    return error.text


@pytest.mark.parametrize(
    "record",
    [
        ["no name", "tcp:host=h:port=1", True, None],
        ["d", "tcp:host=h:port=0", True, None],
        ["d", "", True, None],
        ["d", "tcp:host=h:port=1", False, None],
        ["d", "tcp:host=h:port=1", True, [1, "a", "a", 1, 1]],
        ["d"],
    ],
)
def test_a_wrong_change_of_the_sites_ends_the_link(record: list[object]) -> None:
    group = make_group("b")
    assert "change of the sites" in error_of(
        group.receive("a", change_messages(1, msgpack.packb(record)), 1.0)
    )
    assert group.rejected == 1


def test_a_flood_of_changes_of_the_sites_ends_the_link() -> None:
    group = make_group("b")
    data = encode_change(SiteRecord("d", "tcp:host=h:port=1", True, None, 1))
    assert "a flood of changes" in error_of(group.receive("a", change_messages(100, data), 1.0))
    # After some time further ones are accepted.
    effects = group.receive("a", change_messages(80, data)[70:], 3.0)
    assert not any(isinstance(each, EndLink) for each in effects)


def test_nobody_waits_for_a_change_that_came_otherwise() -> None:
    publisher, group = make_group("a"), make_group("b")
    events = [CarriedEvent((1, number), RECORD, b"<e/>", 1) for number in (1, 2)]
    found = []
    for event in events:
        (entry,) = publisher.stamp([event], 0.0)
        effects = publisher.publish(batch_of([event.with_annotation(entry)]), 0.0)
        found += [each.data for each in effects if isinstance(each, SendData)]
        found += [[each.data] for each in effects if isinstance(each, SendMessages)]
        publisher.send(Channel.SITES, b"", 0.0)
    for data, event in zip(found, events, strict=True):
        group.receive("a", data, 1.0)
        # The number between them does not come.
        group.set_sites(SITES, [Change(2, "a", "a", 1, 2)])
        effects = group.order(batch_of([event]), 1.0)
        assert not any(isinstance(each, ReportMissing) for each in effects)
        assert delivered(effects) == [event.mark]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_stamp_in_a_list_of_sites_that_is_too_far_ahead_is_refused(variant: str) -> None:
    core = VARIANTS[variant].create_core("b", 1, OrderSettings(), 0)
    at = Instant(1.0, 1_000_000)
    core.check_stamp("a", Stamp(7, "a"), at)
    with pytest.raises(ProtocolError):
        core.check_stamp("a", Stamp(2**62, "a"), at)


def test_events_that_wait_for_their_types_keep_their_stamps_and_are_placed_anew() -> None:
    publisher, group = Publisher(), make_group("b")
    for _ in range(3):
        publisher.publish()
    events = []
    for data, logged in zip(publisher.sent, publisher.logged, strict=True):
        group.receive("a", data, 0.0)
        effects = group.order(batch_of([logged]), 0.0)
        events += [each for effect in effects for each in _events_of(effect)]
    assert [each.mark[1] for each in events] == [1, 2, 3]
    taken = [group.take_back(FLOW, (1, 0), (1, 2)), group.take_back(FLOW, (1, 2), (1, 3))]
    assert [sorted(id.number for id, _ in each) for each in taken] == [[1, 2], [3]]
    own = CarriedEvent((1, 1), RECORD, b"<e/>", 1)
    (entry,) = group.stamp([own], 1.0)
    group.publish(
        FlowBatch("0b/ops.>", "alps/b", (1, 0), (1, 1), [own.with_annotation(entry)]), 1.0
    )
    placed = group.place(batch_of(events[:2]), 1.0, is_recovered=False)
    # No live message comes from a disconnected site.
    group.disconnect("a", LinkState.DISCONNECTED, 1.0)
    placed += group.place(batch_of(events[2:]), 1.0, is_recovered=False)
    found = [decode_order_entry(event.annotation) for event in placed]
    assert [(each.before, each.after, each.is_recovered) for each in found if each] == [
        (None, ("b", 1, 1), False),
        (("a", 1, 1), ("b", 1, 1), False),
        (("a", 1, 2), ("b", 1, 1), True),
    ]
    stamps = [decode_order_entry(event.annotation) for event in publisher.logged]
    assert [each.stamp for each in found if each] == [each.stamp for each in stamps if each]


def test_an_event_that_waits_while_its_site_is_disconnected_is_recovered() -> None:
    publisher, group = Publisher(), make_group("b", "abc")
    publisher.publish()
    for site in "ac":
        assert group.accept_answer(site, group.make_offer(site, 0.0), 0.0) is not None
    group.receive("a", publisher.sent[0], 1.0)
    # It waits for the clock of c.
    assert delivered(group.order(batch_of(publisher.logged), 1.0)) == []
    assert delivered(group.disconnect("a", LinkState.DISCONNECTED, 2.0)) == []
    (event,) = (
        event
        for effect in group.disconnect("c", LinkState.SUSPECTED, 2.5)
        for event in _events_of(effect)
    )
    entry = decode_order_entry(event.annotation)
    assert entry is not None and entry.is_recovered and not entry.is_late


def _events_of(effect: GroupEffect) -> Sequence[CarriedEvent]:
    return effect.batch.events if isinstance(effect, DeliverBatch) else ()
