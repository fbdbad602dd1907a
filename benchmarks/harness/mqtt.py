"""Minimal MQTT 3.1.1 at QoS 0, for a publisher and readers."""

from __future__ import annotations

import socket
import struct
from typing import Final

from benchmarks.harness.failure import BenchmarkFailed

TOPIC: Final = b"flights"
_TIMEOUT: Final = 10.0


def connect(port: int, client_id: str) -> socket.socket:
    """Return a blocking socket with an accepted clean session."""
    sock = socket.create_connection(("127.0.0.1", port), _TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Protocol level 4, clean session, keep-alive off.
    body = _text(b"MQTT") + b"\x04\x02\x00\x00" + _text(client_id.encode())
    sock.sendall(b"\x10" + _length(len(body)) + body)
    _expect(sock, b"\x20\x02\x00\x00")
    return sock


def subscribe(sock: socket.socket) -> None:
    """Subscribe to the topic at QoS 0."""
    body = b"\x00\x01" + _text(TOPIC) + b"\x00"
    sock.sendall(b"\x82" + _length(len(body)) + body)
    _expect(sock, b"\x90\x03\x00\x01\x00")


def publish(message: bytes) -> bytes:
    """Return the bytes of a PUBLISH; a subscriber at QoS 0 gets the same bytes."""
    body = _text(TOPIC) + message
    return b"\x30" + _length(len(body)) + body


def _text(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text


def _length(length: int) -> bytes:
    encoded = bytearray()
    while length > 127:
        encoded.append(length & 127 | 128)
        length >>= 7
    encoded.append(length)
    return bytes(encoded)


def _expect(sock: socket.socket, answer: bytes) -> None:
    got = b""
    while len(got) < len(answer):
        data = sock.recv(len(answer) - len(got))
        if not data:
            raise BenchmarkFailed("the MQTT broker closed the connection")
        got += data
    if got != answer:
        raise BenchmarkFailed(f"the MQTT broker answered {got.hex()}, not {answer.hex()}")
