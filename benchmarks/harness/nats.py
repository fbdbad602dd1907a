"""Minimal NATS with JetStream.

Lines end with CRLF; MSG and HMSG are followed by a body and another CRLF.
https://docs.nats.io/reference/reference-protocols/nats-protocol and `nats_api_reference`.
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
#: Between a consumer's messages, with headers and no body.
_FLOW_CONTROL: Final = b" FlowControl Request"
#: HMSG subject sid reply bytes-of-headers bytes-together
_QUESTION: Final = re.compile(rb"HMSG \S+ \S+ (\S+) \d+ \d+\r\nNATS/1\.0 100 FlowControl Request")
#: The reply subject ends with: deliveries of the message, its places in stream and consumer, time,
#: number of waiting messages.
_ACK: Final = re.compile(rb"MSG \S+ \S+ \$JS\.ACK\.\S+?\.(\d+)\.\d+\.\d+ \d+\r\n")


def connect(port: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), _TIMEOUT)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(b"CONNECT " + json.dumps(_OPTIONS).encode() + b"\r\nPING\r\n")
    output = b""
    while not output.endswith(b"PONG\r\n"):
        output += _receive(sock)
        if b"-ERR" in output:
            raise BenchmarkFailed(f"the NATS server answered {output[-200:]!r}")
    return sock


def publish(subject: str, body: bytes, reply: str = "") -> bytes:
    """With `reply` the stream acknowledges to that subject."""
    return f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n"


def subscribe(subject: str, number: int = 1) -> bytes:
    return f"SUB {subject} {number}\r\n".encode()


def api_request(what: str, how: Mapping[str, Any], inbox: str) -> bytes:
    """`what` is such as `STREAM.CREATE.events`."""
    return publish(f"$JS.API.{what}", json.dumps(how).encode() if how else b"", inbox)


def call_api(sock: socket.socket, what: str, how: Mapping[str, Any], inbox: str) -> dict[str, Any]:
    """The socket has no subscriptions.

    Raises `BenchmarkFailed` for an error.
    """
    sock.sendall(subscribe(inbox, 9) + api_request(what, how, inbox))
    answer = json.loads(_receive_body(sock))
    sock.sendall(b"UNSUB 9\r\n")
    return check_answer(answer)


def check_answer(answer: dict[str, Any]) -> dict[str, Any]:
    """Raises `BenchmarkFailed` for an error."""
    if "error" in answer:
        raise BenchmarkFailed(f"JetStream refused: {answer['error']}")
    return answer


def consumer_request(stream: str, subject: str, inbox: str) -> tuple[str, dict[str, Any]]:
    """A push consumer of all messages of one subject, without acknowledgements, with flow
    control."""
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


class MessageCounter:
    """Counts one consumer's messages by their endings, in pieces of any size."""

    def __init__(self, ending: bytes) -> None:
        """`ending` ends each body, and occurs nowhere else."""
        self._ending = ending + b"\r\n"
        self._rest = b""
        self.messages = 0
        self.last = 0
        """The server's number of the last message."""

    def feed(self, data: bytes) -> bytes:
        """Return the answers to send. Raises `BenchmarkFailed`."""
        whole = self._rest + data
        self.messages += whole.count(self._ending)
        cut = whole.rfind(self._ending)
        begin = 0 if cut < 0 else cut + len(self._ending)
        answers = b""
        if b"HMSG " in whole or b"-ERR" in whole or b'"error"' in whole:
            if b"\r\n-ERR" in whole or b'"error":' in whole:
                raise BenchmarkFailed(f"the NATS server sent {whole[-300:]!r}")
            asked = _QUESTION.findall(whole)
            answers = b"".join(publish(reply.decode(), b"") for reply in asked)
            if asked:
                # Answered requests must not be found again.
                begin = max(begin, whole.rfind(_FLOW_CONTROL) + len(_FLOW_CONTROL))
        if b"PING\r\n" in data:
            answers += b"PONG\r\n"
        if cut >= 0:
            head = whole.rfind(b"$JS.ACK.", 0, cut)
            found = _ACK.search(whole, whole.rfind(b"MSG ", 0, head), cut)
            self.last = self.last if found is None else int(found[1])
        self._rest = whole[begin:]
        return answers


def _receive_body(sock: socket.socket) -> bytes:
    """Nothing else arrives with the body."""
    output = b""
    while True:
        output += _receive(sock)
        found = re.search(rb"(?:^|\r\n)MSG \S+ \S+ (?:\S+ )?(\d+)\r\n", output)
        if found and len(output) >= found.end() + int(found[1]) + 2:
            return output[found.end() : found.end() + int(found[1])]


def _receive(sock: socket.socket) -> bytes:
    data = sock.recv(_READ)
    if not data:
        raise BenchmarkFailed("the NATS server closed the connection")
    return data
