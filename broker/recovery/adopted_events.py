"""Own events under an earlier name of this node's log: which ones the node logs again.

If another process continues under that name, other nodes may get other events at their places. If
the name belongs to another key, other nodes read them here, as those of any silent origin
(`broker.recovery.silent_origin`). But the archiver writes only events under the present name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from twisted.logger import Logger

from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.log.history import Adoption
from broker.log.logged_event import LoggedEvent
from broker.recovery.archive_access import ArchiveAccess
from broker.transport.clock import IClock
from broker.transport.sleep import sleep

PAGE_EVENTS: Final = 512
PAGE_BYTES: Final = 512 << 10
#: Seconds between two questions to an archive that can not be read.
RETRY_INTERVAL: Final = 10.0


class AdoptedEvents:
    log = Logger()

    def __init__(
        self,
        event_log: EventLog,
        archive: ArchiveAccess | None,
        clock: IClock,
        relog: Callable[[Sequence[LoggedEvent]], Awaitable[None]],
    ) -> None:
        """`relog` logs known events again at new places."""
        self._event_log = event_log
        self._archive = archive
        self._clock = clock
        self._relog = relog

    async def log_again(self) -> None:
        """Log the events again; return without it while the archive can not be read."""
        adoption = self._event_log.pending_adoption
        if adoption is None:
            return
        if adoption.is_continued:
            await self._log_after(adoption, adoption.after)
        elif self._archive is not None:
            coverage = await self._archive.get_coverage({adoption.origin: (0, 0)})
            if not coverage.is_known:
                await sleep(self._clock, RETRY_INTERVAL)
                return
            archived = [upto for _, upto in coverage.intervals.get(adoption.origin, ())]
            await self._log_after(adoption, max((adoption.after, *archived)))
        await self._event_log.finish_adoption()

    async def _log_after(self, adoption: Adoption, after: Mark) -> None:
        count, read = 0, self._event_log.read_past_damage
        while events := await read(adoption.origin, after, PAGE_EVENTS, PAGE_BYTES):
            await self._relog(events)
            after, count = events[-1].mark, count + len(events)
        text = "{count} events of the earlier name {origin} were logged again"
        self.log.info(text, count=count, origin=adoption.origin)
