from __future__ import annotations

import pytest

from broker.errors import ProtocolError
from broker.transport.message import Message
from broker.transport.shared_message import SharedMessage


def test_a_message_without_headers_is_its_payload() -> None:
    payload = b"payload"
    assert Message(payload, destinations=("a",)).encode() is payload


def test_headers_pushed_on_the_way_down_are_popped_in_turn_on_the_way_up() -> None:
    sent = Message(b"payload", destinations=("a",))
    sent.push(b"upper")
    sent.push(b"low")
    received = Message(sent.encode(), source="b")
    assert received.pop(3) == b"low"
    assert received.pop(5) == b"upper"
    assert received.payload == b"payload"


def test_a_header_pushed_later_is_encoded_too() -> None:
    message = Message(b"p", destinations=("a",))
    assert message.encode() == b"p"
    message.push(b"h")
    assert message.encode() == b"hp"


def test_a_message_to_several_peers_is_encoded_once() -> None:
    message = Message(b"p", destinations=("a", "b"))
    message.push(b"h")
    assert isinstance(message.encode(), SharedMessage)
    assert message.encode() is message.encode()


def test_a_message_shorter_than_a_header_is_a_fault_of_the_peer() -> None:
    with pytest.raises(ProtocolError, match="a message of 3 bytes lacks its header"):
        Message(b"abc").pop(4)
