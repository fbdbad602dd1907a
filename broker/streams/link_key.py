"""Links of transport instances as destinations of events, and the interest behind them."""

from __future__ import annotations

from collections.abc import Hashable
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


class ILinkInterest(Protocol):
    """Interest behind links, matched together with the node's subscriptions."""

    def install(self, destination: LinkKey, id: str, interest: StreamInterest) -> bool:
        """Add interest, or replace that with the same id."""

    def remove(self, destination: LinkKey, id: str) -> None:
        """Remove interest, if it exists."""
