"""Interest of this node's own subscriptions, by key, active or not yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeAlias

import attrs

from broker.cluster.start_position import END, StartPositions
from broker.event.flow import is_default_flow, may_carry
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import Query
from broker.streams.queue_policy import BLOCK, IQueuePolicy, merge_all

#: Gets the marks after which no event is missed, for origins where it is not the log's mark.
ActiveCallback: TypeAlias = Callable[[Mapping[str, Mark]], object]

#: Key, pattern, query and queue policy.
KeyedInterest: TypeAlias = tuple[Hashable, StreamPattern, Query, IQueuePolicy]


@attrs.define
class LocalEntry:
    pattern: StreamPattern
    query: Query
    on_active: ActiveCallback
    is_active: bool = False
    policy: IQueuePolicy = BLOCK
    is_announced: bool = True
    """False: it is in no table of the network, since a transport brings its events."""
    is_claimed: bool = True
    """True: ranges of the network have all events of the interest, or say what is missing."""


class LocalInterest:
    """Interest of this node's own subscriptions, in order of addition."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self.start_positions = StartPositions(wall_clock)
        self._entries: dict[Hashable, LocalEntry] = {}
        self._reactivating: set[Hashable] = set()
        """Keys from before `deactivate_announced`."""
        self._unclaimed: Counter[StreamPattern] = Counter()
        """Patterns of the interest that ranges of the network do not regard."""
        self._claimed_after: dict[str, Mark] = {}
        """Cuts of interest that was announced later than it became active, by flow."""

    def __iter__(self) -> Iterator[KeyedInterest]:
        entries = self._entries.items()
        return iter([(key, each.pattern, each.query, each.policy) for key, each in entries])

    def announced(self) -> list[KeyedInterest]:
        """Return the interest that is in the tables of the network."""
        return [each for each in self if self._entries[each[0]].is_announced]

    def announce_unannounced(self, pattern: StreamPattern) -> list[KeyedInterest]:
        """Let the other interest in streams of a pattern be in the tables, and return it."""
        found = []
        for key, entry in self._entries.items():
            if not entry.is_announced and entry.pattern.overlaps(pattern):
                entry.is_announced, entry.is_active = True, False
                found.append((key, entry.pattern, entry.query, entry.policy))
        return found

    def unclaimed_upto(self, flow: str) -> Mark:
        """Return the place up to which ranges of the network may lack events of interest.

        (0, 0): none does.
        """
        if is_default_flow(flow):
            return (0, 0)
        if any(may_carry(flow, each) for each in self._unclaimed):
            return END
        return self._claimed_after.get(flow, (0, 0))

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def is_reactivating(self) -> bool:
        return bool(self._reactivating)

    def has_same(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        entry = self._entries.get(key)
        return entry is not None and (entry.pattern, entry.query) == (pattern, query)

    def add(
        self,
        key: Hashable,
        pattern: StreamPattern,
        query: Query,
        on_active: ActiveCallback,
        *,
        is_announced: bool = True,
    ) -> LocalEntry:
        entry = LocalEntry(pattern, query, on_active)
        entry.is_announced = entry.is_claimed = is_announced
        self._entries[key] = entry
        if not is_announced:
            self._unclaimed[pattern] += 1
        return entry

    def is_waiting(self, key: Hashable, entry: LocalEntry) -> bool:
        """Return whether a key has this interest, and only a transport decides about it."""
        return self._entries.get(key) is entry and not entry.is_announced

    def is_announced(self, key: Hashable) -> bool:
        """Return whether a key's interest is in the tables of the network."""
        return key in self._entries and self._entries[key].is_announced

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

    def has_interest(self, flow: str) -> bool:
        return any(may_carry(flow, each.pattern) for each in self._entries.values())

    def queue_policy(self, flow: str) -> IQueuePolicy:
        """Return the policy of all interest in streams of a flow, or `block`."""
        entries = self._entries.values()
        return merge_all(each.policy for each in entries if may_carry(flow, each.pattern))

    def remove(self, key: Hashable) -> bool:
        self._reactivating.discard(key)
        self.start_positions.remove_key(key)
        entry = self._entries.pop(key, None)
        if entry is not None and not entry.is_claimed:
            self._claim(entry)
        return entry is not None

    def _claim(self, entry: LocalEntry) -> None:
        entry.is_claimed = True
        self._unclaimed[entry.pattern] -= 1
        self._unclaimed += Counter()

    def deactivate_announced(self) -> None:
        announced = {key: each for key, each in self._entries.items() if each.is_announced}
        for entry in announced.values():
            entry.is_active = False
        self._reactivating = set(announced)

    def activate(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        """Mark a key as active. It counts for unknown origins from now on."""
        self.start_positions.add_key(key)
        self.activate_without_cluster(key, cuts)

    def activate_without_cluster(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        entry = self._entries[key]
        entry.is_active = True
        if entry.is_announced and not entry.is_claimed:
            self._claim(entry)
            for flow, cut in cuts.items():
                self._claimed_after[flow] = max(cut, self._claimed_after.get(flow, cut))
        self._reactivating.discard(key)
        entry.on_active(cuts)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __getitem__(self, key: Hashable) -> StreamInterest:
        entry = self._entries[key]
        return StreamInterest(entry.pattern, entry.query)
