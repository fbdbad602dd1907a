"""The node as a Twisted service: endpoints, timers, and an end in good order."""

from __future__ import annotations

import gc
import os
import signal
import time
from collections.abc import Iterator
from typing import Any

from twisted.application.service import Service
from twisted.internet.address import UNIXAddress
from twisted.internet.defer import Deferred, gatherResults, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.error import CannotListenError
from twisted.internet.interfaces import IListeningPort
from twisted.internet.task import LoopingCall
from twisted.logger import Logger

from broker.cluster.dialler import build_dialler
from broker.cluster.listener import NetworkListener
from broker.config import Settings
from broker.errors import BrokerError, ConfigurationError
from broker.node.child_processes import ProcessesBeside, processes_beside
from broker.node.metrics import metrics_site
from broker.node.node import CARE_EVERY, PROGRESS_EVERY, Node
from broker.node.threads import ReactorThreads
from broker.transport.socket.tcp import TcpChannelFactory

#: Objects made and not freed before the collector looks at them, and how often it looks further:
#: see `gc.set_threshold`.
GC_THRESHOLDS = (10_000, 10, 10)


def use_monotonic_time(reactor: Any) -> None:
    """Let the reactor's timers run on monotonic time (T17).

    Twisted's own `seconds` is the wall clock, and a step back of it delays every timer.
    """
    reactor.seconds = time.monotonic


def collect_rarely() -> None:
    """Let the garbage collector look at what is new now and then, and never at what is loaded.

    A commit holds some thousand objects for as long as the disk takes. At the usual threshold of
    700 they are traced again and again while they live, and with them all that was imported: that
    took up to a seventh of the node's time. What is in no cycle needs no collector.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


class CanNotStart(SystemExit, Exception):
    """Ends the process with status 1 and no traceback.

    It is both: as an `Exception` twistd tells the process that started a daemon, which would wait
    for ever otherwise, and removes its file; as a `SystemExit` it needs no other words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.code = 1


class NodeService(Service):
    """Starts and stops one node."""

    log = Logger()

    def __init__(self, settings: Settings, reactor: Any) -> None:
        self._settings = settings
        self._reactor = reactor
        self._ports: list[IListeningPort] = []
        self._loops: list[LoopingCall] = []
        self._failed = False
        self._listening: NetworkListener | None = None
        self.node: Node | None = None
        self.beside: ProcessesBeside | None = None
        """What archives the node's events and searches the archive."""

    def startService(self) -> None:
        """Open the log and listen. What can not be done ends the process: one line, status 1."""
        super().startService()
        use_monotonic_time(self._reactor)
        Deferred.fromCoroutine(self._start()).addErrback(self._could_not_start)
        if self._failed:
            raise CanNotStart("the log says why")

    async def _start(self) -> None:
        dialler = build_dialler(self._settings, self._reactor)
        self.beside = processes_beside(self._settings, self._reactor)
        node = self.node = Node(
            self._settings,
            self._reactor,
            ReactorThreads(self._reactor),
            dialler=dialler,
            archive=None if self.beside is None else self.beside.access,
        )
        listening = [
            serverFromString(self._reactor, text).listen(
                TcpChannelFactory(node.connected, self._settings.limits.max_frame_bytes)
            )
            for text in self._settings.listen.endpoints
        ]
        if self._settings.metrics.endpoint:
            endpoint = serverFromString(self._reactor, self._settings.metrics.endpoint)
            listening.append(endpoint.listen(metrics_site(node)))
        self._ports = await gatherResults(listening, consumeErrors=True)
        if node.network is not None:
            self._listening = NetworkListener(
                self._settings.network, node.network, dialler, self._reactor
            )
            self._ports += await self._listening.start()
        # Not before it can not fail any more: a process does not end while its threads run.
        node.start()
        if self.beside is not None:
            self.beside.start(node)
        collect_rarely()
        for call, every in ((self._progress, PROGRESS_EVERY), (node.care, CARE_EVERY)):
            loop = LoopingCall(call)
            loop.clock = self._reactor
            loop.start(every, now=False).addErrback(self._loop_failed)
            self._loops.append(loop)
        for place, whom in self._places(len(listening)):
            self.log.info("listening on {place} for {whom}", place=place, whom=whom)
        self.log.info(
            "node {name} is ready: log {origin}, epoch {epoch}, places {first} to {last}",
            name=self._settings.node.name,
            origin=node.event_log.origin,
            epoch=node.event_log.bounds.epoch,
            first=node.event_log.bounds.first,
            last=node.event_log.bounds.last,
        )

    def _progress(self) -> None:
        assert self.node is not None
        self.node.progress()
        if self.beside is not None:
            self.beside.look_at(self.node)

    def _places(self, own: int) -> Iterator[tuple[str, str]]:
        """Where the node listens, and for whom; the first `own` ports are not of the network."""
        clients = len(self._settings.listen.endpoints)
        for number, port in enumerate(self._ports):
            whom = "clients" if number < clients else "who asks for metrics"
            yield address_text(port.getHost()), whom if number < own else "other nodes"
        if self._settings.network.udp:
            yield f"{self._settings.network.udp} by UDP", "other nodes"
        if self._settings.network.group:
            yield f"the group {self._settings.network.group}", "members of the cluster"

    def _could_not_start(self, failure: Any) -> None:
        error = getattr(failure.value, "subFailure", failure).value
        if isinstance(error, BrokerError | CannotListenError | OSError):
            self.log.critical("the node can not start: {error}", error=error)
        else:
            self.log.failure("the node can not start", failure)
        self._failed = True
        node, self.node = self.node, None
        if node is not None:
            node.abandon()
        if self._reactor.running:
            # An endpoint that took its time to fail: the end by a signal is no success either.
            signal.raise_signal(signal.SIGTERM)

    def _loop_failed(self, failure: Any) -> None:
        self.log.failure("a regular task of the node failed", failure)

    def stopService(self) -> Deferred[None]:
        """Stop listening, drain, close."""
        super().stopService()
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        for loop in self._loops:
            if loop.running:
                loop.stop()
        for port in self._ports:
            await maybeDeferred(port.stopListening)
        if self._listening is not None:
            await self._listening.stop()
        if self.node is not None:
            try:
                await self.node.stop()
                self.log.info("the node has stopped in good order")
            except BrokerError as error:
                self.log.error("the node has stopped, but: {error}", error=error)
        if self.beside is not None:
            await self.beside.stop()


def address_text(address: Any) -> str:
    """An address as a person writes it."""
    if isinstance(address, UNIXAddress):
        return os.fsdecode(address.name or b"a socket without a name")
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"


def check_endpoints(settings: Settings, reactor: Any) -> None:
    """Raise `ConfigurationError` for an endpoint string that Twisted can not read."""
    texts = [*settings.listen.endpoints, *settings.network.listen]
    if settings.metrics.endpoint:
        texts.append(settings.metrics.endpoint)
    for text in texts:
        try:
            serverFromString(reactor, text)
        except (ValueError, TypeError, OSError) as error:
            raise ConfigurationError(f"endpoint {text!r}: {error}") from None
