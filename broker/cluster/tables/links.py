"""The links to neighbours, as tables see them: who is in which unit, and what goes to whom."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from broker.cluster.address import UnitPath, is_within, unit_text
from broker.cluster.messages import Message
from broker.cluster.tables.effects import Send, TablesEffect
from broker.cluster.tables.message_parts import Reassembly
from broker.errors import ProtocolError

#: An incarnation leaves room to go above it.
MAX_INCARNATION = 1 << 62


@attrs.define(eq=False)
class LinkState:
    """A node to which a link is up."""

    unit: UnitPath
    reassembly: Reassembly
    is_synchronised: bool = False
    """Whether its digest came. Before, no change is sent: the answer to that holds everything."""
    has_answered: bool = False
    """Whether it has answered this node's: all that it knew then has come."""


class Links:
    """All links that are up."""

    def __init__(self, unit: UnitPath) -> None:
        self._unit = unit
        self.neighbours: dict[str, LinkState] = {}

    def check_scope(self, neighbour: str, scope: UnitPath, incarnation: int) -> None:
        """`ProtocolError` if a neighbour must not send what is of this scope."""
        unit = self.neighbours[neighbour].unit
        if not (is_within(self._unit, scope) and is_within(unit, scope)):
            raise ProtocolError(f"tables of {unit_text(scope)!r} are not for both of us")
        if incarnation > MAX_INCARNATION:
            raise ProtocolError(f"incarnation {incarnation}")

    def in_scope(self, scope: UnitPath, except_for: str = "") -> list[str]:
        """The neighbours in a unit, without one of them."""
        return [
            name
            for name, link in self.neighbours.items()
            if name != except_for and is_within(link.unit, scope)
        ]

    def flood(
        self, scope: UnitPath, messages: Iterable[Message], except_for: str = ""
    ) -> list[TablesEffect]:
        """Send messages in order to all who are in scope and synchronised."""
        parts = list(messages)
        return [
            Send(name, part)
            for name in self.in_scope(scope, except_for)
            if self.neighbours[name].is_synchronised
            for part in parts
        ]
