"""Comparison of the copies of one sequence's events that several parents bring."""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from plugins.dcp.event_range import IRange
from plugins.dcp.parent_chains import ParentChains
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.recent_events import (
    Disagreement,
    FirstCopy,
    IRememberedSequence,
    LaterCopy,
    RecentEvents,
)


class Omission(NamedTuple):
    """A parent brings an event that parents have left out of earlier ranges, perhaps itself."""

    an: int
    bringing: Hashable
    omitting: list[Hashable]
    is_late: bool
    """True: this node has passed the place."""


class CopyComparison:
    def __init__(
        self, sequence: IRememberedSequence, recent: RecentEvents, chains: ParentChains
    ) -> None:
        """`recent` has the events of all sequences of a node."""
        self.disagreements: list[Disagreement] = []
        """New ones; the owner empties the list."""
        self.omissions: list[Omission] = []
        """New ones; the owner empties the list."""
        self._claimed_upto = 0
        """Greatest AN in a range of any parent."""
        self._sequence = sequence
        self._recent = recent
        self._chains = chains

    def find(self, an: int) -> FirstCopy | None:
        return self._recent.find(self._sequence, an)

    def compare(
        self,
        parent: Hashable,
        path: ParentPath,
        range_: IRange,
        current: int,
        now: float,
        *,
        is_repeated: bool,
    ) -> bool:
        """Count the events of a range. Return True if another parent's copy of one differs."""
        recent, sequence, claimed_upto = self._recent, self._sequence, self._claimed_upto
        if range_.upto > claimed_upto:
            self._claimed_upto = range_.upto
        has_different = False
        for an, digest in range_.digests():
            known = recent.find(sequence, an)
            if known is None:
                if an <= claimed_upto:
                    self._note_omission(parent, an, is_late=an <= current)
                recent.add(sequence, an, FirstCopy(digest, now, parent, is_repeated))
                if an <= current:
                    # It is older than the memory, came from the log, or was left out before.
                    path.duplicate += 1
                else:
                    path.first += 1
                    path.repaired += is_repeated
                continue
            path.duplicate += 1
            known.add_later(LaterCopy(parent, now, is_repeated))
            if not is_repeated and known.parent != parent:
                path.skew.add_sample(now - known.received_at)
            if known.digest != digest:
                has_different = True
                self.disagreements.append(Disagreement(an, known.parent, parent))
        return has_different

    def _note_omission(self, parent: Hashable, an: int, *, is_late: bool) -> None:
        """Note which parents have left out an event that one brings first."""
        # Another parent may have brought a forgotten event.
        is_remembered = an > self._sequence.forgotten_upto
        omitting = self._chains.find_omitting(parent, an) if is_remembered else []
        if omitting:
            self.omissions.append(Omission(an, parent, omitting, is_late))
