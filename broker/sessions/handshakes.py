"""Client connections before their authentication: limits, time-out, refusal, counts.

`PendingConnections` has the rules for a full node. A connection counts from its acceptance, also
while its TLS handshake is under way.
"""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Final

import attrs
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.audit import IAuditLog
from broker.errors import (
    AuthenticationFailed,
    BrokerError,
    Overloaded,
    PeerError,
    PeerSilent,
    ProtocolError,
    ShuttingDown,
    TooManySessions,
)
from broker.identity.login_delays import MAX_DELAY, LoginDelays
from broker.limit_registry import LimitRegistry
from broker.rate_limited_log import RateLimitedLog
from broker.sessions.time_slices import LOGIN_PAUSE_SECONDS, LOGIN_SLICE_SECONDS, TimeSlices
from broker.transport.clock import IClock
from broker.transport.pending_connections import PendingConnections, address_group
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.socket.closing import ClosingChannels
from broker.transport.socket.contract import peer_host
from broker.wire import messages
from broker.wire.messages import MAGIC, Challenge, Hello, Refuse, Response

#: Bound of the memory before the handshake.
MAX_HANDSHAKE_BYTES: Final = 8192


@attrs.frozen
class HandshakeLimits:
    """Limits from `[limits]`; the time is in seconds."""

    max_handshakes: int
    max_handshakes_per_address: int
    handshake_timeout: float
    max_logins: int
    """At a time, of one account from one address."""


class ClientHandshakes:
    """Handshakes under way.

    Failed logins delay the next attempts of an account from an address (`LoginDelays`). Tokens and
    certificates without an account's name are not guessed, and not delayed.
    """

    log = Logger()

    def __init__(
        self,
        clock: IClock,
        limits: Callable[[], HandshakeLimits],
        limit_registry: LimitRegistry,
        audit: IAuditLog,
        *,
        open_session: Callable[[Handshake, Hello], Deferred[None]],
        count_connected: Callable[[], int],
    ) -> None:
        """`open_session` answers a Hello, or raises `BrokerError`; its Deferred is cancelled when
        the connection ends. `count_connected` returns the connections with a session."""
        self.clock = clock
        self.limits = limits
        self.open_session = open_session
        self.max_connections = sys.maxsize
        """Bound of the connections with and without a session, by file descriptors."""
        self.delays = LoginDelays()
        self.logins: Counter[tuple[str, str]] = Counter()
        """Under way, by address and account."""
        self._packets: deque[tuple[Handshake, bytes]] = deque()
        """One of a connection at most."""
        self._slices = TimeSlices(
            *(clock, self._process_packet, self._log_failure),
            *(LOGIN_SLICE_SECONDS, LOGIN_PAUSE_SECONDS),
        )
        self._audit = audit
        self._count_connected = count_connected
        self.pending: PendingConnections[Handshake] = PendingConnections()
        self._handshakes: set[Handshake] = set()
        self._closing = ClosingChannels(clock)
        self._is_closed = False
        self._log = RateLimitedLog(lambda text: self.log.info("{text}", text=text), clock.seconds)
        self.refused: Counter[str] = Counter()
        """By error code."""
        self._limit = limit_registry.add(
            "handshakes",
            setting="limits.max_handshakes",
            bound=lambda: self._most,
            used=lambda: len(self.pending),
        )
        self._address_limit = limit_registry.add(
            "address-handshakes",
            per="address",
            setting="limits.max_handshakes_per_address",
            bound=lambda: limits().max_handshakes_per_address,
            used=lambda: self.pending.most_of_one_address,
        )
        self.delay_limit = limit_registry.add(
            "login-delay-seconds",
            per="address",
            bound=lambda: MAX_DELAY,
            used=lambda: self.delays.longest_wait(clock.seconds()),
        )

    @property
    def _most(self) -> int:
        taken = self._count_connected() + len(self._closing)
        return max(0, min(self.limits().max_handshakes, self.max_connections - taken))

    def accept(self, channel: ISocketChannel) -> None:
        """Take a connection; close others, or this one, where a bound is reached."""
        if self._is_closed:
            self.refuse(channel, ShuttingDown("the node is being stopped"))
            return
        handshake = Handshake(self, channel)
        most_of_address = self.limits().max_handshakes_per_address
        dropped = self.pending.add(
            *(handshake, handshake.host, self.clock.seconds()),
            most=self._most,
            most_of_address=most_of_address,
        )
        self._handshakes.add(handshake)
        handshake.start()
        for each in dropped:
            of_address = self.pending.most_of_one_address >= most_of_address
            (self._address_limit if of_address else self._limit).count_reached()
            each.refuse(TooManySessions("too many connections are in their handshake"))

    def process_later(self, handshake: Handshake, packet: bytes) -> None:
        """Process a packet in a later turn of the reactor: many logins at once leave time for
        other work."""
        self._packets.append((handshake, packet))
        self._slices.run_later()

    def _process_packet(self) -> bool:
        if self._packets:
            handshake, packet = self._packets.popleft()
            try:
                handshake.process(packet)
            except Exception as error:
                # The others are processed all the same.
                self._log_failure(error)
        return bool(self._packets)

    def _log_failure(self, error: Exception) -> None:
        self.log.failure("a handshake failed", Failure(error))

    def remove(self, handshake: Handshake) -> None:
        self._handshakes.discard(handshake)
        self.pending.remove(handshake)

    def record_login(self, handshake: Handshake) -> None:
        self.pending.add_known_address(handshake.host)
        self.delays.record_success(handshake.address, handshake.account)
        self.record_attempt(handshake)

    def record_attempt(self, handshake: Handshake, error: BrokerError | None = None) -> None:
        """Add a record to the audit log."""
        self._audit.record(
            "login",
            account=handshake.account,
            client=handshake.client_id,
            address=handshake.channel.peer_description,
            error=error,
        )

    def refuse(self, channel: ISocketChannel, error: BrokerError, account: str = "") -> None:
        """Close a connection with the reason."""
        self.count_refused(channel, error, account)
        self._closing.close(channel, messages.encode(Refuse(error.to_wire())))

    def count_refused(self, channel: ISocketChannel, error: BrokerError, account: str = "") -> None:
        peer, of_account = channel.peer_description, f" of account {account!r}" if account else ""
        self.count_refusal(peer_host(channel), f"{peer}{of_account}", error)

    def count_refusal(self, host: str, peer: str, error: BrokerError) -> None:
        """Count and log a connection that is not accepted."""
        self.refused[error.code] += 1
        self._log.report(host, error.code, f"connection from {peer} refused: {error}")

    def close(self) -> None:
        """Refuse all, and further ones."""
        self._is_closed = True
        for handshake in list(self._handshakes):
            handshake.refuse(ShuttingDown("the node is being stopped"))


@implementer(ISocketReceiver)
class Handshake:
    """One connection until its session opens, it is refused, or it ends."""

    def __init__(self, owner: ClientHandshakes, channel: ISocketChannel) -> None:
        self._owner = owner
        self.channel = channel
        self.host = peer_host(channel)
        self.address = address_group(self.host)
        self.account = ""
        self.client_id = ""
        """Account and ClientId of the Hello."""
        self.is_closed = False
        self._is_awaiting = True
        """True if the client may send a packet."""
        self._counts_as_login = False
        self._login: Deferred[None] | None = None
        self._response: Deferred[bytes] | None = None
        self._timeout = owner.clock.callLater(
            owner.limits().handshake_timeout,
            lambda: self.refuse(PeerSilent("no handshake arrived in time")),
        )

    def start(self) -> None:
        """Read the Hello."""
        self.channel.max_frame = MAX_HANDSHAKE_BYTES
        self.channel.receiver = self

    def packets_received(self, packets: Sequence[bytes]) -> None:
        # The channel is read on, since its end cancels the login.
        if not self._is_awaiting or len(packets) != 1:
            self.refuse(ProtocolError("a client must wait for Welcome"))
            return
        self._is_awaiting = False
        self._owner.process_later(self, packets[0])

    def process(self, packet: bytes) -> None:
        """Process the Hello, or the response to a challenge."""
        if self.is_closed:
            return
        response, self._response = self._response, None
        if response is not None:
            self._take_response(response, packet)
            return
        try:
            hello = messages.decode(packet)
            if not isinstance(hello, Hello) or hello.magic != MAGIC:
                raise ProtocolError("a session begins with Hello")
            self.account, self.client_id = hello.account, hello.client_id
            self._check_delay()
            self._login = self._owner.open_session(self, hello)
        except Exception:
            self._refuse_failure(Failure())
            return
        self._login.addCallbacks(lambda _: self._end_opened(), self._refuse_failure)

    def ask(self, challenge: bytes) -> Deferred[bytes]:
        """Send a challenge of the login; return the client's response."""
        self._response = Deferred()
        self._is_awaiting = True
        self.channel.send([messages.encode(Challenge(challenge))])
        return self._response

    def _take_response(self, response: Deferred[bytes], packet: bytes) -> None:
        try:
            message = messages.decode(packet)
            if not isinstance(message, Response):
                raise ProtocolError("a client answers a challenge with a response")
        except BrokerError as error:
            self.refuse(error)
            return
        response.callback(message.data)

    def _check_delay(self) -> None:
        """Raises `Overloaded`. Guesses side by side would precede the delay for the first one."""
        owner, pair = self._owner, (self.address, self.account)
        if not self.account:
            return
        wait = owner.delays.find_wait(*pair, owner.clock.seconds())
        if wait > 0 or owner.logins[pair] >= owner.limits().max_logins:
            owner.delay_limit.count_reached()
            problem = "failed logins" if wait else "logins"
            raise Overloaded(
                f"too many {problem} of this account from {self.host}: try again in {wait:.0f} s"
            )
        owner.logins[pair] += 1
        self._counts_as_login = True

    def _end_opened(self) -> None:
        if not self.is_closed:
            self._owner.record_login(self)
            self._close()

    def _refuse_failure(self, failure: Failure) -> None:
        error = failure.value
        if isinstance(error, CancelledError) and self.is_closed:
            return
        if isinstance(error, AuthenticationFailed) and self.account:
            now = self._owner.clock.seconds()
            self._owner.delays.record_failure(self.address, self.account, now)
        if not isinstance(error, BrokerError):
            self._owner.log.failure("a handshake failed", failure)
            error = ProtocolError("the node could not check this handshake")
        self.refuse(error)

    def refuse(self, error: BrokerError) -> None:
        if not self.is_closed:
            self._close()
            if self.client_id:
                self._owner.record_attempt(self, error)
            self._owner.refuse(self.channel, error, self.account)

    def channel_lost(self, error: BrokerError | None) -> None:
        if not self.is_closed:
            self._close()
            if isinstance(error, PeerError):
                self._owner.count_refused(self.channel, error, self.account)

    def writable_changed(self, writable: bool) -> None:
        """A handshake is too short to fill the send buffer."""

    def _close(self) -> None:
        self.is_closed = True
        if self._timeout.active():
            self._timeout.cancel()
        self._owner.remove(self)
        if self._counts_as_login:
            pair = self.address, self.account
            self._owner.logins[pair] -= 1
            if not self._owner.logins[pair]:
                del self._owner.logins[pair]
        if self._login is not None:
            # No effect on a login that has ended. The check of an ended connection is dropped.
            self._login.cancel()
