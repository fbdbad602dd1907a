"""Acceptor of client connections: handshake, authentication, creation or resumption of sessions.

A connection is refused with a reason if its handshake is malformed, late or over a limit. A client
has one session. A higher incarnation supersedes a lower one. A lower incarnation, or an equal one
of another process, is refused (M25, DESIGN 1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.audit import IAuditLog
from broker.config.limits import LimitSettings
from broker.errors import (
    PeerError,
    PeerSilent,
    ProtocolError,
    SessionSuperseded,
    ShuttingDown,
    TooManySessions,
    VersionMismatch,
)
from broker.identity import IAuthenticator, Identity, Login, LoginOffer
from broker.limit_registry import LimitRegistry
from broker.log.event_log import EventLog
from broker.scram.mechanism import parse_credential
from broker.sessions.handshakes import ClientHandshakes, Handshake, HandshakeLimits
from broker.sessions.incarnations import Incarnations
from broker.sessions.login_expiries import LoginExpiries
from broker.sessions.session import Session
from broker.transport.clock import IClock
from broker.transport.sleep import sleep
from broker.transport.socket import ISocketChannel
from broker.transport.view import LinkState
from broker.wire import messages
from broker.wire.messages import LOGIN_VERSION, PROTOCOL_VERSIONS, Hello, Welcome

TOKEN_BYTES = 16


@attrs.frozen
class SessionLimits:
    """Limits from `[limits]` of the configuration; times in seconds."""

    max_sessions: int
    max_sessions_per_account: int
    max_clients: int
    handshakes: HandshakeLimits
    session_lease: float
    max_event_bytes: int
    max_frame_bytes: int

    @classmethod
    def from_settings(cls, settings: LimitSettings, envelope_bytes: int) -> SessionLimits:
        return cls(
            max_sessions=settings.max_sessions,
            max_sessions_per_account=settings.max_sessions_per_account,
            max_clients=settings.max_clients,
            handshakes=HandshakeLimits(
                settings.max_handshakes,
                settings.max_handshakes_per_address,
                settings.handshake_timeout,
                settings.max_sessions_per_account,
            ),
            session_lease=settings.session_lease,
            max_event_bytes=settings.max_event_bytes,
            # A frame must hold the largest event and its envelope. Otherwise its publisher would be
            # disconnected and send it again, forever.
            max_frame_bytes=max(
                settings.max_frame_bytes, settings.max_event_bytes + envelope_bytes
            ),
        )


class SessionAcceptor:
    """The sessions of a node, and connections before their handshake."""

    log = Logger()

    def __init__(
        self,
        *,
        node_name: str,
        address: Callable[[], str],
        authenticator: IAuthenticator,
        revise: Callable[[Identity], Identity],
        event_log: EventLog,
        clock: IClock,
        wall_clock: Callable[[], int],
        limits: SessionLimits,
        limit_registry: LimitRegistry,
        audit: IAuditLog,
        make_session: Callable[[Identity, int, bytes], Session],
        check_owner: Callable[[Identity], object],
        count_durables: Callable[[str], int],
    ) -> None:
        """`check_owner` raises `NotOwner` for a ClientId of another account. `count_durables`
        returns the durable subscriptions of a ClientId."""
        self._node_name = node_name
        self._address = address
        self.authenticator = authenticator
        self._revise = revise
        self._event_log = event_log
        self._clock = clock
        self.limits = limits
        self._make_session = make_session
        self._check_owner = check_owner
        self._sessions: dict[tuple[str, int, bytes], Session] = {}
        self._by_client: dict[str, Session] = {}
        self._leases: dict[Session, Any] = {}
        self._expiries = LoginExpiries(clock, wall_clock)
        self.incarnations = Incarnations(
            *(event_log, wall_clock),
            most_clients=lambda: self.limits.max_clients,
            is_in_use=lambda client: client in self._by_client or count_durables(client) > 0,
            limit_registry=limit_registry,
        )
        self.handshakes = ClientHandshakes(
            clock,
            lambda: self.limits.handshakes,
            limit_registry,
            audit,
            open_session=self._open_session,
            count_connected=lambda: len(self._sessions) - len(self._leases),
        )
        self._session_limit = limit_registry.add(
            "sessions",
            setting="limits.max_sessions",
            bound=lambda: self.limits.max_sessions,
            used=lambda: len(self._sessions),
        )
        self._account_limit = limit_registry.add(
            "account-sessions",
            per="account",
            setting="limits.max_sessions_per_account",
            bound=lambda: self.limits.max_sessions_per_account,
            used=self._count_of_busiest_account,
        )
        self.refused_connections = self.handshakes.refused
        self.broken_connections: Counter[str] = Counter()
        """Session connections that violated the protocol or timed out, by error code."""
        self.ended_sessions: Counter[str] = Counter()
        """Sessions that the node ended, by error code."""

    @property
    def sessions(self) -> Iterable[Session]:
        """Sessions that are connected or within their lease."""
        return self._sessions.values()

    def accept_connection(self, channel: ISocketChannel) -> None:
        """Accept a connection with a handshake within `handshake_timeout` seconds."""
        self.handshakes.accept(channel)

    # ------------------------------------------------------------------ the handshake

    def _open_session(self, handshake: Handshake, hello: Hello) -> Deferred[None]:
        version = max(set(PROTOCOL_VERSIONS) & set(hello.versions), default=None)
        if version is None:
            raise VersionMismatch(
                f"this node speaks versions {list(PROTOCOL_VERSIONS)}, "
                f"the client {list(hello.versions[:8])}"
            )
        if len(hello.token) != TOKEN_BYTES or not 0 < hello.incarnation < 1 << 63:
            raise ProtocolError("a session token has 16 bytes, an incarnation is 1 to 2**63 - 1")
        offer = LoginOffer(hello.client_id, handshake.channel, hello.account)
        if version >= LOGIN_VERSION:
            mechanism, data = parse_credential(hello.credential)
            offer = attrs.evolve(offer, mechanism=mechanism, data=data)
        elif hello.account:
            offer = attrs.evolve(offer, sent_secret=hello.credential)
        login: Deferred[Login] = self.authenticator.authenticate(offer, handshake.ask)
        login.addCallback(self._wait_for_previous, hello)
        return login.addCallback(self._attach_connection, handshake, hello, version)

    def _wait_for_previous(self, login: Login, hello: Hello) -> Login | Deferred[Login]:
        """Wait for one turn of the reactor if the Hello ends the session of an earlier process,
        whose socket may hold its last positions."""
        previous = self._by_client.get(login.identity.client_id)
        if previous is None or previous.token == hello.token:
            return login
        return sleep(self._clock).addCallback(lambda _: login)

    def _attach_connection(
        self, login: Login, handshake: Handshake, hello: Hello, version: int
    ) -> None:
        if handshake.is_closed:
            return
        channel, identity = handshake.channel, login.identity
        if not channel.confidential:
            identity = identity.limited_to_cleartext()
        session = self._find_or_create_session(identity, hello)
        session.profile.node_address = address = self._address()
        self._expiries.arm(session, login.expires_at)
        session.peer = channel.peer_description
        session.version = version
        channel.send(
            [
                messages.encode(
                    Welcome(
                        version=version,
                        node=self._node_name,
                        origin=self._event_log.origin,
                        max_event_bytes=self.limits.max_event_bytes,
                        max_frame_bytes=self.limits.max_frame_bytes,
                        address=address,
                        proof=login.proof,
                    )
                )
            ]
        )
        channel.max_frame = self.limits.max_frame_bytes
        session.link.attach(channel)

    def supersede_client(self, client_id: str, incarnation: int, token: bytes) -> None:
        """End the session of a client that has connected to another node (P11).

        Raises `IncarnationRefused` if a later process of the client is known here, and
        `IncarnationAhead`.
        """
        self.incarnations.check(client_id, incarnation, token)
        self.incarnations.store(client_id, incarnation, token)
        previous = self._by_client.get(client_id)
        if previous is not None:
            previous.end(SessionSuperseded(f"{client_id} is at another node now"))

    def reset_client(self, client_id: str) -> tuple[int, bool]:
        """Delete the stored incarnation of a client, and end its session.

        Return the incarnation, 0 without one, and whether there was a session.
        """
        session = self._by_client.get(client_id)
        if session is not None:
            session.end(SessionSuperseded(f"an administrator has reset the client {client_id}"))
        return self.incarnations.reset(client_id), session is not None

    def _find_or_create_session(self, identity: Identity, hello: Hello) -> Session:
        # Accounts may have changed during the login.
        identity = self._revise(identity)
        self._check_owner(identity)
        client_id, incarnation, token = identity.client_id, hello.incarnation, hello.token
        found = self._sessions.get((client_id, incarnation, token))
        if found is not None:
            if found.identity.is_in_cleartext is identity.is_in_cleartext:
                return found
            # Its unsent messages may be above the clearance of this connection.
            found.end(None)
        self.incarnations.check(client_id, incarnation, token)
        previous = self._by_client.get(client_id)
        if previous is not None:
            previous.end(
                SessionSuperseded(f"incarnation {incarnation} of {client_id} has connected")
            )
        self._check_limits(identity)
        self.incarnations.store(client_id, incarnation, token)
        session = self._make_session(identity, incarnation, token)
        session.on_connection_changed = self._connection_changed
        self._sessions[(client_id, incarnation, token)] = session
        self._by_client[client_id] = session
        return session

    def _check_limits(self, identity: Identity) -> None:
        if len(self._sessions) >= self.limits.max_sessions:
            self._session_limit.count_reached()
            raise TooManySessions(f"the node has {self.limits.max_sessions} sessions, its limit")
        if identity.account:
            count = sum(s.identity.account == identity.account for s in self._sessions.values())
            if count >= self.limits.max_sessions_per_account:
                self._account_limit.count_reached()
                raise TooManySessions(f"account {identity.account} has {count} sessions, its limit")

    def _count_of_busiest_account(self) -> int:
        accounts = (session.identity.account for session in self._sessions.values())
        return max(Counter(filter(None, accounts)).values(), default=0)

    # ------------------------------------------------------------------ leases and the end

    def _connection_changed(self, session: Session) -> None:
        lease = self._leases.pop(session, None)
        if lease is not None:
            lease.cancel()
        if isinstance(session.connection_error, PeerError):
            self.broken_connections[session.connection_error.code] += 1
        if session.state is not LinkState.CONNECTED and not session.has_ended:
            self._leases[session] = self._clock.callLater(
                self.limits.session_lease, self._end_expired, session
            )

    def _end_expired(self, session: Session) -> None:
        self._leases.pop(session, None)
        session.end(PeerSilent("the session's lease has expired"))

    def remove_session(self, session: Session) -> None:
        if session.end_reason is not None:
            self.ended_sessions[session.end_reason.code] += 1
        lease = self._leases.pop(session, None)
        if lease is not None:
            lease.cancel()
        self._expiries.arm(session, None)
        key = (session.identity.client_id, session.incarnation, session.token)
        self._sessions.pop(key, None)
        if self._by_client.get(session.identity.client_id) is session:
            del self._by_client[session.identity.client_id]

    def close(self) -> None:
        """Refuse further connections, and end all sessions with the reason."""
        self.handshakes.close()
        reason = ShuttingDown("the node is being stopped")
        for session in list(self._sessions.values()):
            session.end(reason)
