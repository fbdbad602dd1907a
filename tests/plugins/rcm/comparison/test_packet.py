"""Bytes of the comparison, and its records of fixed size."""

from __future__ import annotations

from random import Random

import pytest

from broker.errors import ProtocolError
from broker.transport.order import Message, MessageId, Stamp
from broker.transport.order.packet import Clock
from broker.transport.order.wire import PacketCodec
from plugins.rcm.comparison.block_sequence import Digest
from plugins.rcm.comparison.histogram import BUCKETS, LOWEST, DelayHistogram
from plugins.rcm.comparison.packet import (
    Answer,
    Batch,
    Offer,
    Page,
    PageRequest,
    Released,
    Report,
    Suspicion,
    decode_packet,
    encode_packet,
    read_sent,
)
from plugins.rcm.comparison.release_times import MOST_RELEASES, Release, ReleaseTimes

PACKETS = (
    Offer(7, ("a", "b"), ("hybrid", "logical"), Released(9, 4), 2, (("logical", 5),)),
    Answer(2, Released(9, 4), (("logical", 6),)),
    Batch(7, 5, 10, 3, 1_000, (("logical", b"\x01"),)),
    Suspicion("logical"),
    Report(7, (("hybrid", (3, 1_000, 9), (Digest(4, 3, 2, b"", bytes(16)),)),)),
    PageRequest("hybrid", 4, 0),
    Page("hybrid", 4, 0, b"\x00"),
)
GOLDEN = (
    "7697010792a161a16292a6687962726964a76c6f676963616c920904029192a76c6f676963616c05",
    "769402029209049192a76c6f676963616c06",
    "76970307050a03cd03e89192a76c6f676963616cc40101",
    "769204a76c6f676963616c",
    "769305079193a66879627269649303cd03e8099195040302c400c410" + "00" * 16,
    "769406a66879627269640400",
    "769507a66879627269640400c40100",
)


@pytest.mark.parametrize(("packet", "golden"), list(zip(PACKETS, GOLDEN, strict=True)))
def test_golden_bytes(packet: Batch, golden: str) -> None:
    assert encode_packet(packet).hex() == golden
    assert encode_packet(decode_packet(bytes.fromhex(golden))).hex() == golden


def test_wrong_bytes_give_protocol_errors_only() -> None:
    random = Random(2)
    refused = 0
    for _ in range(3_000):
        data = bytearray(encode_packet(random.choice(PACKETS)))
        for _ in range(random.choice((1, 2, 5))):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            decode_packet(bytes(data[: random.choice((len(data), random.randrange(len(data))))]))
        except ProtocolError:
            refused += 1
    assert refused > 1_000


def test_own_packets_of_the_order_are_read_without_their_payloads() -> None:
    codec = PacketCodec(("a", "b"))
    messages = [
        Message(MessageId("a", 7, number), bytes(100), frozenset("b"), Stamp(number, "a"))
        for number in (4, 5, 6)
    ]
    sent = read_sent(codec.encode(messages))
    assert (sent.incarnation, sent.first, sent.count) == (7, 4, 3)
    assert 0 < sent.extra < 20
    runs = [messages[0]._replace(length=2), messages[2]._replace(length=7)]
    assert read_sent(codec.encode(runs)).count == 9
    assert read_sent(codec.encode([Clock(9)])).count == 0


@pytest.mark.parametrize("seconds", [0.00015, 0.01, 0.25, 3.0, 900.0])
def test_a_quantile_is_right_within_five_per_cent(seconds: float) -> None:
    histogram = DelayHistogram()
    histogram.add(seconds, 99)
    histogram.add(5_000.0, 1)
    assert histogram.quantile(0.5) == pytest.approx(seconds, rel=0.05)
    assert histogram.quantile(0.99) == pytest.approx(seconds, rel=0.05)


def test_any_delay_has_a_bucket() -> None:
    histogram = DelayHistogram()
    assert histogram.quantile(0.5) is None
    for seconds in (-1.0, 0.0, LOWEST, 1e9):
        histogram.add(seconds, 1)
    assert histogram.count == 4 and len(histogram._counts) == BUCKETS


def test_releases_are_found_by_their_messages_and_bounded() -> None:
    times = ReleaseTimes()
    for number in range(3 * MOST_RELEASES):
        times.record(1, Release(1 + 2 * number, 3 + 2 * number, number, 1))
        assert len(times._firsts) <= MOST_RELEASES
    last = 3 * MOST_RELEASES - 1
    for number in (2 * last + 1, 2 * last + 2):
        found = times.find(1, number)
        assert found is not None and found.clock == last
    assert times.find(1, 2 * last + 3) is None and times.find(1, 1) is None
    assert times.find(2, 2 * last + 1) is None
    times.record(2, Release(1, 2, 5, 1))
    assert times.find(1, 2 * last + 1) is None and times.last == (2, 1)
