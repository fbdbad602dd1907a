"""Connections over one datagram socket: dialled, accepted, and told apart (M8, T41)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from functools import partial

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError, TimeoutError
from twisted.logger import Logger

from broker.errors import AuthenticationFailed, BrokerError, Closed, PeerSilent, VersionMismatch
from broker.transport.arq.connection_channel import ConnectionChannel
from broker.transport.arq.connection_core import ConnectionCore
from broker.transport.arq.counters import HandshakeCounts
from broker.transport.arq.handshake import (
    NO_SECRET,
    Acceptor,
    Dialler,
    DialStep,
    Entropy,
    HandshakeRequest,
    LinkSecret,
    accept_request,
)
from broker.transport.arq.settings import ArqSettings
from broker.transport.arq.wire import (
    DATA,
    HELLO,
    MIN_DATAGRAM_BYTES,
    OPEN,
    Reason,
    decode_head,
)
from broker.transport.clock import IClock
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.socket.contract import ISocketChannel
from broker.transport.socket.datagram_transport import Address, DatagramTransport

#: Bound of closed connections that still answer; the oldest are dropped.
_MAX_CLOSED = 1024
_MAX_FINAL_BYES = 8


@attrs.define
class _Dial:
    dialler: Dialler
    address: Address
    result: Deferred[ISocketChannel]
    until: float


@attrs.define
class _HalfOpen:
    channel: ConnectionChannel
    accept: bytes
    until: float


@attrs.define
class _ClosedConnection:
    """The peer may not know of the end if the BYE was lost."""

    final_bye: bytes
    address: Address
    byes_left: int = _MAX_FINAL_BYES


class ConnectionEndpoint:
    """Dials and accepts connections over one datagram socket (M8, T41).

    It stores nothing for a peer without a proven address. `on_connect` is called with each accepted
    channel.
    """

    log = Logger()

    def __init__(
        self,
        clock: IClock,
        wire: DatagramTransport,
        on_connect: Callable[[ISocketChannel], None],
        settings: ArqSettings,
        entropy: Entropy,
        max_frame: int,
        describe: Callable[[Address], str] = str,
        secret: LinkSecret = NO_SECRET,
    ) -> None:
        self.counts = HandshakeCounts()
        #: In datagrams; less than the setting on a small socket.
        self.window = settings.window
        self._clock = clock
        self._transport = wire
        self._on_connect = on_connect
        self._settings = settings
        self._entropy = entropy
        self._max_frame = max_frame
        self._describe = describe
        self._secret = secret
        self._acceptor = Acceptor(entropy, self.counts, secret)
        self._channels: dict[int, ConnectionChannel] = {}
        self._dials: dict[int, _Dial] = {}
        self._half_open: OrderedDict[tuple[Address, int], _HalfOpen] = OrderedDict()
        self._half_open_keys: dict[
            int, tuple[Address, int]
        ] = {}  # own ids, with their keys in `_half_open`
        self._clients: set[tuple[Address, int]] = set()
        """Addresses and ids of diallers with a connection."""
        self._closed: dict[int, _ClosedConnection] = {}
        self._closed_order: deque[int] = deque()
        self._timer = DeadlineTimer(clock, self._handle_timeout)

    def connect(self, address: Address) -> Deferred[ISocketChannel]:
        """Fails with Twisted's `TimeoutError` or `ConnectionRefusedError`, or with
        `VersionMismatch` or `AuthenticationFailed`."""
        now = self._clock.seconds()
        dialler = Dialler(self._new_id(), self._entropy, self.window, now, self._secret)
        result: Deferred[ISocketChannel] = Deferred(lambda _: self._remove_dial(dialler.client))
        until = now + self._settings.handshake_timeout
        self._dials[dialler.client] = _Dial(dialler, address, result, until)
        self._transport.send([dialler.next_datagram(now)], address)
        self._arm_timer()
        return result

    def datagrams_received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        groups: dict[int, list[bytes]] = {}
        channels = self._channels
        for datagram, address in batch:
            if len(datagram) < MIN_DATAGRAM_BYTES:
                self.counts.malformed += 1
                continue
            kind, identity = decode_head(datagram)
            if kind >= DATA and identity in channels:
                groups.setdefault(identity, []).append(datagram)
            else:
                self._receive_unconnected(kind, identity, datagram, address)
        for identity, datagrams in groups.items():
            channel = channels.get(identity)
            if channel is None:
                continue
            if identity in self._half_open_keys:
                self._receive_first(identity, channel, datagrams)
            else:
                channel.datagrams_received(datagrams)

    def stop(self) -> None:
        for channel in list(self._channels.values()):
            channel.abort(Closed("the port was closed"))
        for dial in list(self._dials.values()):
            dial.result.cancel()
        self._timer.arm(None)

    def _receive_unconnected(
        self, kind: int, identity: int, datagram: bytes, address: Address
    ) -> None:
        try:
            if identity in self._dials:
                self._receive_dial_answer(self._dials[identity], datagram, address)
            elif kind in (HELLO, OPEN):
                self._receive_request(datagram, address)
            elif identity in self._closed:
                self._resend_bye(identity, len(datagram))
            elif kind >= DATA:
                self.counts.unknown_connection += 1
            else:
                self.counts.malformed += 1
        except BrokerError:
            self.counts.malformed += 1

    def _receive_request(self, datagram: bytes, address: Address) -> None:
        now = self._clock.seconds()
        answer = self._acceptor.receive(datagram, address, now)
        if isinstance(answer, HandshakeRequest):
            self._accept(answer, address, now)
        elif answer is not None:
            self._transport.send([answer], address)

    def _accept(self, request: HandshakeRequest, address: Address, now: float) -> None:
        key = (address, request.client)
        half = self._half_open.get(key)
        if half is None and key in self._clients:
            # A late OPEN, or a recorded one.
            return
        if half is None:
            if len(self._channels) >= self._settings.connections:
                self._transport.send([self._acceptor.refuse(request, Reason.FULL)], address)
                return
            if len(self._half_open) >= self._settings.half_open:
                self.counts.dropped_half_open += 1
                self._drop_half_open(next(iter(self._half_open)))
            core, datagram = accept_request(
                *(self._acceptor, request, self._new_id(), self._entropy),
                *(self._connection_settings, self._max_frame, now),
            )
            channel = self._create_channel(core, address)
            half = _HalfOpen(channel, datagram, now + self._settings.handshake_timeout)
            self._half_open[key] = half
            self._half_open_keys[core.own_id] = key
            self._clients.add(key)
            self._arm_timer()
        self._transport.send([half.accept], address)

    def _resend_bye(self, identity: int, size: int) -> None:
        closed = self._closed[identity]
        # A stranger must not let this end send more than it has sent itself.
        if closed.byes_left and size >= len(closed.final_bye):
            closed.byes_left -= 1
            self._transport.send([closed.final_bye], closed.address)

    def _receive_first(
        self, identity: int, channel: ConnectionChannel, datagrams: list[bytes]
    ) -> None:
        # There is no receiver yet: packets are held back.
        channel.datagrams_received(datagrams)
        if channel.core.is_confirmed and identity in self._channels:
            del self._half_open[self._half_open_keys.pop(identity)]
            try:
                self._on_connect(channel)
            except Exception:
                # An error with one connection does not affect the others.
                self.log.failure("{peer} could not be accepted", peer=channel.peer_description)
                channel.abort(Closed("the connection could not be accepted"))

    def _receive_dial_answer(self, dial: _Dial, datagram: bytes, address: Address) -> None:
        if address != dial.address:
            self.counts.unknown_connection += 1
            return
        dialler = dial.dialler
        answer = dialler.receive(datagram, self._clock.seconds())
        if answer is DialStep.SEND_NOW:
            self._transport.send([dialler.next_datagram(self._clock.seconds())], address)
            self._arm_timer()
        elif answer is DialStep.REFUSED:
            self._remove_dial(dialler.client)
            dial.result.errback(self._refusal(dialler.reason, address))
        elif answer is DialStep.ACCEPTED:
            self._remove_dial(dialler.client)
            now = self._clock.seconds()
            core = dialler.create_connection(self._connection_settings, self._max_frame, now)
            channel = self._create_channel(core, address)
            channel.prove_key()
            dial.result.callback(channel)

    def _refusal(self, reason: Reason, address: Address) -> Exception:
        peer = self._describe(address)
        if reason is Reason.VERSION:
            return VersionMismatch(f"{peer} has another version of links over UDP")
        if reason is Reason.SECRET:
            return AuthenticationFailed(f"{peer} has another secret for links over UDP")
        if reason is Reason.FULL:
            return ConnectionRefusedError("it has too many connections")
        return TimeoutError(string=f"no answer from {address}")

    @property
    def _connection_settings(self) -> ArqSettings:
        return attrs.evolve(self._settings, window=self.window)

    def _create_channel(self, core: ConnectionCore, address: Address) -> ConnectionChannel:
        transmit = partial(self._transmit, address)
        on_end = partial(self._channel_ended, address)
        channel = ConnectionChannel(self._clock, core, self._describe(address), transmit, on_end)
        self._channels[core.own_id] = channel
        return channel

    def _transmit(self, address: Address, datagrams: Sequence[bytes]) -> None:
        self._transport.send(datagrams, address)

    def _channel_ended(self, address: Address, channel: ConnectionChannel) -> None:
        identity = channel.core.own_id
        self._channels.pop(identity, None)
        self._clients.discard((address, channel.core.peer_id))
        key = self._half_open_keys.pop(identity, None)
        if key is not None:
            del self._half_open[key]
        elif channel.core.final_bye is not None:
            self._closed[identity] = _ClosedConnection(channel.core.final_bye, address)
            self._closed_order.append(identity)
            if len(self._closed_order) > _MAX_CLOSED:
                del self._closed[self._closed_order.popleft()]

    def _drop_half_open(self, key: tuple[Address, int]) -> None:
        self._half_open[key].channel.abort(PeerSilent("the handshake was not finished"))

    def _remove_dial(self, client: int) -> None:
        self._dials.pop(client, None)

    def _new_id(self) -> int:
        while True:
            identity = int.from_bytes(self._entropy(8), "big")
            if identity and identity not in self._channels and identity not in self._dials:
                return identity

    def _handle_timeout(self) -> None:
        now = self._clock.seconds()
        for key, half in list(self._half_open.items()):
            if half.until > now:
                break
            self._drop_half_open(key)
        for client, dial in list(self._dials.items()):
            if dial.until <= now:
                self._remove_dial(client)
                dial.result.errback(self._refusal(dial.dialler.reason, dial.address))
            elif dial.dialler.retry_at <= now:
                self._transport.send([dial.dialler.next_datagram(now)], dial.address)
        self._arm_timer()

    def _arm_timer(self) -> None:
        due = [min(dial.until, dial.dialler.retry_at) for dial in self._dials.values()]
        if self._half_open:
            due.append(next(iter(self._half_open.values())).until)
        self._timer.arm(min(due, default=None))
