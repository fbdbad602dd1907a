"""Links to neighbours and their scopes, for flooding."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from broker.cluster.address import UnitPath, is_within, unit_text
from broker.cluster.messages import Message
from broker.cluster.tables.effects import Send, TablesEffect
from broker.cluster.tables.message_parts import Reassembly
from broker.errors import ProtocolError

#: Leaves room for higher ones.
MAX_INCARNATION = 1 << 62


@attrs.define(eq=False)
class LinkState:
    unit: UnitPath
    reassembly: Reassembly
    is_synchronised: bool = False
    """Before its digest no change is sent: the answer has all."""
    has_answered: bool = False


class Links:
    def __init__(self, unit: UnitPath) -> None:
        self._unit = unit
        self.neighbours: dict[str, LinkState] = {}

    def check_scope(self, neighbour: str, scope: UnitPath, incarnation: int) -> None:
        """Raise `ProtocolError` if a neighbour must not send tables of this scope."""
        unit = self.neighbours[neighbour].unit
        if not (is_within(self._unit, scope) and is_within(unit, scope)):
            raise ProtocolError(f"the link does not share tables of {unit_text(scope)!r}")
        if incarnation > MAX_INCARNATION:
            raise ProtocolError(f"incarnation {incarnation} is over {MAX_INCARNATION}")

    def in_scope(self, scope: UnitPath, except_for: str = "") -> list[str]:
        return [
            name
            for name, link in self.neighbours.items()
            if name != except_for and is_within(link.unit, scope)
        ]

    def flood(
        self, scope: UnitPath, messages: Iterable[Message], except_for: str = ""
    ) -> list[TablesEffect]:
        """Send to all synchronised neighbours in scope, in order."""
        parts = list(messages)
        return [
            Send(name, part)
            for name in self.in_scope(scope, except_for)
            if self.neighbours[name].is_synchronised
            for part in parts
        ]
