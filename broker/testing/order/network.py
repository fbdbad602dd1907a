"""Network of sites in virtual time: each direction of a pair is silenced alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from random import Random
from typing import Protocol

from broker.testing.order.loop import Loop

#: The first packet of the end that was dialled, and the last one of each end.
_ACCEPTED = object()
_END = object()


class IEnd(Protocol):
    """An end of connections between two sites."""

    def connection_made(self, connection: Connection) -> None:
        """Handle a new connection."""

    def packets_received(self, connection: Connection, packets: list[object]) -> None:
        """Handle the packets of one read."""

    def connection_lost(self, connection: Connection) -> None:
        """Handle that the other end or the network has ended a connection."""


class Path:
    """One direction between two sites. A silent path holds packets, as TCP does."""

    def __init__(self, latency: float, jitter: float, seed: float) -> None:
        self.is_up = True
        self.extra = 0.0
        self._latency = latency
        self._jitter = jitter
        self._random = Random(seed)

    def draw_delay(self) -> float:
        return self._latency + self.extra + self._random.random() * self._jitter


class Flow:
    """Packets of a connection in one direction."""

    def __init__(self) -> None:
        self.packets: deque[object] = deque()
        self.last_arrival = 0.0
        self.stalled = 0


class Connection:
    """A connection between two sites, in the order of TCP. Each end is open by itself."""

    def __init__(self, network: Network, one: str, other: str) -> None:
        self.ends = {one: network.ends[one, other], other: network.ends[other, one]}
        self._peers = {one: other, other: one}
        self._flows = {one: Flow(), other: Flow()}
        self._network = network
        self._open = {one, other}

    def send(self, sender: str, packet: object) -> None:
        if sender not in self._open:
            return
        flow = self._flows[sender]
        flow.packets.append(packet)
        delay = self._network.draw_delay(sender, self._peers[sender])
        flow.last_arrival = max(flow.last_arrival, self._network.loop.now + delay)
        self._network.loop.call_at(flow.last_arrival, self._arrive, sender)

    def close(self, end: str, *, silently: bool = False) -> None:
        """Close one end. The other one learns it when the stream ends, or by a reset."""
        if not silently:
            self.send(end, _END)
        self._open.discard(end)

    def break_connection(self) -> None:
        """End both ends at once, and lose the packets between them."""
        for end in sorted(self._open):
            self._lose(end)

    def path_repaired(self, sender: str) -> None:
        flow = self._flows[sender]
        if flow.stalled:
            delay = self._network.draw_delay(sender, self._peers[sender])
            flow.last_arrival = max(flow.last_arrival, self._network.loop.now + delay)
            self._network.loop.call_at(flow.last_arrival, self._continue, sender)

    def _continue(self, sender: str) -> None:
        flow = self._flows[sender]
        if self._is_up(sender):
            count, flow.stalled = flow.stalled, 0
            self._deliver(sender, count)

    def _arrive(self, sender: str) -> None:
        flow = self._flows[sender]
        if flow.stalled or not self._is_up(sender):
            flow.stalled += 1
        else:
            self._deliver(sender, 1)

    def _is_up(self, sender: str) -> bool:
        return self._network.paths[sender, self._peers[sender]].is_up

    def _deliver(self, sender: str, count: int) -> None:
        flow, receiver = self._flows[sender], self._peers[sender]
        batch: list[object] = []
        for _ in range(count):
            packet = flow.packets.popleft()
            if packet is not _ACCEPTED and packet is not _END:
                batch.append(packet)
                continue
            self._deliver_batch(sender, batch)
            batch = []
            if packet is _END:
                self._lose(receiver)
            elif sender in self._open and receiver in self._open:
                self.ends[receiver].connection_made(self)
        self._deliver_batch(sender, batch)

    def _deliver_batch(self, sender: str, batch: list[object]) -> None:
        receiver = self._peers[sender]
        if not batch:
            return
        if receiver in self._open:
            self.ends[receiver].packets_received(self, batch)
        elif sender in self._open and self._is_up(receiver):
            delay = self._network.draw_delay(receiver, sender)
            self._network.loop.call_later(delay, self._lose, sender)

    def _lose(self, end: str) -> None:
        if end in self._open:
            self._open.discard(end)
            self.ends[end].connection_lost(self)


class Network:
    """Paths between all sites, and their connections."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.paths: dict[tuple[str, str], Path] = {}
        self.ends: dict[tuple[str, str], IEnd] = {}
        self.is_running: Callable[[str], bool] = lambda site: True
        # The last connections of each pair.
        self._connections: dict[Hashable, deque[Connection]] = {}

    def draw_delay(self, sender: str, receiver: str) -> float:
        return self.paths[sender, receiver].draw_delay()

    def dial(self, one: str, other: str) -> None:
        """Make a connection, if all packets for it pass."""
        if self.paths[one, other].is_up:
            self.loop.call_later(self.draw_delay(one, other), self._dialled, one, other)

    def set_path(self, sender: str, receiver: str, is_up: bool) -> None:
        self.paths[sender, receiver].is_up = is_up
        if is_up:
            for connection in tuple(self._of_pair(sender, receiver)):
                connection.path_repaired(sender)

    def cut(self, one: str, other: str) -> None:
        """Break the connections of a pair, with an error at both ends."""
        for connection in tuple(self._of_pair(one, other)):
            connection.break_connection()

    def _of_pair(self, one: str, other: str) -> deque[Connection]:
        return self._connections.setdefault(frozenset((one, other)), deque(maxlen=4))

    def _dialled(self, one: str, other: str) -> None:
        if self.paths[one, other].is_up and self.is_running(other):
            connection = Connection(self, one, other)
            self._of_pair(one, other).append(connection)
            connection.send(other, _ACCEPTED)
            self.ends[other, one].connection_made(connection)
