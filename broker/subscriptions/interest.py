"""What a node's subscriptions want of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Protocol, TypeAlias

from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query

#: Told once when nothing that is wanted is missed any more: behind these places, of the origins
#: that had to be told; of all others behind where the log stands.
OnActive: TypeAlias = Callable[[Mapping[str, Mark]], object]


class Interest(Protocol):
    """Tells the network what is wanted here."""

    def is_announced(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Whether exactly this has been wanted under that key until now."""

    def announce(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: OnActive,
        position: Mapping[str, Mark] | None = None,
    ) -> None:
        """Somebody wants something, under a key that is not in use, or under one that wants exactly
        this. `flows` may be told at once. If it is said where it `goes_on`, somebody wanted it
        before, here or elsewhere: also what lies behind these places of origins that are not known
        here, and all of origins that are new to both."""

    def mark_absent(self, key: Hashable) -> None:
        """What the key wants is wanted still, until `unwant`, and nobody is here for it before
        `want`: no subscription of this node has it."""

    def withdraw(self, key: Hashable) -> None:
        """Nobody has this key any more; nothing where it was not in use."""

    def set_resume_position(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        """It is known by now where what the key wants goes on."""


class StandaloneInterest:
    """The interest of a node without a network: what it has itself is all there is."""

    def is_announced(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Nothing that this node has was left out."""
        return True

    def announce(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: OnActive,
        position: Mapping[str, Mark] | None = None,
    ) -> None:
        """It flows already."""
        on_active({})

    def mark_absent(self, key: Hashable) -> None:
        """What the node has it has in any case."""

    def withdraw(self, key: Hashable) -> None:
        """There is nobody to be told."""

    def set_resume_position(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        """What the node has it has in any case."""
