from __future__ import annotations

import pytest
from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.error import ConnectionRefusedError as Refused
from twisted.internet.interfaces import IAddress, IProtocol, IProtocolFactory
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock, StringTransportWithDisconnection
from twisted.trial.unittest import SynchronousTestCase
from twisted.web.client import Agent
from twisted.web.iweb import IAgentEndpointFactory
from zope.interface import implementer
from zope.interface.verify import verifyObject

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdSource
from broker.dtd.pointer_source import AllowedPrefix, PointerLimits, PointerSource
from broker.dtd.reference import DtdReference
from broker.errors import ConfigurationError, ForbiddenPointer, UnknownType

FLIGHT = DtdReference("flight", "9.9")
PLACE = "https://dtd.example:8443/types/"


@implementer(IAgentEndpointFactory)
class MemoryServers:
    """Returns transports whose other end the test controls."""

    def __init__(self) -> None:
        self.uris: list[bytes] = []
        self.transports: list[StringTransportWithDisconnection] = []
        self.refuse = False

    def endpointForURI(self, uri: object) -> MemoryServers:
        self.uris.append(uri.toBytes())  # type: ignore[attr-defined]
        return self

    def connect(self, factory: IProtocolFactory) -> Deferred[IProtocol]:
        if self.refuse:
            return fail(Refused("nobody there"))
        address: IAddress = None  # type: ignore[assignment]
        protocol = factory.buildProtocol(address)
        assert protocol is not None
        transport = StringTransportWithDisconnection()
        transport.protocol = protocol
        # A real transport aborts at once, like a lost connection.
        transport.abortConnection = transport.loseConnection  # type: ignore[method-assign]
        protocol.makeConnection(transport)
        self.transports.append(transport)
        return succeed(protocol)


class PointerTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.servers = MemoryServers()
        agent = Agent.usingEndpointFactory(MemoryReactorClock(), self.servers)
        self.source = PointerSource(
            agent,
            self.clock,
            [AllowedPrefix.parse(PLACE), AllowedPrefix.parse("http://plain.example")],
            PointerLimits(max_bytes=1000, timeout=5.0),
        )
        self.agent = agent

    def fetch(self, url: str) -> Deferred[bytes]:
        return self.source.fetch(FLIGHT, FetchHint(url))

    def answer(self, data: bytes) -> None:
        protocol = self.servers.transports[-1].protocol
        assert protocol is not None
        protocol.dataReceived(data)

    def closed(self) -> bool:
        return not self.servers.transports[-1].connected

    def test_it_is_a_source(self) -> None:
        self.assertTrue(verifyObject(IDtdSource, self.source))

    def test_an_allowed_pointer_is_fetched(self) -> None:
        found = self.fetch(PLACE + "flight-9.9.dtd")
        self.assertIn(b"GET /types/flight-9.9.dtd", self.servers.transports[0].value())
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n<!-- ")
        self.assertEqual(self.successResultOf(found), b"<!-- ")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_body_may_come_in_chunks_of_unknown_length(self) -> None:
        found = self.fetch(PLACE + "a.dtd")
        self.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        self.assertNoResult(found)
        self.answer(b"2\r\nde\r\n0\r\n\r\n")
        self.assertEqual(self.successResultOf(found), b"abcde")

    def test_by_default_nothing_is_allowed(self) -> None:
        source = PointerSource(self.agent, self.clock)
        self.failureResultOf(source.fetch(FLIGHT, FetchHint(PLACE + "a")), ForbiddenPointer)
        self.assertEqual(self.servers.uris, [])

    def test_an_event_without_a_pointer_has_no_dtd_to_fetch(self) -> None:
        failure = self.failureResultOf(self.fetch(""), UnknownType)
        self.assertNotIsInstance(failure.value, ForbiddenPointer)

    def test_forbidden_places_are_not_even_asked(self) -> None:
        for url in FORBIDDEN:
            self.failureResultOf(self.fetch(url), ForbiddenPointer)
        self.assertEqual(self.servers.uris, [])

    def test_a_redirect_is_not_followed(self) -> None:
        for status in (301, 302, 303, 307, 308):
            found = self.fetch(PLACE + "a.dtd")
            self.answer(
                b"HTTP/1.1 %d Moved\r\nLocation: http://169.254.169.254/\r\n"
                b"Content-Length: 100\r\n\r\n" % status
            )
            self.failureResultOf(found, ForbiddenPointer)
            self.assertTrue(self.closed())
        self.assertEqual(len(self.servers.uris), 5)

    def test_another_status_is_an_error(self) -> None:
        found = self.fetch(PLACE + "a.dtd")
        self.answer(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
        self.assertIn("status 404", str(self.failureResultOf(found, UnknownType).value))

    def test_a_body_announced_too_large_is_not_read(self) -> None:
        found = self.fetch(PLACE + "a.dtd")
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\nxxx")
        self.assertIn("longer than 1000", str(self.failureResultOf(found, UnknownType).value))
        self.assertTrue(self.closed())

    def test_a_body_that_turns_out_too_large_is_cut_off(self) -> None:
        found = self.fetch(PLACE + "a.dtd")
        self.answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(10):
            self.answer(b"64\r\n" + b"x" * 100 + b"\r\n")
        self.assertNoResult(found)
        self.answer(b"1\r\nx\r\n")
        self.assertIn("longer than 1000", str(self.failureResultOf(found, UnknownType).value))
        self.assertTrue(self.closed())

    def test_a_server_that_does_not_answer_is_given_up(self) -> None:
        found = self.fetch(PLACE + "a.dtd")
        self.clock.advance(4.9)
        self.assertNoResult(found)
        self.clock.advance(0.2)
        self.assertIn("within 5 s", str(self.failureResultOf(found, UnknownType).value))
        self.assertTrue(self.closed())

    def test_a_server_that_trickles_is_given_up_as_well(self) -> None:
        found = self.fetch(PLACE + "a.dtd")
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n")
        for _ in range(49):
            self.clock.advance(0.1)
            self.answer(b"x")
        self.assertNoResult(found)
        self.clock.advance(0.2)
        self.assertIn("within 5 s", str(self.failureResultOf(found, UnknownType).value))
        self.assertTrue(self.closed())

    def test_a_connection_lost_halfway_is_reported(self) -> None:
        found = self.fetch(PLACE + "a.dtd")
        self.answer(b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\nxxx")
        self.servers.transports[-1].loseConnection()
        self.failureResultOf(found, UnknownType)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_unreachable_server_is_an_error(self) -> None:
        self.servers.refuse = True
        failure = self.failureResultOf(self.fetch(PLACE + "a.dtd"), UnknownType)
        self.assertIn("nobody there", str(failure.value))

    def test_a_server_without_http_is_an_error(self) -> None:
        found = self.fetch(PLACE + "a.dtd")
        self.answer(b"SSH-2.0-OpenSSH_9.2\r\n")
        self.failureResultOf(found, UnknownType)


FORBIDDEN = [
    # other schemes, hosts, ports and paths
    "http://dtd.example:8443/types/a.dtd",
    "ftp://dtd.example:8443/types/a.dtd",
    "file:///etc/passwd",
    "https://other.example:8443/types/a.dtd",
    "https://dtd.example/types/a.dtd",
    "https://dtd.example:8444/types/a.dtd",
    "https://dtd.example:8443/typesx/a.dtd",
    "https://dtd.example:8443/types",
    "https://dtd.example:8443/",
    "http://plain.example:8080/a",
    # imitations
    "https://dtd.example:8443/types/../secret",
    "https://dtd.example:8443/types/./../secret",
    "https://dtd.example:8443/types/..",
    "https://dtd.example:8443/types/%2e%2e/secret",
    "https://dtd.example:8443/types/..%2fsecret",
    "https://dtd.example:8443/types//a.dtd",
    "https://dtd.example:8443/types\\..\\secret",
    "https://dtd.example:8443/types/a.dtd?x=1",
    "https://dtd.example:8443/types/a.dtd#x",
    "https://dtd.example:8443@evil.example/types/a.dtd",
    "https://user@dtd.example:8443/types/a.dtd",
    "https://dtd.example:8443.evil.example/types/a.dtd",
    "https://dtd.example.:8443/types/a.dtd",
    "https://dtd.example:99999/types/a.dtd",
    "https://evil.example\n.dtd.example:8443/types/a.dtd",
    "https://dtd.example:8443/types/a b",
    "https://dtd.example:8443/types/\t../x",
    "https://dtd.example:8443/types/é",
    "https:dtd.example:8443/types/a",
    "//dtd.example:8443/types/a",
    "types/a.dtd",
    "https://[::1/",
    "https://dtd.example:8443/types/" + "a" * 3000,
]


def test_a_place_is_written_as_a_url() -> None:
    assert AllowedPrefix.parse("https://Example.org") == AllowedPrefix(
        "https", "example.org", 443, "/"
    )
    assert AllowedPrefix.parse("http://127.0.0.1:8080/a") == AllowedPrefix(
        "http", "127.0.0.1", 8080, "/a/"
    )
    assert AllowedPrefix.parse("http://[::1]:8080/").host == "[::1]"


@pytest.mark.parametrize("url", ["", "ftp://a/", "https://a/../", "https://u@a/", "*"])
def test_a_place_that_is_no_plain_url_can_not_be_allowed(url: str) -> None:
    with pytest.raises(ConfigurationError):
        AllowedPrefix.parse(url)


def test_the_host_of_a_pointer_is_compared_without_case() -> None:
    place = AllowedPrefix.parse("https://dtd.example/x/")
    assert place.covers("https", "dtd.example", 443, "/x/a")
    assert not place.covers("https", "dtd.example", 443, "/x")
