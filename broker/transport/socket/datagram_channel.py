"""The socket channel over datagrams: what tcp.py is over streams (M9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.logger import Logger
from zope.interface import implementer

from broker.errors import BrokerError, NotConnected
from broker.transport.deadline_timer import Alarm
from broker.transport.clock import IClock
from broker.transport.arq.connection_core import ConnectionCore, Effect, Ended
from broker.transport.effects import DeliverUp, Failed, SendDown, WritableChanged
from broker.transport.socket.contract import IPartReceiver, ISocketChannel, ISocketReceiver


@implementer(ISocketChannel)
class DatagramChannel:
    """One connection. What is sent in one turn of the reactor leaves together.

    `transmit` sends datagrams to the peer; `on_over` is called once, when the connection is over.
    """

    log = Logger()
    secure = False
    certified_name = ""

    def __init__(
        self,
        clock: IClock,
        core: ConnectionCore,
        peer_description: str,
        transmit: Callable[[Sequence[bytes]], None],
        on_over: Callable[[DatagramChannel], None],
    ) -> None:
        self.peer_description = peer_description
        self.core = core
        self._clock = clock
        self._transmit = transmit
        self._on_over = on_over
        self._receiver: ISocketReceiver | None = None
        self._reading = True
        self._open = True  # not closed by us: packets may pass
        self._lost = False
        self._told = False
        self._error: BrokerError | None = None
        self._flushing = False
        self._alarm = Alarm(clock, self._ring)
        self._alarm.set(core.next_timeout())

    # ----------------------------------------------------------------- ISocketChannel

    @property
    def receiver(self) -> ISocketReceiver | None:
        """Who is told what arrives; nothing is read while it is None."""
        return self._receiver

    @receiver.setter
    def receiver(self, receiver: ISocketReceiver | None) -> None:
        self._receiver = receiver
        if self._lost:
            self._tell_lost()
        else:
            self._apply_reading()

    @property
    def max_frame(self) -> int:
        """Greatest packet accepted, in bytes; settable at any time."""
        return self.core.decoder.max_frame

    @max_frame.setter
    def max_frame(self, max_frame: int) -> None:
        self.core.decoder.max_frame = max_frame

    def send(self, packets: Sequence[bytes]) -> None:
        """Take packets; they go at the end of this turn, together with what follows."""
        if packets and self._open:
            self._apply(self.core.submit(packets))
            self._flush_soon()

    def close(self) -> None:
        """Flush, then close."""
        if self._open:
            self._open = False
            self._apply(self.core.close(self._clock.seconds()))

    def abort(self, error: BrokerError) -> None:
        """Close at once; also cuts short a `close` that is still flushing."""
        if not self._lost and self._error is None:
            self._open = False
            self._error = error
            self._apply(self.core.abort())
            self._over()

    def pause(self) -> None:
        """Read no more."""
        self._reading = False
        self._apply_reading()

    def resume(self) -> None:
        """Read again."""
        self._reading = True
        self._apply_reading()

    # ----------------------------------------------------------------- told by the endpoint

    def datagrams_received(self, datagrams: Sequence[bytes]) -> None:
        """What one read brought for this connection."""
        self._guarded(self.core.receive, datagrams)

    def greet(self) -> None:
        """The connection has been accepted: show the other end that we know."""
        self._guarded(self.core.greet)

    # ----------------------------------------------------------------- inside

    def _apply_reading(self) -> None:
        if self._open:
            reading = self._reading and self._receiver is not None
            self._apply(self.core.set_reading(reading, self._clock.seconds()))

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._clock.callLater(0, self._flush)

    def _flush(self) -> None:
        self._flushing = False
        self._guarded(self.core.flush)

    def _ring(self) -> None:
        self._guarded(self.core.handle_timeout)

    def _guarded(self, call: Callable[..., Sequence[Effect]], *arguments: object) -> None:
        """One connection's trouble is not that of the others on the socket."""
        try:
            self._apply(call(*arguments, self._clock.seconds()))
        except Exception:
            self.log.failure("the connection with {peer} failed", peer=self.peer_description)
            self.abort(NotConnected("connection lost: what was received could not be dealt with"))

    def _apply(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendDown):
                self._transmit(effect.packets)
            elif isinstance(effect, DeliverUp):
                if self._open and self._receiver is not None:
                    self._deliver(self._receiver, effect.messages)
            elif isinstance(effect, WritableChanged):
                if self._open and self._receiver is not None:
                    self._receiver.writable_changed(effect.writable)
            elif isinstance(effect, Failed):
                self._error = self._error or effect.error
                self._over()
            elif isinstance(effect, Ended):
                self._over()
        if not self._lost:
            self._alarm.set(self.core.next_timeout())

    def _deliver(self, receiver: ISocketReceiver, packets: Sequence[bytes]) -> None:
        if packets:
            receiver.packets_received(packets)
        elif IPartReceiver.providedBy(receiver):
            receiver.part_received()

    def _over(self) -> None:
        if self._lost:
            return
        self._open = False
        self._lost = True
        self._alarm.set(None)
        self._on_over(self)
        # Never from inside `close` or `abort`.
        self._clock.callLater(0, self._tell_lost)

    def _tell_lost(self) -> None:
        if self._receiver is not None and not self._told:
            self._told = True
            self._receiver.channel_lost(self._error)
