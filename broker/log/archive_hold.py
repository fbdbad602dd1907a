"""The archive's hold on retention: own events and replicas stay until the archive has them."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from broker.event.place import Mark

#: Share by which the limit may be exceeded until the coming loss is announced.
_UNANNOUNCED_SHARE = 1 / 8


@attrs.define
class ArchiveHold:
    """Protects unarchived own events and replicas from retention, up to a size.

    The log's writing thread calls it. The reactor's thread sets the archived marks, and reads the
    rest.
    """

    most_bytes: int = 0
    """Size of the log on disk up to which own events are kept; 0: there is no archive."""
    archived: Mark = (0, 0)
    """The archive has this node's own events up to here, as reported by its archiver."""
    archived_replicas: Mapping[str, Mark] = attrs.field(factory=dict)
    """By origin: the same mark for replicas."""
    dropped_unarchived: int = 0
    """Own events that retention removed before they were archived, since the start."""
    is_announced: bool = True
    """True if the node has announced that events will be dropped. The reactor's thread sets it."""
    _held: tuple[Mark, Mark] | None = None

    @property
    def held_after(self) -> Mark | None:
        """Own events after this mark are kept beyond retention; None without any."""
        held = self._held
        if held is None or held[1] <= self.archived:
            return None
        (epoch, offset), _ = held
        return epoch, offset - 1

    def holds_events(self, first: Mark, last: Mark, used_bytes: int) -> bool:
        """Return True if retention must keep own events, in a log of `used_bytes`."""
        if not self.most_bytes or last <= self.archived:
            self._held = None
            return False
        extra_bytes = 0 if self.is_announced else int(_UNANNOUNCED_SHARE * self.most_bytes)
        if used_bytes <= self.most_bytes + extra_bytes:
            self._held = (first, last)
            return True
        self.dropped_unarchived += last[1] - max(first[1] - 1, self.archived[1])
        return False

    def holds_replica(self, origin: str, last: Mark, used_bytes: int) -> bool:
        """Return True if a replica must stay. Replicas may have half of the log's limit."""
        is_unarchived = last > self.archived_replicas.get(origin, (0, 0))
        return is_unarchived and used_bytes <= self.most_bytes // 2
