"""A cluster's IP multicast group: events for several members are sent once (M8, K31, X14).

Nothing depends on it. What it loses is found missing like everything else, and asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from twisted.logger import Logger
from zope.interface import implementer

from broker.errors import Overloaded, ProtocolError
from broker.transport.correction.group_core import GroupCore
from broker.transport.socket.datagram_group import IGroupReceiver


class GroupTransport(Protocol):
    """What a group is sent by: `MulticastPort`, or `DatagramGroup` in a simulation."""

    @property
    def core(self) -> GroupCore:
        """What sends and repairs, and counts that."""

    def send(self, packets: list[bytes], /) -> None:
        """Send packets once to all; raises `Overloaded`."""


@implementer(IGroupReceiver)
class ClusterGroup:
    """Who hears this node in the group, and what it hears of others."""

    log = Logger()

    def __init__(self, received: Callable[[bytes], None], linked: Callable[[str], bool]) -> None:
        """`received` is given each frame; `linked` says whether there is a link to a member, for
        who has none was not let in."""
        self._on_frame = received
        self._is_linked = linked
        self._transport: GroupTransport | None = None
        self._members: set[str] = set()
        self._writable = True
        self.sent = 0
        self.received = 0
        self.full = 0
        """Frames that were not taken, since the group's rate is lower."""
        self.lost = 0
        """Packets of others that could not be had any more."""
        self.refused = 0
        """Packets of others that were no frames, or of nobody who has a link."""

    def set_transport(self, port: GroupTransport | None) -> None:
        """Send by this from now on."""
        self._transport = port
        self._members.clear()
        self._writable = True

    @property
    def receivers(self) -> Collection[str]:
        """Who hears what is sent now."""
        if self._transport is None or not self._writable:
            return ()
        return [name for name in self._members if self._is_linked(name)]

    def snapshot(self) -> dict[str, int] | None:
        """What was sent and repaired; None for a node without a group."""
        if self._transport is None:
            return None
        core = self._transport.core
        return {
            "members": len(self._members),
            "sent": self.sent,
            "received": self.received,
            "full": self.full,
            "lost": self.lost,
            "refused": self.refused,
            "repaired": core.sender.repaired,
            "forged": core.counts.forged,
        }

    def send(self, frame: bytes) -> None:
        """Send a frame to all."""
        if self._transport is None:
            return
        try:
            self._transport.send([frame])
            self.sent += 1
        except Overloaded:
            self.full += 1

    # ------------------------------------------------------------------ IGroupReceiver

    def sender_appeared(self, sender: str) -> None:
        """A member is there; it may not hear this node."""

    def hears_changed(self, sender: str, hears: bool) -> None:
        """A member hears what this node sends, or does not any more."""
        if hears:
            self._members.add(sender)
        else:
            self._members.discard(sender)

    def sender_vanished(self, sender: str) -> None:
        """A member has left."""
        self._members.discard(sender)

    def packets_received(self, sender: str, packets: Sequence[bytes]) -> None:
        """Frames of a member."""
        if not self._is_linked(sender):
            self.refused += len(packets)
            return
        for packet in packets:
            try:
                self._on_frame(packet)
                self.received += 1
            except ProtocolError as error:
                if not self.refused:
                    self.log.warn("{sender} sends no frames: {error}", sender=sender, error=error)
                self.refused += 1

    def gap(self, sender: str, count: int) -> None:
        """Some are lost: what was in them is asked for where it was events."""
        self.lost += count

    def writable_changed(self, writable: bool) -> None:
        """While too much waits, everybody is sent copies by links."""
        self._writable = writable
