"""Socket channel in memory and virtual time, with all behaviour of TCP."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from math import inf

from twisted.internet.interfaces import IDelayedCall
from twisted.internet.task import Clock
from zope.interface import implementer

from broker.errors import BrokerError, FrameTooLarge, NotConnected
from broker.transport.socket.contract import DEFAULT_MAX_FRAME, ISocketChannel, ISocketReceiver

#: Bytes in transit at which the sender becomes unwritable, and writable again.
HIGH_WATER = 64 * 1024
LOW_WATER = 16 * 1024


@implementer(ISocketChannel)
class MemoryChannel:
    """One end of a connection; `make_channel_pair` makes both."""

    secure = False
    confidential = True
    certified_name = ""

    def __init__(
        self,
        clock: Clock,
        draw_delay: Callable[[], float],
        peer_description: str,
        on_lost: Callable[[MemoryChannel], None],
        bytes_per_second: float,
    ) -> None:
        self.peer_description = peer_description
        self.max_frame = DEFAULT_MAX_FRAME
        self._clock = clock
        self._draw_delay = draw_delay
        self._on_lost = on_lost
        self._other: MemoryChannel = self
        self._receiver: ISocketReceiver | None = None
        self._is_reading = True
        self._is_open = True  # not closed or aborted by this end
        self._is_lost = False
        self._is_loss_reported = False
        self._error: BrokerError | None = None
        # Packets in transit to this end, with arrival times; None ends the stream.
        self._inbox: deque[tuple[float, bytes | None]] = deque()
        self._last_due = 0.0
        self._bytes_per_second = bytes_per_second
        # Time at which the last byte for this end has left the other one.
        self._free_at = 0.0
        self._delivery: IDelayedCall | None = None
        self._is_blocked = False  # this end must not write
        self._is_held = False
        self._held_reset: BrokerError | None = None
        #: In transit to this end, or waiting for it to read.
        self.pending_bytes = 0

    # ----------------------------------------------------------------- ISocketChannel

    @property
    def other(self) -> MemoryChannel:
        return self._other

    @property
    def receiver(self) -> ISocketReceiver | None:
        """Receiver of packets; without one nothing is read."""
        return self._receiver

    @receiver.setter
    def receiver(self, receiver: ISocketReceiver | None) -> None:
        self._receiver = receiver
        if self._is_lost:
            self._report_loss()
        else:
            self._schedule()

    def send(self, packets: Sequence[bytes]) -> None:
        """All packets arrive at one time."""
        if not all(packets):
            raise ValueError("an empty packet can not be sent")
        if not self._is_open or not packets:
            return
        other = self._other
        other._arrive(packets)
        if other.pending_bytes > HIGH_WATER and not self._is_blocked:
            self._is_blocked = True
            if self._receiver is not None:
                self._receiver.writable_changed(False)

    def close(self) -> None:
        """Deliver all packets, then end the stream."""
        if self._is_open:
            self._is_open = False
            if any(packet is None for _, packet in self._inbox):
                # This end will not read the other's end of stream.
                self._clock.callLater(0, self._other._finish, None)
            self._discard_inbox()
            self._other._arrive([None])

    def abort(self, error: BrokerError) -> None:
        """Drop packets in transit; the other end gets the loss after the usual delay."""
        if self._is_lost or self._error is not None:
            return
        self._is_open = False
        self._error = error
        self._discard_inbox()
        self._other._discard_inbox()
        self._clock.callLater(0, self._finish, error)
        reset = NotConnected("connection lost: it was reset by the other end")
        if self._other._is_held:
            self._other._held_reset = reset
        else:
            self._clock.callLater(self._draw_delay(), self._other._finish, reset)

    def pause(self) -> None:
        self._is_reading = False
        self._cancel_delivery()

    def resume(self) -> None:
        self._is_reading = True
        self._schedule()

    # ----------------------------------------------------------------- for the network

    def break_connection(self) -> None:
        """Packets in transit are lost; both ends get the loss."""
        for end in (self, self._other):
            end._is_open = False
            end._discard_inbox()
            self._clock.callLater(
                0, end._finish, NotConnected("connection lost: the network broke")
            )

    def hold(self) -> None:
        """Let nothing arrive at this end until `release`. The bytes wait, as with TCP."""
        self._is_held = True
        self._cancel_delivery()

    def release(self) -> None:
        self._is_held = False
        if self._held_reset is not None:
            self._clock.callLater(self._draw_delay(), self._finish, self._held_reset)
        delay, held = self._draw_delay(), self._inbox
        self._free_at = self._clock.seconds()
        self._inbox = deque()
        for due, packet in held:
            self._last_due = max(due, self._transmit(len(packet or b"")) + delay)
            self._inbox.append((self._last_due, packet))
        self._last_due = max(self._last_due, self._free_at + delay)
        self._schedule()

    # ----------------------------------------------------------------- inside

    def _arrive(self, packets: Sequence[bytes | None]) -> None:
        if not self._is_open:
            # This end reads no more, but the sender's flush is complete.
            if None in packets:
                self._clock.callLater(0, self._other._finish, None)
            return
        sent_at = self._transmit(sum(len(packet or b"") for packet in packets))
        due = self._last_due = max(self._last_due, sent_at + self._draw_delay())
        for packet in packets:
            self._inbox.append((due, packet))
            self.pending_bytes += len(packet or b"")
        self._schedule()

    def _transmit(self, size: int) -> float:
        """Return the time at which so many further bytes for this end have been sent."""
        begin = max(self._clock.seconds(), self._free_at)
        self._free_at = begin + size / self._bytes_per_second
        return self._free_at

    def _schedule(self) -> None:
        is_reading = self._is_reading and not self._is_held
        waiting = self._inbox and is_reading and self._receiver is not None
        if waiting and self._is_open and self._delivery is None:
            delay = max(0.0, self._inbox[0][0] - self._clock.seconds())
            self._delivery = self._clock.callLater(delay, self._deliver)

    def _deliver(self) -> None:
        self._delivery = None
        now = self._clock.seconds()
        batch: list[bytes] = []
        ended = False
        while self._inbox and self._inbox[0][0] <= now and not ended:
            _, packet = self._inbox.popleft()
            if packet is None:
                ended = True
            elif len(packet) > self.max_frame:
                self.abort(
                    FrameTooLarge(
                        f"a frame has {len(packet)} bytes; at most {self.max_frame} are accepted"
                    )
                )
                return
            else:
                batch.append(packet)
        self.pending_bytes -= sum(map(len, batch))
        if self.pending_bytes <= LOW_WATER:
            self._other._unblock()
        if batch and self._receiver is not None:
            self._receiver.packets_received(batch)
        if ended:
            self._clock.callLater(0, self._other._finish, None)
            self._clock.callLater(0, self._finish, None)
        else:
            self._schedule()

    def _unblock(self) -> None:
        if self._is_blocked and self._is_open:
            self._is_blocked = False
            if self._receiver is not None:
                self._receiver.writable_changed(True)

    def _cancel_delivery(self) -> None:
        if self._delivery is not None:
            self._delivery.cancel()
            self._delivery = None

    def _discard_inbox(self) -> None:
        self._cancel_delivery()
        self._inbox.clear()
        self.pending_bytes = 0

    def _finish(self, error: BrokerError | None) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        self._is_open = False
        self._discard_inbox()
        self._error = self._error or error
        self._on_lost(self)
        self._report_loss()

    def _report_loss(self) -> None:
        if self._receiver is not None and not self._is_loss_reported:
            self._is_loss_reported = True
            self._receiver.channel_lost(self._error)


def make_channel_pair(
    clock: Clock,
    draw_delay: Callable[[], float],
    names: tuple[str, str],
    on_lost: Callable[[MemoryChannel], None],
    bytes_per_second: float = inf,
) -> tuple[MemoryChannel, MemoryChannel]:
    """Each name describes one end to the other. Each direction has its own bandwidth."""
    first = MemoryChannel(clock, draw_delay, names[1], on_lost, bytes_per_second)
    second = MemoryChannel(clock, draw_delay, names[0], on_lost, bytes_per_second)
    first._other, second._other = second, first
    return first, second
