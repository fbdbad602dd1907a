"""The cluster's IP multicast group: one frame reaches several members (M8, K31, X14)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol

from twisted.logger import Logger
from zope.interface import implementer

from broker.errors import Overloaded, ProtocolError
from broker.transport.arq.group_core import GroupCore
from broker.transport.arq.group_member import IGroupReceiver


class GroupTransport(Protocol):
    """`MulticastPort`, or `GroupMember` in a simulation."""

    @property
    def core(self) -> GroupCore: ...

    def send(self, packets: list[bytes], /) -> None:
        """Send packets once to all members; raises `Overloaded`."""


@implementer(IGroupReceiver)
class ClusterGroup:
    """The cluster's IP multicast group: one frame reaches several members (M8, K31, X14).

    An optimisation only: a lost frame is a missing range, requested from its origin.
    """

    log = Logger()

    def __init__(self, on_frame: Callable[[bytes], None], is_linked: Callable[[str], bool]) -> None:
        """`is_linked` is True for members with a link; others are not admitted."""
        self._on_frame = on_frame
        self._is_linked = is_linked
        self._transport: GroupTransport | None = None
        self._members: set[str] = set()
        self._writable = True
        self.sent = 0
        self.received = 0
        self.full = 0
        """Dropped because of the group's rate."""
        self.lost = 0
        self.refused = 0
        """Malformed, or of nodes without a link."""

    def set_transport(self, port: GroupTransport | None) -> None:
        self._transport = port
        self._members.clear()
        self._writable = True

    @property
    def receivers(self) -> Collection[str]:
        if self._transport is None or not self._writable:
            return ()
        return [name for name in self._members if self._is_linked(name)]

    def snapshot(self) -> dict[str, int] | None:
        """None without a group."""
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
        if self._transport is None:
            return
        try:
            self._transport.send([frame])
            self.sent += 1
        except Overloaded:
            self.full += 1

    def sender_appeared(self, sender: str) -> None:
        """The member may not receive this node."""

    def reachability_changed(self, sender: str, is_reachable: bool) -> None:
        if is_reachable:
            self._members.add(sender)
        else:
            self._members.discard(sender)

    def sender_disappeared(self, sender: str) -> None:
        self._members.discard(sender)

    def packets_received(self, sender: str, packets: Sequence[bytes]) -> None:
        if not self._is_linked(sender):
            self.refused += len(packets)
            return
        for packet in packets:
            try:
                self._on_frame(packet)
                self.received += 1
            except ProtocolError as error:
                if not self.refused:
                    self.log.warn(
                        "malformed multicast frame from {sender}: {error}",
                        sender=sender,
                        error=error,
                    )
                self.refused += 1

    def packets_lost(self, sender: str, count: int) -> None:
        """Lost events are requested from their origin."""
        self.lost += count

    def writable_changed(self, writable: bool) -> None:
        """While the group is full, members get copies over their links."""
        self._writable = writable
