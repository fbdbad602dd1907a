"""A receiver of a group for tests with real sockets: writes down what it is told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from zope.interface import implementer

from broker.transport.socket.datagram_group import IGroupReceiver


@implementer(IGroupReceiver)
class NotingMember:
    """Calls `changed` each time that it is told something."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self.heard: dict[str, list[bytes]] = defaultdict(list)
        self.present: set[str] = set()
        self.gaps: list[tuple[str, int]] = []
        self.writable = True

    def sender_appeared(self, sender: str) -> None:
        self.present.add(sender)
        self.changed()

    def packets_received(self, sender: str, packets: Sequence[bytes]) -> None:
        self.heard[sender] += packets
        self.changed()

    def gap(self, sender: str, count: int) -> None:
        self.gaps.append((sender, count))
        self.changed()

    def hears_changed(self, sender: str, hears: bool) -> None:
        """Members of one segment hear each other."""

    def sender_vanished(self, sender: str) -> None:
        self.present.discard(sender)
        self.changed()

    def writable_changed(self, writable: bool) -> None:
        self.writable = writable
        self.changed()
