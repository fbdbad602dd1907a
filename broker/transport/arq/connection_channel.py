"""The socket channel over datagrams, the counterpart of `tcp` (M9)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.logger import Logger
from zope.interface import implementer

from broker.errors import BrokerError, NotConnected
from broker.transport.arq.connection_core import ConnectionCore, Effect, Ended
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.effects import DeliverUp, Failed, SendDown, WritableChanged
from broker.transport.socket.contract import IPartialPacketReceiver, ISocketChannel, ISocketReceiver
from broker.transport.socket.loopback import is_loopback_address


@implementer(ISocketChannel)
class ConnectionChannel:
    """The socket channel over datagrams (M9). Packets sent in one turn of the reactor leave
    together.

    `on_over` is called once, at the end of the connection.
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
        on_over: Callable[[ConnectionChannel], None],
    ) -> None:
        self.peer_description = peer_description
        self.confidential = is_loopback_address(peer_description)
        self.core = core
        self._clock = clock
        self._transmit = transmit
        self._on_end = on_over
        self._receiver: ISocketReceiver | None = None
        self._is_reading = True
        self._is_open = True
        self._is_lost = False
        self._is_reported = False
        self._error: BrokerError | None = None
        self._is_flush_due = False
        self._timer = DeadlineTimer(clock, self._handle_timeout)
        self._timer.arm(core.next_timeout())

    @property
    def receiver(self) -> ISocketReceiver | None:
        return self._receiver

    @receiver.setter
    def receiver(self, receiver: ISocketReceiver | None) -> None:
        self._receiver = receiver
        if self._is_lost:
            self._report_lost()
        else:
            self._apply_reading()

    @property
    def max_frame(self) -> int:
        return self.core.decoder.max_frame

    @max_frame.setter
    def max_frame(self, max_frame: int) -> None:
        self.core.decoder.max_frame = max_frame

    def send(self, packets: Sequence[bytes]) -> None:
        if packets and self._is_open:
            self._apply_effects(self.core.submit(packets))
            self._flush_soon()

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._apply_effects(self.core.close(self._clock.seconds()))

    def abort(self, error: BrokerError) -> None:
        """Close at once; also ends a `close` that is still sending."""
        if not self._is_lost and self._error is None:
            self._is_open = False
            self._error = error
            self._apply_effects(self.core.abort())
            self._end()

    def pause(self) -> None:
        self._is_reading = False
        self._apply_reading()

    def resume(self) -> None:
        self._is_reading = True
        self._apply_reading()

    def datagrams_received(self, datagrams: Sequence[bytes]) -> None:
        self._call_core(self.core.receive, datagrams)

    def prove_key(self) -> None:
        self._call_core(self.core.prove_key)

    def _apply_reading(self) -> None:
        if self._is_open:
            reading = self._is_reading and self._receiver is not None
            self._apply_effects(self.core.set_reading(reading, self._clock.seconds()))

    def _flush_soon(self) -> None:
        if not self._is_flush_due:
            self._is_flush_due = True
            self._clock.callLater(0, self._flush)

    def _flush(self) -> None:
        self._is_flush_due = False
        self._call_core(self.core.flush)

    def _handle_timeout(self) -> None:
        self._call_core(self.core.handle_timeout)

    def _call_core(self, call: Callable[..., Sequence[Effect]], *arguments: object) -> None:
        """An exception ends this connection, not the others on the socket."""
        try:
            self._apply_effects(call(*arguments, self._clock.seconds()))
        except Exception:
            self.log.failure("the connection with {peer} failed", peer=self.peer_description)
            self.abort(NotConnected("connection lost: processing the received datagrams failed"))

    def _apply_effects(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, SendDown):
                self._transmit(effect.packets)
            elif isinstance(effect, DeliverUp):
                if self._is_open and self._receiver is not None:
                    self._deliver(self._receiver, effect.messages)
            elif isinstance(effect, WritableChanged):
                if self._is_open and self._receiver is not None:
                    self._receiver.writable_changed(effect.writable)
            elif isinstance(effect, Failed):
                self._error = self._error or effect.error
                self._end()
            elif isinstance(effect, Ended):
                self._end()
        if not self._is_lost:
            self._timer.arm(self.core.next_timeout())

    def _deliver(self, receiver: ISocketReceiver, packets: Sequence[bytes]) -> None:
        if packets:
            receiver.packets_received(packets)
        elif IPartialPacketReceiver.providedBy(receiver):
            receiver.partial_packet_received()

    def _end(self) -> None:
        if self._is_lost:
            return
        self._is_open = False
        self._is_lost = True
        self._timer.arm(None)
        self._on_end(self)
        # Never inside `close` or `abort`.
        self._clock.callLater(0, self._report_lost)

    def _report_lost(self) -> None:
        if self._receiver is not None and not self._is_reported:
            self._is_reported = True
            self._receiver.channel_lost(self._error)
