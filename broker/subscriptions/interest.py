"""Interest of a node's subscriptions in events of other nodes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Protocol, TypeAlias

from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.streams.queue_policy import IQueuePolicy

#: Called once, when no matching event is missed behind these marks; of other origins behind the
#: log's marks.
OnActive: TypeAlias = Callable[[Mapping[str, Mark]], object]


class Interest(Protocol):
    """Announces interest to the network."""

    def is_announced(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Return whether exactly this interest is announced under the key."""

    def announce(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: OnActive,
        position: Mapping[str, Mark] | None = None,
    ) -> None:
        """Announce interest under an unused key, or again under the key of the same interest.
        `on_active` may be called at once. A `position` means that a subscription resumes. Then
        events behind it are included from origins that are new to this node, and all events from
        origins that are in neither."""

    def set_queue_policy(self, key: Hashable, policy: IQueuePolicy) -> None:
        """Set the queue policy of announced interest; `block` before."""

    def mark_absent(self, key: Hashable) -> None:
        """Keep the interest until `withdraw`, although no subscription of this node uses it."""

    def withdraw(self, key: Hashable) -> None:
        """Withdraw the key's interest, if it is announced."""

    def set_resume_position(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        """Set the position at which the interest resumes."""


class StandaloneInterest:
    """A node without a network has only its own events, which are always complete."""

    def is_announced(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        return True

    def announce(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: OnActive,
        position: Mapping[str, Mark] | None = None,
    ) -> None:
        on_active({})

    def set_queue_policy(self, key: Hashable, policy: IQueuePolicy) -> None:
        """Do nothing."""

    def mark_absent(self, key: Hashable) -> None:
        """Do nothing."""

    def withdraw(self, key: Hashable) -> None:
        """Do nothing."""

    def set_resume_position(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        """Do nothing."""
