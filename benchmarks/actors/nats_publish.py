"""Publishes flight events into a JetStream stream, which tells of each batch that it has it."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.harness import nats
from benchmarks.harness.cue import Cue, act
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_documents, flight_payload
from broker.event.event_id import EventIdGenerator

#: Messages in one write; of the last one the server tells that the stream has it.
BATCH: Final = 500
_INBOX: Final = "stored"


async def play(cue: Cue, task: Any) -> None:
    """`task`: port, stream, events, subjects (they take turns), bare (payloads alone)."""
    sock = nats.connected(task["port"])
    stream, subjects = task["stream"], task["subjects"]
    config = {"name": stream, "subjects": subjects, "storage": "file", "retention": "limits"}
    nats.ask(sock, f"STREAM.CREATE.{stream}", config, "made")
    cue.say("ready")
    await cue.go()
    began = time.monotonic()
    sock.sendall(nats.subscribe(_INBOX))
    bodies = _bodies(task["events"], bare=task["bare"])
    turns = itertools.cycle(subjects)
    while batch := list(itertools.islice(bodies, BATCH)):
        *others, (body, subject) = zip(batch, turns, strict=False)
        sent = b"".join(nats.publish(turn, each) for each, turn in others)
        sock.sendall(sent + nats.publish(subject, body, _INBOX))
        _stored(sock)
    sock.sendall(b"UNSUB 1\r\n")
    state = nats.ask(sock, f"STREAM.INFO.{stream}", {}, "looked")["state"]
    if state["messages"] != task["events"]:
        raise BenchmarkFailed(f"JetStream has {state['messages']} of {task['events']} messages")
    cue.say("done", began=began, ended=time.monotonic(), bytes=state["bytes"])
    sock.close()


def _bodies(count: int, *, bare: bool) -> Iterator[bytes]:
    if bare:
        return (flight_payload(number) for number in range(count))
    return flight_documents(EventIdGenerator("feed", 1), count)


def _stored(sock: socket.socket) -> None:
    said = b""
    while not said.endswith(b"}\r\n"):
        data = sock.recv(1 << 16)
        if not data:
            raise BenchmarkFailed("the NATS server closed the connection")
        said += data
        if b'"error"' in said or b"-ERR" in said:
            raise BenchmarkFailed(f"JetStream refused a message: {said!r}")
        if b"PING\r\n" in data:
            sock.sendall(b"PONG\r\n")
            said = said.replace(b"PING\r\n", b"")


if __name__ == "__main__":
    act(play)
