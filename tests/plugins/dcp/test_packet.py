"""The header of packets, byte by byte, and its checksum."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ProtocolError
from plugins.dcp.packet import (
    ACK,
    ACKREQ,
    EXTENDED,
    EXTENDED_BYTES,
    HEADER_BYTES,
    KEEPALIVE,
    MOST_AN,
    NACK,
    RETX,
    STREAM,
    Packet,
    checksum,
    decode,
    encode,
)

#: Version 1 and flags, checksum, AN, previous AN.
SHORT_HEADER = bytes.fromhex("1820 0000 0000000000000105 0000000000000102")
#: The same, and connection, sequence, epoch.
LONG_HEADER = bytes.fromhex("1011 0000 0102030405060708 0102030405060700 a0b0c0d0 0203 0405")
LONG_PACKET = Packet(
    RETX | EXTENDED, 0x0102030405060708, 0x0102030405060700, b"body", 0xA0B0C0D0, 0x0203, 0x0405
)


@st.composite
def packets(draw: st.DrawFn) -> Packet:
    flags = draw(st.integers(0, 0xFFF))
    an = draw(st.integers(0, MOST_AN))
    most_previous = 2**64 - 1 if flags & (ACK | KEEPALIVE) else an
    previous = draw(st.integers(0, most_previous))
    ids = (0, 0, 0)
    if flags & EXTENDED:
        ids = draw(
            st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
        )
    return Packet(flags, an, previous, draw(st.binary(max_size=50)), *ids)


def sum_words(data: bytes) -> int:
    """Return the checksum as RFC 1071 describes it: word by word, with end-around carry."""
    total = 0
    for place in range(0, len(data), 2):
        total += int.from_bytes(data[place : place + 2].ljust(2, b"\0"), "big")
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def test_a_header_of_20_bytes() -> None:
    assert len(SHORT_HEADER) == HEADER_BYTES == 20
    packet = Packet(ACKREQ | STREAM, 0x105, 0x102, b"abc")
    assert encode(packet) == SHORT_HEADER + b"abc"
    assert decode(SHORT_HEADER + b"abc") == packet


def test_a_header_of_28_bytes() -> None:
    assert len(LONG_HEADER) == EXTENDED_BYTES == 28
    assert encode(LONG_PACKET) == LONG_HEADER + b"body"
    assert decode(LONG_HEADER + b"body") == LONG_PACKET


def test_a_body_may_be_empty() -> None:
    assert decode(SHORT_HEADER).body == decode(LONG_HEADER).body == b""


@given(packets(), st.booleans())
def test_packets_round_trip(packet: Packet, with_checksum: bool) -> None:
    assert decode(encode(packet, with_checksum=with_checksum)) == packet


def test_the_checksum_of_the_example_in_the_rfc() -> None:
    # RFC 1071, 3: the sum of the words is ddf2.
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xDDF2 ^ 0xFFFF


def test_the_checksum_of_a_header_of_ipv4() -> None:
    header = bytes.fromhex("45000073000040004011 0000 c0a80001c0a800c7")
    assert checksum(header) == 0xB861


def test_an_odd_byte_is_the_first_of_its_word() -> None:
    assert checksum(b"\x12") == checksum(b"\x12\0") == 0xFFFF ^ 0x1200


@given(st.binary(max_size=60))
def test_the_checksum_is_that_of_a_sum_word_by_word(data: bytes) -> None:
    # 0 stands for no checksum: the other representation of zero is used, as in UDP.
    assert checksum(data) == (sum_words(data) or 0xFFFF)


@given(packets())
def test_the_checksum_makes_the_sum_of_a_packet_zero(packet: Packet) -> None:
    data = encode(packet, with_checksum=True)
    assert data[2:4] != b"\0\0"
    assert sum_words(data) == 0


@given(packets(), st.data())
def test_one_wrong_bit_is_found(packet: Packet, drawn: st.DataObject) -> None:
    data = encode(packet, with_checksum=True)
    bit = drawn.draw(st.integers(0, 8 * len(data) - 1))
    wrong = int.from_bytes(data, "big") ^ 1 << bit
    if wrong >> 8 * (len(data) - 4) & 0xFFFF == 0:
        return  # This packet states that it has no checksum.
    with pytest.raises(ProtocolError):
        decode(wrong.to_bytes(len(data), "big"))


def test_a_wrong_checksum() -> None:
    data = encode(LONG_PACKET, with_checksum=True)
    found = int.from_bytes(data[2:4], "big")
    with pytest.raises(ProtocolError, match="checksum"):
        decode(data[:2] + (found ^ 1).to_bytes(2, "big") + data[4:])
    with pytest.raises(ProtocolError, match="checksum"):
        decode(data[:-1] + b"Y")


def test_a_packet_without_checksum_is_not_checked() -> None:
    assert decode(LONG_HEADER + b"bodY").body == b"bodY"


@pytest.mark.parametrize("version", [0, 2, 15])
def test_another_version(version: int) -> None:
    data = bytes([version << 4 | SHORT_HEADER[0] & 0xF]) + SHORT_HEADER[1:]
    with pytest.raises(ProtocolError, match=f"version {version}"):
        decode(data)


@pytest.mark.parametrize("size", [0, 1, 19])
def test_a_packet_without_a_whole_header(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"{size} bytes"):
        decode(SHORT_HEADER[:size])


@pytest.mark.parametrize("size", [20, 27])
def test_a_packet_without_a_whole_extended_header(size: int) -> None:
    with pytest.raises(ProtocolError, match=f"{size} bytes"):
        decode(LONG_HEADER[:size])


@pytest.mark.parametrize("flags", [0, EXTENDED, STREAM, NACK | RETX])
def test_a_previous_an_above_the_an(flags: int) -> None:
    assert decode(encode(Packet(flags, 7, 7, b""))).previous == 7
    with pytest.raises(ProtocolError, match="8 above its AN 7"):
        decode(encode(Packet(flags, 7, 8, b"")))


@pytest.mark.parametrize("flags", [ACK, KEEPALIVE | ACKREQ, ACK | KEEPALIVE])
def test_the_second_number_of_feedback_is_no_previous_an(flags: int) -> None:
    assert decode(encode(Packet(flags, 7, 800, b""))).previous == 800


@pytest.mark.parametrize("flags", [0, EXTENDED, ACK, NACK])
def test_an_an_beyond_the_numbers_of_the_log(flags: int) -> None:
    assert decode(encode(Packet(flags, MOST_AN, 0, b""))).an == MOST_AN
    with pytest.raises(ProtocolError, match=f"the AN {2**63}"):
        decode(encode(Packet(flags, 2**63, 0, b"")))


@given(st.integers(0, 0xFFF), st.sampled_from([b"\0\0", b"\xab\xcd"]), st.binary(max_size=60))
def test_any_bytes_are_a_packet_or_a_protocol_error(flags: int, found: bytes, rest: bytes) -> None:
    head = (0x1000 | flags).to_bytes(2, "big")
    try:
        packet = decode(head + found + rest)
    except ProtocolError:
        return
    assert encode(packet) == head + b"\0\0" + rest
