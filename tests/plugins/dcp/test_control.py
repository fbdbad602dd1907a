"""Control messages: bytes that are none end nothing but their connection."""

from __future__ import annotations

import pytest

from broker.errors import ProtocolError
from broker.transport.arq.mac import TAG_BYTES
from broker.transport.socket.framing import encode_frames
from plugins.dcp.control import (
    ControlMessage,
    InForce,
    Interest,
    LateEvent,
    Leaving,
    SequenceStart,
    decode_message,
    decode_start,
    encode_message,
)
from plugins.dcp.incoming_sequences import encode_opening
from plugins.dcp.packet import ACKREQ, EXTENDED, SYN, Packet, encode
from tests.plugins.dcp.connection_pipe import DESCRIPTION, MAC, Pipe

START = SequenceStart(1, DESCRIPTION, 7)
QUERY = ("ops.>", "//a", (("p", "urn:p"),))
LATE = LateEvent("o/ops.>", 3, b"entry")
#: An array in an array, and so on.
DEEP = b"\x91" * 100_000 + b"\xc0"


def with_deep_field(message: ControlMessage | SequenceStart) -> bytes:
    """Return a message with one more field, as a later version may send it."""
    data = encode_message(message)
    assert data[0] & 0xF0 == 0x90
    return bytes([data[0] + 1]) + data[1:] + DEEP


@pytest.mark.parametrize(
    "message",
    [*(Leaving(), Interest(3, (QUERY,)), InForce(2**32 - 1, (START, START))), LATE],
)
def test_messages_round_trip(message: ControlMessage) -> None:
    assert decode_message(encode_message(message)) == message


@pytest.mark.parametrize(
    "message",
    [
        *(Interest(2**32, ()), Interest(-1, ()), Interest(1, (QUERY,) * 10_001)),
        *(LateEvent("f", -1, b""), LateEvent("f", 1, bytes(2**20 + 1))),
        InForce(1, (SequenceStart(0, DESCRIPTION, 7),)),
        InForce(1, (SequenceStart(1, DESCRIPTION, 2**63),)),
    ],
)
def test_messages_out_of_bounds(message: ControlMessage) -> None:
    with pytest.raises(ProtocolError):
        decode_message(encode_message(message))


@pytest.mark.parametrize("data", [b"", b"\x91", b"\xc0", DEEP, with_deep_field(Leaving())])
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_message(data)


@pytest.mark.parametrize("data", [b"", b"\x91", b"\xc0", DEEP, with_deep_field(START)])
def test_bytes_that_describe_no_sequence(data: bytes) -> None:
    assert decode_start(encode_message(START)) == START
    with pytest.raises(ProtocolError):
        decode_start(data)


def test_a_deeply_nested_message_ends_its_connection() -> None:
    pipe = Pipe()
    pipe.child.buffer.send_control(b"".join(encode_frames([with_deep_field(Leaving())])))
    pipe.run(0.2)
    assert pipe.parent.error == "a bad control message: protocol"
    assert pipe.parent_owner.messages == []


def test_a_packet_with_a_deeply_nested_description_is_malformed() -> None:
    pipe = Pipe()
    deep = with_deep_field(START)[:30_000]
    packet = Packet(SYN | ACKREQ | EXTENDED, 9, 5, encode_opening(deep), 1, 1)
    data = MAC.add_tag(encode(packet))
    assert len(data) < 2**16 - TAG_BYTES
    pipe.child.receive(data, pipe.now)
    assert pipe.child.malformed == 1 and pipe.child.error == "" and pipe.child_owner.opened == []
