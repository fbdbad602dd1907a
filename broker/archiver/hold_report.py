"""Log messages about own events that the archive has not got, and that fill the log."""

from __future__ import annotations

from twisted.logger import Logger

from broker.log.unarchived import UnarchivedHold

#: Share of the limit from which on the loss of unarchived events is announced.
NEAR = 0.9


class HoldReport:
    """Says once what retention does about events that are not archived."""

    log = Logger()

    def __init__(self) -> None:
        self._holds = self._is_near = False
        self._taken = 0

    def look(self, hold: UnarchivedHold, used_bytes: int, *, is_known: bool = True) -> None:
        """To be called each second. `is_known`: the archiver has said what the archive has."""
        holds = hold.since is not None
        figures = {"used": used_bytes, "most": hold.most_bytes, "since": hold.since}
        if holds and not self._holds:
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
        hold.is_told = is_near
        if hold.taken > self._taken:
            self.log.error(
                "{count} own events were removed that the archive lacks",
                count=hold.taken - self._taken,
            )
        if self._holds and not holds:
            self.log.info("the archive has all own events that retention removes")
        self._holds, self._is_near, self._taken = holds, is_near, hold.taken
