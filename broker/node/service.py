"""The node as a Twisted service: endpoints, timers, and orderly shutdown."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort, IProtocolFactory
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from broker.cluster.dialler import build_dialler
from broker.cluster.listener import NetworkListener
from broker.config import Settings
from broker.config.exposure import find_exposures, find_wider_folders
from broker.config.settings_stream import read_in_process
from broker.errors import BrokerError
from broker.node.child_processes import ChildProcesses, build_child_processes
from broker.node.client_certificates import VerifyingReactor
from broker.node.client_listeners import ClientListeners
from broker.node.descriptors import count_other_connections, reserve_descriptors
from broker.node.garbage_collection import configure_garbage_collector
from broker.node.inputs import Inputs, build_inputs
from broker.node.known_addresses import SAVE_INTERVAL, KnownAddresses
from broker.node.log_levels import LogLevels
from broker.node.node import MAINTENANCE_INTERVAL, TICK_INTERVAL, Node
from broker.node.reload import Reload
from broker.node.reload_signal import ReloadSignal
from broker.node.threads import ReactorThreads
from broker.private_files import PRIVATE_UMASK, use_umask
from broker.sessions.tls_handshakes import PacedTlsReactor
from broker.streams.link_sockets import open_on_reactor
from broker.transport.pending_connections import PendingConnections
from broker.transport.socket.paced_port import PacedReactor
from broker.transport.socket.proxy_header import HeaderReactor, ProxyHeaderFactory
from broker.transport.socket.tcp import TcpChannelFactory


def use_monotonic_time(reactor: Any) -> None:
    """Run the reactor's timers on monotonic time (T17).

    A step of Twisted's wall clock would delay every timer.
    """
    reactor.seconds = time.monotonic


class StartupError(SystemExit, Exception):
    """Ends the process with status 1, without a traceback.

    As an `Exception`, twistd reports it to the process that started a daemon, and removes its pid
    file. As a `SystemExit`, it prints nothing else.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.code = 1


class NodeService(Service):
    log = Logger()

    def __init__(
        self,
        settings: Settings,
        reactor: Any,
        path: Path | None = None,
        reload_signal: ReloadSignal | None = None,
    ) -> None:
        """`path` is that of the configuration, for a reload."""
        self._settings = settings
        self._path = path
        self._reload_signal = reload_signal or ReloadSignal()
        self._reactor = reactor
        self._ports: list[IListeningPort] = []
        self._loops: list[LoopingCall] = []
        self._has_failed = False
        self._network_listener: NetworkListener | None = None
        self.node: Node | None = None
        self._known_addresses: KnownAddresses | None = None
        self.child_processes: ChildProcesses | None = None
        """None without an archive."""
        self._inputs = Inputs(())

    def startService(self) -> None:
        """An error ends the process with one line and status 1."""
        super().startService()
        # twistd has its own option for it.
        use_umask(PRIVATE_UMASK)
        use_monotonic_time(self._reactor)
        Deferred.fromCoroutine(self._start()).addErrback(self._fail_start)
        if self._has_failed:
            raise StartupError("see the log")

    async def _start(self) -> None:
        for exposure in (*find_exposures(self._settings), *find_wider_folders(self._settings)):
            self.log.warn("{exposure}", exposure=exposure)
        if os.geteuid() == 0:
            self.log.warn("the node runs as root: give it a user of its own")
        dialler = build_dialler(self._settings, self._reactor)
        self.child_processes = build_child_processes(self._settings, self._reactor)
        log_levels = LogLevels()
        log_levels.set(self._settings.logging.levels())
        threads = ReactorThreads(self._reactor)
        node = self.node = Node(
            self._settings,
            self._reactor,
            threads,
            dialler=dialler,
            archive=None if self.child_processes is None else self.child_processes.access,
            link_sockets=open_on_reactor(self._reactor, self._settings, dialler.certificate),
        )
        self._reserve_descriptors(node)
        known = self._known_addresses = _known_addresses_of(node)
        known.load()
        listeners = ClientListeners(
            self._listening_reactor(node), self._settings.listen.endpoints, self._verify_clients
        )
        listening = listeners.listen(
            TcpChannelFactory(node.accept_connection, self._settings.limits.max_frame_bytes)
        )
        if self._settings.metrics.endpoint:
            # Twisted's web server takes a tenth of the time of all imports.
            from broker.node.metrics_site import MetricsSite

            endpoint = serverFromString(
                PacedTlsReactor(self._reactor), self._settings.metrics.endpoint
            )
            listening.append(endpoint.listen(MetricsSite(node, self._reactor, node.limit_registry)))
        self._ports = await gatherResults(listening, consumeErrors=True)
        if node.network is not None:
            self._network_listener = NetworkListener(
                self._settings.network, node.network, dialler, self._reactor
            )
            self._ports += await self._network_listener.start()
        if self._path is not None:
            own = dialler.certificate
            node.reload = Reload(
                *(node, partial(read_in_process, self._path), threads, self._reactor),
                certificates=[
                    listeners.load_certificates,
                    node.acceptor.authenticator.load_keys,
                    *([] if own is None else [own.load_again]),
                ],
                log_levels=log_levels,
            )
            reload = node.reload.handle_signal
            self._reload_signal.connect(lambda: self._reactor.callFromThread(reload))
        # A process with threads does not end, so they start when nothing can fail any more.
        node.start()
        if self.child_processes is not None:
            self.child_processes.start(node)
        self._inputs = build_inputs(self._settings, self._reactor)
        node.list_inputs = self._inputs.snapshot
        self._inputs.start()
        configure_garbage_collector()
        for call, every in (
            (self._tick, TICK_INTERVAL),
            (node.run_maintenance, MAINTENANCE_INTERVAL),
            (partial(known.save_later, threads.write_file), SAVE_INTERVAL),
        ):
            loop = LoopingCall(call)
            loop.clock = self._reactor
            loop.start(every, now=False).addErrback(self._log_loop_failure)
            self._loops.append(loop)
        for place, use in self._list_endpoints(len(listening)):
            self.log.info("listening on {place} for {use}", place=place, use=use)
        self.log.info(
            "node {name} is ready: log {origin}, epoch {epoch}, places {first} to {last}",
            name=self._settings.node.name,
            origin=node.event_log.origin,
            epoch=node.event_log.bounds.epoch,
            first=node.event_log.bounds.first,
            last=node.event_log.bounds.last,
        )

    def _listening_reactor(self, node: Node) -> Any:
        """Return the reactor of client endpoints, which may be behind proxies."""
        settings, handshakes = self._settings, node.acceptor.handshakes
        networks = [ip_network(each) for each in settings.listen.proxies]

        def refused(address: str, error: BrokerError) -> None:
            handshakes.count_refusal(address.rpartition(":")[0], f"proxy {address}", error)

        def wrap(factory: IProtocolFactory) -> IProtocolFactory:
            timeout = settings.limits.handshake_timeout
            return ProxyHeaderFactory(factory, networks, timeout, refused)

        reactor = PacedReactor(self._reactor)
        return PacedTlsReactor(HeaderReactor(reactor, wrap) if networks else reactor)

    def _verify_clients(self, reactor: Any) -> Any:
        """Return a reactor whose TLS listeners may verify clients' certificates."""
        authority = self._settings.identity.client_authority
        return reactor if authority is None else VerifyingReactor(reactor, authority)

    def _reserve_descriptors(self, node: Node) -> None:
        handshakes, limits = node.acceptor.handshakes, self._settings.limits
        handshakes.max_connections = reserve_descriptors(count_other_connections(self._settings))
        if handshakes.max_connections < limits.max_sessions + limits.max_handshakes:
            self.log.warn(
                "this process may open too few files for limits.max_sessions and "
                "limits.max_handshakes: {room} connections of clients fit; raise its limit "
                "(LimitNOFILE of systemd, ulimit -n)",
                room=handshakes.max_connections,
            )

    def _tick(self) -> None:
        assert self.node is not None
        self.node.tick()
        if self.child_processes is not None:
            self.child_processes.update(self.node)

    def _list_endpoints(self, own: int) -> Iterator[tuple[str, str]]:
        """Yield endpoints and users; the first `own` ports are not of the network."""
        clients = len(self._settings.listen.endpoints)
        for number, port in enumerate(self._ports):
            use = "clients" if number < clients else "metrics"
            yield format_address(port.getHost()), use if number < own else "other nodes"
        if self._settings.network.udp:
            yield f"{self._settings.network.udp} by UDP", "other nodes"
        if self._settings.network.group:
            yield f"the group {self._settings.network.group}", "members of the cluster"

    def _fail_start(self, failure: Any) -> None:
        error = getattr(failure.value, "subFailure", failure).value
        if isinstance(error, BrokerError | CannotListenError | OSError):
            self.log.critical("the node can not start: {error}", error=error)
        else:
            self.log.failure("the node can not start", failure)
        self._has_failed = True
        node, self.node = self.node, None
        if node is not None:
            node.abandon()
        if self._reactor.running:
            # An endpoint has failed late; a signal is no success either.
            signal.raise_signal(signal.SIGTERM)

    def _log_loop_failure(self, failure: Any) -> None:
        self.log.failure("a regular task of the node failed", failure)

    def stopService(self) -> Deferred[None]:
        """Accepted events are committed."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._reload_signal.ignore()
        for loop in self._loops:
            if loop.running:
                loop.stop()
        # They wait for receipts of this node.
        await self._inputs.stop()
        for port in self._ports:
            await maybeDeferred(port.stopListening)
        if self._network_listener is not None:
            await self._network_listener.stop()
        if self._known_addresses is not None:
            self._known_addresses.save()
        if self.node is not None:
            try:
                await self.node.stop()
                self.log.info("the node has stopped in good order")
            except BrokerError as error:
                self.log.error("the node has stopped, but: {error}", error=error)
        if self.child_processes is not None:
            await self.child_processes.stop()


def _known_addresses_of(node: Node) -> KnownAddresses:
    tables: dict[str, PendingConnections[Any]] = {"clients": node.acceptor.handshakes.pending}
    if node.network is not None:
        tables["nodes"] = node.network.membership.acceptor.pending
    return KnownAddresses(node.settings.node.data / "known-addresses.json", tables)


def format_address(address: Any) -> str:
    if isinstance(address, UNIXAddress):
        return os.fsdecode(address.name or b"a socket without a name")
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
