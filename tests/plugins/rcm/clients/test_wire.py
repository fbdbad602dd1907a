"""Bytes of messages between clients, right and wrong."""

from __future__ import annotations

from random import Random

from broker.errors import ProtocolError
from broker.streams.messaging import ClientAddress
from plugins.rcm.clients.wire import (
    ClientMessage,
    decode_messages,
    encode_message,
    encode_messages,
)

GOOD = encode_messages(
    [
        encode_message("anna", None, b"hi"),
        None,
        encode_message("ben", [ClientAddress("b", ""), ClientAddress("c", "cleo")], b"ho"),
    ]
)


def test_golden_bytes() -> None:
    assert GOOD.hex() == ("9393a4616e6e61c0c4026869c093a362656e9292a162a092a163a4636c656fc402686f")
    assert decode_messages(GOOD) == (
        ClientMessage("anna", None, b"hi"),
        None,
        ClientMessage("ben", (("b", ""), ("c", "cleo")), b"ho"),
    )


def test_wrong_bytes_give_protocol_errors_only() -> None:
    random, refused = Random(1), 0
    for _ in range(2_000):
        data = bytearray(GOOD)
        for _ in range(random.choice((1, 2, 5))):
            data[random.randrange(len(data))] = random.randrange(256)
        length = random.choice((len(data), random.randrange(len(data))))
        try:
            decode_messages(bytes(data[:length]))
        except ProtocolError:
            refused += 1
    assert refused > 500
