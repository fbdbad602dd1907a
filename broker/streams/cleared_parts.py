"""Parts of a batch between events above the clearance of its transport."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Sequence
from typing import Final, TypeAlias

import attrs

from broker.streams.contract import FlowBatch

#: Of the highest security level: no event is above it.
HIGHEST_RANK: Final = 2
#: A part, and the targets of its events.
ClearedPart: TypeAlias = tuple[FlowBatch, Sequence[Collection[Hashable]]]


def split_at_withheld(
    batch: FlowBatch, targets: Sequence[Collection[Hashable]], rank: int
) -> Iterator[ClearedPart]:
    """Yield ranges without the places of events above a rank.

    Receivers miss these places, and request them over links that may have the clearance.
    """
    start, after = 0, batch.after
    for index, event in enumerate(batch.events) if rank < HIGHEST_RANK else ():
        if event.level > rank:
            before = (event.mark[0], event.mark[1] - 1)
            if after < before:
                events = batch.events[start:index]
                part = attrs.evolve(batch, after=after, upto=before, events=events)
                yield part, targets[start:index]
            start, after = index + 1, event.mark
    if after < batch.upto:
        if start:
            batch = attrs.evolve(batch, after=after, events=batch.events[start:])
        yield batch, targets[start:]
