"""Retention and the archive: own events, and copies of others, stay until the archive has them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.event.place import Mark

#: Share of the limit by which it is passed until the node has said that events will go.
_UNANNOUNCED_SHARE = 1 / 8


@attrs.define
class ArchiveHold:
    """Keeps chunks of own events and of copies from retention, up to a size.

    The log's writing thread asks; the reactor's thread says what is archived, and reads the rest.
    """

    most_bytes: int = 0
    """Size of the log on disk up to which own events are kept; 0: there is no archive."""
    archived: Mark = (0, 0)
    """Up to here the archive has this node's own events, as far as its archiver has said."""
    archived_replicas: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin the same of events of which copies are here."""
    dropped_unarchived: int = 0
    """Own events that retention took before they were archived, since the start."""
    is_announced: bool = True
    """Whether the node has said that events will go. The reactor's thread sets it."""
    _held: tuple[Mark, Mark] | None = None

    @property
    def held_after(self) -> Mark | None:
        """Behind this mark own events are kept beyond what retention allows; None: none are."""
        held = self._held
        if held is None or held[1] <= self.archived:
            return None
        (epoch, offset), _ = held
        return epoch, offset - 1

    def holds_events(self, first: Mark, last: Mark, used_bytes: int) -> bool:
        """Whether retention must leave own events in places from `first` to `last`, which it would
        take from a log of so many bytes."""
        if not self.most_bytes or last <= self.archived:
            self._held = None
            return False
        beyond = 0 if self.is_announced else int(_UNANNOUNCED_SHARE * self.most_bytes)
        if used_bytes <= self.most_bytes + beyond:
            self._held = (first, last)
            return True
        self.dropped_unarchived += last[1] - max(first[1] - 1, self.archived[1])
        return False

    def holds_replica(self, origin: str, last: Mark, used_bytes: int) -> bool:
        """Whether copies of another node's events up to `last` must stay, though all copies take so
        many bytes: up to half of what the log may have."""
        unarchived = last > self.archived_replicas.get(origin, (0, 0))
        return unarchived and used_bytes <= self.most_bytes // 2
