"""Packets that no honest peer sends: forged, damaged, replayed, or of other versions."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.transport.arq.mac import TAG_BYTES, Mac
from plugins.dcp.connection import Connection
from plugins.dcp.control import Leaving, ParentState, SequenceStart, encode_message
from plugins.dcp.event_range import Description
from plugins.dcp.feedback import encode_ends, encode_nack
from plugins.dcp.incoming_sequences import encode_opening
from plugins.dcp.packet import (
    ACK,
    COMPRESSED,
    DIGEST,
    EXTENDED,
    FIN,
    KEEPALIVE,
    SYN,
    UNCHAINED,
    Packet,
    encode,
)
from plugins.dcp.parts import MissingParts
from plugins.dcp.receiver import Nack
from tests.plugins.dcp.connection_pipe import KEY, MAC, Pipe, make_range, read

_OTHER = Description("0b/ops.>", 4, "n2")


def make_pipe(seed: int = 0) -> Pipe:
    """Return a pipe with events and control messages that have come."""
    pipe = Pipe(seed=seed, loss=0.1)
    pipe.open_sequence()
    for an in range(1, 6):
        pipe.append(make_range(an - 1, an, an, document=bytes(an * 700)))
        pipe.parent.send_control(ParentState(1, an, ()))
        pipe.child.send_control(Leaving())
        pipe.run(0.3)
    pipe.run(2.0)
    assert pipe.child_owner.ans == [1, 2, 3, 4, 5]
    return pipe


def state_of(pipe: Pipe) -> tuple[object, ...]:
    """Return the state that forged packets do not change."""
    found: list[object] = []
    for connection, owner in ((pipe.child, pipe.child_owner), (pipe.parent, pipe.parent_owner)):
        found += [connection.error, connection.query_epoch, connection.received]
        found += [connection.writer.sent, connection.writer.asked_since]
        found += [connection.liveness.given_up_at, connection.liveness.loss]
        found += [connection.path.snapshot(), connection.next_timeout()]
        found += [[*owner.events], [*owner.messages], [*owner.opened], [*owner.unavailable]]
        found += [owner.current_of(KEY), [(s.index, s.is_known) for s in connection.buffer]]
    return tuple(found)


def genuine_packets(pipe: Pipe, receiver: Connection) -> list[bytes]:
    return [data for each, data in pipe.carried if each is receiver]


# ------------------------------------------------------------------ without the key


def test_packets_with_a_flipped_bit_change_nothing() -> None:
    pipe = make_pipe()
    for connection in (pipe.child, pipe.parent):
        state, count = state_of(pipe), connection.malformed
        shortest = {read(data).flags: data for data in genuine_packets(pipe, connection)}
        flips = 0
        for data in shortest.values():
            for bit in range(0, 8 * len(data), 1 if len(data) < 200 else 97):
                flipped = int.from_bytes(data, "big") ^ 1 << bit
                connection.receive(flipped.to_bytes(len(data), "big"), pipe.now)
                flips += 1
        assert flips > 400 and connection.malformed == count + flips
        assert state_of(pipe) == state


def test_cut_packets_change_nothing() -> None:
    pipe = make_pipe()
    state, cuts = state_of(pipe), 0
    for data in genuine_packets(pipe, pipe.child):
        for size in range(0, len(data), 1 if len(data) < 200 else 97):
            pipe.child.receive(data[:size], pipe.now)
            cuts += 1
    assert state_of(pipe) == state and pipe.child.malformed == cuts


def test_packets_with_the_tag_of_another_key_change_nothing() -> None:
    pipe, other = make_pipe(), Mac(b"another key")
    state, packets = state_of(pipe), genuine_packets(pipe, pipe.child)
    for data in packets:
        pipe.child.receive(other.add_tag(data[:-TAG_BYTES]), pipe.now)
        pipe.child.receive(data[:-TAG_BYTES] + bytes(TAG_BYTES), pipe.now)
    assert state_of(pipe) == state and pipe.child.malformed == 2 * len(packets)


def test_random_bytes_change_nothing() -> None:
    pipe, random = make_pipe(), Random(1)
    state = state_of(pipe)
    for size in (*range(60), *(random.randint(60, 1_500) for _ in range(500))):
        pipe.parent.receive(random.randbytes(size), pipe.now)
    assert state_of(pipe) == state and pipe.parent.malformed == 560


# ------------------------------------------------------------------ with the key


@pytest.mark.parametrize("version", [0, 2, 15])
def test_packets_of_other_versions_change_nothing(version: int) -> None:
    pipe = make_pipe()
    state, packets = state_of(pipe), genuine_packets(pipe, pipe.child)
    for data in packets:
        changed = bytes([version << 4 | data[0] & 0xF]) + data[1:-TAG_BYTES]
        pipe.child.receive(MAC.add_tag(changed), pipe.now)
    assert state_of(pipe) == state and pipe.child.malformed == len(packets)


@pytest.mark.parametrize("flag", [UNCHAINED, DIGEST, COMPRESSED])
@pytest.mark.parametrize("flags", [0, KEEPALIVE, FIN, SYN])
def test_packets_with_flags_of_later_versions_change_nothing(flags: int, flag: int) -> None:
    pipe = make_pipe()
    state = state_of(pipe)
    packet = Packet(flags | flag | EXTENDED, 9, 5, b"", 1, 1)
    pipe.child.receive(MAC.add_tag(encode(packet)), pipe.now)
    assert state_of(pipe) == state
    assert (pipe.child.unsupported, pipe.child.malformed) == (1, 0)


def test_short_headers_beside_several_sequences_change_nothing() -> None:
    pipe = make_pipe()
    pipe.open_sequence(description=_OTHER)
    second = pipe.parent.buffer.find(_OTHER.key)
    assert second is not None
    pipe.parent.buffer.append(second, make_range(0, 1, 1))
    pipe.run(2.0)
    assert len(pipe.child_owner.opened) == 2
    state = state_of(pipe)
    for flags in (0, KEEPALIVE, FIN):
        pipe.child.receive(MAC.add_tag(encode(Packet(flags, 9, 5, b"reason"))), pipe.now)
    assert state_of(pipe) == state and pipe.child.malformed == 3


@pytest.mark.parametrize("seed", range(5))
def test_replayed_packets_bring_nothing_twice(seed: int) -> None:
    pipe, random = make_pipe(seed), Random(seed)
    places = [owner.current_of(KEY) for owner in (pipe.child_owner, pipe.parent_owner)]
    events, messages = [*pipe.child_owner.events], [*pipe.child_owner.messages]
    for connection in (pipe.child, pipe.parent):
        packets = genuine_packets(pipe, connection)
        random.shuffle(packets)
        received, duplicate = connection.received, connection.path.duplicate
        for data in packets:
            connection.receive(data, pipe.now)
        assert connection.received == received + len(packets) and connection.malformed == 0
        assert connection.error == ""
        if connection is pipe.child:
            assert connection.path.duplicate >= duplicate + 5
    assert pipe.child_owner.events == events and pipe.child_owner.messages == messages
    assert pipe.parent_owner.messages == [Leaving()] * 5
    assert [owner.current_of(KEY) for owner in (pipe.child_owner, pipe.parent_owner)] == places
    # Both go on.
    pipe.append(make_range(5, 6, 6))
    pipe.run(5.0)
    assert pipe.child_owner.ans[-1] == 6 and pipe.child.error == pipe.parent.error == ""


def test_replayed_keepalives_end_nothing() -> None:
    pipe = Pipe()
    pipe.run(20.0)
    for connection in (pipe.child, pipe.parent):
        keepalives = [
            data
            for data in genuine_packets(pipe, connection)
            if read(data).flags & (KEEPALIVE | ACK) == KEEPALIVE
        ]
        # The first ones promise the next one within 0.25 s. They come each 5 s by now.
        assert read(keepalives[0]).previous == 250 and read(keepalives[-1]).previous == 5_000
        loss = connection.liveness.loss
        for data in reversed(keepalives[:-1]):
            connection.receive(data, pipe.now)
        assert connection.liveness.given_up_at > pipe.now + 10.0
        assert connection.liveness.loss == loss
    pipe.run(60.0)
    assert pipe.child.error == pipe.parent.error == ""


def test_events_of_an_unknown_sequence_are_counted() -> None:
    pipe = make_pipe()
    packet = Packet(EXTENDED, 9, 5, b"\0", 1, 7)
    pipe.child.receive(MAC.add_tag(encode(packet)), pipe.now)
    assert pipe.child.unknown_sequences == 1 and pipe.child_owner.current_of(KEY) == 5


def test_another_description_of_a_known_index_is_refused() -> None:
    pipe, other = make_pipe(), Pipe()
    other.open_sequence(description=_OTHER)
    found = other.parent.buffer.find(_OTHER.key)
    assert found is not None
    other.parent.buffer.append(found, make_range(0, 9, 8))
    other.run(0.1)
    for data in genuine_packets(other, other.child):
        if read(data).sequence == 1:
            pipe.child.receive(data, pipe.now)
    assert pipe.child.malformed > 0 and pipe.child_owner.ans == [1, 2, 3, 4, 5]


_ANS = st.integers(0, 9) | st.integers(0, 2**64 - 1)
_OPENING = encode_opening(encode_message(SequenceStart(1, Description("0c/ops.>", 2, ""), 0)))
_BODIES = st.one_of(
    st.binary(max_size=60),
    st.binary(max_size=30).map(lambda body: _OPENING + body),
    st.lists(st.tuples(st.integers(0, 3), _ANS), max_size=5).map(encode_ends),
    st.builds(
        encode_nack,
        st.builds(Nack, _ANS, st.lists(st.tuples(_ANS, _ANS), max_size=3)),
        st.none() | st.builds(MissingParts, _ANS, _ANS, st.lists(st.integers(0, 9))),
    ),
    st.builds(
        lambda previous, an: b"\0" + make_range(previous, an, an).entries[0],
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    st.builds(
        lambda number, count, body: b"\1" + bytes([0, number, 0, count]) + body,
        st.integers(0, 3),
        st.integers(0, 3),
        st.binary(max_size=30),
    ),
)
_PACKETS = st.builds(
    Packet,
    st.integers(0, 0xFFF).map(lambda flags: flags & ~(UNCHAINED | DIGEST | COMPRESSED) | EXTENDED),
    _ANS,
    _ANS,
    _BODIES,
    st.just(1),
    st.integers(0, 2),
    st.integers(0, 0xFFFF),
)


@given(st.lists(_PACKETS, max_size=8))
def test_any_packet_of_a_hostile_peer_is_handled(packets: list[Packet]) -> None:
    pipe = Pipe()
    pipe.open_sequence()
    pipe.append(make_range(0, 5, 3))
    pipe.parent.send_control(Leaving())
    pipe.run(0.1)
    for packet in packets:
        for connection in (pipe.child, pipe.parent):
            connection.receive(MAC.add_tag(encode(packet)), pipe.now)
    pipe.run(1.0)
    known = pipe.child_owner.events
    assert known[0].mark[1] == 3 and pipe.child_owner.ans == sorted(set(pipe.child_owner.ans))
