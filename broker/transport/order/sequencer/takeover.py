"""A takeover that is not complete: awaited and received answers (L3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from broker.transport.order.packet import Stamp
from broker.transport.order.sequencer.packet import (
    MOST_HEADERS,
    Answer,
    Begin,
    Epoch,
    Header,
    KnownNumbers,
    Places,
)
from broker.transport.order.sequencer.place_table import (
    PlaceTable,
    coverage_of,
    merge_known,
    merge_places,
    sort_places,
)


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

    def merge_places(self, *own: Iterable[tuple[Stamp, Header]]) -> Places:
        """Return the places that any member knows. The lowest one of a message counts."""
        tables = *own, *(answer.places for answer in self.answers.values())
        return sort_places(merge_places(tables).values())

    def merge_known(self, own: KnownNumbers) -> KnownNumbers:
        """Return the numbers that any member knows."""
        return merge_known((own, *(answer.known for answer in self.answers.values())))

    def make_begins(
        self, merged: Places, table: PlaceTable, known: KnownNumbers
    ) -> Iterator[tuple[str, Begin]]:
        """Yield each member, and the places that it may need. `table` has the merged places."""
        members = frozenset(self.answers)
        for site, answer in sorted(self.answers.items()):
            is_covered = coverage_of(answer.known)
            places = tuple(
                (stamp, header)
                for stamp, header in merged
                if not answer.has_delivered(header.id)
                or table.is_uncovered(header.id)
                or not is_covered(stamp)
            )
            yield site, Begin(self.epoch, places[-MOST_HEADERS:], known, members)

    def waiting_headers(self) -> set[Header]:
        """Return messages without a number at other members."""
        return {header for answer in self.answers.values() for header in answer.waiting}
