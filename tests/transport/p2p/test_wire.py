from __future__ import annotations

import struct
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ProtocolError
from broker.transport.p2p import wire
from broker.transport.p2p.wire import Resume
from broker.transport.shared_message import SharedMessage

u64 = st.integers(0, 2**64 - 1)


def test_the_bytes_are_those_of_the_documentation() -> None:
    assert wire.encode_resume(Resume(1, 2, 3, 4, 5)).hex() == (
        "01" + wire.encode_resume(Resume(1, 2, 3, 4, 5))[1:5].hex() + "02" + "0000000000000001"
        "0000000000000002" "0000000000000003" "0000000000000004" "0000000000000005"
    )  # fmt: skip
    (packet,) = wire.encode_data(6, 7, 8, [b"hello"])
    assert packet[0] == 2
    assert (
        packet[5:] == bytes.fromhex("000000000000000600000000000000070000000000000008") + b"hello"
    )
    assert wire.encode_ack(1, 2)[5:].hex() == "00000000000000010000000000000002"
    assert wire.encode_ping(9)[5:].hex() == "0000000000000009"
    assert [
        len(p)
        for p in (
            wire.encode_resume(Resume(1, 2, 3, 4, 5)),
            wire.encode_ack(1, 2),
            wire.encode_ping(9),
        )
    ] == [
        46,
        21,
        13,
    ]


def test_the_check_is_the_crc_of_zlib_so_that_others_can_compute_it() -> None:
    # CRC-32 of eight bytes, started with the kind; the value was computed bit by bit.
    crc = 4 ^ 0xFFFFFFFF
    for byte in bytes([0, 0, 0, 0, 0, 0, 0, 9]):
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
    assert wire.encode_ping(9)[1:5] == (crc ^ 0xFFFFFFFF).to_bytes(4, "big")


def test_the_check_of_data_is_that_of_the_message_and_then_of_the_header() -> None:
    (packet,) = wire.encode_data(6, 7, 8, [b"hello"])
    assert packet[1:5] == crc32(packet[5:29], crc32(b"hello", 2)).to_bytes(4, "big")


def test_a_shared_message_makes_the_same_packets_as_any_other() -> None:
    shared = SharedMessage(b"to many")
    for sequence in (1, 2):
        assert wire.encode_data(sequence, 7, 8, [shared]) == wire.encode_data(
            sequence, 7, 8, [b"to many"]
        )


@given(st.binary(min_size=1), st.data())
def test_a_packet_with_a_changed_byte_is_refused(message: bytes, data: st.DataObject) -> None:
    packet = bytearray(wire.encode_data(1, 2, 3, [message])[0])
    # The kind is the start value of the check, so another kind fails.
    packet[data.draw(st.integers(1, len(packet) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ProtocolError):
        wire.decode_packet(bytes(packet))


@given(st.integers(1, 2**64 - 1), u64, u64, u64, u64)
def test_a_resume_is_read_as_it_was_written(a: int, b: int, c: int, d: int, e: int) -> None:
    packet = wire.encode_resume(Resume(a, b, c, d, e))
    kind, fields, rest = wire.decode_packet(packet)
    assert (kind, rest) == (wire.RESUME, b"")
    assert wire.decode_resume(fields) == Resume(a, b, c, d, e)


@given(st.integers(1, 2**64 - 10), u64, u64, st.lists(st.binary(max_size=99), max_size=5))
def test_data_is_read_as_it_was_written(
    first: int, received: int, limit: int, messages: list[bytes]
) -> None:
    packets = wire.encode_data(first, received, limit, messages)
    assert [wire.decode_packet(packet) for packet in packets] == [
        (wire.DATA, (first + place, received, limit), message)
        for place, message in enumerate(messages)
    ]


@given(st.binary(max_size=40), st.integers(0, 10**6))
def test_a_flipped_bit_anywhere_is_noticed(message: bytes, place: int) -> None:
    packet = bytearray(wire.encode_data(1, 2, 3, [message])[0])
    place %= 8 * len(packet)
    packet[place // 8] ^= 1 << (place % 8)
    with pytest.raises(ProtocolError):
        wire.decode_packet(bytes(packet))


@pytest.mark.parametrize("size", range(5))
def test_a_packet_without_a_whole_start_is_refused(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"a packet of {size} bytes"):
        wire.decode_packet(bytes(size))


def _checked(kind: int, body: bytes) -> bytes:
    return struct.pack(">BI", kind, crc32(body, kind)) + body


@pytest.mark.parametrize(
    ("kind", "size", "refused"),
    [
        (wire.RESUME, 40, "RESUME has 45 bytes"),
        (wire.RESUME, 0, "RESUME has 5 bytes"),
        (wire.DATA, 23, "DATA has 28 bytes"),
        (wire.ACK, 17, "ACK has 22 bytes"),
        (wire.PING, 7, "PING has 12 bytes"),
        (5, 8, "the unknown kind 5"),
    ],
)
def test_a_packet_of_another_length_or_kind_is_refused(kind: int, size: int, refused: str) -> None:
    body = bytes([wire.VERSION] * min(size, 1)) + bytes(max(size - 1, 0))
    with pytest.raises(ProtocolError, match=refused):
        wire.decode_packet(_checked(kind, body))


def test_a_resume_without_an_incarnation_is_refused() -> None:
    with pytest.raises(ProtocolError, match="incarnation 0"):
        wire.decode_resume(wire.decode_packet(wire.encode_resume(Resume(0, 2, 3, 4, 5)))[1])
