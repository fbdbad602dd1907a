"""A client's connection: dial, handshake, attach to the stack, and retry with backoff (Q1).

`docs/protocols/session.md` has its state table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import attrs
from automat import TypeMachineBuilder
from zope.interface import implementer

from broker.client.login import ClientLogin, Credentials
from broker.client.loop import Loop
from broker.errors import (
    AuthenticationFailed,
    BadName,
    BrokerError,
    CleartextForbidden,
    IncarnationRefused,
    NotAllowed,
    NotConnected,
    NotOwner,
    PeerSilent,
    ProtocolError,
    SessionSuperseded,
    VersionMismatch,
    from_wire,
)
from broker.transport.backoff import Backoff
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.wire import messages
from broker.wire.messages import Challenge, Hello, Refuse, Welcome

#: Errors that a retry can not fix.
FATAL = (
    AuthenticationFailed,
    BadName,
    CleartextForbidden,
    IncarnationRefused,
    NotAllowed,
    NotOwner,
    SessionSuperseded,
    VersionMismatch,
)
HANDSHAKE_TIMEOUT = 10.0


class ConnectionMachine(Protocol):
    def start(self) -> None: ...
    def dialled(self, channel: ISocketChannel) -> None: ...
    def welcomed(self, welcome: Welcome) -> None: ...
    def lost(self, error: BrokerError | None) -> None:
        """A retry may succeed."""

    def rejected(self, error: BrokerError) -> None:
        """No further attempt can succeed."""

    def retry(self) -> None: ...
    def stop(self) -> None: ...


@attrs.define(eq=False)
class Connection:
    loop: Loop
    endpoints: Sequence[str]
    make_hello: Callable[[str], Hello]
    """Returns the Hello with a credential."""
    attach: Callable[[ISocketChannel, Welcome], None]
    """From then on the channel belongs to the stack."""
    on_down: Callable[[BrokerError | None], None]
    """Called after a failed attempt or broken connection; the next attempt follows."""
    on_stopped: Callable[[BrokerError | None], None]
    """Called once, with the fatal error or None."""
    backoff: Backoff = attrs.field(factory=Backoff)
    """Its owner reports established sessions."""
    find_refusal: Callable[[ISocketChannel], BrokerError | None] = lambda _: None
    """Returns an error if a channel is not confidential enough for the client."""
    credentials: Credentials = attrs.field(factory=Credentials)
    channel: ISocketChannel | None = None
    attempts: int = 0
    timer: Any = None
    cancel_dial: Callable[[], object] | None = None

    @property
    def endpoint(self) -> str:
        """Attempts rotate through all endpoints."""
        return self.endpoints[self.attempts % len(self.endpoints)]


_builder = TypeMachineBuilder(ConnectionMachine, Connection)
_idle = _builder.state("idle")
_dialling = _builder.state("dialling")
_handshaking = _builder.state("handshaking")
_attached = _builder.state("attached")
_waiting = _builder.state("waiting")
_stopped = _builder.state("stopped")


@_idle.upon(ConnectionMachine.start).to(_dialling)
@_waiting.upon(ConnectionMachine.retry).to(_dialling)
def _dial(machine: ConnectionMachine, connection: Connection) -> None:
    connection.timer = None
    connection.cancel_dial = connection.loop.dial(
        connection.endpoint, machine.dialled, machine.lost
    )


@_dialling.upon(ConnectionMachine.dialled).to(_handshaking)
def _send_hello(
    machine: ConnectionMachine, connection: Connection, channel: ISocketChannel
) -> None:
    connection.channel = channel
    refusal = connection.find_refusal(channel)
    if refusal is not None:
        refuse = machine.rejected if isinstance(refusal, FATAL) else machine.lost
        connection.timer = connection.loop.clock.callLater(0, refuse, refusal)
        return
    login = connection.credentials.begin_login(channel, connection.loop)
    try:
        hello = connection.make_hello(login.make_credential())
    except BrokerError as error:
        connection.timer = connection.loop.clock.callLater(0, machine.rejected, error)
        return
    channel.send([messages.encode(hello)])
    connection.timer = connection.loop.clock.callLater(
        HANDSHAKE_TIMEOUT,
        machine.lost,
        PeerSilent("the node did not answer the handshake; check that a node listens there"),
    )
    channel.receiver = _HandshakeReceiver(machine, channel, login)


@_handshaking.upon(ConnectionMachine.welcomed).to(_attached)
def _hand_over(machine: ConnectionMachine, connection: Connection, welcome: Welcome) -> None:
    _cancel(connection)
    channel, connection.channel = connection.channel, None
    assert channel is not None
    connection.attach(channel, welcome)


@_dialling.upon(ConnectionMachine.lost).to(_waiting)
@_handshaking.upon(ConnectionMachine.lost).to(_waiting)
@_attached.upon(ConnectionMachine.lost).to(_waiting)
def _wait(machine: ConnectionMachine, connection: Connection, error: BrokerError | None) -> None:
    _drop(connection, error)
    connection.attempts += 1
    clock = connection.loop.clock
    wait = connection.backoff.next_wait(clock.seconds())
    connection.timer = clock.callLater(wait, machine.retry)
    connection.on_down(error)


@_handshaking.upon(ConnectionMachine.rejected).to(_stopped)
@_attached.upon(ConnectionMachine.rejected).to(_stopped)
@_waiting.upon(ConnectionMachine.rejected).to(_stopped)
def _give_up(machine: ConnectionMachine, connection: Connection, error: BrokerError) -> None:
    _drop(connection, error)
    connection.on_stopped(error)


@_idle.upon(ConnectionMachine.stop).to(_stopped)
@_handshaking.upon(ConnectionMachine.stop).to(_stopped)
@_attached.upon(ConnectionMachine.stop).to(_stopped)
@_waiting.upon(ConnectionMachine.stop).to(_stopped)
def _stop(machine: ConnectionMachine, connection: Connection) -> None:
    _drop(connection, None)
    connection.on_stopped(None)


@_dialling.upon(ConnectionMachine.stop).to(_stopped)
def _cancel_dial(machine: ConnectionMachine, connection: Connection) -> None:
    if connection.cancel_dial is not None:
        connection.cancel_dial()
    connection.on_stopped(None)


@_stopped.upon(ConnectionMachine.dialled).to(_stopped)
def _abort_late_channel(
    machine: ConnectionMachine, connection: Connection, channel: ISocketChannel
) -> None:
    channel.abort(NotConnected("the client was closed"))


_waiting.upon(ConnectionMachine.lost).to(_waiting).returns(None)
_stopped.upon(ConnectionMachine.lost).to(_stopped).returns(None)
_stopped.upon(ConnectionMachine.rejected).to(_stopped).returns(None)
_stopped.upon(ConnectionMachine.stop).to(_stopped).returns(None)

make_connection_machine: Callable[[Connection], ConnectionMachine] = _builder.build()


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
class _HandshakeReceiver:
    def __init__(
        self, machine: ConnectionMachine, channel: ISocketChannel, login: ClientLogin
    ) -> None:
        self._machine: ConnectionMachine | None = machine
        self._channel = channel
        self._login = login

    def packets_received(self, packets: Sequence[bytes]) -> None:
        if self._machine is None:
            return
        try:
            answer = messages.decode(packets[0])
            if isinstance(answer, Challenge):
                if len(packets) > 1:
                    raise ProtocolError("the node did not wait for the response to its challenge")
                self._login.answer(answer, self._reject)
                return
            if not isinstance(answer, Welcome | Refuse):
                raise ProtocolError("the peer did not answer as a node; check the endpoint")
            if isinstance(answer, Welcome):
                self._login.check(answer)
        except AuthenticationFailed as error:
            self._reject(error)
            return
        except BrokerError as error:
            self._release_machine().lost(error)
            return
        if isinstance(answer, Welcome):
            self._release_machine().welcomed(answer)
            self._pass_on(packets[1:])
            return
        refusal = from_wire(answer.error)
        if isinstance(refusal, VersionMismatch) and self._login.has_credential:
            refusal = VersionMismatch(
                f"{refusal.text}: the node is too old for a login that keeps the secret here"
            )
        if isinstance(refusal, FATAL):
            self._release_machine().rejected(refusal)
        else:
            self._release_machine().lost(refusal)

    def channel_lost(self, error: BrokerError | None) -> None:
        if self._machine is not None:
            self._release_machine().lost(error)

    def writable_changed(self, writable: bool) -> None:
        """A Hello fills no buffer."""

    def _reject(self, error: BrokerError) -> None:
        if self._machine is not None:
            self._release_machine().rejected(error)

    def _pass_on(self, packets: Sequence[bytes]) -> None:
        receiver = self._channel.receiver
        if packets and receiver is not None and receiver is not self:
            receiver.packets_received(packets)

    def _release_machine(self) -> ConnectionMachine:
        machine, self._machine = self._machine, None
        assert machine is not None
        return machine
