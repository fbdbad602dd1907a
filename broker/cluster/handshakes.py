"""Handshakes on the connections of one listening port: limits, counts, and log messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from broker.cluster import messages
from broker.cluster.acceptor import Acceptor
from broker.cluster.connection_error import to_connection_error
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.handshake import Handshake
from broker.cluster.handshake_core import (
    Accepted,
    Admission,
    Initiator,
    Refusal,
    Refused,
    Responder,
)
from broker.cluster.handshake_messages import NodeHello, NodeRefuse
from broker.cluster.link_log import LinkLog
from broker.errors import BrokerError, Overloaded, PeerError
from broker.transport.channel_binding import CLOSE_TIMEOUT
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel
from broker.transport.socket.closing import ClosingChannels
from broker.transport.socket.contract import peer_host

OnAccepted = Callable[[Accepted, ISocketChannel], None]


class Handshakes:
    """Handshakes on the connections of one listening port, and on dialled ones.

    `Acceptor` bounds those of other nodes.
    """

    log = Logger()

    def __init__(
        self,
        network: str,
        key: bytes | None,
        acceptor: Acceptor[ISocketChannel],
        clock: IClock,
        wall_clock: Callable[[], int],
    ) -> None:
        """`network` is the name of the network, `wall_clock` gives ms since 1970."""
        self.link_log = LinkLog(clock)
        self._network = network
        self._key = key
        self._acceptor = acceptor
        self._clock = clock
        self._wall_clock = wall_clock
        self._failures: dict[str, int] = {}
        self._under_way: dict[Handshake, None] = {}
        self._accepting: dict[ISocketChannel, Handshake] = {}
        """Those of other nodes, by connection."""
        self._closing = ClosingChannels(clock, CLOSE_TIMEOUT)

    @property
    def failures(self) -> Mapping[str, int]:
        """By error code."""
        return self._failures

    def accept(
        self,
        channel: ISocketChannel,
        node: NodeDescriptor,
        transport: str,
        find_error: Callable[[NodeHello, str], BrokerError | None],
        accepted: OnAccepted,
    ) -> None:
        """Answer as `node`. `find_error` takes the hello of the other node, and its host."""
        host = peer_host(channel)
        dropped = self._acceptor.start_handshake(channel, host, self._clock.seconds())
        for each in dropped:
            self._drop(each, channel)
        if channel in dropped:
            return

        def decide(hello: NodeHello, _: bool) -> Admission | Refusal:
            if error := find_error(hello, host):
                return Refusal(error)
            now, wall_ms = self._clock.seconds(), self._wall_clock()
            return self._acceptor.decide_admission(hello, host, transport, now, wall_ms)

        def end_accepted(result: Accepted, channel: ISocketChannel) -> None:
            self._acceptor.end_handshake(channel, accepted_host=host)
            self._accepting.pop(channel, None)
            accepted(result, channel)

        def end_refused(result: Refused) -> None:
            self._acceptor.end_handshake(channel)
            self._accepting.pop(channel, None)
            self._count_failure(result.error)
            self.link_log.log_failed_handshake(
                channel.peer_description, result.error, result.by_peer
            )

        core = Responder(node=node, network=self._network, key=self._key, decide=decide)
        handshake = self._run(channel, core, end_accepted, end_refused)
        if handshake in self._under_way:
            self._accepting[channel] = handshake

    def reject_connection(self, channel: ISocketChannel, error: BrokerError) -> None:
        """Close a connection with the reason instead of a handshake."""
        self._closing.close(channel, messages.encode(NodeRefuse(error.to_wire())))

    def _drop(self, dropped: ISocketChannel, newest: ISocketChannel) -> None:
        """Close an accepted connection in favour of others."""
        error = Overloaded("too many nodes connect at once: try again later")
        self._failures[error.code] = self._failures.get(error.code, 0) + 1
        if dropped is newest:
            self.reject_connection(dropped, error)
            return
        handshake = self._accepting.pop(dropped)
        self._under_way.pop(handshake, None)
        handshake.abort(error)
        self.link_log.log_failed_handshake(dropped.peer_description, error, by_peer=False)

    def dial(
        self,
        connection: Deferred[ISocketChannel],
        core: Initiator,
        accepted: OnAccepted,
        refused: Callable[[Refused], None],
        failed: Callable[[BrokerError], None],
        find_error: Callable[[str], BrokerError | None] = lambda host: None,
    ) -> Callable[[BrokerError], None]:
        """Begin the handshake of `core` once there is a connection, unless its host has an error.

        Return a function that aborts connection and handshake: then only `failed` may follow.
        """
        under_way: list[Handshake] = []

        def end_refused(result: Refused) -> None:
            self._count_failure(result.error)
            refused(result)

        def start(channel: ISocketChannel) -> None:
            if error := find_error(peer_host(channel)):
                channel.abort(error)
                end_refused(Refused(error))
            else:
                under_way.append(self._run(channel, core, accepted, end_refused))

        def connection_failed(failure: Failure) -> None:
            failed(to_connection_error(failure.value))

        connection.addCallbacks(start, connection_failed).addErrback(
            lambda failure: self.log.failure("a handshake failed", failure)
        )

        def abort(error: BrokerError) -> None:
            connection.cancel()
            for handshake in under_way:
                if handshake in self._under_way:
                    del self._under_way[handshake]
                    handshake.abort(error)

        return abort

    def initiate(self, node: NodeDescriptor, purpose: str) -> Initiator:
        """Return the core of a handshake with any node."""
        return Initiator(node=node, network=self._network, key=self._key, purpose=purpose)

    def abort_all(self, error: BrokerError) -> None:
        """Abort the connections of all handshakes under way. Their ends are not reported."""
        accepting, self._accepting = self._accepting, {}
        for channel in accepting:
            self._acceptor.end_handshake(channel)
        self._closing.abort_all()
        under_way, self._under_way = self._under_way, {}
        for handshake in under_way:
            handshake.abort(error)

    def _run(
        self,
        channel: ISocketChannel,
        core: Initiator | Responder,
        accepted: OnAccepted,
        refused: Callable[[Refused], None],
    ) -> Handshake:
        def end_accepted(result: Accepted, channel: ISocketChannel) -> None:
            self._under_way.pop(handshake, None)
            accepted(result, channel)

        def end_refused(result: Refused) -> None:
            self._under_way.pop(handshake, None)
            refused(result)

        handshake = Handshake(
            *(channel, core, self._clock, end_accepted, end_refused, self._closing)
        )
        self._under_way[handshake] = None
        handshake.start()
        return handshake

    def _count_failure(self, error: BrokerError) -> None:
        if isinstance(error, PeerError):
            self._failures[error.code] = self._failures.get(error.code, 0) + 1
