"""Links of transport instances as destinations of events, and the interest behind them."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import NamedTuple, Protocol

from broker.matching.covering.stream_interest import StreamInterest


class LinkKey(NamedTuple):
    """A link of a transport instance, as a destination of events."""

    instance: str
    link: Hashable

    def __str__(self) -> str:
        return f"{self.instance} {self.link}"


class Unmatched(frozenset[Hashable]):
    """Targets of an event that could not be matched here: all with interest in its stream."""


def links_of(instance: str, targets: Collection[Hashable]) -> frozenset[Hashable]:
    """Return the links of an instance among the targets of an event."""
    keys = (each for each in targets if isinstance(each, LinkKey))
    kind = Unmatched if isinstance(targets, Unmatched) else frozenset[Hashable]
    return kind(each.link for each in keys if each.instance == instance)


class ILinkInterest(Protocol):
    """Interest behind links, matched together with the node's subscriptions."""

    def install(self, destination: LinkKey, id: str, interest: StreamInterest) -> bool:
        """Add interest, or replace that with the same id."""

    def remove(self, destination: LinkKey, id: str) -> None:
        """Remove interest, if it exists."""
