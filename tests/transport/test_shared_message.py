from __future__ import annotations

from zlib import crc32

from broker.transport.shared_message import SharedMessage


def test_a_shared_message_is_its_bytes_and_caches_their_checksum() -> None:
    message = SharedMessage(b"to many")
    assert message == b"to many" and isinstance(message, bytes)
    for start in (2, 2, 9):
        assert message.checksum(start) == crc32(b"to many", start)
