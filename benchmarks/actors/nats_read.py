"""Readers of a JetStream stream: one connection and consumer each.

They count messages by their endings, and check this against the server's number of the last
message.
"""

from __future__ import annotations

import selectors
import time
from typing import Any, Final

from benchmarks.harness import nats
from benchmarks.harness.actor_control import ActorControl, run_actor
from benchmarks.harness.failure import BenchmarkFailed

_READ: Final = 1 << 20
#: Seconds between reads, which favours the server.
_EVERY: Final = 0.0005
_SILENCE: Final = 60.0


class Reader:
    def __init__(self, port: int, subject: str, expected: int, ending: bytes) -> None:
        self.sock = nats.connect(port)
        self.expected = expected
        self.reading = nats.MessageCounter(ending)
        self._subject = subject

    def create_consumer(self, stream: str) -> None:
        inbox = f"deliver.{self._subject}"
        answer = f"answer.{self._subject}"
        subscriptions = nats.subscribe(inbox, 1) + nats.subscribe(answer, 2)
        self.sock.sendall(
            subscriptions
            + nats.api_request(*nats.consumer_request(stream, self._subject, inbox), answer)
        )
        self.sock.setblocking(False)

    def read_available(self) -> bool:
        data = self.sock.recv(_READ)
        if not data:
            raise BenchmarkFailed("the NATS server closed a reader's connection")
        answers = self.reading.feed(data)
        if answers:
            # The socket has room for a few bytes.
            self.sock.sendall(answers)
        if self.reading.messages > self.expected:
            raise BenchmarkFailed(f"more than {self.expected} messages came for {self._subject}")
        return self.reading.messages == self.expected

    def check_count(self) -> None:
        """Raise if the server's count differs."""
        if self.reading.last != self.expected:
            counted, server_count = self.reading.messages, self.reading.last
            raise BenchmarkFailed(
                f"{counted} messages were counted, the server says {server_count}"
            )


def read_all(readers: list[Reader]) -> tuple[float, float]:
    """Return the monotonic times of the first and last bytes."""
    first = 0.0
    last_received = time.monotonic()
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader.sock, selectors.EVENT_READ, reader)
        while selector.get_map():
            time.sleep(_EVERY)
            for key, _ in selector.select(0):
                complete = key.data.read_available()
                last_received = time.monotonic()
                first = first or (last_received if key.data.reading.messages else 0.0)
                if complete:
                    selector.unregister(key.fileobj)
            if time.monotonic() > last_received + _SILENCE:
                missing = sum(each.expected - each.reading.messages for each in readers)
                raise BenchmarkFailed(f"{missing} messages never came")
    return first, last_received


async def play(control: ActorControl, task: Any) -> None:
    """`task`: port, stream, subjects (number of messages by name), ending (of each body)."""
    ending = task["ending"].encode()
    readers = [
        Reader(task["port"], subject, expected, ending)
        for subject, expected in task["subjects"].items()
    ]
    control.report("ready")
    await control.wait_for_start()
    cpu, began = time.process_time(), time.monotonic()
    for reader in readers:
        reader.create_consumer(task["stream"])
    first, ended = read_all(readers)
    for reader in readers:
        reader.check_count()
        reader.sock.close()
    events = sum(reader.reading.messages for reader in readers)
    cpu = time.process_time() - cpu
    control.report("done", asked=began, first=first, ended=ended, events=events, cpu=cpu)


if __name__ == "__main__":
    run_actor(play)
