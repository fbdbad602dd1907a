"""Proofs of clients and their parents, for one connection each (`broker.streams.ticket`)."""

from __future__ import annotations

from broker.streams.ticket import ClientTicket
from plugins.dcp.connection import Connection
from plugins.dcp.control import Join, Offer, TicketRenewal
from plugins.dcp.mesh.peers import IPeers
from plugins.dcp.settings import DcpSettings


def make_join(host: IPeers, settings: DcpSettings, level: int, connection: Connection) -> Join:
    """Return the join of a node or client. `level` is its fixed one, or 0."""
    ticket, proof = b"", b""
    if host.ticket is not None:
        ticket, proof = host.ticket.ticket, host.ticket.prove_client(connection.binding)
    return Join(host.name, level, settings.clearance, ticket, settings.multicast, proof, True)


def make_renewal(ticket: ClientTicket, connection: Connection) -> TicketRenewal:
    return TicketRenewal(ticket.ticket, ticket.prove_client(connection.binding))


def is_parent_proven(ticket: ClientTicket, connection: Connection, offer: Offer) -> bool:
    return ticket.is_parent(connection.binding, offer.proof)
