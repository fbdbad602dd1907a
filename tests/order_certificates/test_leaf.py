"""Bytes of leaves."""

from __future__ import annotations

from random import Random

import msgspec
import pytest

from broker.errors import ProtocolError
from broker.event.event_id import EventId
from broker.order_certificates.leaf import (
    MOST_LEAF_BYTES,
    Leaf,
    decode_leaf,
    digest_of,
    encode_identity,
    encode_leaf,
)

LEAF = Leaf(
    -5, "a", "b", 3, 300, EventId("anna", 1_700_000_000_000, 70_000, 9), digest_of(b"<event/>")
)
GOLDEN = (
    "9afba161a16203cd012ca4616e6e6109ce00011170cf0000018bcfe56800"
    "c420" + digest_of(b"<event/>").hex()
)


def test_the_bytes_of_a_leaf_are_as_documented() -> None:
    assert encode_leaf(LEAF).hex() == GOLDEN
    assert decode_leaf(bytes.fromhex(GOLDEN)) == LEAF


def test_extreme_values_come_back() -> None:
    most = 2**63 - 1
    for stamp in (-(2**63), most):
        leaf = Leaf(
            stamp, "x" * 64, "y" * 64, most, most, EventId("z" * 64, most, most, most), bytes(32)
        )
        data = encode_leaf(leaf)
        assert decode_leaf(data) == leaf
        assert len(data) <= MOST_LEAF_BYTES


def test_a_leaf_contains_the_identity_of_its_event() -> None:
    assert encode_identity("anna", 9, 70_000) in encode_leaf(LEAF)
    assert encode_identity("anna", 9, 70_001) not in encode_leaf(LEAF)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x9a",
        bytes.fromhex(GOLDEN)[:-1],
        bytes.fromhex(GOLDEN) + b"\0",
        # The stamp in nine bytes.
        b"\x9a\xd3" + b"\xff" * 7 + b"\xfb" + bytes.fromhex(GOLDEN)[2:],
        msgspec.msgpack.encode((1, "", "b", 1, 1, "c", 1, 1, 1, bytes(32))),
        msgspec.msgpack.encode((1, "a", "b", 1, 1, "c", 1, 1, 1, bytes(31))),
        msgspec.msgpack.encode((1, "a", "b", -1, 1, "c", 1, 1, 1, bytes(32))),
        msgspec.msgpack.encode((2**63, "a", "b", 1, 1, "c", 1, 1, 1, bytes(32))),
        bytes(MOST_LEAF_BYTES + 1),
    ],
)
def test_malformed_leaves_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_leaf(data)


def test_random_bytes_are_refused() -> None:
    random = Random(1)
    for _ in range(2_000):
        mutilated = bytearray(bytes.fromhex(GOLDEN))
        for _ in range(random.randrange(1, 4)):
            mutilated[random.randrange(30)] = random.randrange(256)
        try:
            assert encode_leaf(decode_leaf(bytes(mutilated))) == bytes(mutilated)
        except ProtocolError:
            continue
