"""What is wanted at a node itself, under keys, and what of it flows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeAlias

import attrs

from broker.cluster.start_position import StartPositions
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import Query

#: Told the cut after which nothing is missed: by origin, where that is not where the log stands.
ActiveCallback: TypeAlias = Callable[[Mapping[str, Mark]], object]


@attrs.define
class _LocalEntry:
    pattern: StreamPattern
    query: Query
    on_active: ActiveCallback
    is_active: bool = False


class LocalInterest:
    """Keys in the order in which they came."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self.start_positions = StartPositions(wall_clock)
        """Since when they wait for nodes that are yet to come."""
        self._entries: dict[Hashable, _LocalEntry] = {}
        self._reactivating: set[Hashable] = set()
        """What was wanted when the node came into its cluster, and does not flow yet."""

    def __iter__(self) -> Iterator[tuple[Hashable, StreamPattern, Query]]:
        return iter([(key, entry.pattern, entry.query) for key, entry in self._entries.items()])

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def is_reactivating(self) -> bool:
        """Whether something of what was there at `begin_again` does not flow yet."""
        return bool(self._reactivating)

    def has_same(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Whether the key wants exactly this."""
        entry = self._entries.get(key)
        return entry is not None and (entry.pattern, entry.query) == (pattern, query)

    def add(
        self, key: Hashable, pattern: StreamPattern, query: Query, on_active: ActiveCallback
    ) -> None:
        """A key that is not in use wants something; `told` when it flows."""
        self._entries[key] = _LocalEntry(pattern, query, on_active)

    def replace_callback(self, key: Hashable, on_active: ActiveCallback) -> None:
        """Another one takes a key up: it is told when that flows, at once where it does."""
        entry = self._entries[key]
        entry.on_active = on_active
        if entry.is_active:
            on_active({})

    def remove(self, key: Hashable) -> bool:
        """Nobody has the key any more; whether it was in use."""
        self._reactivating.discard(key)
        self.start_positions.remove_key(key)
        return self._entries.pop(key, None) is not None

    def deactivate_all(self) -> None:
        """Nobody else knows of any of them."""
        for entry in self._entries.values():
            entry.is_active = False
        self._reactivating = set(self._entries)

    def activate(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        """A key flows, and is wanted of whoever comes from now on."""
        self.start_positions.add_key(key)
        self.activate_without_cluster(key, cuts)

    def activate_without_cluster(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        """A key flows as far as this node knows, which is in no cluster."""
        entry = self._entries[key]
        entry.is_active = True
        self._reactivating.discard(key)
        entry.on_active(cuts)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def __getitem__(self, key: Hashable) -> StreamInterest:
        """What a key wants."""
        entry = self._entries[key]
        return StreamInterest(entry.pattern, entry.query)
