from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from broker.audit import NoAuditLog
from broker.errors import (
    AuthenticationFailed,
    BrokerError,
    Overloaded,
    PeerSilent,
    ProtocolError,
    ShuttingDown,
    TooManySessions,
    from_wire,
)
from broker.limit_registry import LimitRegistry
from broker.sessions.handshakes import ClientHandshakes, Handshake, HandshakeLimits
from broker.transport.socket.closing import CLOSE_TIMEOUT, MAX_CLOSING
from broker.wire import messages
from broker.wire.messages import MAGIC, PROTOCOL_VERSIONS, Goodbye, Hello, Refuse

TIMEOUT = 5.0


@attrs.define(eq=False)
class FakeChannel:
    """`close` waits for the peer, as a TLS channel does."""

    peer_description: str
    receiver: Any = None
    max_frame: int = 0
    sent: list[bytes] = attrs.field(factory=list)
    is_closing: bool = False
    aborted: BrokerError | None = None

    def send(self, packets: list[bytes]) -> None:
        self.sent += packets

    def close(self) -> None:
        self.is_closing = True

    def abort(self, error: BrokerError) -> None:
        self.aborted = error

    def receive(self, *packets: bytes) -> None:
        self.receiver.packets_received(list(packets))

    @property
    def refusal(self) -> BrokerError:
        (packet,) = self.sent
        message = messages.decode(packet)
        assert isinstance(message, Refuse) and self.is_closing
        return from_wire(message.error)


class Acceptor:
    def __init__(self, most: int = 8, of_address: int = 4) -> None:
        self.clock = Clock()
        self.registry = LimitRegistry()
        self.connected = 0
        self.logins: list[tuple[Handshake, Deferred[None]]] = []
        limits = HandshakeLimits(most, of_address, TIMEOUT, max_logins=3)
        self.handshakes = ClientHandshakes(
            *(self.clock, lambda: limits, self.registry, NoAuditLog()),
            open_session=self.open_session,
            count_connected=lambda: self.connected,
        )

    def open_session(self, handshake: Handshake, hello: Hello) -> Deferred[None]:
        login: Deferred[None] = Deferred()
        self.logins.append((handshake, login))
        return login

    def connect(self, host: str = "192.0.2.1", account: str | None = None) -> FakeChannel:
        """Send a Hello of an account, if any."""
        channel = FakeChannel(f"{host}:50000")
        self.handshakes.accept(cast(Any, channel))
        if account is not None:
            channel.receive(hello(account))
            self.clock.advance(0)
        return channel

    def used(self, name: str) -> tuple[float, int]:
        """Return use, and how often the bound was reached."""
        (limit,) = (each for each in self.registry if each.name == name)
        return limit.find_used(), limit.reached


def hello(account: str) -> bytes:
    return messages.encode(
        Hello(
            magic=MAGIC,
            versions=PROTOCOL_VERSIONS,
            client_id="c",
            incarnation=1,
            token=bytes(16),
            account=account,
            credential="guess",
        )
    )


def test_connections_beyond_a_bound_are_refused_with_the_reason() -> None:
    acceptor = Acceptor()
    channels = [acceptor.connect() for _ in range(5)]
    assert isinstance(channels[4].refusal, TooManySessions)
    assert acceptor.used("address-handshakes") == (4, 1)
    acceptor.clock.advance(1.0)
    acceptor.connect()
    assert isinstance(channels[0].refusal, TooManySessions)
    for number in range(10):
        acceptor.connect(f"192.0.2.{number + 10}")
    # The oldest of the fullest address, until all have one.
    assert all(isinstance(each.refusal, TooManySessions) for each in channels[1:3])
    assert acceptor.used("handshakes")[0] == 6
    assert acceptor.handshakes.refused[TooManySessions.code] == 2 + 8


def test_connection_counts_and_reads_until_its_login_has_ended() -> None:
    acceptor = Acceptor()
    channel = acceptor.connect(account="alice")
    ((handshake, login),) = acceptor.logins
    assert (handshake.account, handshake.host) == ("alice", "192.0.2.1")
    assert acceptor.used("handshakes") == (1, 0)
    login.callback(None)
    assert acceptor.used("handshakes") == (0, 0)
    assert not channel.sent
    acceptor.clock.advance(TIMEOUT)
    assert not channel.sent
    assert not acceptor.clock.getDelayedCalls()


@pytest.mark.parametrize("ends", ["lost", "talks", "late"])
def test_login_of_an_ended_connection_is_cancelled(ends: str) -> None:
    acceptor = Acceptor()
    channel = acceptor.connect(account="alice")
    ((_, login),) = acceptor.logins
    outcomes: list[Any] = []
    login.addBoth(outcomes.append)
    cancelled: list[Deferred[None]] = []
    login._canceller = cancelled.append
    if ends == "lost":
        channel.receiver.channel_lost(None)
        assert not channel.sent
    elif ends == "talks":
        channel.receive(messages.encode(Goodbye()))
        assert isinstance(channel.refusal, ProtocolError)
    else:
        acceptor.clock.advance(TIMEOUT)
        assert isinstance(channel.refusal, PeerSilent)
    assert cancelled == [login]
    assert acceptor.used("handshakes") == (0, 0)


def test_failed_logins_delay_the_account_at_its_address() -> None:
    acceptor = Acceptor()

    def log_in(host: str, account: str) -> FakeChannel:
        channel = acceptor.connect(host, account)
        if acceptor.logins:
            acceptor.logins.pop()[1].errback(AuthenticationFailed("wrong"))
        return channel

    with capturedLogs() as logs:
        for _ in range(4):
            assert isinstance(log_in("192.0.2.1", "alice").refusal, AuthenticationFailed)
    (line,) = (each["text"] for each in logs if "text" in each)
    assert line == "connection from 192.0.2.1:50000 of account 'alice' refused: wrong"
    refusal = log_in("192.0.2.1", "alice").refusal
    assert isinstance(refusal, Overloaded) and "try again in 1 s" in str(refusal)
    assert acceptor.used("login-delay-seconds") == (1.0, 1)
    for host, account in (("192.0.2.1", "bob"), ("192.0.2.2", "alice")):
        assert isinstance(log_in(host, account).refusal, AuthenticationFailed)
    acceptor.clock.advance(1.0)
    acceptor.connect("192.0.2.1", "alice")
    acceptor.logins.pop()[1].callback(None)
    assert isinstance(log_in("192.0.2.1", "alice").refusal, AuthenticationFailed)


def test_simultaneous_logins_of_an_account_at_an_address_are_bounded() -> None:
    acceptor = Acceptor(most=20, of_address=20)
    for _ in range(3):
        assert not acceptor.connect("192.0.2.1", "alice").sent
    assert isinstance(acceptor.connect("192.0.2.1", "alice").refusal, Overloaded)
    for host, account in (("192.0.2.1", "bob"), ("192.0.2.2", "alice")):
        assert not acceptor.connect(host, account).sent
    acceptor.logins[0][1].callback(None)
    assert not acceptor.connect("192.0.2.1", "alice").sent
    for _, login in acceptor.logins[1:]:
        login.callback(None)
    assert not acceptor.handshakes.logins


def test_failed_logins_without_an_account_delay_nobody() -> None:
    acceptor = Acceptor(most=20, of_address=20)
    for _ in range(8):
        channel = acceptor.connect(account="")
        acceptor.logins.pop()[1].errback(AuthenticationFailed("wrong token"))
        assert isinstance(channel.refusal, AuthenticationFailed)


def test_channels_that_do_not_close_are_aborted() -> None:
    acceptor = Acceptor(most=2 * MAX_CLOSING, of_address=1)
    acceptor.connect()
    refused = [acceptor.connect() for _ in range(MAX_CLOSING + 2)]
    assert [each.aborted is not None for each in refused[:3]] == [True, True, False]
    closed = refused[-1]
    closed.receiver.channel_lost(None)
    acceptor.clock.advance(CLOSE_TIMEOUT)
    assert all(each.aborted for each in refused[:-1])
    assert closed.aborted is None


def test_descriptors_bound_all_connections_together() -> None:
    acceptor = Acceptor()
    acceptor.handshakes.max_connections = 4
    acceptor.connected = 2
    first, second = acceptor.connect("a"), acceptor.connect("b")
    acceptor.connect("c")
    assert isinstance(first.refusal, TooManySessions)
    assert not second.sent
    acceptor.connected = 4
    assert isinstance(acceptor.connect("d").refusal, TooManySessions)


def test_stopping_refuses_all() -> None:
    acceptor = Acceptor()
    silent, waiting = acceptor.connect(), acceptor.connect(account="alice")
    acceptor.logins[0][1].addErrback(lambda failure: failure.trap(CancelledError))
    acceptor.handshakes.close()
    for each in (silent, waiting, acceptor.connect()):
        assert isinstance(each.refusal, ShuttingDown)
    acceptor.clock.advance(CLOSE_TIMEOUT)
    assert not acceptor.clock.getDelayedCalls()
