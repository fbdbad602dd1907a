"""The base of faults that hold packets for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from broker.transport.effects import DeliverUp, Effect, Peer, SendDown, ViewChanged
from broker.transport.faults.direction import Direction
from broker.transport.layer import PassThrough
from broker.transport.view import LinkState, View


class DelayLine:
    """Packets in one direction, in the order of their times of departure."""

    def __init__(self) -> None:
        self.packets: deque[tuple[float, bytes, Peer | None]] = deque()

    def take_due(self, now: float) -> list[tuple[bytes, Peer | None]]:
        gone = []
        while self.packets and self.packets[0][0] <= now:
            _, packet, peer = self.packets.popleft()
            gone.append((packet, peer))
        return gone


class HoldingCore(PassThrough):
    """A core with a delay line each way. Held packets are lost when the connection ends."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._down = DelayLine()
        self._up = DelayLine()

    def hold_packet(self, line: DelayLine, packet: bytes, peer: Peer | None, now: float) -> None:
        raise NotImplementedError

    def submit(self, messages: Sequence[bytes], now: float) -> list[Effect]:
        if Direction.DOWN not in self._direction:
            return [SendDown(messages)]
        for message in messages:
            self.hold_packet(self._down, message, None, now)
        return self.handle_timeout(now)

    def receive(self, packets: Sequence[bytes], peer: Peer | None, now: float) -> list[Effect]:
        if Direction.UP not in self._direction:
            return [DeliverUp(packets, peer)]
        for packet in packets:
            self.hold_packet(self._up, packet, peer, now)
        return self.handle_timeout(now)

    def view_changed(self, view: View, now: float) -> list[Effect]:
        if view.state is not LinkState.SUSPECTED:
            self.clear()
        return [ViewChanged(view)]

    def clear(self) -> None:
        self._down.packets.clear()
        self._up.packets.clear()

    def handle_timeout(self, now: float) -> list[Effect]:
        effects: list[Effect] = []
        down = [packet for packet, _ in self._down.take_due(now)]
        if down:
            effects.append(SendDown(down))
        effects.extend(
            DeliverUp(packets, peer) for peer, packets in _group_by_peer(self._up.take_due(now))
        )
        return effects

    def next_timeout(self) -> float | None:
        heads = [line.packets[0][0] for line in (self._down, self._up) if line.packets]
        return min(heads, default=None)


def _group_by_peer(
    packets: Iterable[tuple[bytes, Peer | None]],
) -> list[tuple[Peer | None, list[bytes]]]:
    runs: list[tuple[Peer | None, list[bytes]]] = []
    for packet, peer in packets:
        if runs and runs[-1][0] == peer:
            runs[-1][1].append(packet)
        else:
            runs.append((peer, [packet]))
    return runs
