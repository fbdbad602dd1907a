"""Where connections arrive: the greeting, the credential, and finding or making the session.

A connection that says nothing sensible in time, presents a wrong credential, or is one too many is
told why and closed, before it costs more than a few bytes. A client is in one place at a time: a
higher incarnation supersedes the session of a lower one, and a lower or an equal one of another
process is refused (M25, DESIGN 1).
"""

from __future__ import annotations

import hmac
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.config.settings import LimitSettings
from broker.errors import (
    BrokerError,
    IncarnationRefused,
    PeerError,
    PeerSilent,
    ProtocolError,
    SessionSuperseded,
    ShuttingDown,
    TooManySessions,
    VersionMismatch,
)
from broker.identity import IAuthenticator, Identity
from broker.log.event_log import EventLog
from broker.rate_limited_log import RateLimitedLog
from broker.sessions.session import Session
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel, ISocketReceiver
from broker.transport.view import LinkState
from broker.wire import messages
from broker.wire.messages import MAGIC, PROTOCOL_VERSIONS, Hello, Refuse, Welcome

#: A greeting is no longer than this, so that a stranger can not make the node hold much.
MAX_GREETING = 4096
TOKEN_BYTES = 16
#: Clients whose newest incarnation is kept in memory; those of all others are in the log.
_REMEMBERED = 10_000
_NEWEST = struct.Struct(">Q16s")


@attrs.frozen
class ReceptionLimits:
    """Seconds and counts; see the configuration's `[limits]`."""

    max_sessions: int
    max_sessions_per_account: int
    handshake_timeout: float
    session_lease: float
    max_event_bytes: int
    max_frame_bytes: int

    @classmethod
    def from_settings(cls, said: LimitSettings, envelope_bytes: int) -> ReceptionLimits:
        """Those of the settings."""
        return cls(
            max_sessions=said.max_sessions,
            max_sessions_per_account=said.max_sessions_per_account,
            handshake_timeout=said.handshake_timeout,
            session_lease=said.session_lease,
            max_event_bytes=said.max_event_bytes,
            # An event of the largest size fits, with what is written around it: or its
            # publisher would be cut off, come back and send it again, for ever.
            max_frame_bytes=max(said.max_frame_bytes, said.max_event_bytes + envelope_bytes),
        )


class Reception:
    """All sessions of a node, and the connections that are not yet part of one."""

    log = Logger()

    def __init__(
        self,
        *,
        node: str,
        authenticator: IAuthenticator,
        event_log: EventLog,
        clock: IClock,
        limits: ReceptionLimits,
        make_session: Callable[[Identity, int, bytes], Session],
    ) -> None:
        self._node = node
        self.address: Callable[[], str] = lambda: node
        """Where the node is, for clients that move on to another one."""
        self._authenticator = authenticator
        self._event_log = event_log
        self._clock = clock
        self.limits = limits
        self._make_session = make_session
        self._sessions: dict[tuple[str, int, bytes], Session] = {}
        self._by_client: dict[str, Session] = {}
        self._leases: dict[Session, Any] = {}
        self._greeting: set[_Greeting] = set()
        self._newest: OrderedDict[str, tuple[int, bytes]] = OrderedDict()
        self._closed = False
        self._troubles = RateLimitedLog(
            lambda text: self.log.info("{text}", text=text), clock.seconds
        )
        self.refused: Counter[str] = Counter()
        """Connections that were refused, by error code."""
        self.broken: Counter[str] = Counter()
        """Connections of sessions that broke a rule of the stack or fell silent, by error code."""
        self.ended_by: Counter[str] = Counter()
        """Sessions that the node ended, by error code."""

    @property
    def sessions(self) -> Iterable[Session]:
        """All sessions, connected or within their lease."""
        return self._sessions.values()

    def connected(self, channel: ISocketChannel) -> None:
        """A new connection: it has `handshake_timeout` seconds to say who it is."""
        if self._closed:
            self.refuse(channel, ShuttingDown("the node is being stopped"))
            return
        if len(self._greeting) >= self.limits.max_sessions:
            self.refuse(channel, TooManySessions("too many connections have yet to greet"))
            return
        self._greeting.add(_Greeting(self, channel, self._clock))

    def refuse(self, channel: ISocketChannel, error: BrokerError) -> None:
        """Say why, and close."""
        self.note_refused(channel, error)
        channel.send([messages.encode(Refuse(error.to_wire()))])
        channel.close()

    def note_refused(self, channel: ISocketChannel, error: BrokerError) -> None:
        """Count a connection that was refused, or that showed itself to be none of ours."""
        self.refused[error.code] += 1
        peer = channel.peer_description
        host = peer.rpartition(":")[0]
        self._troubles.report(host, error.code, f"connection from {peer} refused: {error}")

    # ------------------------------------------------------------------ the greeting

    def greeted(self, greeting: _Greeting, hello: Hello) -> Deferred[None]:
        """A connection has said who it is: check it, and give it its session."""
        version = max(set(PROTOCOL_VERSIONS) & set(hello.versions), default=None)
        if version is None:
            raise VersionMismatch(
                f"this node speaks versions {list(PROTOCOL_VERSIONS)}, "
                f"the client {list(hello.versions[:8])}"
            )
        if len(hello.token) != TOKEN_BYTES or not 0 < hello.incarnation < 1 << 63:
            raise ProtocolError("a session token has 16 bytes, an incarnation is 1 to 2**63 - 1")
        secret = hello.secret.encode() if hello.account else None
        identity: Deferred[Identity] = self._authenticator.authenticate(
            hello.client_id, hello.account or None, secret
        )
        identity.addCallback(self._after_previous, hello)
        return identity.addCallback(self._enter, greeting, hello, version)

    def _after_previous(self, identity: Identity, hello: Hello) -> Identity | Deferred[Identity]:
        """Wait for one turn where this greeting ends a session of an earlier process.

        What that process sent before it ended may lie in its socket still: its last positions.
        """
        previous = self._by_client.get(identity.client_id)
        if previous is None or previous.token == hello.token:
            return identity
        later: Deferred[Identity] = Deferred()
        self._clock.callLater(0, later.callback, identity)
        return later

    def _enter(self, identity: Identity, greeting: _Greeting, hello: Hello, version: int) -> None:
        if greeting.lost:
            return
        session = self._session(identity, hello)
        channel = greeting.channel
        session.peer = channel.peer_description
        session.version = version
        channel.send(
            [
                messages.encode(
                    Welcome(
                        version=version,
                        node=self._node,
                        origin=self._event_log.origin,
                        max_event_bytes=self.limits.max_event_bytes,
                        max_frame_bytes=self.limits.max_frame_bytes,
                        address=self.address(),
                    )
                )
            ]
        )
        channel.max_frame = self.limits.max_frame_bytes
        session.driver.attach(channel)
        channel.resume()

    def supersede(self, client_id: str, incarnation: int, token: bytes) -> None:
        """A process of a client is at another node: its session here ends (P11).

        Raises `IncarnationRefused` where a later process is known here.
        """
        self._check_newest(client_id, incarnation, token)
        self._note_newest(client_id, incarnation, token)
        former = self._by_client.get(client_id)
        if former is not None:
            former.end(SessionSuperseded(f"{client_id} is at another node now"))

    def _session(self, identity: Identity, hello: Hello) -> Session:
        """The session that the greeting resumes, or a new one."""
        client_id, incarnation, token = identity.client_id, hello.incarnation, hello.token
        known = self._sessions.get((client_id, incarnation, token))
        if known is not None:
            return known
        self._check_newest(client_id, incarnation, token)
        former = self._by_client.get(client_id)
        if former is not None:
            former.end(SessionSuperseded(f"incarnation {incarnation} of {client_id} has connected"))
        self._check_room(identity)
        self._note_newest(client_id, incarnation, token)
        session = self._make_session(identity, incarnation, token)
        session.connection_changed = self._connection_changed
        self._sessions[(client_id, incarnation, token)] = session
        self._by_client[client_id] = session
        return session

    def _check_newest(self, client_id: str, incarnation: int, token: bytes) -> None:
        newest, newest_token = self._newest_incarnation(client_id)
        if incarnation < newest or (
            incarnation == newest and not hmac.compare_digest(token, newest_token)
        ):
            raise IncarnationRefused(
                f"incarnation {incarnation} of {client_id} is not above {newest}, "
                "which another process of this client has used"
            )

    def _note_newest(self, client_id: str, incarnation: int, token: bytes) -> None:
        if incarnation <= self._newest_incarnation(client_id)[0]:
            return
        self._newest[client_id] = (incarnation, token)
        while len(self._newest) > _REMEMBERED:
            self._newest.popitem(last=False)
        self._event_log.put_client(client_id, _NEWEST.pack(incarnation, token))

    def _newest_incarnation(self, client_id: str) -> tuple[int, bytes]:
        newest = self._newest.get(client_id)
        if newest is None:
            stored = self._event_log.newest_incarnation(client_id)
            newest = (0, b"") if stored is None else _NEWEST.unpack(stored)
        return newest

    def _check_room(self, identity: Identity) -> None:
        if len(self._sessions) >= self.limits.max_sessions:
            raise TooManySessions(f"the node has {self.limits.max_sessions} sessions, its limit")
        if identity.account:
            mine = sum(s.identity.account == identity.account for s in self._sessions.values())
            if mine >= self.limits.max_sessions_per_account:
                raise TooManySessions(f"account {identity.account} has {mine} sessions, its limit")

    def forget(self, greeting: _Greeting) -> None:
        """The greeting is over, one way or the other."""
        self._greeting.discard(greeting)

    # ------------------------------------------------------------------ leases and the end

    def _connection_changed(self, session: Session) -> None:
        lease = self._leases.pop(session, None)
        if lease is not None:
            lease.cancel()
        if isinstance(session.broken_by, PeerError):
            self.broken[session.broken_by.code] += 1
        if session.state is not LinkState.CONNECTED and not session.over:
            self._leases[session] = self._clock.callLater(
                self.limits.session_lease, self._expired, session
            )

    def _expired(self, session: Session) -> None:
        self._leases.pop(session, None)
        session.end(PeerSilent("the session's lease ran out"))

    def ended(self, session: Session) -> None:
        """A session is over: forget it."""
        if session.ended_by is not None:
            self.ended_by[session.ended_by.code] += 1
        lease = self._leases.pop(session, None)
        if lease is not None:
            lease.cancel()
        key = (session.identity.client_id, session.incarnation, session.token)
        self._sessions.pop(key, None)
        if self._by_client.get(session.identity.client_id) is session:
            del self._by_client[session.identity.client_id]

    def close(self) -> None:
        """Take no more connections, and send everyone away with the reason."""
        self._closed = True
        reason = ShuttingDown("the node is being stopped")
        for greeting in list(self._greeting):
            greeting.failed(reason)
        for session in list(self._sessions.values()):
            session.end(reason)


@implementer(ISocketReceiver)
class _Greeting:
    """One connection before it belongs to a session."""

    def __init__(self, reception: Reception, channel: ISocketChannel, clock: IClock) -> None:
        self._reception = reception
        self.channel = channel
        self.lost = False
        self._answering = False
        self._timeout = clock.callLater(
            reception.limits.handshake_timeout,
            lambda: self.failed(PeerSilent("no greeting came in time")),
        )
        channel.max_frame = MAX_GREETING
        channel.receiver = self

    def packets_received(self, packets: Any) -> None:
        if self._answering or len(packets) != 1:
            self.failed(ProtocolError("a client waits for the node's welcome"))
            return
        self._answering = True
        self.channel.pause()
        try:
            hello = messages.decode(packets[0])
            if not isinstance(hello, Hello) or hello.magic != MAGIC:
                raise ProtocolError("a session begins with Hello")
            entered = self._reception.greeted(self, hello)
        except BrokerError as error:
            self.failed(error)
            return
        entered.addCallbacks(lambda _: self._end(), self._refused)

    def _refused(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, BrokerError):
            Reception.log.failure("a greeting failed", failure)
            error = ProtocolError("the node could not check this greeting")
        self.failed(error)

    def failed(self, error: BrokerError) -> None:
        """Refuse the connection."""
        if not self.lost:
            self._end()
            self._reception.refuse(self.channel, error)

    def channel_lost(self, error: BrokerError | None) -> None:
        if not self.lost:
            self._end()
            if isinstance(error, PeerError):
                self._reception.note_refused(self.channel, error)

    def writable_changed(self, writable: bool) -> None:
        """A greeting is too short to fill anything."""

    def _end(self) -> None:
        self.lost = True
        if self._timeout.active():
            self._timeout.cancel()
        self._reception.forget(self)
