"""Bytes of the packets of an order: what is encoded, and which bytes are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.errors import ConfigurationError, Overloaded, ProtocolError
from broker.transport.order import VARIANTS, IPacketCodec, Message, MessageId, Stamp
from broker.transport.order.effects import Packet
from broker.transport.order.packet import Clock
from broker.transport.order.sequencer.packet import (
    MOST_HEADERS,
    Answer,
    Begin,
    Epoch,
    Follow,
    Header,
    Known,
    Left,
    Numbers,
    Raised,
    Refusal,
    Request,
    Takeover,
)
from broker.transport.order.wire import MAX_MESSAGES

SITES = ("a", "b", "c", "d")
STAMPED = VARIANTS["logical"].create_codec(SITES)
SEQUENCER = VARIANTS["sequencer"].create_codec(SITES)

EPOCH = Epoch(7, "b")
FIRST, SECOND, OTHER, ALONE = HEADERS = (
    Header(MessageId("a", 1, 5), frozenset("bcd")),
    Header(MessageId("a", 1, 6), frozenset("bcd")),
    Header(MessageId("a", 1, 7), frozenset("b")),
    Header(MessageId("d", 2**40, 1), frozenset()),
)
PLACES = (
    (EPOCH.stamp(0), FIRST),
    (EPOCH.stamp(1), SECOND),
    (EPOCH.stamp(1), OTHER),
    (Stamp(2**63 - 1, "d"), ALONE),
)
DELIVERED = {("a", 1): 4, ("d", 3): 2**40}


def message(number: int, time: int | None, payload: bytes = b"x") -> Message:
    stamp = None if time is None else Stamp(time, "a")
    return Message(MessageId("a", 3, number), payload, frozenset("bd"), stamp)


ROWS = "95000105020e9500010701029503cf0000010000000000010100"
PLACED_ROWS = (
    "93cf00000007000000000195000105020e93cf000000070000000101950001070102"
    "93cf7fffffffffffffff039503cf0000010000000000010100"
)
DELIVERED_ROWS = "9293000104930303cf0000010000000000"
KNOWN = {EPOCH: 300, Epoch(8, "a"): 0}
KNOWN_ROWS = "92930701cd012c93080000"
#: Packets with their bytes, which must not change.
EXAMPLES: tuple[tuple[IPacketCodec, Sequence[Packet], str], ...] = (
    (
        *(STAMPED, [message(9, 2**50, b"one"), message(10, 2**50 + 1, b"")]),
        "970103090a92cf00040000000000000192c4036f6e65c40090",
    ),
    (SEQUENCER, [message(1, None)], "970103010a9091c4017890"),
    (STAMPED, [Clock(300)], "9202cd012c"),
    (SEQUENCER, [Follow(1)], "921001"),
    (SEQUENCER, [Raised(2**30)], "9211ce40000000"),
    (SEQUENCER, [Left(2**30)], "9219ce40000000"),
    (SEQUENCER, [Takeover(EPOCH, DELIVERED, KNOWN)], f"9412920701{DELIVERED_ROWS}{KNOWN_ROWS}"),
    (
        SEQUENCER,
        [Answer(EPOCH, DELIVERED, KNOWN, PLACES, HEADERS)],
        f"9613920701{DELIVERED_ROWS}{KNOWN_ROWS}93{PLACED_ROWS}93{ROWS}",
    ),
    (SEQUENCER, [Refusal(EPOCH, 0)], "931492070100"),
    (
        *(SEQUENCER, [Begin(EPOCH, PLACES, KNOWN, frozenset("bc"))]),
        f"951592070193{PLACED_ROWS}{KNOWN_ROWS}06",
    ),
    (SEQUENCER, [Numbers(EPOCH, 3, HEADERS)], f"94169207010393{ROWS}"),
    (SEQUENCER, [Request(HEADERS)], f"921793{ROWS}"),
    (SEQUENCER, [Known(PLACES, 2)], f"931893{PLACED_ROWS}02"),
)


def plain(packet: Any) -> object:
    """Return a value that is compared by its fields."""
    is_message = isinstance(packet, Message)
    fields = tuple(packet) if is_message else attrs.astuple(packet, recurse=False)
    return type(packet).__name__, fields


@pytest.mark.parametrize(
    ("codec", "packets", "encoded"), EXAMPLES, ids=lambda value: value if type(value) is str else ""
)
def test_packets_keep_their_bytes(
    codec: IPacketCodec, packets: Sequence[Packet], encoded: str
) -> None:
    assert codec.encode(packets).hex() == encoded
    decoded = codec.decode("a", bytes.fromhex(encoded))
    assert list(map(plain, decoded)) == list(map(plain, packets))


def test_a_row_has_as_many_messages_as_follow_each_other() -> None:
    header = Header(MessageId("c", 1, 1), frozenset("a"))
    headers = tuple(
        header._replace(id=header.id._replace(number=number)) for number in range(1, 5_001)
    )
    assert len(SEQUENCER.encode([Numbers(EPOCH, 0, headers)])) < 20


def pack(*fields: object) -> bytes:
    packed: bytes = msgpack.packb(fields)
    return packed


ROW = (0, 1, 1, 1, 0)
PLACE = (1, 0, ROW)


@pytest.mark.parametrize(
    ("codec", "data"),
    [
        (STAMPED, b""),
        (STAMPED, b"\xc1"),
        (STAMPED, b"\x91" * 10_000),
        (STAMPED, pack(3, 1)),
        (STAMPED, pack(16, 1)),
        (SEQUENCER, pack(2, 1)),
        (STAMPED, pack(2, 1) + b"x"),
        (STAMPED, pack(2, -1)),
        (STAMPED, pack(2, 2**63)),
        (STAMPED, pack(2, 1.5)),
        (STAMPED, pack(2, 1, 1)),
        (STAMPED, pack(1, 1, 1, 0, [1], [])),
        (STAMPED, pack(1, 1, 0, 0, [1], [b""])),
        (STAMPED, pack(1, 1, 1, 0, [1], ["text"])),
        (STAMPED, pack(1, 1, 1, 0, [1, 1], [b""])),
        (STAMPED, pack(1, 1, 1, 1 << 4, [1], [b""])),
        (STAMPED, pack(1, 1, 1, 2**32, [1], [b""])),
        (STAMPED, pack(1, 1, 2**63 - 1, 0, [1, 1], [b"", b""])),
        (STAMPED, pack(1, 1, 1, 0, [2**63 - 1, 1], [b"", b""])),
        (STAMPED, pack(1, 1, 1, 0, [], [b""] * (MAX_MESSAGES + 1))),
        (SEQUENCER, pack(16, 2**31)),
        (SEQUENCER, pack(18, (1, 4), [], [])),
        (SEQUENCER, pack(18, (1, 0), [(4, 1, 1)], [])),
        (SEQUENCER, pack(18, (1, 0), [(0, 1, 1)] * 2_049, [])),
        (SEQUENCER, pack(18, (1, 0), [], [(1, 4, 1)])),
        (SEQUENCER, pack(18, (1, 0), [], [(2**31, 0, 1)])),
        (SEQUENCER, pack(18, (1, 0), [], [(1, 0, 2**32)])),
        (SEQUENCER, pack(18, (1, 0), [], [(1, 0, 1)] * 257)),
        (SEQUENCER, pack(22, (1, 0), 2**32, [])),
        (SEQUENCER, pack(23, [(4, 1, 1, 1, 0)])),
        (SEQUENCER, pack(23, [(0, 1, 1, 1, 1 << 4)])),
        (SEQUENCER, pack(23, [(0, 1, 1, 0, 0)])),
        (SEQUENCER, pack(23, [(0, 1, 1, 2**62, 0)])),
        (SEQUENCER, pack(23, [(0, 1, 2**63 - 1, 2, 0)])),
        (SEQUENCER, pack(23, [(0, 1, 1, MOST_HEADERS, 0), ROW])),
        (SEQUENCER, pack(23, [ROW] * (MOST_HEADERS + 1))),
        (SEQUENCER, pack(24, [(2**63 - 1, 0, (0, 1, 1, 2, 0))], 0)),
        (SEQUENCER, pack(24, [(1, 4, ROW)], 0)),
        (SEQUENCER, pack(24, [PLACE], 33)),
    ],
)
def test_wrong_bytes_are_refused(codec: IPacketCodec, data: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.decode("a", data)


def decode_anything(data: bytes) -> None:
    for codec in (STAMPED, SEQUENCER):
        try:
            packets = codec.decode("a", data)
        except ProtocolError:
            continue
        # What is accepted can be passed on.
        assert list(map(plain, codec.decode("a", codec.encode(packets)))) == list(
            map(plain, packets)
        )


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    decode_anything(data)


@given(st.sampled_from(EXAMPLES), st.data())
def test_changed_packets_are_decoded_or_refused(
    example: tuple[IPacketCodec, Sequence[Packet], str], data: st.DataObject
) -> None:
    changed = bytearray.fromhex(example[2])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(changed) - 1))
        part = data.draw(
            st.sampled_from((b"", b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff", b"\xc0", b"\xff"))
        )
        changed[place : place + data.draw(st.integers(0, 9))] = part or data.draw(
            st.binary(max_size=4)
        )
        if not changed:
            break
    decode_anything(bytes(changed))


def test_a_group_has_at_most_32_sites() -> None:
    names = [f"site{number}" for number in range(33)]
    codec = VARIANTS["logical"].create_codec(names[:32])
    everyone = frozenset(names[:32])
    sent = message(1, 1)._replace(connected=everyone, id=MessageId("site31", 1, 1))
    (decoded,) = codec.decode("site31", codec.encode([sent]))
    assert isinstance(decoded, Message) and decoded.connected == everyone
    with pytest.raises(ConfigurationError, match="33 sites"):
        VARIANTS["sequencer"].create_codec(names)


def test_packets_have_the_numbers_of_their_sender() -> None:
    for variant in ("logical", "sequencer"):
        here, there = (VARIANTS[variant].create_codec(each) for each in ("ab", "bca"))
        there.set_names("a", here.names)
        everyone = frozenset(["b", "c", *(f"site{number}" for number in range(60))])
        sent = message(1, 5 if variant == "logical" else None)._replace(connected=everyone)
        data = here.encode([sent])
        # The other end gets new numbers first, and none twice.
        with pytest.raises(ProtocolError):
            there.decode("a", data)
        names = here.take_names()
        assert names is not None and here.take_names() is None
        assert there.decode("a", names) == there.decode("a", names) == []
        assert list(map(plain, there.decode("a", data))) == list(map(plain, [sent]))
        # An earlier offer with fewer names takes no number away.
        there.set_names("a", here.names[:2])
        assert there.decode("a", data)
        # A new process of the sender begins anew.
        there.set_names("a", ("c", "a"))
        with pytest.raises(ProtocolError):
            there.decode("a", data)


@pytest.mark.parametrize(
    "data",
    [
        pack(3, 5, ["e"]),
        pack(3, 4, ["a"]),
        pack(3, 4, [""]),
        pack(3, 4, ["x" * 65]),
        pack(3, 4, [f"s{number}" for number in range(509)]),
        pack(3, 512, []),
        pack(1, 1, 1, b"\x10", [1], [b""]),
        pack(1, 1, 1, b"\x01" * 65, [1], [b""]),
    ],
)
def test_wrong_numbers_of_sites_are_refused(data: bytes) -> None:
    codec = VARIANTS["logical"].create_codec(SITES)
    codec.set_names("a", SITES)
    with pytest.raises(ProtocolError):
        codec.decode("a", data)
    assert codec.decode("a", pack(1, 1, 1, 15, [1], [b""]))


def test_a_process_numbers_at_most_512_sites() -> None:
    codec = VARIANTS["logical"].create_codec(SITES)
    names = frozenset(f"s{number}" for number in range(512))
    with pytest.raises(Overloaded, match="restart this node"):
        codec.encode([message(1, 1)._replace(connected=names)])
