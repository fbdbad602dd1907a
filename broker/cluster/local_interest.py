"""Interest of this node's own subscriptions, by key, active or not yet."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeAlias

import attrs

from broker.cluster.start_position import StartPositions
from broker.event.flow import may_carry
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import Query
from broker.streams.queue_policy import BLOCK, IQueuePolicy, merge_all

#: Gets the marks after which no event is missed, for origins where it is not the log's mark.
ActiveCallback: TypeAlias = Callable[[Mapping[str, Mark]], object]


@attrs.define
class _LocalEntry:
    pattern: StreamPattern
    query: Query
    on_active: ActiveCallback
    is_active: bool = False
    policy: IQueuePolicy = BLOCK


class LocalInterest:
    """Interest of this node's own subscriptions, in order of addition."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self.start_positions = StartPositions(wall_clock)
        self._entries: dict[Hashable, _LocalEntry] = {}
        self._reactivating: set[Hashable] = set()
        """Keys from before `deactivate_all`."""

    def __iter__(self) -> Iterator[tuple[Hashable, StreamPattern, Query, IQueuePolicy]]:
        entries = self._entries.items()
        return iter([(key, each.pattern, each.query, each.policy) for key, each in entries])

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def is_reactivating(self) -> bool:
        return bool(self._reactivating)

    def has_same(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        entry = self._entries.get(key)
        return entry is not None and (entry.pattern, entry.query) == (pattern, query)

    def add(
        self, key: Hashable, pattern: StreamPattern, query: Query, on_active: ActiveCallback
    ) -> None:
        self._entries[key] = _LocalEntry(pattern, query, on_active)

    def replace_callback(self, key: Hashable, on_active: ActiveCallback) -> None:
        """Replace the callback of a key; call it at once if the key is active."""
        entry = self._entries[key]
        entry.on_active = on_active
        if entry.is_active:
            on_active({})

    def set_policy(self, key: Hashable, policy: IQueuePolicy) -> bool:
        """Return True if the queue policy of a known key changes."""
        entry = self._entries.get(key)
        if entry is None or entry.policy == policy:
            return False
        entry.policy = policy
        return True

    def queue_policy(self, flow: str) -> IQueuePolicy:
        """Return the policy of all interest in streams of a flow, or `block`."""
        entries = self._entries.values()
        return merge_all(each.policy for each in entries if may_carry(flow, each.pattern))

    def remove(self, key: Hashable) -> bool:
        self._reactivating.discard(key)
        self.start_positions.remove_key(key)
        return self._entries.pop(key, None) is not None

    def deactivate_all(self) -> None:
        for entry in self._entries.values():
            entry.is_active = False
        self._reactivating = set(self._entries)

    def activate(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        """Mark a key as active. It counts for unknown origins from now on."""
        self.start_positions.add_key(key)
        self.activate_without_cluster(key, cuts)

    def activate_without_cluster(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        entry = self._entries[key]
        entry.is_active = True
        self._reactivating.discard(key)
        entry.on_active(cuts)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __getitem__(self, key: Hashable) -> StreamInterest:
        entry = self._entries[key]
        return StreamInterest(entry.pattern, entry.query)
