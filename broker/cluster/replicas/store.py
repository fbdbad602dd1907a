"""The keeper's side: copies of neighbours' events, and what is done with them when one is gone."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from broker.cluster.address import Address
from broker.cluster.replicas.messages import ReplicaRequest, ReplicaState, decode_replica_events
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import ReplicaAck
from broker.errors import BrokerError, LogUnavailable, ProtocolError
from broker.event.place import Mark
from broker.log.event_log import EventLog

#: Origins that are kept for neighbours at once; more are not taken.
MAX_ORIGINS = 64


class ReplicaStore:
    """Keeps what neighbours send it."""

    def __init__(
        self,
        event_log: EventLog,
        send_state: Callable[[str, ReplicaState], object],
        send_ack: Callable[[ReplicaAck], object],
        own_address: Callable[[], Address | None],
    ) -> None:
        """`tell` answers a neighbour, `kept` tells one what has become durable."""
        self._log = event_log
        self._send_state = send_state
        self._send_ack = send_ack
        self._own_address = own_address
        self._origins: dict[str, str] = {}
        """By neighbour: whose events it sends."""
        self._origin_nodes = {
            origin: Address.parse(span.owner)
            for origin, span in event_log.kept.items()
            if span.owner
        }
        self.replaced_origins: set[str] = set()
        """Origins of which there are copies here, whose nodes have come with another log since."""
        self._received_upto: dict[str, Mark | None] = {}
        """By origin: up to where events are on their way to the disk; None: they begin anywhere.
        Of others nothing is taken until their owner asks what is here."""

    @property
    def origin_nodes(self) -> dict[str, Address]:
        """By origin: whose events are kept, as far as they are not `replaced`."""
        return dict(self._origin_nodes)

    def accept_request(self, neighbour: Address, request: ReplicaRequest) -> None:
        """A neighbour wants its events to be kept."""
        if neighbour.node not in self._origins and len(self._origins) >= MAX_ORIGINS:
            return
        if any(
            name != neighbour.node and origin == request.origin
            for name, origin in self._origins.items()
        ):
            raise ProtocolError("AskKeeper for the events of another node")
        self._origins[neighbour.node] = request.origin
        self.record_link(neighbour.node, request.origin)
        self._origin_nodes[request.origin] = neighbour
        span = self._log.kept.get(request.origin)
        after, upto = ((0, 0), (0, 0)) if span is None else (span.after, span.upto)
        self._received_upto[request.origin] = None
        self._send_state(neighbour.node, ReplicaState(request.origin, after, upto))

    def record_link(self, neighbour: str, log_origin: str) -> None:
        """A neighbour has a log with this origin now: that of another may have been its own."""
        for origin, address in list(self._origin_nodes.items()):
            if address.node == neighbour and origin != log_origin:
                del self._origin_nodes[origin]
                self.replaced_origins.add(origin)
        self.replaced_origins &= self._log.kept.keys()

    def append_replica(self, neighbour: Address, data: bytes) -> None:
        """Events of a neighbour. Raises `ProtocolError` if it has not asked, or they are none."""
        origin = self._origins.get(neighbour.node)
        if origin is None:
            raise ProtocolError("KEEP of a node that has not asked for a keeper")
        batch = attrs.evolve(decode_replica_events(data, origin), owner=str(neighbour))
        if origin not in self._received_upto or self._received_upto[origin] not in (
            None,
            batch.after,
        ):
            # Something before it could not be written: its owner will ask what is here.
            return
        self._received_upto[origin] = batch.upto

        def done(error: BrokerError | None) -> None:
            own_address = self._own_address()
            if error is not None or own_address is None:
                self._received_upto.pop(origin, None)
                return
            self._send_ack(ReplicaAck(neighbour, own_address, MAX_HOPS, origin, batch.upto))

        try:
            self._log.keep(batch, done)
        except LogUnavailable:
            self._received_upto.pop(origin, None)

    def remove_neighbour(self, neighbour: str) -> None:
        """The link is down: it has to ask anew."""
        self._origins.pop(neighbour, None)
