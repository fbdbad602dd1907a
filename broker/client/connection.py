"""A client's connection: dial, greet, hand over, and again with back-off (Q1).

The life of it is a machine; `docs/protocols/session.md` shows the same table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs
from automat import TypeMachineBuilder
from zope.interface import implementer

from broker.client.loop import Loop
from broker.errors import (
    AuthenticationFailed,
    BadName,
    BrokerError,
    IncarnationRefused,
    NotAllowed,
    NotConnected,
    PeerSilent,
    ProtocolError,
    SessionSuperseded,
    VersionMismatch,
    from_wire,
)
from broker.transport.backoff import Backoff
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.wire import messages
from broker.wire.messages import Hello, Refuse, Welcome

#: What trying again can not mend: the user has to change something.
FATAL = (
    AuthenticationFailed,
    BadName,
    IncarnationRefused,
    NotAllowed,
    SessionSuperseded,
    VersionMismatch,
)
GREETING_TIMEOUT = 10.0


class Connecting(Protocol):
    """The inputs of the machine."""

    def start(self) -> None: ...
    def dialled(self, channel: ISocketChannel) -> None: ...
    def welcomed(self, welcome: Welcome) -> None: ...
    def lost(self, error: BrokerError | None) -> None:
        """The attempt failed, or the connection broke, and another may succeed."""

    def forbidden(self, error: BrokerError) -> None:
        """No further attempt can succeed."""

    def retry(self) -> None: ...
    def stop(self) -> None: ...


@attrs.define(eq=False)
class Connection:
    """What the machine works on."""

    loop: Loop
    endpoints: Sequence[str]
    hello: Callable[[], Hello]
    attach: Callable[[ISocketChannel, Welcome], None]
    """Told when a connection is accepted; from then on the channel is the stack's."""
    down: Callable[[BrokerError | None], None]
    """Told when an attempt failed or a connection broke; the next attempt follows."""
    stopped: Callable[[BrokerError | None], None]
    """Told once at the end; the error that forbids to go on, or None."""
    backoff: Backoff = attrs.field(factory=Backoff)
    """Its owner calls `up` when a session is established."""
    channel: ISocketChannel | None = None
    attempts: int = 0
    timer: Any = None
    hang_up: Callable[[], object] | None = None
    """Gives the present attempt to dial up."""

    @property
    def endpoint(self) -> str:
        """The endpoint of the present attempt: they take turns."""
        return self.endpoints[self.attempts % len(self.endpoints)]


_builder = TypeMachineBuilder(Connecting, Connection)
_idle = _builder.state("idle")
_dialling = _builder.state("dialling")
_greeting = _builder.state("greeting")
_attached = _builder.state("attached")
_waiting = _builder.state("waiting")
_stopped = _builder.state("stopped")


@_idle.upon(Connecting.start).to(_dialling)
@_waiting.upon(Connecting.retry).to(_dialling)
def _dial(machine: Connecting, connection: Connection) -> None:
    connection.timer = None
    connection.hang_up = connection.loop.dial(connection.endpoint, machine.dialled, machine.lost)


@_dialling.upon(Connecting.dialled).to(_greeting)
def _greet(machine: Connecting, connection: Connection, channel: ISocketChannel) -> None:
    connection.channel = channel
    channel.send([messages.encode(connection.hello())])
    connection.timer = connection.loop.clock.callLater(
        GREETING_TIMEOUT, machine.lost, PeerSilent("the node did not answer the greeting")
    )
    channel.receiver = _Answer(machine, channel)


@_greeting.upon(Connecting.welcomed).to(_attached)
def _hand_over(machine: Connecting, connection: Connection, welcome: Welcome) -> None:
    _cancel(connection)
    channel, connection.channel = connection.channel, None
    assert channel is not None
    connection.attach(channel, welcome)


@_dialling.upon(Connecting.lost).to(_waiting)
@_greeting.upon(Connecting.lost).to(_waiting)
@_attached.upon(Connecting.lost).to(_waiting)
def _wait(machine: Connecting, connection: Connection, error: BrokerError | None) -> None:
    _drop(connection, error)
    connection.attempts += 1
    clock = connection.loop.clock
    wait = connection.backoff.next(clock.seconds())
    connection.timer = clock.callLater(wait, machine.retry)
    connection.down(error)


@_greeting.upon(Connecting.forbidden).to(_stopped)
@_attached.upon(Connecting.forbidden).to(_stopped)
@_waiting.upon(Connecting.forbidden).to(_stopped)
def _give_up(machine: Connecting, connection: Connection, error: BrokerError) -> None:
    _drop(connection, error)
    connection.stopped(error)


@_idle.upon(Connecting.stop).to(_stopped)
@_greeting.upon(Connecting.stop).to(_stopped)
@_attached.upon(Connecting.stop).to(_stopped)
@_waiting.upon(Connecting.stop).to(_stopped)
def _stop(machine: Connecting, connection: Connection) -> None:
    _drop(connection, None)
    connection.stopped(None)


@_dialling.upon(Connecting.stop).to(_stopped)
def _hang_up(machine: Connecting, connection: Connection) -> None:
    if connection.hang_up is not None:
        connection.hang_up()
    connection.stopped(None)


@_stopped.upon(Connecting.dialled).to(_stopped)
def _too_late(machine: Connecting, connection: Connection, channel: ISocketChannel) -> None:
    channel.abort(NotConnected("the client was closed"))


_waiting.upon(Connecting.lost).to(_waiting).returns(None)
_stopped.upon(Connecting.lost).to(_stopped).returns(None)
_stopped.upon(Connecting.forbidden).to(_stopped).returns(None)
_stopped.upon(Connecting.stop).to(_stopped).returns(None)

#: Makes the machine of a `Connection`.
connecting: Callable[[Connection], Connecting] = _builder.build()


def _cancel(connection: Connection) -> None:
    if connection.timer is not None:
        connection.timer.cancel()
        connection.timer = None


def _drop(connection: Connection, error: BrokerError | None) -> None:
    if connection.timer is not None and connection.timer.active():
        connection.timer.cancel()
    connection.timer = None
    channel, connection.channel = connection.channel, None
    if channel is not None:
        channel.abort(error or NotConnected("the client was closed"))


@implementer(ISocketReceiver)
class _Answer:
    """Waits for the node's answer to the greeting."""

    def __init__(self, machine: Connecting, channel: ISocketChannel) -> None:
        self._machine: Connecting | None = machine
        self._channel = channel

    def packets_received(self, packets: Sequence[bytes]) -> None:
        if self._machine is None:
            return
        try:
            answer = messages.decode(packets[0])
            if not isinstance(answer, Welcome | Refuse):
                raise ProtocolError("the other end does not answer as a node does")
        except BrokerError as error:
            self._take().lost(error)
            return
        if isinstance(answer, Welcome):
            self._take().welcomed(answer)
            self._pass_on(packets[1:])
            return
        refusal = from_wire(answer.error)
        if isinstance(refusal, FATAL):
            self._take().forbidden(refusal)
        else:
            self._take().lost(refusal)

    def channel_lost(self, error: BrokerError | None) -> None:
        if self._machine is not None:
            self._take().lost(error)

    def writable_changed(self, writable: bool) -> None:
        """A greeting fills no buffer."""

    def _pass_on(self, packets: Sequence[bytes]) -> None:
        """The node's stack speaks right behind its welcome: that is for ours."""
        receiver = self._channel.receiver
        if packets and receiver is not None and receiver is not self:
            receiver.packets_received(packets)

    def _take(self) -> Connecting:
        machine, self._machine = self._machine, None
        assert machine is not None
        return machine
