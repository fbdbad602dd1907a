"""What a node's subscriptions want of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Protocol, TypeAlias

from broker.content.query.query import Query
from broker.event.place import Mark
from broker.event.stream import StreamPattern

#: Told once when nothing that is wanted is missed any more: behind these places, of the origins
#: that had to be told; of all others behind where the log stands.
Flows: TypeAlias = Callable[[Mapping[str, Mark]], object]


class Interest(Protocol):
    """Tells the network what is wanted here."""

    def want(self, key: Hashable, pattern: StreamPattern, query: Query, flows: Flows) -> None:
        """Somebody wants something, under a key that is not in use. `flows` may be told at once."""

    def unwant(self, key: Hashable) -> None:
        """Nobody has this key any more; nothing where it was not in use."""


class Alone:
    """The interest of a node without a network: what it has itself is all there is."""

    def want(self, key: Hashable, pattern: StreamPattern, query: Query, flows: Flows) -> None:
        """It flows already."""
        flows({})

    def unwant(self, key: Hashable) -> None:
        """There is nobody to be told."""
