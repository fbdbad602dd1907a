"""What is wanted at a node itself, under keys, and what of it flows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TypeAlias

import attrs

from broker.cluster.start_position import Newcomers
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.matching.upstream.want import Want

#: Told the cut after which nothing is missed: by origin, where that is not where the log stands.
FlowingCallback: TypeAlias = Callable[[Mapping[str, Mark]], object]


@attrs.define
class _LocalWant:
    pattern: StreamPattern
    query: Query
    told: FlowingCallback
    flows: bool = False


class LocalWants:
    """Keys in the order in which they came."""

    def __init__(self, wall_clock: Callable[[], int]) -> None:
        """`wall_clock` gives ms since 1970."""
        self.newcomers = Newcomers(wall_clock)
        """Since when they wait for nodes that are yet to come."""
        self._wants: dict[Hashable, _LocalWant] = {}
        self._climbing: set[Hashable] = set()
        """What was wanted when the node came into its cluster, and does not flow yet."""

    def __iter__(self) -> Iterator[tuple[Hashable, StreamPattern, Query]]:
        return iter([(key, want.pattern, want.query) for key, want in self._wants.items()])

    def __bool__(self) -> bool:
        return bool(self._wants)

    @property
    def climbing(self) -> bool:
        """Whether something of what was there at `begin_again` does not flow yet."""
        return bool(self._climbing)

    def is_wanted(self, key: Hashable, pattern: StreamPattern, query: Query) -> bool:
        """Whether the key wants exactly this."""
        want = self._wants.get(key)
        return want is not None and (want.pattern, want.query) == (pattern, query)

    def add(
        self, key: Hashable, pattern: StreamPattern, query: Query, told: FlowingCallback
    ) -> None:
        """A key that is not in use wants something; `told` when it flows."""
        self._wants[key] = _LocalWant(pattern, query, told)

    def follow(self, key: Hashable, told: FlowingCallback) -> None:
        """Another one takes a key up: it is told when that flows, at once where it does."""
        want = self._wants[key]
        want.told = told
        if want.flows:
            told({})

    def remove(self, key: Hashable) -> bool:
        """Nobody has the key any more; whether it was in use."""
        self._climbing.discard(key)
        self.newcomers.forget(key)
        return self._wants.pop(key, None) is not None

    def begin_again(self) -> None:
        """Nobody else knows of any of them."""
        for want in self._wants.values():
            want.flows = False
        self._climbing = set(self._wants)

    def flows(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        """A key flows, and is wanted of whoever comes from now on."""
        self.newcomers.wait(key)
        self.flows_alone(key, cuts)

    def flows_alone(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        """A key flows as far as this node knows, which is in no cluster."""
        want = self._wants[key]
        want.flows = True
        self._climbing.discard(key)
        want.told(cuts)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._wants

    def __getitem__(self, key: Hashable) -> Want:
        """What a key wants."""
        want = self._wants[key]
        return Want(want.pattern, want.query)
