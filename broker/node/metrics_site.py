"""HTTP site of metrics, health and readiness.

Whoever reaches it is a stranger. So connections are bounded, each has one request without content,
and pages take at most a tenth of the node's time.
"""

from __future__ import annotations

import time
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IAddress, IDelayedCall
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web import http
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request, Site

from broker.errors import BrokerError
from broker.limit_registry import Limit, LimitRegistry
from broker.node.descriptors import METRICS_CONNECTIONS
from broker.node.metrics import NodeCollector
from broker.node.status import InspectedNode
from broker.transport.pending_connections import PendingConnections

MOST_OF_ADDRESS: Final = 16
#: Seconds for a request, and for the reading of its answer.
TIMEOUT: Final = 10.0
#: In durations of the last page. Requests meanwhile share the next one.
PAUSE_FACTOR: Final = 9.0


class _MetricsPage(Resource):
    isLeaf = True

    def __init__(self, node: InspectedNode, reactor: Any) -> None:
        super().__init__()
        self._node = node
        self._reactor = reactor
        self._registry = CollectorRegistry()
        self._registry.register(NodeCollector(node))
        self._waiting: dict[Request, None] = {}
        self._pause: IDelayedCall | None = None

    def render_GET(self, request: Request) -> bytes | int:
        """`/health`: the process answers. `/ready`: it accepts events."""
        request.setHeader(b"content-type", b"text/plain; charset=utf-8")
        if request.path == b"/metrics":
            self._waiting[request] = None
            request.notifyFinish().addErrback(lambda _: self._waiting.pop(request, None))
            if self._pause is None:
                self._answer_waiting()
            return NOT_DONE_YET
        if request.path == b"/health":
            return b"ok\n"
        if request.path == b"/ready":
            try:
                self._node.event_log.check_available()
            except BrokerError as error:
                request.setResponseCode(503)
                return f"{error}\n".encode()
            return b"ready\n"
        request.setResponseCode(404)
        return b"there are /metrics, /health and /ready\n"

    def _answer_waiting(self) -> None:
        began = time.perf_counter()
        page = generate_latest(self._registry)
        pause = PAUSE_FACTOR * (time.perf_counter() - began)
        self._pause = self._reactor.callLater(pause, self._end_pause)
        waiting, self._waiting = self._waiting, {}
        for request in waiting:
            request.setHeader(b"content-length", b"%d" % len(page))
            request.write(page)
            request.finish()

    def _end_pause(self) -> None:
        self._pause = None
        if self._waiting:
            self._answer_waiting()


class _MetricsChannel(http.HTTPChannel):
    """A connection with one request without content.

    Further ones would be answered in the same turn of the reactor, and content fills the disk.
    """

    site: MetricsSite

    def connectionMade(self) -> None:
        super().connectionMade()
        self.site.add_connection(self, host_of(self.stream.getPeer()))

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self.site.connections.remove(self)
        super().connectionLost(reason)

    def checkPersistence(self, request: http.Request, version: bytes) -> bool:
        request.responseHeaders.setRawHeaders(b"Connection", [b"close"])
        return False

    def allHeadersReceived(self) -> None:
        super().allHeadersReceived()
        if self.length != 0:
            self.stream.write(b"HTTP/1.1 413 Content Too Large\r\nConnection: close\r\n\r\n")
            self.loseConnection()

    def rawDataReceived(self, data: bytes) -> None:
        """Drop content, and further requests."""

    def requestDone(self, request: http.Request) -> None:
        super().requestDone(request)
        self.setTimeout(self.timeOut)
        self.site.connections.add_known_address(host_of(self.stream.getPeer()))

    def timeoutConnection(self) -> None:
        self.stream.abortConnection()

    @property
    def stream(self) -> Any:
        """The transport: none of Twisted's interfaces has `abortConnection`."""
        return self.transport


class MetricsSite(Site):
    noisy = False
    protocol = _MetricsChannel  # type: ignore[assignment]  # as Twisted's own subclasses

    def __init__(self, node: InspectedNode, reactor: Any, limits: LimitRegistry) -> None:
        super().__init__(_MetricsPage(node, reactor), timeout=TIMEOUT, reactor=reactor)
        self.connections: PendingConnections[_MetricsChannel] = PendingConnections()
        self._limit = limits.add(
            "metrics-connections",
            bound=lambda: METRICS_CONNECTIONS,
            used=lambda: len(self.connections),
        )
        self._address_limit = limits.add(
            "address-metrics-connections",
            per="address",
            bound=lambda: MOST_OF_ADDRESS,
            used=lambda: self.connections.most_of_one_address,
        )

    def add_connection(self, channel: _MetricsChannel, host: str) -> None:
        """Count a connection, and close those for which there is no room."""
        dropped = self.connections.add(
            *(channel, host, self.reactor.seconds()),
            most=METRICS_CONNECTIONS,
            most_of_address=MOST_OF_ADDRESS,
        )
        for each in dropped:
            self._find_limit().count_reached()
            # One with an unread answer would stay.
            each.stream.abortConnection()

    def _find_limit(self) -> Limit:
        is_of_address = self.connections.most_of_one_address >= MOST_OF_ADDRESS
        return self._address_limit if is_of_address else self._limit

    def log(self, request: http.Request) -> None:
        """Do nothing: logged requests would hide other messages."""


def host_of(peer: IAddress) -> str:
    """Empty for a UNIX socket."""
    return peer.host if isinstance(peer, IPv4Address | IPv6Address) else ""
