"""As much of NATS and its JetStream as a peer's publisher and readers need: bytes in and out.

The protocol is lines that end with CRLF; MSG and HMSG are followed by so many bytes and another
CRLF. https://docs.nats.io/reference/reference-protocols/nats-protocol and `nats_api_reference`.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from typing import Any, Final

from benchmarks.harness.failure import BenchmarkFailed

_TIMEOUT: Final = 60.0
_READ: Final = 1 << 16
_OPTIONS: Final = {"verbose": False, "pedantic": False, "headers": True, "lang": "python"}
#: What is between the messages of a consumer: its questions have headers and no body.
_FLOW_CONTROL: Final = b" FlowControl Request"
#: HMSG subject sid reply bytes-of-headers bytes-together
_QUESTION: Final = re.compile(rb"HMSG \S+ \S+ (\S+) \d+ \d+\r\nNATS/1\.0 100 FlowControl Request")
#: The reply subject of a message of a consumer ends with: deliveries of it, its place in the
#: stream, its place in the consumer, time, how many wait.
_ACK: Final = re.compile(rb"MSG \S+ \S+ \$JS\.ACK\.\S+?\.(\d+)\.\d+\.\d+ \d+\r\n")


def connected(port: int) -> socket.socket:
    """A blocking socket on which the server has answered."""
    sock = socket.create_connection(("127.0.0.1", port), _TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(b"CONNECT " + json.dumps(_OPTIONS).encode() + b"\r\nPING\r\n")
    said = b""
    while not said.endswith(b"PONG\r\n"):
        said += _some(sock)
        if b"-ERR" in said:
            raise BenchmarkFailed(f"the NATS server answered {said[-200:]!r}")
    return sock


def publish(subject: str, body: bytes, reply: str = "") -> bytes:
    """The bytes of a PUB; with `reply` the stream tells that subject that it has the message."""
    return f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n"


def subscribe(subject: str, number: int = 1) -> bytes:
    """The bytes of a SUB."""
    return f"SUB {subject} {number}\r\n".encode()


def asking(what: str, how: Mapping[str, Any], inbox: str) -> bytes:
    """The bytes of a question to JetStream, such as `STREAM.CREATE.events`."""
    return publish(f"$JS.API.{what}", json.dumps(how).encode() if how else b"", inbox)


def ask(sock: socket.socket, what: str, how: Mapping[str, Any], inbox: str) -> dict[str, Any]:
    """Ask JetStream on a socket that has subscribed to nothing yet; its answer.

    Raises `BenchmarkFailed` for an error.
    """
    sock.sendall(subscribe(inbox, 9) + asking(what, how, inbox))
    answer = json.loads(_body(sock))
    sock.sendall(b"UNSUB 9\r\n")
    return checked(answer)


def checked(answer: dict[str, Any]) -> dict[str, Any]:
    """What JetStream said, if it is no error."""
    if "error" in answer:
        raise BenchmarkFailed(f"JetStream refused: {answer['error']}")
    return answer


def consumer(stream: str, subject: str, inbox: str) -> tuple[str, dict[str, Any]]:
    """The question for a consumer of its own that pushes all messages of one subject.

    Nothing is acknowledged, and the flow is controlled: the server asks now and then.
    """
    config = {
        "deliver_subject": inbox,
        "deliver_policy": "all",
        "ack_policy": "none",
        "replay_policy": "instant",
        "filter_subject": subject,
        "flow_control": True,
        "idle_heartbeat": 5_000_000_000,
    }
    return f"CONSUMER.CREATE.{stream}", {"stream_name": stream, "config": config}


class Reading:
    """The messages of one consumer, counted by how they end, as they come in pieces."""

    def __init__(self, ending: bytes) -> None:
        """`ending` is how each body ends, and where else it does not occur."""
        self._ending = ending + b"\r\n"
        self._left = b""
        self.messages = 0
        self.last = 0
        """The number that the server gave to the last message, of this consumer."""

    def feed(self, data: bytes) -> bytes:
        """Take bytes in; what is to be answered. Raises `BenchmarkFailed` for an error."""
        whole = self._left + data
        self.messages += whole.count(self._ending)
        cut = whole.rfind(self._ending)
        begin = 0 if cut < 0 else cut + len(self._ending)
        answers = b""
        if b"HMSG " in whole or b"-ERR" in whole or b'"error"' in whole:
            if b"\r\n-ERR" in whole or b'"error":' in whole:
                raise BenchmarkFailed(f"the NATS server said {whole[-300:]!r}")
            asked = _QUESTION.findall(whole)
            answers = b"".join(publish(reply.decode(), b"") for reply in asked)
            if asked:
                # What was answered must not be found again.
                begin = max(begin, whole.rfind(_FLOW_CONTROL) + len(_FLOW_CONTROL))
        if b"PING\r\n" in data:
            answers += b"PONG\r\n"
        if cut >= 0:
            head = whole.rfind(b"$JS.ACK.", 0, cut)
            found = _ACK.search(whole, whole.rfind(b"MSG ", 0, head), cut)
            self.last = self.last if found is None else int(found[1])
        self._left = whole[begin:]
        return answers


def _body(sock: socket.socket) -> bytes:
    """The body of the next MSG; nothing else comes with it."""
    said = b""
    while True:
        said += _some(sock)
        found = re.search(rb"(?:^|\r\n)MSG \S+ \S+ (?:\S+ )?(\d+)\r\n", said)
        if found and len(said) >= found.end() + int(found[1]) + 2:
            return said[found.end() : found.end() + int(found[1])]


def _some(sock: socket.socket) -> bytes:
    data = sock.recv(_READ)
    if not data:
        raise BenchmarkFailed("the NATS server closed the connection")
    return data
