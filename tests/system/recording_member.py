from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence

from zope.interface import implementer

from broker.transport.arq.group_member import IGroupReceiver


@implementer(IGroupReceiver)
class RecordingMember:
    """Records its calls and then calls `changed`."""

    def __init__(self, changed: Callable[[], None] = lambda: None) -> None:
        self.changed = changed
        self.received: dict[str, list[bytes]] = defaultdict(list)
        self.present: set[str] = set()
        self.gaps: list[tuple[str, int]] = []
        self.writable = True

    def sender_appeared(self, sender: str) -> None:
        self.present.add(sender)
        self.changed()

    def packets_received(self, sender: str, packets: Sequence[bytes]) -> None:
        self.received[sender] += packets
        self.changed()

    def packets_lost(self, sender: str, count: int) -> None:
        self.gaps.append((sender, count))
        self.changed()

    def reachability_changed(self, sender: str, is_reachable: bool) -> None:
        """Members of one segment always receive each other."""

    def sender_disappeared(self, sender: str) -> None:
        self.present.discard(sender)
        self.changed()

    def writable_changed(self, writable: bool) -> None:
        self.writable = writable
        self.changed()
