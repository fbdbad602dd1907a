"""The handshake on one connection: a thin adapter around `handshake_core`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from zope.interface import implementer

from broker.cluster import messages
from broker.cluster.connection_error import explain_reason
from broker.cluster.handshake_core import Accepted, Effect, Initiator, Refused, Responder, Send
from broker.errors import BrokerError, ProtocolError
from broker.transport.clock import IClock
from broker.transport.core_runner import CoreRunner
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.socket.closing import ClosingChannels

#: A welcome names the members of a cluster.
MAX_HANDSHAKE = 1 << 20
#: Of an initiator that has not proven anything.
MAX_HELLO = 8 << 10


@implementer(ISocketReceiver)
class Handshake:
    """One connection until its handshake is accepted or refused."""

    def __init__(
        self,
        channel: ISocketChannel,
        core: Initiator | Responder,
        clock: IClock,
        accepted: Callable[[Accepted, ISocketChannel], None],
        refused: Callable[[Refused], None],
        closing: ClosingChannels,
    ) -> None:
        """`accepted` or `refused` is called once. The channel of `accepted` reads nothing until
        it has a receiver and is resumed."""
        self._channel = channel
        self._core = core
        self._clock = clock
        self._accepted = accepted
        self._refused = refused
        self._closing = closing
        self._is_lost = False
        self._runner: CoreRunner[Effect] = CoreRunner(clock, self._apply, core)
        core.certified_name = lambda: channel.certified_name
        channel.max_frame = MAX_HANDSHAKE if isinstance(core, Initiator) else MAX_HELLO

    def start(self) -> None:
        """Send the first message, and receive."""
        self._runner.call(self._core.start)
        self._channel.receiver = self

    def abort(self, error: BrokerError) -> None:
        """Close the connection. The end is not reported."""
        self._runner.stop()
        self._channel.abort(error)

    def packets_received(self, packets: Sequence[bytes]) -> None:
        """Packets behind the end of the handshake are for the stack."""
        for place, packet in enumerate(packets):
            if self._runner.is_stopped:
                self._pass_on(packets[place:])
                return
            try:
                effects = self._core.receive_message(messages.decode(packet), self._clock.seconds())
            except ProtocolError as error:
                effects = self._core.reject_malformed(error)
            self._runner.apply_effects(effects)

    def channel_lost(self, error: BrokerError | None) -> None:
        self._is_lost = True
        if not self._runner.is_stopped:
            self._runner.apply_effects(
                self._core.connection_lost("" if error is None else explain_reason(str(error)))
            )

    def writable_changed(self, writable: bool) -> None:
        """Ignored: a handshake is too short to fill a buffer."""

    def _apply(self, effect: Effect) -> None:
        match effect:
            case Send(message):
                self._channel.send([messages.encode(message)])
            case Accepted():
                self._runner.stop()
                self._channel.pause()
                self._channel.receiver = None
                self._accepted(effect, self._channel)
            case Refused():
                self._runner.stop()
                if not self._is_lost:
                    self._closing.close(self._channel)
                self._refused(effect)

    def _pass_on(self, packets: Sequence[bytes]) -> None:
        receiver = self._channel.receiver
        if receiver is not None and receiver is not self:
            receiver.packets_received(packets)
