"""Readers of a JetStream stream: a connection and a consumer each, all in one selector.

They count messages by how documents end, and check at the end that the server's own number of the
last one is the same.
"""

from __future__ import annotations

import selectors
import time
from typing import Any, Final

from benchmarks.harness import nats
from benchmarks.harness.cue import Cue, act
from benchmarks.harness.failure import BenchmarkFailed

_READ: Final = 1 << 20
#: They look so often (seconds) and not as soon as there is something: kinder to the server.
_EVERY: Final = 0.0005
_SILENCE: Final = 60.0


class Reader:
    """One consumer."""

    def __init__(self, port: int, subject: str, wanted: int, ending: bytes) -> None:
        self.sock = nats.connected(port)
        self.wanted = wanted
        self.reading = nats.Reading(ending)
        self._subject = subject

    def ask(self, stream: str) -> None:
        """Have a consumer made, which begins to push at once."""
        inbox = f"deliver.{self._subject}"
        answer = f"answer.{self._subject}"
        told = nats.subscribe(inbox, 1) + nats.subscribe(answer, 2)
        self.sock.sendall(told + nats.asking(*nats.consumer(stream, self._subject, inbox), answer))
        self.sock.setblocking(False)

    def take(self) -> bool:
        """Read what there is; whether that was all that is wanted."""
        data = self.sock.recv(_READ)
        if not data:
            raise BenchmarkFailed("the NATS server closed a reader's connection")
        answers = self.reading.feed(data)
        if answers:
            # A few bytes, for which there is room in the socket.
            self.sock.sendall(answers)
        if self.reading.messages > self.wanted:
            raise BenchmarkFailed(f"more than {self.wanted} messages came for {self._subject}")
        return self.reading.messages == self.wanted

    def check(self) -> None:
        """Raise if the server has counted otherwise."""
        if self.reading.last != self.wanted:
            counted, said = self.reading.messages, self.reading.last
            raise BenchmarkFailed(f"{counted} messages were counted, the server says {said}")


def read(readers: list[Reader]) -> tuple[float, float]:
    """Until all have all; when (monotonic seconds) the first bytes and the last ones had come."""
    first = 0.0
    heard = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader.sock, selectors.EVENT_READ, reader)
        while selector.get_map():
            time.sleep(_EVERY)
            for key, _ in selector.select(0):
                complete = key.data.take()
                heard = time.monotonic()
                first = first or (heard if key.data.reading.messages else 0.0)
                if complete:
                    selector.unregister(key.fileobj)
            if time.monotonic() > heard + _SILENCE:
                missing = sum(each.wanted - each.reading.messages for each in readers)
                raise BenchmarkFailed(f"{missing} messages never came")
    return first, heard


async def play(cue: Cue, task: Any) -> None:
    """`task`: port, stream, subjects (by name, how many messages each has), ending (of a body)."""
    ending = task["ending"].encode()
    readers = [
        Reader(task["port"], subject, wanted, ending)
        for subject, wanted in task["subjects"].items()
    ]
    cue.say("ready")
    await cue.go()
    cpu, began = time.process_time(), time.monotonic()
    for reader in readers:
        reader.ask(task["stream"])
    first, ended = read(readers)
    for reader in readers:
        reader.check()
        reader.sock.close()
    events = sum(reader.reading.messages for reader in readers)
    cpu = time.process_time() - cpu
    cue.say("done", asked=began, first=first, ended=ended, events=events, cpu=cpu)


if __name__ == "__main__":
    act(play)
