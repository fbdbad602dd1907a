"""Messages of any size over packets of bounded size, which may be lost or overtaken."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import ClassVar

import attrs
from zope.interface import implementer

from broker.errors import ConfigurationError
from broker.transport.arq.fragmentation import Fragmenter, Reassembler
from broker.transport.arq.receive_window import ReceiveWindow
from broker.transport.arq.settings import MAX_WINDOW, MIN_DATAGRAM
from broker.transport.arq.wire import NO_START, Data
from broker.transport.effects import Consumed, DeliverUp, Effect, SendDown
from broker.transport.layer import ILinkLayer, LinkPassThrough, Property
from broker.transport.socket.contract import DEFAULT_MAX_FRAME

#: Incarnation, number, and the start and packet of DATA.
_HEAD = Struct(">QQHI")
_PACKET_MODULUS = 2**32


@implementer(ILinkLayer)
@attrs.frozen(kw_only=True)
class FragmentationLayer:
    """Messages of any size over packets of bounded size, which may be lost or overtaken.

    Messages arrive in order and once. A message with a lost fragment is dropped and counted. Later
    messages wait for a late fragment for `patience` seconds. Each end stores at most `window`
    fragments and one message of `max_message` bytes. Small messages of a batch share a packet; an
    empty one raises ValueError.

    `incarnation` (u64) rises with each start of an end; packets of an earlier one are ignored.
    Raises `ConfigurationError` for a value out of range.
    """

    incarnation: int
    #: Largest packet for the layer below, in bytes.
    packet_bytes: int = 1300
    max_message: int = DEFAULT_MAX_FRAME
    window: int = 1024
    patience: float = 0.05

    name: ClassVar[str] = "fragmentation"
    version: ClassVar[int] = 1
    requires: ClassVar[frozenset[Property]] = frozenset({Property.FRAMED})
    provides: ClassVar[frozenset[Property]] = frozenset({Property.ANY_SIZE, Property.FIFO})
    #: A packet is consumed when it is reassembled.
    breaks: ClassVar[frozenset[Property]] = frozenset({Property.BACKPRESSURE})

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.incarnation < 2**64:
            raise ConfigurationError("fragmentation incarnation: is not in 0 to 2**64-1")
        if not MIN_DATAGRAM // 2 <= self.packet_bytes < NO_START:
            raise ConfigurationError(
                f"fragmentation packet_bytes: not in {MIN_DATAGRAM // 2} to {NO_START - 1}"
            )
        if not 4 <= self.window <= MAX_WINDOW:
            raise ConfigurationError(f"fragmentation window: not in 4 to {MAX_WINDOW}")
        for name in ("max_message", "patience"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"fragmentation {name}: must be more than 0")

    def create_core(self) -> FragmentationCore:
        return FragmentationCore(self)


class FragmentationCore(LinkPassThrough):
    def __init__(self, layer: FragmentationLayer) -> None:
        #: Messages known to be lost.
        self.lost = 0
        #: Packets without a fragment, and of earlier incarnations.
        self.malformed = 0
        self.stale = 0
        self._layer = layer
        self._fragmenter = Fragmenter(layer.packet_bytes - _HEAD.size)
        self._number = 0
        self._start_stream(0)

    def _start_stream(self, incarnation: int) -> None:
        layer = self._layer
        self._incarnation = incarnation
        self._window: ReceiveWindow[Data] = ReceiveWindow(
            layer.window, layer.patience, credit=False
        )
        self._reassembler = Reassembler(layer.max_message)

    def submit(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        fragmenter, fragments = self._fragmenter, []
        fragmenter.add_packets(packets)
        while fragmenter:
            start, first, parts = fragmenter.next_fragment()
            self._number += 1
            head = (self._layer.incarnation, self._number, start, first % _PACKET_MODULUS)
            fragments.append(_HEAD.pack(*head) + b"".join(parts))
        return [SendDown(fragments)]

    def receive(self, packets: Sequence[bytes], now: float) -> list[Effect]:
        effects: list[Effect] = [Consumed(len(packets))]
        for packet in packets:
            effects += self._receive_fragment(packet, now)
        self._window.give_up_late(now, self._layer.patience)
        return effects + self._deliver()

    def handle_timeout(self, now: float) -> list[Effect]:
        self._window.give_up_late(now, self._layer.patience)
        return self._deliver()

    def next_timeout(self) -> float | None:
        for since in self._window.missing.values():
            return since + self._layer.patience
        return None

    def consumed(self, count: int, now: float) -> list[Effect]:
        return []

    def _receive_fragment(self, packet: bytes, now: float) -> list[Effect]:
        piece = packet[_HEAD.size :]
        if not piece:
            self.malformed += 1
            return []
        incarnation, number, start, first = _HEAD.unpack_from(packet)
        if not number or (start != NO_START and start >= len(piece)):
            self.malformed += 1
            return []
        if incarnation < self._incarnation:
            self.stale += 1
            return []
        effects: list[Effect] = []
        if incarnation > self._incarnation:
            effects = self._deliver()
            self._start_stream(incarnation)
        self._window.make_room(number)
        self._window.insert(number, Data(number, start, first, piece), now)
        return effects

    def _deliver(self) -> list[Effect]:
        fragments = self._window.take_ready()
        if not fragments:
            return []
        messages: list[bytes] = []
        for lost, run in self._reassembler.add_fragments(fragments):
            self.lost += lost
            messages += run
        # Without messages this reports a part of one.
        return [DeliverUp(messages)]
