from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import Overloaded, PeerSilent, ProtocolError
from broker.transport.effects import (
    DeliverUp,
    Failed,
    SendDown,
    ViewChanged,
    WritableChanged,
)
from broker.transport.p2p import wire
from broker.transport.p2p.core import Connection
from broker.transport.p2p.wire import MESSAGE_COST
from broker.transport.view import LinkState, View
from tests.transport.p2p.one_end import (
    DOWN,
    UP,
    US,
    WINDOW,
    failure,
    new_core,
    only,
    open_core,
    said,
    sent_data,
    sent_kinds,
)


def test_a_batch_of_packets_is_delivered_as_one_batch_of_messages() -> None:
    core = new_core()
    open_core(core)
    effects = core.receive(wire.encode_data(1, 0, WINDOW, [b"a", b"", b"c"]), 0.0)
    assert effects == [DeliverUp([b"a", b"", b"c"])]


def test_a_duplicate_is_counted_and_not_delivered() -> None:
    core = new_core()
    open_core(core)
    packets = wire.encode_data(1, 0, WINDOW, [b"a", b"b"])
    effects = core.receive([packets[0], *packets, packets[1]], 0.0)
    assert only(effects, DeliverUp).messages == [b"a", b"b"]
    assert core.receiver.duplicates == 2


def test_a_missing_message_ends_the_connection_after_earlier_ones_are_delivered() -> None:
    core = new_core()
    open_core(core)
    packets = wire.encode_data(1, 0, WINDOW, [b"a", b"b", b"c"])
    effects = core.receive([packets[0], packets[2]], 0.0)
    assert [type(effect) for effect in effects] == [DeliverUp, Failed]
    assert only(effects, DeliverUp).messages == [b"a"]
    assert core.receive([packets[1]], 0.0) == []


def test_messages_are_acknowledged_after_a_number_of_them_or_a_delay() -> None:
    core = new_core(ack_every=3, ack_delay=0.5)
    open_core(core)
    packets = wire.encode_data(1, 0, WINDOW, [b"a"] * 5)
    assert sent_kinds(core.receive(packets[:2], 1.0)) == []
    assert core.next_timeout() == 1.5
    assert sent_kinds(core.receive(packets[2:3], 1.1)) == [wire.ACK]
    assert sent_kinds(core.receive(packets[3:], 1.2)) == []
    (packet,) = only(core.handle_timeout(1.7), SendDown).packets
    assert wire.decode_packet(packet)[1] == (5, WINDOW)


def test_a_message_sent_carries_the_acknowledgement() -> None:
    core = new_core()
    open_core(core)
    core.receive(wire.encode_data(1, 0, WINDOW, [b"a"]), 1.0)
    (packet,) = only(core.submit([b"mine"], 1.0), SendDown).packets
    assert wire.decode_packet(packet) == (wire.DATA, (1, 1, WINDOW), b"mine")
    assert core.next_timeout() == 11.0  # only the next PING is due


def test_consuming_a_quarter_of_the_window_returns_credit_at_once() -> None:
    core = new_core()
    open_core(core)
    core.receive(wire.encode_data(1, 0, WINDOW, [bytes(1250 - MESSAGE_COST)] * 5), 0.0)
    core.handle_timeout(0.1)  # the acknowledgement of receipt
    assert core.consumed(1, 0.2) == []
    (packet,) = only(core.consumed(1, 0.2), SendDown).packets
    assert wire.decode_packet(packet)[1] == (5, WINDOW + 2500)


def test_consuming_everything_returns_credit_after_the_delay() -> None:
    core = new_core()
    open_core(core)
    core.receive(wire.encode_data(1, 0, WINDOW, [b"a"]), 0.0)
    core.handle_timeout(0.1)
    assert core.consumed(1, 0.2) == []
    assert core.next_timeout() == pytest.approx(0.22)
    (packet,) = only(core.handle_timeout(0.25), SendDown).packets
    assert wire.decode_packet(packet)[1] == (1, WINDOW + 1 + MESSAGE_COST)


def test_consuming_more_than_was_delivered_is_our_mistake() -> None:
    core = new_core()
    open_core(core)
    with pytest.raises(ValueError, match="2 messages consumed, and 1 were delivered"):
        core.receive(wire.encode_data(1, 0, WINDOW, [b"a"]), 0.0)
        core.consumed(2, 0.0)


def test_a_peer_that_sends_more_than_its_credit_is_refused() -> None:
    core = new_core()
    open_core(core)
    packets = wire.encode_data(1, 0, WINDOW, [bytes(WINDOW // 2)] * 2)
    effects = core.receive(packets, 0.0)
    assert only(effects, DeliverUp).messages == [bytes(WINDOW // 2)]
    assert isinstance(failure(effects), ProtocolError)


def test_one_message_beyond_the_window_is_taken_when_nothing_is_unconsumed() -> None:
    core = new_core()
    open_core(core)
    huge = bytes(3 * WINDOW)
    assert only(core.receive(wire.encode_data(1, 0, 0, [huge]), 0.0), DeliverUp).messages == [huge]
    core.consumed(1, 0.0)
    assert core.receive(wire.encode_data(2, 0, 0, [huge]), 0.0)[0] == DeliverUp([huge])
    assert isinstance(failure(core.receive(wire.encode_data(3, 0, 0, [b""]), 0.0)), ProtocolError)


def test_sending_stops_at_the_credit_and_goes_on_with_more_of_it() -> None:
    core = new_core()
    open_core(core, said(limit=2000))
    messages = [bytes(500 - MESSAGE_COST)] * 10
    assert len(sent_data(core.submit(messages, 0.0))) == 4
    assert sent_data(core.receive([wire.encode_ack(0, 2400)], 0.0)) == []
    assert len(sent_data(core.receive([wire.encode_ack(4, 3500)], 0.0))) == 3


def test_a_message_larger_than_the_window_goes_when_all_else_was_consumed() -> None:
    core = new_core()
    open_core(core)
    huge = bytes(WINDOW)
    assert sent_data(core.submit([b"a", huge, b"c"], 0.0)) == [(1, b"a")]
    assert sent_data(core.receive([wire.encode_ack(1, WINDOW)], 0.0)) == []
    limit = WINDOW + 1 + MESSAGE_COST
    assert sent_data(core.receive([wire.encode_ack(1, limit)], 0.0)) == [(2, huge)]


def test_a_batch_that_does_not_fit_the_buffer_is_refused_as_a_whole() -> None:
    core = new_core()
    core.submit([bytes(9000)], 0.0)
    with pytest.raises(Overloaded):
        core.submit([bytes(10), bytes(12_000)], 0.0)
    assert len(core.sender) == 1
    assert sent_data(open_core(core)) == [(1, bytes(9000))]


def test_the_stack_is_not_writable_from_half_the_buffer_to_a_quarter() -> None:
    core = new_core()
    open_core(core, said(limit=10**6))
    message = bytes(1000 - MESSAGE_COST)
    assert WritableChanged(False) not in core.submit([message] * 10, 0.0)
    assert WritableChanged(False) in core.submit([message], 0.0)
    assert WritableChanged(False) not in core.submit([message], 0.0)
    assert core.receive([wire.encode_ack(7, 10**6)], 0.0) == []
    assert core.receive([wire.encode_ack(8, 10**6)], 0.0) == [WritableChanged(True)]


@pytest.mark.parametrize("packet", [wire.encode_ack(2, 0), wire.encode_data(1, 2, 0, [b"x"])[0]])
def test_an_acknowledgement_of_an_unsent_message_is_refused(packet: bytes) -> None:
    core = new_core()
    open_core(core)
    core.submit([b"one"], 0.0)
    assert isinstance(failure(core.receive([packet], 0.0)), ProtocolError)


def test_an_old_acknowledgement_takes_nothing_back() -> None:
    core = new_core()
    open_core(core)
    core.submit([b"one", b"two"], 0.0)
    core.receive([wire.encode_ack(2, WINDOW), wire.encode_ack(1, 5)], 0.0)
    assert (core.sender.acked, core.sender.credit_limit) == (2, WINDOW)


def test_a_ping_is_sent_after_the_keepalive_time_without_a_message() -> None:
    core = new_core()
    open_core(core, now=1.0)
    assert core.next_timeout() == 11.0
    core.submit([b"a"], 5.0)
    assert core.next_timeout() == 15.0
    (packet,) = only(core.handle_timeout(15.0), SendDown).packets
    assert wire.decode_packet(packet)[1] == (1,)
    assert core.next_timeout() == 25.0


def test_a_ping_is_answered_with_an_acknowledgement() -> None:
    core = new_core()
    open_core(core)
    assert sent_kinds(core.receive([wire.encode_ping(0), wire.encode_ping(0)], 0.0)) == [wire.ACK]


def test_a_ping_that_shows_a_lost_message_ends_the_connection() -> None:
    core = new_core()
    open_core(core)
    assert isinstance(failure(core.receive([wire.encode_ping(1)], 0.0)), ProtocolError)


@pytest.mark.parametrize("greeted", [True, False])
def test_a_silent_peer_is_given_up(greeted: bool) -> None:
    core = new_core()
    core.view_changed(UP, 0.0)
    if greeted:
        core.receive([said()], 0.0)
        core.handle_timeout(10.0)
    assert [e for e in core.handle_timeout(29.9) if isinstance(e, Failed)] == []
    assert isinstance(failure(core.handle_timeout(30.0)), PeerSilent)
    assert core.next_timeout() is None


def test_nothing_is_due_without_a_connection() -> None:
    core = new_core()
    assert core.next_timeout() is None
    open_core(core)
    core.receive(wire.encode_data(1, 0, WINDOW, [b"a"]), 0.0)
    lost = View(LinkState.DISCONNECTED, error=PeerSilent("x"))
    assert core.view_changed(lost, 1.0) == [ViewChanged(lost)]
    core.consumed(1, 1.0)
    assert core.next_timeout() is None
    assert core.handle_timeout(100.0) == []


@pytest.mark.parametrize(
    "packet",
    [wire.encode_ack(0, 0), wire.encode_ping(0), wire.encode_data(1, 0, 0, [b""])[0]],
    ids=["ack", "ping", "d"],
)
def test_only_a_resume_may_come_first(packet: bytes) -> None:
    core = new_core()
    core.view_changed(UP, 0.0)
    assert isinstance(failure(core.receive([packet, said()], 0.0)), ProtocolError)


@given(st.lists(st.binary(max_size=60), max_size=5), st.booleans())
def test_random_bytes_end_the_connection_and_raise_nothing(packets: list[bytes], g: bool) -> None:
    core = new_core()
    core.view_changed(UP, 0.0)
    if g:
        core.receive([said()], 0.0)
    effects = core.receive(packets, 0.0)
    assert not packets or isinstance(failure(effects), ProtocolError)


def _checked(kind: int, body: bytes) -> bytes:
    check = crc32(body[:24], crc32(body[24:], kind)) if kind == wire.DATA else crc32(body, kind)
    return struct.pack(">BI", kind, check) + body


numbers = st.one_of(st.integers(0, 5), st.integers(0, 2**64 - 1))
packets = st.one_of(
    st.builds(_checked, st.integers(0, 255), st.binary(max_size=60)),
    st.builds(said, numbers, st.sampled_from([0, US, 3]), numbers, numbers, numbers),
    st.builds(lambda s, r, lim, m: wire.encode_data(s, r, lim, [m])[0], st.integers(1, 5), numbers,
              numbers, st.binary(max_size=9)),
    st.builds(wire.encode_ack, numbers, numbers),
    st.builds(wire.encode_ping, numbers),
)  # fmt: skip


@given(st.lists(st.lists(st.one_of(packets, st.none()), max_size=8), max_size=8))
def test_well_formed_nonsense_never_raises_and_never_loses_count(
    batches: list[list[bytes | None]],
) -> None:
    core = new_core()
    delivered = 0
    core.submit([b"one", b"two"], 0.0)
    for batch in batches:
        if core.connection is Connection.DOWN:
            core.view_changed(UP, 0.0)
        if None in batch:
            core.view_changed(DOWN, 0.0)
            core.view_changed(UP, 0.0)
        effects = core.receive([p for p in batch if p is not None], 0.0)
        delivered += sum(len(e.messages) for e in effects if isinstance(e, DeliverUp))
        core.handle_timeout(0.0)
        due = core.next_timeout()
        assert due is None or due > 0.0
    assert core.receiver.unconsumed == delivered
    core.consumed(delivered, 0.0)
    assert core.receiver.announce_credit()[1] >= 0
    assert core.sender.buffered <= 20_000
