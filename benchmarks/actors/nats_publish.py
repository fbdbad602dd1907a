"""Publishes flight events into a JetStream stream, which acknowledges each batch."""

from __future__ import annotations

import itertools
import socket
import time
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.harness import nats
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed
from benchmarks.harness.flights import flight_documents, flight_payload
from broker.event.event_id import EventIdGenerator

#: In one write; the server acknowledges the last message.
BATCH: Final = 500
_INBOX: Final = "stored"


async def play(control: ActorControl, task: Any) -> None:
    """`task`: port, stream, events, subjects (used in turn), bare (payloads alone)."""
    sock = nats.connect(task["port"])
    stream, subjects = task["stream"], task["subjects"]
    config = {"name": stream, "subjects": subjects, "storage": "file", "retention": "limits"}
    nats.call_api(sock, f"STREAM.CREATE.{stream}", config, "made")
    control.report("ready")
    await control.wait_for_start()
    began = time.monotonic()
    sock.sendall(nats.subscribe(_INBOX))
    bodies = _make_bodies(task["events"], bare=task["bare"])
    turns = itertools.cycle(subjects)
    while batch := list(itertools.islice(bodies, BATCH)):
        *others, (body, subject) = zip(batch, turns, strict=False)
        sent = b"".join(nats.publish(turn, each) for each, turn in others)
        sock.sendall(sent + nats.publish(subject, body, _INBOX))
        _wait_until_stored(sock)
    sock.sendall(b"UNSUB 1\r\n")
    state = nats.call_api(sock, f"STREAM.INFO.{stream}", {}, "looked")["state"]
    if state["messages"] != task["events"]:
        raise BenchmarkFailed(f"JetStream has {state['messages']} of {task['events']} messages")
    control.report("done", began=began, ended=time.monotonic(), bytes=state["bytes"])
    sock.close()


def _make_bodies(count: int, *, bare: bool) -> Iterator[bytes]:
    if bare:
        return (flight_payload(number) for number in range(count))
    return flight_documents(EventIdGenerator("feed", 1), count)


def _wait_until_stored(sock: socket.socket) -> None:
    output = b""
    while not output.endswith(b"}\r\n"):
        data = sock.recv(1 << 16)
        if not data:
            raise BenchmarkFailed("the NATS server closed the connection")
        output += data
        if b'"error"' in output or b"-ERR" in output:
            raise BenchmarkFailed(f"JetStream refused a message: {output!r}")
        if b"PING\r\n" in data:
            sock.sendall(b"PONG\r\n")
            output = output.replace(b"PING\r\n", b"")


if __name__ == "__main__":
    run_actor(play)
