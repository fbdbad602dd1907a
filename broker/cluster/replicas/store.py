"""Replica side: store neighbours' events."""

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

#: Requests of further neighbours are ignored.
MAX_ORIGINS = 64


class ReplicaStore:
    def __init__(
        self,
        event_log: EventLog,
        send_state: Callable[[str, ReplicaState], object],
        send_ack: Callable[[ReplicaAck], object],
        own_address: Callable[[], Address | None],
    ) -> None:
        """`send_state` answers a neighbour's request; `send_ack` reports durable events."""
        self._log = event_log
        self._send_state = send_state
        self._send_ack = send_ack
        self._own_address = own_address
        self._origins: dict[str, str] = {}
        self._origin_nodes = {
            origin: Address.parse(span.owner)
            for origin, span in event_log.replica_spans.items()
            if span.owner
        }
        self.replaced_origins: set[str] = set()
        """Their nodes have returned with another log."""
        self._received_upto: dict[str, Mark | None] = {}
        """None: the first batch may start anywhere. Batches of other origins are ignored until
        their node sends a request."""

    @property
    def origin_nodes(self) -> dict[str, Address]:
        """Without `replaced_origins`."""
        return dict(self._origin_nodes)

    def accept_request(self, neighbour: Address, request: ReplicaRequest) -> None:
        """Raises `ProtocolError` for another node's origin."""
        if neighbour.node not in self._origins and len(self._origins) >= MAX_ORIGINS:
            return
        if any(
            name != neighbour.node and origin == request.origin
            for name, origin in self._origins.items()
        ):
            raise ProtocolError("ReplicaRequest for the log of another node")
        self._origins[neighbour.node] = request.origin
        self.record_link(neighbour.node, request.origin)
        self._origin_nodes[request.origin] = neighbour
        span = self._log.replica_spans.get(request.origin)
        after, upto = ((0, 0), (0, 0)) if span is None else (span.after, span.upto)
        self._received_upto[request.origin] = None
        self._send_state(neighbour.node, ReplicaState(request.origin, after, upto))

    def record_link(self, neighbour: str, log_origin: str) -> None:
        """Record the origin of a neighbour; it replaces others of the same node."""
        for origin, address in list(self._origin_nodes.items()):
            if address.node == neighbour and origin != log_origin:
                del self._origin_nodes[origin]
                self.replaced_origins.add(origin)
        self.replaced_origins &= self._log.replica_spans.keys()

    def append_replica(self, neighbour: Address, data: bytes) -> None:
        """Raises `ProtocolError` without a request, or if malformed."""
        origin = self._origins.get(neighbour.node)
        if origin is None:
            raise ProtocolError("REPLICA_EVENTS without a ReplicaRequest")
        batch = attrs.evolve(decode_replica_events(data, origin), owner=str(neighbour))
        if origin not in self._received_upto or self._received_upto[origin] not in (
            None,
            batch.after,
        ):
            # An earlier batch was not written: the node will send a request again.
            return
        self._received_upto[origin] = batch.upto

        def done(error: BrokerError | None) -> None:
            own_address = self._own_address()
            if error is not None or own_address is None:
                self._received_upto.pop(origin, None)
                return
            self._send_ack(ReplicaAck(neighbour, own_address, MAX_HOPS, origin, batch.upto))

        try:
            self._log.append_replica(batch, done)
        except LogUnavailable:
            self._received_upto.pop(origin, None)

    def remove_neighbour(self, neighbour: str) -> None:
        self._origins.pop(neighbour, None)
