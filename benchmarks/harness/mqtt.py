"""Minimal MQTT 3.1.1 at QoS 0 and 1."""

from __future__ import annotations

import socket
import struct
from typing import Final

from benchmarks.harness.failure import BenchmarkFailed

TOPIC: Final = b"flights"
_TIMEOUT: Final = 10.0


def connect(port: int, client_id: str) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), _TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Protocol level 4, clean session, keep-alive off.
    body = _text(b"MQTT") + b"\x04\x02\x00\x00" + _text(client_id.encode())
    sock.sendall(b"\x10" + _length(len(body)) + body)
    _expect(sock, b"\x20\x02\x00\x00")
    return sock


def subscribe(sock: socket.socket, qos: int = 0) -> None:
    body = b"\x00\x01" + _text(TOPIC) + bytes([qos])
    sock.sendall(b"\x82" + _length(len(body)) + body)
    _expect(sock, b"\x90\x03\x00\x01" + bytes([qos]))


def publish(message: bytes) -> bytes:
    """A subscriber at QoS 0 gets the same bytes."""
    body = _text(TOPIC) + message
    return b"\x30" + _length(len(body)) + body


def publish_at_least_once(message: bytes, number: int) -> bytes:
    """`number` is not 0 and has 16 bits."""
    body = _text(TOPIC) + struct.pack(">H", number) + message
    return b"\x32" + _length(len(body)) + body


def acknowledge(number: int) -> bytes:
    return b"\x40\x02" + struct.pack(">H", number)


class PacketReader:
    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the first byte and the body of each packet that `data` completes."""
        whole, packets, at = self._rest + data, [], 0
        while len(whole) - at >= 2:
            length, shift, begin = 0, 0, at + 1
            while begin < len(whole):
                length |= (whole[begin] & 127) << shift
                shift += 7
                begin += 1
                if whole[begin - 1] < 128:
                    break
            else:
                break
            if len(whole) < begin + length:
                break
            packets.append((whole[at], whole[begin : begin + length]))
            at = begin + length
        self._rest = whole[at:]
        return packets


def message_of(body: bytes) -> tuple[int, bytes]:
    """Return number and message at QoS 1."""
    (topic,) = struct.unpack_from(">H", body)
    (number,) = struct.unpack_from(">H", body, 2 + topic)
    return number, body[4 + topic :]


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
