"""The client under Twisted: its awaitables are Deferreds, its addresses endpoint strings."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.endpoints import HostnameEndpoint, clientFromString, wrapClientTLS
from twisted.internet.interfaces import IDelayedCall, IReactorTime, IStreamClientEndpoint
from twisted.internet.ssl import (
    Certificate,
    PrivateCertificate,
    optionsForClientTLS,
    trustRootFromCertificates,
)
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure

from broker.client.address import (
    NO_FILES,
    TlsFiles,
    load_certificates,
    make_tls_context,
    parse_address,
)
from broker.client.client import Client
from broker.client.loop import T
from broker.client.settings import client_settings
from broker.errors import BrokerError, NotConnected
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel
from broker.transport.socket.datagram_socket import DatagramSocket
from broker.transport.socket.datagram_transport import IDatagramPort, OnDatagrams
from broker.transport.socket.free_port import open_datagram_socket
from broker.transport.socket.tcp import TcpChannelFactory


class DeferredPromise:
    def __init__(self) -> None:
        self.awaitable: Deferred[Any] = Deferred()

    def fulfil(self, value: Any) -> None:
        if not self.awaitable.called:
            self.awaitable.callback(value)

    def fail(self, error: Exception) -> None:
        if not self.awaitable.called:
            self.awaitable.errback(error)


def run_with_timeout(
    clock: IClock, work: Coroutine[Any, Any, Any], seconds: float
) -> Deferred[Any]:
    def late(result: Any, _: float) -> Any:
        if isinstance(result, Failure) and result.check(CancelledError):
            return Failure(TimeoutError())
        return result

    return Deferred.fromCoroutine(work).addTimeout(seconds, cast(IReactorTime, clock), late)


class TwistedLoop:
    """Implementation of `Loop`."""

    cancelled_error: type[BaseException] = CancelledError

    def __init__(self, reactor: Any, files: TlsFiles = NO_FILES) -> None:
        self._reactor = reactor
        self._files = files
        self.clock: IClock = cast(IClock, IReactorTime(reactor))

    def make_promise(self) -> DeferredPromise:
        return DeferredPromise()

    def call_soon(self, call: Callable[[], None]) -> None:
        self._reactor.callLater(0, call)

    def run_with_timeout(self, work: Coroutine[Any, Any, Any], seconds: float) -> Deferred[Any]:
        return run_with_timeout(self.clock, work, seconds)

    def run_in_thread(self, call: Callable[[], None]) -> None:
        """Run in the reactor's pool, which is joined when the reactor stops."""
        self._reactor.callInThread(call)

    def compute(self, call: Callable[[], T], done: Callable[[T], None]) -> None:
        """Run in the reactor's pool."""
        deferToThreadPool(self._reactor, self._reactor.getThreadPool(), call).addCallback(done)

    def open_port(self, host: str, on_datagrams: OnDatagrams) -> IDatagramPort:
        return DatagramSocket(self._reactor, open_datagram_socket(host), on_datagrams)

    def dial(
        self,
        endpoint: str,
        connected: Callable[[ISocketChannel], None],
        failed: Callable[[BrokerError], None],
    ) -> Callable[[], object]:
        """Connect to any of Twisted's client endpoint strings."""

        def refused(failure: Failure) -> None:
            if not failure.check(CancelledError):
                failed(NotConnected(f"{endpoint}: {failure.getErrorMessage()}"))

        try:
            attempt = self._endpoint(endpoint).connect(TcpChannelFactory(connected))
        except (BrokerError, OSError, ValueError, TypeError) as error:
            problem = NotConnected(f"endpoint {endpoint!r}: {error}")
            return cast(IDelayedCall, self._reactor.callLater(0, failed, problem)).cancel
        attempt.addErrback(refused)
        return attempt.cancel

    def _endpoint(self, endpoint: str) -> IStreamClientEndpoint:
        files = self._files
        if files.is_default or not endpoint.startswith("tls:"):
            return cast(IStreamClientEndpoint, clientFromString(self._reactor, endpoint))
        # An endpoint string can name a folder of certificates, but not a file.
        _, host, port = parse_address(endpoint)
        roots, own, chain = None, None, []
        if files.trust is not None:
            roots = trustRootFromCertificates(
                map(Certificate.loadPEM, load_certificates(files.trust))
            )
        if files.certificate is not None:
            certificate, *others = load_certificates(files.certificate)
            key = (files.key or files.certificate).read_bytes()
            own = PrivateCertificate.loadPEM(certificate + b"\n" + key)
            chain = [Certificate.loadPEM(text).original for text in others]
        options = optionsForClientTLS(
            host, roots, own, extraCertificateOptions={"extraCertChain": chain} if chain else None
        )
        return wrapClientTLS(options, HostnameEndpoint(self._reactor, host, port))


def connect(
    *endpoints: str,
    client_id: str = "",
    account: str = "",
    secret: str = "",
    state: Path | None = None,
    token_file: Path | None = None,
    trust: Path | None = None,
    certificate: Path | None = None,
    key: Path | None = None,
    reactor: Any = None,
    longest_wait: float = 30.0,
    allow_cleartext: bool = False,
    **bounds: int,
) -> Client:
    """Return a client that connects to the first of `endpoints` that answers.

    `trust`, `certificate` and `key` are PEM files for `tls:` endpoints: authorities (default: the
    system's), and the client's certificate with its key. `client_settings` describes the other
    arguments. Raises `ConfigurationError` if a file is not usable.
    """
    if reactor is None:
        from twisted.internet import reactor as installed

        reactor = installed
    settings = client_settings(
        client_id=client_id,
        account=account,
        secret=secret,
        token_file=token_file,
        certificate=certificate,
        key=key,
        state=state,
        longest_wait=longest_wait,
        allow_cleartext=allow_cleartext,
        **bounds,
    )
    files = TlsFiles(trust, certificate, key)
    if not files.is_default:
        make_tls_context(files)
    client = Client(TwistedLoop(reactor, files), endpoints or ("tcp:127.0.0.1:8765",), settings)
    client.start()
    return client
