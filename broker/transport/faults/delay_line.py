"""The base of faults that hold packets for a while."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from broker.transport.effects import DeliverUp, Effect, SendDown, ViewChanged
from broker.transport.faults.direction import Direction
from broker.transport.layer import LinkPassThrough
from broker.transport.view import LinkState, View


class DelayLine:
    """Packets in one direction, in the order of their times of departure."""

    def __init__(self) -> None:
        self.packets: deque[tuple[float, bytes]] = deque()

    def take_due(self, now: float) -> list[bytes]:
        gone = []
        while self.packets and self.packets[0][0] <= now:
            gone.append(self.packets.popleft()[1])
        return gone


class HoldingCore(LinkPassThrough):
    """A core with a delay line each way. Held packets are lost when the connection ends."""

    def __init__(self, direction: Direction) -> None:
        self._direction = direction
        self._down = DelayLine()
        self._up = DelayLine()

    def hold_packet(self, line: DelayLine, packet: bytes, now: float) -> None:
        raise NotImplementedError

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        if Direction.DOWN not in self._direction:
            return [SendDown(packets)]
        for packet in packets:
            self.hold_packet(self._down, packet, now)
        return self.handle_timeout(now)

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        if Direction.UP not in self._direction:
            return [DeliverUp(packets)]
        for packet in packets:
            self.hold_packet(self._up, packet, now)
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
        down, up = self._down.take_due(now), self._up.take_due(now)
        if down:
            effects.append(SendDown(down))
        if up:
            effects.append(DeliverUp(up))
        return effects

    def next_timeout(self) -> float | None:
        heads = [line.packets[0][0] for line in (self._down, self._up) if line.packets]
        return min(heads, default=None)
