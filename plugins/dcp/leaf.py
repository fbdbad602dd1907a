"""A client as a leaf of a mesh: a router without children (DCP D5)."""

from __future__ import annotations

import secrets
from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta
from twisted.logger import Logger
from zope.interface import implementer

from broker.config.value_kind import split_host_port
from broker.errors import ProtocolError
from broker.event.place import Mark
from broker.streams.contract import CarriedInterest, FlowBatch
from broker.streams.leaf_contract import ILeaf, ILeafOwner, LeafContext, LeafRequest
from broker.streams.links import name_client_links
from broker.streams.ticket import ClientTicket
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.socket.datagram_demultiplexer import TAG_BYTES, derive_tag
from broker.transport.socket.datagram_transport import Address
from plugins.dcp.connection import Connection
from plugins.dcp.control import MOST_CANDIDATES, ControlMessage, Offer
from plugins.dcp.mesh.leaf_gate import TicketRules
from plugins.dcp.mesh.leaf_proof import is_parent_proven, make_renewal
from plugins.dcp.mesh.parent_count import MOST_PARENTS
from plugins.dcp.options import LEAST_MTU, MOST_MTU
from plugins.dcp.peer_addresses import PeerAddresses
from plugins.dcp.router import Router
from plugins.dcp.settings import DcpSettings
from plugins.dcp.stack import dcp_links

#: Key of its only interest.
_INTEREST: Final = "client"


class _Description(msgspec.Struct):
    """Values of `DcpTransport.describe_leaf`."""

    addresses: Annotated[tuple[str, ...], Meta(min_length=1, max_length=MOST_CANDIDATES)]
    mtu: Annotated[int, Meta(ge=LEAST_MTU, le=MOST_MTU)]
    confirm: bool = False


class _LeafRouter(Router):
    """A router that notes why other ends have closed a connection."""

    last_refusal = ""

    def __init__(self, ticket: ClientTicket, *args: Any, **named: Any) -> None:
        self.ticket = ticket
        super().__init__(*args, **named)

    def control_received(self, connection: Connection, message: ControlMessage, now: float) -> None:
        if isinstance(message, Offer) and not is_parent_proven(self.ticket, connection, message):
            # Another host than those of the mesh would bring events of its own.
            self.endpoint.close(connection, "parent not proven", now)
            return
        super().control_received(connection, message, now)

    def disconnected(self, connection: Connection, now: float) -> None:
        if not connection.is_closed_here:
            self.last_refusal = connection.error
        super().disconnected(connection, now)


@implementer(ILeaf)
class DcpLeaf(PeerAddresses):
    """Router, port and timer of a leaf. It is the host of its router (`IRouterHost`)."""

    log = Logger()

    def __init__(
        self, transport: Any, request: LeafRequest, context: LeafContext, owner: ILeafOwner
    ) -> None:
        """`transport` is the plug-in. Raises `ProtocolError`, or OSError without a port."""
        try:
            description = msgspec.convert(request.description, _Description)
        except msgspec.ValidationError as error:
            raise ProtocolError(f"the description of a mesh: {error}") from None
        self.name, self.origin = request.name, ""
        self.patterns = list(request.patterns)
        self.ticket: ClientTicket | None = request.ticket
        self.tickets = TicketRules()
        self._owner = owner
        self._clock = context.clock
        self._tag = derive_tag(name_client_links(request.stack, transport, dcp_links))
        self._is_joined = self._has_left = False
        self._timer = DeadlineTimer(context.clock, self._handle_timeout)
        peers = [self.find_peer(each) for each in description.addresses]
        nodes = [each for each in peers if each is not None]
        if not nodes:
            raise ProtocolError("the description of a mesh has no usable address")
        host = split_host_port(description.addresses[peers.index(nodes[0])])[0]
        self._port = context.open_port(host, self._receive)
        parents = min(request.parents, MOST_PARENTS)
        confirms = description.confirm and parents > 1
        settings = DcpSettings(
            mtu=description.mtu, parents=parents, children=0, leaves=0, confirms=confirms
        )
        self._router = _LeafRouter(
            *(request.ticket, self, settings, lambda size: secrets.token_bytes(size)),
            *(nodes, context.random, context.wall_clock, context.clock.seconds()),
            is_root=False,
        )
        self._router.announce(_INTEREST, request.interest, lambda marks: None)
        self._changed()

    # ------------------------------------------------------------------ for the client

    @property
    def parents(self) -> Sequence[str]:
        paths = self._router.parents.paths
        return [each.candidate.name for each in self._router.parents if each.connection in paths]

    def renew(self, ticket: ClientTicket) -> None:
        self.ticket = self._router.ticket = ticket
        for parent in self._router.parents:
            parent.connection.send_control(make_renewal(ticket, parent.connection))
        self._changed()

    def leave(self) -> None:
        if not self._has_left:
            self._timer.arm(None)
            self._router.stop(self._clock.seconds())
            self._has_left = True
            self._port.close()

    # ------------------------------------------------------------------ for the router

    def send(self, peer: Hashable, packets: list[bytes]) -> None:
        if not self._has_left:
            self._port.send([self._tag + each for each in packets], peer)

    def report(self, alarm: str) -> None:
        self.log.info("{name}: {alarm}", name=self.name, alarm=alarm)

    def open_peer(self, peer: Hashable) -> None:
        """The port serves all peers."""

    keep_peer = close_peer = open_peer

    def match(self, batch: FlowBatch) -> Sequence[frozenset[Hashable]]:
        """Return no links: there are no children."""
        return [frozenset() for _ in batch.events]

    def has_interest(self, batch: FlowBatch) -> Sequence[bool]:
        """Return False for each event: a client matches none."""
        return [False for _ in batch.events]

    def deliver(self, batch: FlowBatch) -> None:
        if not self._has_left:
            self._owner.receive_batch(batch)

    def set_link_interest(
        self, link: Hashable, key: str, interest: CarriedInterest | None, on_active: object
    ) -> None:
        """There are no children."""

    # ------------------------------------------------------------------ input and time

    def _receive(self, batch: Sequence[tuple[bytes, Address]]) -> None:
        if self._has_left:
            return
        now = self._clock.seconds()
        for datagram, peer in batch:
            if datagram.startswith(self._tag):
                self._router.receive(peer, [datagram[TAG_BYTES:]], now)
        self._changed()

    def _handle_timeout(self) -> None:
        if not self._has_left:
            self._router.handle_timeout(self._clock.seconds())
            self._changed()

    def _changed(self) -> None:
        """Send the packets of the router, set its timer, and report the first and last parent."""
        if self._has_left:
            return
        self._router.flush(self._clock.seconds())
        self._timer.arm(self._router.next_timeout())
        is_joined = bool(self._router.parents.paths)
        if is_joined is not self._is_joined:
            self._is_joined = is_joined
            if is_joined:
                marks: Mapping[str, Mark] = self._router.sequences.marks()
                self._owner.mesh_joined(marks)
            else:
                self._owner.mesh_lost(self._router.last_refusal)
