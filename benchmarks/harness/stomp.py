"""Minimal STOMP 1.1, for a publisher and readers."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Final

from benchmarks.harness.failure import BenchmarkFailed

TOPIC: Final = "/topic/flights"
#: No text here contains it.
END: Final = b"\x00"
_TIMEOUT: Final = 30.0
_READ: Final = 1 << 16
#: As many as to the broker's own clients.
_AHEAD: Final = "1000"


def frame(command: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
    """Without content-length the broker treats the body as text."""
    lines = [command, *(f"{_escaped(name)}:{_escaped(value)}" for name, value in headers.items())]
    return "\n".join(lines).encode() + b"\n\n" + body + END


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), _TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(frame("CONNECT", {"accept-version": "1.1", "host": "localhost"}))
    _expect(sock, "CONNECTED")
    return sock


def subscribe(sock: socket.socket, number: int, selector: str = "") -> None:
    headers = {
        "id": str(number),
        "destination": TOPIC,
        "ack": "auto",
        "activemq.prefetchSize": _AHEAD,
        "receipt": f"subscribed-{number}",
    }
    if selector:
        headers["selector"] = selector
    sock.sendall(frame("SUBSCRIBE", headers))
    _expect(sock, "RECEIPT")


def xpath_selector(query: str) -> str:
    """Raises `BenchmarkFailed`."""
    if "'" in query:
        raise BenchmarkFailed(f"a selector can not quote {query}")
    return f"XPATH '{query}'"


def publish(message: bytes, receipt: str = "") -> bytes:
    """The message is not persistent."""
    headers = {"destination": TOPIC, "persistent": "false"}
    if receipt:
        headers["receipt"] = receipt
    return frame("SEND", headers, message)


def await_receipt(sock: socket.socket) -> None:
    """Wait until the broker has processed everything up to a receipt's request."""
    _expect(sock, "RECEIPT")


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace(":", "\\c")


def _expect(sock: socket.socket, command: str) -> None:
    got = b""
    while END not in got:
        data = sock.recv(_READ)
        if not data:
            raise BenchmarkFailed("the STOMP broker closed the connection")
        got += data
    output = got.lstrip(b"\n").partition(END)[0].decode(errors="replace")
    if not output.startswith(f"{command}\n"):
        raise BenchmarkFailed(f"the STOMP broker answered {output[:300]!r}, not {command}")
