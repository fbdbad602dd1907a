"""Events that a parent leaves out of a range although its child wants them (X1, X12, N1).

Each has an entry without record and document, whose level says why. So it is neither taken for
filtered nor for lost, whatever part of the range is sent again.
"""

from __future__ import annotations

from typing import Final

from broker.streams.contract import CarriedEvent
from broker.streams.dropped_count import DroppedCount

#: Levels of entries: the event is above the clearance of the link, or a queue policy dropped it.
WITHHELD: Final = 0x10
_DROPPED: Final = 0x20
_COALESCED: Final = 0x40
_HIGHEST_RANK: Final = 2


def drop_level(rank: int, is_coalesced: bool = False) -> int:
    """Return the level of the entry of an event that a queue policy dropped."""
    return _DROPPED | rank | (_COALESCED if is_coalesced else 0)


def is_omission(event: CarriedEvent) -> bool:
    return event.level > _HIGHEST_RANK


def is_known_level(level: int) -> bool:
    """Return whether an entry may have a level without an event."""
    return level == WITHHELD or (
        level & ~_COALESCED & ~0x03 == _DROPPED and level & 0x03 <= _HIGHEST_RANK
    )


def dropped_count(event: CarriedEvent) -> DroppedCount | None:
    """Return the count of an omission by a queue policy; None for another one."""
    if not event.level & _DROPPED:
        return None
    return DroppedCount(event.level & 0x03, 1, bool(event.level & _COALESCED))
