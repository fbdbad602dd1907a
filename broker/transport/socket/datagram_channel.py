"""The raw datagram channel: packets to one address, without any repair (M8, M10)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from twisted.logger import Logger
from zope.interface import implementer

from broker.errors import BrokerError, Closed
from broker.transport.clock import IClock
from broker.transport.socket.contract import IDatagramChannel, ISocketReceiver
from broker.transport.socket.datagram_transport import Address
from broker.transport.socket.loopback import is_loopback_address

#: Packets held back while a channel has no receiver, or is paused. More are dropped.
MAX_HELD: Final = 256


@implementer(IDatagramChannel)
class DatagramChannel:
    """The raw datagram channel: packets to one address, without any repair (M8, M10).

    `DatagramPort` creates it. `on_end` is called once.
    """

    log = Logger()
    secure = False
    certified_name = ""

    def __init__(
        self,
        clock: IClock,
        address: Address,
        peer_description: str,
        max_packet: int,
        transmit: Callable[[Sequence[bytes], Address], None],
        on_end: Callable[[DatagramChannel], None],
    ) -> None:
        self.address = address
        self.confidential = is_loopback_address(peer_description)
        self.peer_description = peer_description
        self.max_packet = self.max_frame = max_packet
        self.received_at = clock.seconds()
        #: Packets larger than `max_frame`, or beyond `MAX_HELD`.
        self.dropped = 0
        self._clock = clock
        self._transmit = transmit
        self._on_end = on_end
        self._receiver: ISocketReceiver | None = None
        self._is_reading = True
        self._is_open = True
        self._is_reported = False
        self._error: BrokerError | None = None
        self._held: list[bytes] = []

    @property
    def receiver(self) -> ISocketReceiver | None:
        return self._receiver

    @receiver.setter
    def receiver(self, receiver: ISocketReceiver | None) -> None:
        self._receiver = receiver
        if self._is_open:
            self._deliver_held()
        else:
            self._report_lost()

    def send(self, packets: Sequence[bytes]) -> None:
        check_sizes(packets, self.max_packet)
        if packets and self._is_open:
            self._transmit(packets, self.address)

    def close(self) -> None:
        self._end(None)

    def abort(self, error: BrokerError) -> None:
        self._end(error)

    def pause(self) -> None:
        self._is_reading = False

    def resume(self) -> None:
        self._is_reading = True
        self._deliver_held()

    def receive_packets(self, packets: Sequence[bytes], now: float) -> None:
        if not self._is_open:
            return
        self.received_at = now
        largest = self.max_frame
        if any(len(each) > largest for each in packets):
            accepted = [each for each in packets if len(each) <= largest]
            self.dropped += len(packets) - len(accepted)
            packets = accepted
        if not self._is_reading or self._receiver is None:
            room = MAX_HELD - len(self._held)
            self._held += packets[:room]
            self.dropped += max(0, len(packets) - room)
        elif packets:
            self._deliver(self._receiver, packets)

    def _deliver_held(self) -> None:
        if self._held and self._is_reading and self._receiver is not None:
            held, self._held = self._held, []
            self._deliver(self._receiver, held)

    def _deliver(self, receiver: ISocketReceiver, packets: Sequence[bytes]) -> None:
        """An exception ends this channel, not the others on the socket."""
        try:
            receiver.packets_received(packets)
        except Exception:
            self.log.failure("the channel to {peer} failed", peer=self.peer_description)
            self.abort(Closed("processing the received datagrams failed"))

    def _end(self, error: BrokerError | None) -> None:
        if self._is_open:
            self._is_open = False
            self._error = error
            self._held.clear()
            self._on_end(self)
            # Never inside `close` or `abort`.
            self._clock.callLater(0, self._report_lost)

    def _report_lost(self) -> None:
        if self._receiver is not None and not self._is_reported:
            self._is_reported = True
            self._receiver.channel_lost(self._error)


def check_sizes(packets: Sequence[bytes], largest: int) -> None:
    """Raises ValueError for an empty or too large packet."""
    if not all(packets):
        raise ValueError("an empty packet can not be sent: give at least one byte")
    if packets and len(max(packets, key=len)) > largest:
        raise ValueError(f"a packet of {len(max(packets, key=len))} bytes; at most {largest}")
