"""Log messages about own events that stay in the log because they are not archived."""

from __future__ import annotations

from twisted.logger import Logger

from broker.log.archive_hold import ArchiveHold

#: Share of the limit at which a loss is announced.
NEAR = 0.9


class HoldReport:
    """Logs each change of the hold on unarchived own events once."""

    log = Logger()

    def __init__(self) -> None:
        self._is_holding = self._is_near = False
        self._removed = 0

    def log_changes(self, hold: ArchiveHold, used_bytes: int, *, is_known: bool = True) -> None:
        """Call it each second. `is_known`: the archiver has reported its progress."""
        holds = hold.held_after is not None
        figures = {"used": used_bytes, "most": hold.most_bytes, "since": hold.held_after}
        if holds and not self._is_holding:
            self.log.warn(
                "the archive lacks own events behind {since}: the log keeps them beyond "
                "log.max_bytes and log.max_age, up to {most} bytes",
                **figures,
            )
        is_near = is_known and holds and used_bytes >= NEAR * hold.most_bytes
        if is_near and not self._is_near:
            self.log.error(
                "the log has {used} of {most} bytes: own events behind {since} will be removed "
                "though the archive lacks them",
                **figures,
            )
        hold.is_announced = is_near
        if hold.dropped_unarchived > self._removed:
            self.log.error(
                "{count} own events were removed that the archive lacks",
                count=hold.dropped_unarchived - self._removed,
            )
        if self._is_holding and not holds:
            self.log.info("the archive has all own events that retention removes")
        self._is_holding, self._is_near, self._removed = holds, is_near, hold.dropped_unarchived
