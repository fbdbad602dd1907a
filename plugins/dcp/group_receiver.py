"""The groups of a node's parents: their packets count as those of the parents' connections."""

from __future__ import annotations

from typing import Final

import attrs

from broker.errors import ProtocolError
from broker.transport.arq.mac import Mac
from plugins.dcp.connection import Connection
from plugins.dcp.control import MOST_SEQUENCES, Group
from plugins.dcp.event_range import Description
from plugins.dcp.group_host import IGroupHost
from plugins.dcp.packet import (
    ACKREQ,
    EXTENDED,
    NACK,
    RETX,
    Packet,
    decode,
)
from plugins.dcp.parts import PartKey, PartStore
from plugins.dcp.send_buffer import EVENTS, PART

_EVENTS: Final = EXTENDED
_UNAVAILABLE: Final = EXTENDED | NACK | RETX


@attrs.define(eq=False)
class _JoinedGroup:
    connection: Connection
    number: int
    mac: Mac
    descriptions: dict[int, Description] = attrs.field(factory=dict)
    """By the index in the group."""
    parts: PartStore = attrs.field(factory=PartStore)


class GroupReceiver:
    def __init__(self, host: IGroupHost) -> None:
        self.received = 0
        """Packets of joined groups."""
        self.unknown = 0
        """Packets of other groups, and of sequences that are not known yet."""
        self.malformed = 0
        """Packets of joined groups with a wrong tag, or damaged."""
        self._host = host
        self._groups: dict[int, _JoinedGroup] = {}
        """By id: one of each parent."""

    def join(self, connection: Connection, message: Group, now: float) -> None:
        """Hear the group of a parent from now on, or further sequences of it.

        Raises `ProtocolError`.
        """
        found = self._groups.get(message.id)
        if found is None:
            self.leave(connection)
            if not self._host.open_group(message.number):
                # The parent sends on the connection what is not acknowledged.
                return
            found = _JoinedGroup(connection, message.number, Mac(message.key))
            self._groups[message.id] = found
        if found.connection is not connection:
            # Another parent has drawn the same id, or copies it.
            return
        for each in message.sequences:
            known = found.descriptions.setdefault(each.index, each.start.description)
            if known != each.start.description or len(found.descriptions) > MOST_SEQUENCES:
                raise ProtocolError(f"two sequences of a group with the index {each.index}")
            connection.open_sequence(each.start, now)

    def leave(self, connection: Connection) -> None:
        """Hear the group of a parent no more."""
        for key, group in list(self._groups.items()):
            if group.connection is connection:
                del self._groups[key]
                self._host.close_group(group.number)

    def receive(self, data: bytes, now: float) -> None:
        """Handle a packet of whatever sender."""
        group = self._groups.get(int.from_bytes(data[20:24], "big"))
        if group is None:
            self.unknown += 1
            return
        try:
            contents = group.mac.remove_tag(data)
            if contents is None:
                raise ProtocolError("a packet with a wrong tag")
            packet = decode(contents)
            if packet.flags & ~ACKREQ not in (_EVENTS, _UNAVAILABLE):
                raise ProtocolError(f"a packet to a group with the flags {packet.flags:#x}")
            self._take(group, packet, now)
        except ProtocolError:
            self.malformed += 1

    def _take(self, group: _JoinedGroup, packet: Packet, now: float) -> None:
        description = group.descriptions.get(packet.sequence)
        if description is None:
            self.unknown += 1
            return
        kind, body = packet.body[:1], None
        if kind == PART:
            key = PartKey(packet.sequence, packet.previous, packet.an)
            body = group.parts.add_part(key, packet.body[1:])
        elif kind == EVENTS:
            body = packet.body[1:]
        elif not packet.flags & NACK:
            raise ProtocolError(f"a body of the unknown kind {kind!r}")
        self.received += 1
        group.connection.receive_from_group(packet, description, body, now)

    def snapshot(self) -> dict[str, int]:
        return {
            "joined": len(self._groups),
            "received": self.received,
            "unknown": self.unknown,
            "malformed": self.malformed,
        }
