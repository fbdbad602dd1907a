"""Admission of clients to a mesh by their tickets (DCP D5, T41).

A connection over the links to clients is a stranger's until its join shows a ticket, with a proof
for this connection. A node needs no ticket: its links have the tag of the network.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs
from msgspec.structs import replace

from broker.errors import AuthenticationFailed
from broker.event.envelope import CLEARTEXT_LEVEL
from broker.streams.ticket import LEEWAY_SECONDS, ClientTicket, Ticket, TicketPolicy, read_ticket
from plugins.dcp.connection import Connection
from plugins.dcp.control import ControlMessage, Interest, Join, TicketRenewal
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.leaf_peer import LeafPeer

#: Seconds in which a stranger must show a ticket.
JOIN_SECONDS: Final = 3.0


@attrs.define
class TicketRules:
    stack: str = ""
    """Name of the mesh."""
    key: bytes = attrs.field(default=b"", repr=False)
    policy: TicketPolicy = TicketPolicy()


class LeafGate:
    """Tickets of the clients among the children.

    A refused client is closed with the reason; so is one whose ticket has expired, unless it has
    shown a newer one.
    """

    def __init__(
        self,
        rules: TicketRules,
        most_leaves: int,
        endpoint: Endpoint,
        wall_clock: Callable[[], int],
    ) -> None:
        """`wall_clock` gives ms since 1970."""
        self.refusals: dict[str, int] = {}
        """By reason."""
        self._rules = rules
        self._most_leaves = most_leaves
        self._endpoint = endpoint
        self._wall_clock = wall_clock
        self._strangers: dict[Connection, float] = {}
        """Each with the time at which it is closed."""
        self._tickets: dict[Connection, Ticket] = {}
        self._ranks: dict[Connection, int] = {}
        """Of the clearance of each ticket, with its issuer's."""
        self._expiry: dict[Connection, float] = {}

    @property
    def leaves(self) -> int:
        """Number of clients that have shown a ticket."""
        return len(self._tickets)

    def connected(self, connection: Connection, now: float) -> None:
        """Note an accepted connection."""
        if isinstance(connection.peer, LeafPeer):
            self._strangers[connection] = now + JOIN_SECONDS

    def remove(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        self._tickets.pop(connection, None)
        self._ranks.pop(connection, None)
        self._expiry.pop(connection, None)

    def check(
        self, connection: Connection, message: ControlMessage, now: float
    ) -> ControlMessage | None:
        """Return a message as it counts; None if it is handled here, or refused."""
        if not isinstance(connection.peer, LeafPeer):
            return message
        ticket = self._tickets.get(connection)
        if isinstance(message, Join):
            return self._check_join(connection, message, now)
        if isinstance(message, TicketRenewal):
            self._renew(connection, ticket, message, now)
            return None
        if isinstance(message, Interest):
            patterns = [pattern for pattern, _, _ in message.queries]
            if ticket is None or not all(map(ticket.covers, patterns)):
                self._refuse(connection, "pattern", now)
                return None
        return message

    def _check_join(self, connection: Connection, join: Join, now: float) -> Join | None:
        found = self._read(join.ticket, join.proof, connection)
        if isinstance(found, Ticket) and len(self._tickets) >= self._most_leaves:
            found = "capacity"
        if isinstance(found, str):
            self._refuse(connection, found, now)
            return None
        self._accept(connection, found, now)
        # The links are not encrypted.
        rank = min(join.clearance, self._rank_of(found), CLEARTEXT_LEVEL.rank)
        proof = ClientTicket.derive(join.ticket, self._rules.key).prove_parent(connection.binding)
        return replace(join, level=0, clearance=rank, ticket=b"", proof=proof)

    def _renew(
        self, connection: Connection, ticket: Ticket | None, message: TicketRenewal, now: float
    ) -> None:
        found = self._read(message.ticket, message.proof, connection)
        if isinstance(found, str):
            self._refuse(connection, found, now)
        elif (
            ticket is None
            or found.rights != ticket.rights
            or self._rank_of(found) < self._ranks[connection]
        ):
            # Rights that have changed need a new join.
            self._refuse(connection, "another ticket", now)
        else:
            self._accept(connection, found, now)

    def _accept(self, connection: Connection, ticket: Ticket, now: float) -> None:
        self._strangers.pop(connection, None)
        self._tickets[connection] = ticket
        self._ranks[connection] = self._rank_of(ticket)
        left = (ticket.expires - self._wall_clock()) / 1000 + LEEWAY_SECONDS
        self._expiry[connection] = now + left

    def _rank_of(self, ticket: Ticket) -> int:
        return self._rules.policy.limit_clearance(ticket)

    def _read(self, data: bytes, proof: bytes, connection: Connection) -> Ticket | str:
        """Return a valid ticket of the client itself, or the reason of a refusal."""
        if not data:
            return "ticket missing"
        try:
            ticket = read_ticket(data, self._rules.key)
        except AuthenticationFailed:
            return "ticket forged"
        if ticket.stack != self._rules.stack:
            return "ticket of another mesh"
        if ticket.expires + LEEWAY_SECONDS * 1000 <= self._wall_clock():
            return "ticket expired"
        client = ClientTicket.derive(data, self._rules.key)
        if not client.is_client(connection.binding, proof):
            return "ticket not proven"
        # It costs most: a client of the network has a genuine ticket, or a node has made it.
        return self._rules.policy.find_refusal(ticket) or ticket

    def _refuse(self, connection: Connection, reason: str, now: float) -> None:
        self.refusals[reason] = self.refusals.get(reason, 0) + 1
        self._endpoint.close(connection, reason, now)

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float | None:
        return min((*self._strangers.values(), *self._expiry.values()), default=None)

    def handle_timeout(self, now: float) -> None:
        for reason, times in (("no ticket", self._strangers), ("ticket expired", self._expiry)):
            for connection in [each for each, until in times.items() if now >= until]:
                self._refuse(connection, reason, now)
