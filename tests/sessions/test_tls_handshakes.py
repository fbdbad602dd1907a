from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from OpenSSL import SSL
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.ssl import PrivateCertificate
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from broker.sessions import tls_handshakes
from broker.sessions.tls_handshakes import MAX_WAITING, PacedTlsFactory
from tests.system.certificates import make_certificate

#: Twisted passes its own kind of certificates.
pytestmark = pytest.mark.filterwarnings("ignore:Passing pyOpenSSL:DeprecationWarning")


class FakeTransport(StringTransport):
    is_aborted = False

    def abortConnection(self) -> None:
        self.is_aborted = True
        super().abortConnection()


class TurnClock(Clock):
    """A turn of the reactor takes a second."""

    def callLater(self, delay: float, *args: Any, **named: Any) -> IDelayedCall:
        return super().callLater(max(delay, 1.0), *args, **named)


class Ends:
    """A listening end, and a client's half of the handshake."""

    def __init__(self, factory: PacedTlsFactory) -> None:
        self.transport = FakeTransport()
        self.protocol = factory.buildProtocol(None)
        self.protocol.makeConnection(self.transport)
        self._client = SSL.Connection(SSL.Context(SSL.TLS_CLIENT_METHOD))
        self._client.set_connect_state()

    def continue_client(self) -> None:
        """Pass on what the node has sent, and send the answer to it."""
        if self.transport.value():
            self._client.bio_write(self.transport.value())
            self.transport.clear()
        try:
            self._client.do_handshake()
        except SSL.WantReadError:
            pass
        self.protocol.dataReceived(self._client.bio_read(1 << 16))

    def send(self, data: bytes) -> None:
        self._client.send(data)
        self.protocol.dataReceived(self._client.bio_read(1 << 16))


class Recorder(Protocol):
    received = b""

    def dataReceived(self, data: bytes) -> None:
        self.received += data


def make_factory(folder: Path, clock: Clock) -> PacedTlsFactory:
    combined = make_certificate(folder, "node").write_combined()
    context = PrivateCertificate.loadPEM(combined.read_bytes()).options()
    return PacedTlsFactory(context, Factory.forProtocol(Recorder), cast(IReactorTime, clock))


def test_handshakes_take_turns_and_later_data_does_not_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_handshakes, "LOGIN_SLICE_SECONDS", 0.0)
    clock = TurnClock()
    factory = make_factory(tmp_path, clock)
    both = [Ends(factory) for _ in range(2)]
    for each in both:
        each.continue_client()
    assert not any(each.transport.value() for each in both)
    clock.advance(1)
    assert [bool(each.transport.value()) for each in both] == [True, False]
    clock.advance(1)
    assert both[1].transport.value()
    first = both[0]
    first.continue_client()
    clock.advance(1)
    first.send(b"hello")
    assert cast(Recorder, first.protocol.wrappedProtocol).received == b"hello"


def test_a_handshake_is_not_continued_after_its_end(tmp_path: Path) -> None:
    clock = Clock()
    factory = make_factory(tmp_path, clock)
    both = [Ends(factory) for _ in range(2)]
    for each in both:
        each.continue_client()
    both[0].protocol.abortConnection()
    clock.advance(0)
    assert not both[0].transport.value()
    assert both[1].transport.value()


def test_a_connection_that_sends_too_much_before_its_turn_is_aborted(tmp_path: Path) -> None:
    clock = Clock()
    ends = Ends(make_factory(tmp_path, clock))
    ends.protocol.dataReceived(bytes(MAX_WAITING))
    assert not ends.transport.is_aborted
    ends.protocol.dataReceived(b"x")
    assert ends.transport.is_aborted
    clock.advance(0)
    assert not ends.transport.value()
