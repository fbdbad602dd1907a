"""Connections over one datagram socket: dialled, accepted, told apart (M8, T41)."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Protocol, TypeAlias

import attrs
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionRefusedError, TimeoutError
from twisted.logger import Logger

from broker.errors import BrokerError, Closed, PeerSilent, VersionMismatch
from broker.transport.deadline_timer import Alarm
from broker.transport.clock import IClock
from broker.transport.arq.connection_core import ConnectionCore
from broker.transport.arq.handshake import (
    OPEN_SEAL,
    Answer,
    Cookies,
    Dialler,
    Entropy,
    Greeting,
    accepted,
    read_greeting,
)
from broker.transport.arq.mac import Seal, connection_key
from broker.transport.arq.settings import CorrectionSettings
from broker.transport.arq.wire import (
    DATA,
    HELLO,
    LEAST_BYTES,
    NONCE_BYTES,
    OPEN,
    VERSION,
    Reason,
    head,
    refuse,
)
from broker.transport.socket.contract import ISocketChannel
from broker.transport.socket.datagram_channel import DatagramChannel

#: A datagram socket's address as the socket gives it; equal ones are one peer.
Address: TypeAlias = Hashable

#: Connections that are over and still answer; the oldest go.
_MOST_GONE = 1024
#: Answers for one of them.
_LAST_WORDS = 8


class Wire(Protocol):
    """What carries datagrams; some of them."""

    def send(self, datagrams: Sequence[bytes], address: Address) -> None:
        """Send datagrams to one address, or lose them."""


@attrs.define
class EndpointCounts:
    """What reached the socket and no connection."""

    #: Too short, of no known kind, with a wrong tag, or contradicting itself.
    malformed: int = 0
    #: For a connection that is not there.
    strays: int = 0
    #: OPEN without the cookie for its address.
    bad_cookies: int = 0
    #: Connections that were dropped for newer ones before they had proven themselves.
    dropped_half_open: int = 0
    #: Refused: there are as many as there may be, or the version is another.
    refused: int = 0


@attrs.define
class _Dial:
    dialler: Dialler
    address: Address
    result: Deferred[ISocketChannel]
    until: float


@attrs.define
class _HalfOpen:
    channel: DatagramChannel
    accept: bytes
    until: float


@attrs.define
class _Gone:
    """A connection that is over. The peer may not know: our last words may have been lost."""

    last_words: bytes
    address: Address
    left: int = _LAST_WORDS


class DatagramEndpoint:
    """Accepts and dials. Nothing is kept for who has not shown that it receives at its address.

    `on_connect` is called with each accepted channel.
    """

    log = Logger()

    def __init__(
        self,
        clock: IClock,
        wire: Wire,
        on_connect: Callable[[ISocketChannel], None],
        settings: CorrectionSettings,
        entropy: Entropy,
        max_frame: int,
        describe: Callable[[Address], str] = str,
    ) -> None:
        self.counts = EndpointCounts()
        #: Datagrams that this endpoint has room for; less than the settings say on a small socket.
        self.window = settings.window
        self._clock = clock
        self._wire = wire
        self._on_connect = on_connect
        self._settings = settings
        self._entropy = entropy
        self._max_frame = max_frame
        self._describe = describe
        self._cookies = Cookies(entropy)
        self._channels: dict[int, DatagramChannel] = {}
        self._dials: dict[int, _Dial] = {}
        self._half_open: OrderedDict[tuple[Address, int], _HalfOpen] = OrderedDict()
        self._waiting: dict[int, tuple[Address, int]] = {}  # ours of those, and their keys above
        self._gone: dict[int, _Gone] = {}
        self._gone_order: deque[int] = deque()
        self._alarm = Alarm(clock, self._ring)

    def connect(self, address: Address) -> Deferred[ISocketChannel]:
        """A connection. Fails with Twisted's `TimeoutError` or `ConnectionRefusedError`, or with
        `VersionMismatch`. Can be cancelled."""
        now = self._clock.seconds()
        dialler = Dialler(self._new_id(), self._entropy(NONCE_BYTES), self.window, now)
        result: Deferred[ISocketChannel] = Deferred(lambda _: self._forget_dial(dialler.client))
        until = now + self._settings.handshake_timeout
        self._dials[dialler.client] = _Dial(dialler, address, result, until)
        self._wire.send([dialler.datagram(now)], address)
        self._set_alarm()
        return result

    def datagrams_received(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        """What one read of the socket brought."""
        groups: dict[int, list[bytes]] = {}
        channels = self._channels
        for datagram, address in batch:
            if len(datagram) < LEAST_BYTES:
                self.counts.malformed += 1
                continue
            kind, identity = head(datagram)
            if kind >= DATA and identity in channels:
                groups.setdefault(identity, []).append(datagram)
            else:
                self._stranger(kind, identity, datagram, address)
        for identity, datagrams in groups.items():
            channel = channels.get(identity)
            if channel is None:
                continue
            if identity in self._waiting:
                self._first_heard(identity, channel, datagrams)
            else:
                channel.datagrams_received(datagrams)

    def stop(self) -> None:
        """Give up all connections and dials; take no more."""
        for channel in list(self._channels.values()):
            channel.abort(Closed("the port was closed"))
        for dial in list(self._dials.values()):
            dial.result.cancel()
        self._alarm.set(None)

    # ----------------------------------------------------------------- who has no connection

    def _stranger(self, kind: int, identity: int, datagram: bytes, address: Address) -> None:
        try:
            if identity in self._dials:
                self._answered(self._dials[identity], datagram, address)
            elif kind in (HELLO, OPEN) and OPEN_SEAL.holds(datagram):
                self._greeted(kind, read_greeting(datagram), address)
            elif identity in self._gone:
                self._answer_late(identity)
            elif kind >= DATA:
                self.counts.strays += 1
            else:
                self.counts.malformed += 1
        except BrokerError:
            self.counts.malformed += 1

    def _greeted(self, kind: int, greeting: Greeting, address: Address) -> None:
        now = self._clock.seconds()
        if greeting.version != VERSION:
            self._refuse(greeting, address, Reason.VERSION)
        elif kind == HELLO:
            self._wire.send([self._cookies.answer(greeting, address, now)], address)
        elif not self._cookies.proves(greeting, address, now):
            self.counts.bad_cookies += 1
        else:
            self._accept(greeting, address, now)

    def _accept(self, greeting: Greeting, address: Address, now: float) -> None:
        key = (address, greeting.client)
        half = self._half_open.get(key)
        if half is None:
            if len(self._channels) >= self._settings.connections:
                self._refuse(greeting, address, Reason.FULL)
                return
            if len(self._half_open) >= self._settings.half_open:
                self.counts.dropped_half_open += 1
                self._give_up(next(iter(self._half_open)))
            server, nonce = self._new_id(), self._entropy(NONCE_BYTES)
            seal = Seal(connection_key(greeting.client, server, greeting.nonce, nonce))
            channel = self._channel(seal, server, greeting.client, greeting.room, address)
            datagram = accepted(greeting.client, server, nonce, self.window, seal)
            half = _HalfOpen(channel, datagram, now + self._settings.handshake_timeout)
            self._half_open[key] = half
            self._waiting[server] = key
            self._set_alarm()
        self._wire.send([half.accept], address)

    def _refuse(self, greeting: Greeting, address: Address, reason: Reason) -> None:
        self.counts.refused += 1
        self._wire.send([OPEN_SEAL.sealed(refuse(greeting.client, reason))], address)

    def _answer_late(self, identity: int) -> None:
        gone = self._gone[identity]
        if gone.left:
            gone.left -= 1
            self._wire.send([gone.last_words], gone.address)

    # ----------------------------------------------------------------- becoming a connection

    def _first_heard(self, identity: int, channel: DatagramChannel, datagrams: list[bytes]) -> None:
        # Nobody listens yet: what has come is held back until the channel gets a receiver.
        channel.datagrams_received(datagrams)
        if channel.core.confirmed and identity in self._channels:
            del self._half_open[self._waiting.pop(identity)]
            try:
                self._on_connect(channel)
            except Exception:
                # The user's trouble with one connection is not that of the others on the socket.
                self.log.failure("{peer} could not be accepted", peer=channel.peer_description)
                channel.abort(Closed("the connection could not be accepted"))

    def _answered(self, dial: _Dial, datagram: bytes, address: Address) -> None:
        if address != dial.address:
            self.counts.strays += 1
            return
        dialler = dial.dialler
        answer = dialler.received(datagram)
        if answer is Answer.NEXT:
            self._wire.send([dialler.datagram(self._clock.seconds())], address)
            self._set_alarm()
        elif answer is Answer.REFUSED:
            self._forget_dial(dialler.client)
            if dialler.reason is Reason.VERSION:
                dial.result.errback(VersionMismatch(f"{self._describe(address)}: another version"))
            else:
                dial.result.errback(ConnectionRefusedError("it has too many connections"))
        elif answer is Answer.ACCEPTED and dialler.seal is not None:
            self._forget_dial(dialler.client)
            channel = self._channel(
                dialler.seal, dialler.client, dialler.server, dialler.room, address
            )
            channel.greet()
            dial.result.callback(channel)

    def _channel(
        self, seal: Seal, here: int, there: int, room: int, address: Address
    ) -> DatagramChannel:
        settings = attrs.evolve(self._settings, window=self.window)
        now = self._clock.seconds()
        core = ConnectionCore(settings, seal, here, there, room, now, self._max_frame)
        transmit = partial(self._transmit, address)
        over = partial(self._channel_over, address)
        channel = DatagramChannel(self._clock, core, self._describe(address), transmit, over)
        self._channels[here] = channel
        return channel

    def _transmit(self, address: Address, datagrams: Sequence[bytes]) -> None:
        self._wire.send(datagrams, address)

    def _channel_over(self, address: Address, channel: DatagramChannel) -> None:
        identity = channel.core.here
        self._channels.pop(identity, None)
        key = self._waiting.pop(identity, None)
        if key is not None:
            del self._half_open[key]
        elif channel.core.last_words is not None:
            self._gone[identity] = _Gone(channel.core.last_words, address)
            self._gone_order.append(identity)
            if len(self._gone_order) > _MOST_GONE:
                del self._gone[self._gone_order.popleft()]

    def _give_up(self, key: tuple[Address, int]) -> None:
        self._half_open[key].channel.abort(PeerSilent("the handshake was not finished"))

    def _forget_dial(self, client: int) -> None:
        self._dials.pop(client, None)

    def _new_id(self) -> int:
        while True:
            identity = int.from_bytes(self._entropy(8), "big")
            if identity and identity not in self._channels and identity not in self._dials:
                return identity

    # ----------------------------------------------------------------- time

    def _ring(self) -> None:
        now = self._clock.seconds()
        for key, half in list(self._half_open.items()):
            if half.until > now:
                break
            self._give_up(key)
        for client, dial in list(self._dials.items()):
            if dial.until <= now:
                self._forget_dial(client)
                dial.result.errback(TimeoutError(string=f"no answer from {dial.address}"))
            elif dial.dialler.again_at <= now:
                self._wire.send([dial.dialler.datagram(now)], dial.address)
        self._set_alarm()

    def _set_alarm(self) -> None:
        due = [min(dial.until, dial.dialler.again_at) for dial in self._dials.values()]
        if self._half_open:
            due.append(next(iter(self._half_open.values())).until)
        self._alarm.set(min(due, default=None))
