"""A malicious router whose ranges lack events that its children want."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from random import Random
from typing import Any

from broker.event.place import Mark
from broker.testing.transport_network import INSTANCE, TransportNetwork
from plugins.dcp.event_range import EventRange
from plugins.dcp.router import Router
from plugins.dcp.sequences import SequenceState


class Omission:
    """States ranges as if they had no events, at once, so before an honest parent does."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.count = 0
        """Events that were left out."""

    def alter(self, range_: EventRange) -> EventRange:
        """Return the range that is sent in place of one."""
        self.count += len(range_.events)
        return EventRange(range_.previous, range_.upto)


class SomeOmitted(Omission):
    """Leaves half of the events out of its ranges."""

    def alter(self, range_: EventRange) -> EventRange:
        kept = [each for each in range_.events if self.random.random() < 0.5]
        self.count += len(range_.events) - len(kept)
        return EventRange.of_events(range_.previous, range_.upto, kept)


class WideRanges(Omission):
    """States ranges further than it has them: its later events are left out."""

    def alter(self, range_: EventRange) -> EventRange:
        self.count += 1
        return EventRange.of_events(
            range_.previous, range_.upto + self.random.randint(1, 8), range_.events
        )


class FirstOmitted(Omission):
    """Leaves out the first event."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.place: Mark = (0, 0)

    def alter(self, range_: EventRange) -> EventRange:
        if self.count or not range_.events:
            return range_
        self.count, self.place = 1, range_.events[0].mark
        return EventRange.of_events(range_.previous, range_.upto, range_.events[1:])


class FarRanges(Omission):
    """States a range far ahead of the end of the log, behind its events."""

    def alter(self, range_: EventRange) -> EventRange:
        self.count += 1
        return EventRange.of_events(range_.previous, range_.upto + 2**31, range_.events)


def router_of(network: TransportNetwork, name: str) -> Router:
    transports = network.world[name].transports
    assert transports is not None
    (instance,) = [each for each in transports if each.instance == INSTANCE]
    found: Any = instance._transport
    router: Router = found._router
    return router


def omit(network: TransportNetwork, name: str, omission: Omission) -> Callable[[], None]:
    """Let a router state other ranges to its children than it has. Return a function that ends
    this."""
    children = router_of(network, name).children
    forward = children.forward

    def forward_altered(
        state: SequenceState, range_: EventRange, links: Sequence[frozenset[Hashable]]
    ) -> None:
        by_mark = dict(zip((each.mark for each in range_.events), links, strict=True))
        altered = omission.alter(range_)
        forward(state, altered, [by_mark[each.mark] for each in altered.events])
        for child in children:
            child.connection.buffer.flush_empty()

    children.forward = forward_altered  # type: ignore[method-assign]

    def end() -> None:
        children.forward = forward  # type: ignore[method-assign]

    return end


def delay(network: TransportNetwork, name: str) -> Callable[[], None]:
    """Let a router forward nothing. Return a function that forwards all of it, and ends this."""
    children = router_of(network, name).children
    forward = children.forward
    delayed: list[tuple[SequenceState, EventRange, Sequence[frozenset[Hashable]]]] = []
    children.forward = lambda *range_: delayed.append(range_)  # type: ignore[method-assign]

    def end() -> None:
        children.forward = forward  # type: ignore[method-assign]
        for each in delayed:
            forward(*each)

    return end
