"""A takeover that is not complete: awaited and received answers (L3)."""

from __future__ import annotations

from collections.abc import Mapping

from broker.transport.order.packet import Stamp
from broker.transport.order.sequencer.packet import Answer, Epoch, Header


class PendingTakeover:
    """State of one takeover. Sites that return meanwhile join it, and do not prolong it.

    After `deadline` it goes on without the missing answers. Their sites come in by the next one.
    """

    def __init__(self, epoch: Epoch, deadline: float) -> None:
        self.epoch = epoch
        self.deadline = deadline
        self.awaited: set[str] = set()
        self.answers: dict[str, Answer] = {}
        #: A site knows a higher epoch.
        self.is_refused = False

    def remove_site(self, site: str) -> None:
        self.awaited.discard(site)
        self.answers.pop(site, None)

    def is_complete(self, now: float) -> bool:
        return not self.awaited or now >= self.deadline

    def merge_places(self, own: Mapping[Header, Stamp]) -> dict[Header, Stamp]:
        """Return the stamps that any member knows. The lowest one of a message counts."""
        merged = dict(own)
        for answer in self.answers.values():
            for stamp, header in answer.places:
                merged[header] = min(stamp, merged.get(header, stamp))
        return merged

    def waiting_headers(self) -> set[Header]:
        """Return messages without a number at other members."""
        return {header for answer in self.answers.values() for header in answer.waiting}
