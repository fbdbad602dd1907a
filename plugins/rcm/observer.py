"""The interface of parts that follow the deliveries of a site, beside the order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zope.interface import Attribute, Interface

from broker.streams.contract import CarriedEvent
from broker.transport.order import MessageId, Stamp
from plugins.rcm.effects import GroupEffect


class IGroupObserver(Interface):
    """A sans-I/O core that follows the deliveries of its site, and may talk to other sites.

    The transport calls it, and applies the effects, between two calls of the group.
    """

    mark: bytes = Attribute("first byte of its packets, below 0x80")

    def restore(events: Sequence[CarriedEvent], now: float) -> list[GroupEffect]:
        """Handle the end of the log, in its order, before anything else."""

    def deliver(events: Sequence[CarriedEvent], now: float) -> list[GroupEffect]:
        """Handle events that are delivered now, with their entries as annotations."""

    def take_back(taken: Sequence[tuple[MessageId, Stamp]], now: float) -> list[GroupEffect]:
        """Handle that delivered events were not logged after all. They come again."""

    def move(id: MessageId, before: Stamp, stamp: Stamp, now: float) -> list[GroupEffect]:
        """Handle that a delivered message has another place from now on."""

    def miss(site: str, incarnation: int, last: int, now: float) -> list[GroupEffect]:
        """Handle that messages of a site up to this number will not come."""

    def connect(site: str, now: float) -> list[GroupEffect]:
        """Handle that a site is connected from now on."""

    def disconnect(site: str, now: float) -> list[GroupEffect]:
        """Handle that a site is suspected or disconnected from now on."""

    def receive(site: str, packets: Sequence[bytes], now: float) -> list[GroupEffect]:
        """Handle packets of a site that begin with `mark`."""

    def handle_timeout(now: float) -> list[GroupEffect]:
        """Do the work that is due."""

    def next_timeout() -> float | None:
        """Return the time of the next `handle_timeout`."""

    def snapshot() -> Mapping[str, object]:
        """Return its state for `status`."""

    def describe_site(site: str, now: float) -> Mapping[str, object]:
        """Return its state for one other site."""


def is_marked(packet: bytes) -> bool:
    """Return whether a packet is for an observer. Those of the order are msgpack arrays."""
    return b"" < packet[:1] < b"\x80"
