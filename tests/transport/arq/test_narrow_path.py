"""A path of 2 MB/s with a queue of 64 kB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.testing.datagram_network import Address, DatagramFaults, DatagramNetwork
from broker.transport.arq import ArqSettings
from tests.transport.arq import datagram_pair
from tests.transport.arq.datagram_pair import Pair, User

CAPACITY = 2e6
QUEUE = 64_000


class Narrow(DatagramNetwork):
    """Each direction between two addresses has a link of `CAPACITY` with a queue."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.free: dict[tuple[Address, Address], float] = {}

    def _send_one(self, datagram: bytes, source: Address, target: Address) -> None:
        now = self._clock.seconds()
        free = max(now, self.free.get((source, target), 0.0))
        if (free - now) * CAPACITY + len(datagram) > QUEUE:
            self.lost += 1
            return
        free = self.free[source, target] = free + len(datagram) / CAPACITY
        delay = free - now + self.faults.delay
        self._clock.callLater(delay, self._arrive, datagram, source, target)


class Endless(User):
    def send_more(self) -> None:
        while self.writable:
            self.channel.send([bytes(4000)] * 20)


class Sink(User):
    got = 0

    def packets_received(self, packets: Sequence[bytes]) -> None:
        self.got += sum(map(len, packets))


def test_most_datagrams_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datagram_pair, "DatagramNetwork", Narrow)
    pair = Pair(1, DatagramFaults(delay=0.025), ArqSettings())
    ends = pair.connected()
    Endless(ends[0])
    sink = Sink(ends[1])
    pair.run(lambda: False, 2.0)  # to find the rate
    sent, got = pair.wires[0].sent_bytes, sink.got
    pair.run(lambda: False, 4.0)
    sent, got = pair.wires[0].sent_bytes - sent, sink.got - got
    # The path was the bottleneck.
    assert pair.network.lost
    assert 0.9 * CAPACITY < got / 4.0 <= CAPACITY
    # 30% loss of any cause is tolerated.
    assert got / sent > 0.65
