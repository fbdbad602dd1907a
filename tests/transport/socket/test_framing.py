from __future__ import annotations

import struct
import time
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import FrameTooLarge, ProtocolError
from broker.transport.socket.framing import FrameDecoder, encode_frames

packets = st.lists(st.binary(min_size=1, max_size=200), max_size=20)


def stream_of(packets: list[bytes]) -> bytes:
    return b"".join(encode_frames(packets))


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in zip(places, places[1:], strict=False)]


@given(packets)
def test_the_bytes_are_a_length_and_the_packet_each(sent: list[bytes]) -> None:
    assert stream_of(sent) == b"".join(struct.pack(">I", len(each)) + each for each in sent)


@given(packets, st.lists(st.integers(0, 10_000), max_size=50))
def test_any_split_of_the_stream_gives_the_same_frames(sent: list[bytes], cuts: list[int]) -> None:
    decoder = FrameDecoder(200)
    received: list[bytes] = []
    for piece in pieces_of(stream_of(sent), cuts):
        received += decoder.feed(piece)
        assert decoder.feed(b"") == []
    assert received == sent
    assert decoder.close() is False


@given(st.binary(min_size=1, max_size=5000), st.integers(1, 3000))
def test_a_frame_in_pieces_of_one_size_is_whole(packet: bytes, size: int) -> None:
    decoder = FrameDecoder(5000)
    data = stream_of([packet, b"next"])
    received = [
        f for place in range(0, len(data), size) for f in decoder.feed(data[place : place + size])
    ]
    assert received == [packet, b"next"]


@given(packets.filter(bool), st.data())
def test_a_half_frame_is_noticed_at_the_end(sent: list[bytes], data: st.DataObject) -> None:
    stream = stream_of(sent)
    missing = data.draw(st.integers(1, len(sent[-1]) + 3))
    decoder = FrameDecoder(200)
    assert decoder.feed(stream[:-missing]) == sent[:-1]
    assert decoder.close() is True
    assert decoder.close() is False


def test_a_large_and_a_small_piece_in_turn_keep_their_order() -> None:
    packet = bytes(range(256)) * 64
    stream = stream_of([packet])
    decoder = FrameDecoder(len(packet))
    received: list[bytes] = []
    place = 0
    for size in [5, 2000, 3, 1500, 700, 900, 1100, 1, 20_000]:
        received += decoder.feed(stream[place : place + size])
        place += size
    assert received == [packet]


def test_an_empty_packet_is_not_sent_and_not_accepted() -> None:
    with pytest.raises(ValueError, match="empty"):
        stream_of([b"a", b""])
    with pytest.raises(ProtocolError, match="length 0"):
        FrameDecoder(10).feed(bytes(4))


@pytest.mark.parametrize("size", [4, 5, 100])
def test_a_frame_that_is_too_long_is_refused_by_its_length_alone(size: int) -> None:
    decoder = FrameDecoder(100)
    assert decoder.feed(struct.pack(">I", 101)[:3]) == []
    with pytest.raises(FrameTooLarge, match="101 bytes; at most 100 are accepted"):
        decoder.feed((struct.pack(">I", 101) + bytes(96))[3:size])
    with pytest.raises(FrameTooLarge):
        decoder.feed(b"more")
    assert decoder.close() is False


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00\x01", b"<?xml version='1.0'?>"],
    ids=["http", "tls", "xml"],
)
def test_another_protocol_is_refused_at_once(garbage: bytes) -> None:
    with pytest.raises(FrameTooLarge):
        FrameDecoder(16 * 1024 * 1024).feed(garbage)


def test_the_greatest_length_can_be_raised_on_the_way() -> None:
    decoder = FrameDecoder(10)
    assert decoder.feed(stream_of([b"hello"])) == [b"hello"]
    decoder.max_frame = 1000
    assert decoder.feed(stream_of([bytes(1000)])) == [bytes(1000)]


def test_a_frame_that_comes_byte_by_byte_costs_little_more_than_its_bytes() -> None:
    size = 200_000
    stream = stream_of([bytes(size)])
    decoder = FrameDecoder(size)
    tracemalloc.start()
    try:
        for place in range(len(stream) - 1):
            decoder.feed(stream[place : place + 1])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 1.5 * size
    assert decoder.feed(stream[-1:]) == [bytes(size)]


def test_the_work_for_a_large_frame_grows_with_its_size_only() -> None:
    def seconds(size: int) -> float:
        stream = stream_of([bytes(size)])
        reads = [stream[place : place + 65_536] for place in range(0, len(stream), 65_536)]
        best = float("inf")
        for _ in range(5):
            decoder = FrameDecoder(size)
            start = time.process_time()
            for read in reads:
                decoder.feed(read)
            best = min(best, time.process_time() - start)
        return best

    # Sixteen times the size; quadratic work would be 256 times as long.
    assert seconds(16_000_000) < 100 * max(seconds(1_000_000), 5e-4)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"GET /metrics HTTP/1.1\r\n", "this is HTTP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "this is HTTP"),
        (bytes.fromhex("1603010200"), "this is TLS"),
        (bytes.fromhex("15030300020230"), "this is TLS"),
    ],
)
def test_another_protocol_is_named_in_the_error(data: bytes, what: str) -> None:
    with pytest.raises(FrameTooLarge, match=what):
        FrameDecoder(1 << 20).feed(data)
