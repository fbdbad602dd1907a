"""Interfaces of transports that clients join as leaves of a mesh (DCP D5).

The node of a client's session answers a request for a ticket with the description of a mesh. The
client finds the plug-in of the transport by its name, and joins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Protocol

import attrs
from zope.interface import Attribute, Interface

from broker.event.place import Mark
from broker.streams.contract import (
    CarriedInterest,
    FlowBatch,
    ILinkReceiver,
    ILinks,
)
from broker.streams.ticket import ClientTicket, TicketPolicy
from broker.transport.clock import IClock
from broker.transport.socket.datagram_transport import IDatagramPort, OnDatagrams


class ILeafServices(Protocol):
    """Services of a node for a transport that clients join."""

    @property
    def ticket_key(self) -> bytes:
        """Key of `broker.streams.ticket`."""

    @property
    def ticket_policy(self) -> TicketPolicy: ...

    def open_links(self, listen: str, receiver: ILinkReceiver) -> ILinks:
        """Open links to clients at an IP address and port, which may be that of other links.

        Their datagrams have no tag of the network: clients do not know its key. Raises
        `ConfigurationError`.
        """


class ILeafTransport(Interface):
    """A transport that clients join, in a node."""

    def accept_leaves(services: ILeafServices) -> None:
        """Open links to clients. It is called after `listen`. Raises `ConfigurationError`."""

    def describe_leaf() -> Mapping[str, object]:
        """Return plain values for `LeafRequest.description`. Raises `BrokerError` if this node's
        mesh takes no clients."""


#: Opens a UDP port for an address of a peer's family. Raises OSError.
OpenPort = Callable[[str, OnDatagrams], IDatagramPort]


class ILeafOwner(Protocol):
    """The client around a leaf."""

    def mesh_joined(self, marks: Mapping[str, Mark]) -> object:
        """Handle that a parent sends all events of each flow behind its mark."""

    def mesh_lost(self, reason: str) -> object:
        """Handle that no parent is left. The leaf seeks others."""

    def receive_batch(self, batch: FlowBatch) -> object:
        """Take events of a flow, in its order. A range that the mesh has lost is between the end
        of one batch and the begin of the next."""


@attrs.frozen(kw_only=True)
class LeafRequest:
    name: str
    """Name of the leaf in the mesh."""
    stack: str
    """Name of the mesh."""
    patterns: Sequence[str]
    """Carrying patterns of the mesh."""
    description: Mapping[str, object]
    """Result of `ILeafTransport.describe_leaf`, from a node that is not trusted."""
    ticket: ClientTicket
    interest: CarriedInterest
    parents: int


@attrs.frozen(kw_only=True)
class LeafContext:
    """Means of a client for its leaves."""

    open_port: OpenPort
    clock: IClock
    random: Random
    wall_clock: Callable[[], int]
    """Returns ms since 1970."""


class ILeaf(Interface):
    parents: Sequence[str] = Attribute("names of the parents that send events")

    def renew(ticket: ClientTicket) -> None:
        """Show a newer ticket to the parents, and to later ones."""

    def leave() -> None:
        """End all connections, and close the port. Nothing follows."""


class ILeafPlugin(Interface):
    """An `ITransportPlugin` whose meshes clients join."""

    def join(request: LeafRequest, context: LeafContext, owner: ILeafOwner) -> ILeaf:
        """Join a mesh. Raises `BrokerError` for a description that does not fit, OSError without a
        port."""
