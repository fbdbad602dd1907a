"""The example of `docs/protocols/fan-out.md` has the bytes of the code."""

from __future__ import annotations

import re
from pathlib import Path

from broker.transport.multicast import wire
from broker.transport.multicast.group_datagram import Assembly, decode_piece
from broker.transport.multicast.wire import (
    Acknowledge,
    Body,
    LinkView,
    Need,
    Pass,
    Reference,
    Repair,
)

PAGE = Path(__file__).resolve().parents[3] / "docs" / "protocols" / "fan-out.md"


def test_the_example_has_the_bytes_of_the_code() -> None:
    lines = re.findall(r"^    \w  ([0-9a-f]+)$", PAGE.read_text(), re.MULTILINE)
    packets = [wire.decode(bytes.fromhex(line)) for line in lines]
    assert packets == [
        LinkView(bytes(32), 1, ["b", "c", "d"]),
        Pass(Body("", 7, [("d", 0)], b"hello")),
        Reference(7),
        Body("a", 7, [], b"hello"),
        Need(7),
        Repair(7, b"hello"),
        Acknowledge(7),
    ]
    assert [wire.encode(each).hex() for each in packets] == lines


def test_datagrams_of_this_version_are_read() -> None:
    datagram = "010161000000000000000700000001"
    piece = decode_piece(bytes.fromhex(datagram + GOLDEN))
    assert Assembly(bytes(32)).add_piece(piece) == b"hello"


#: The encrypted piece and its tag.
GOLDEN = "051fa33d3602fd5da43215b49edfc33cb90f849b53"
