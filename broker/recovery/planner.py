"""Plans the sources of a recovery without any I/O (issue 5, planner).

The archive has all events of all origins, but later, and a replay takes time. So a small number of
places is read from the client's previous node or the origins' logs.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from broker.archive.interval import Interval, difference
from broker.delivery.recovery_contract import MarkRange
from broker.event.place import Mark

#: Bound of the places that all active recoveries read from logs.
MAX_LOG_PLACES = 100_000

#: The source if there never will be another one.
OWN_LOG = "log"


@attrs.frozen
class PlanStep:
    """One source, which is asked for the ranges that remain at its turn."""

    source: str
    """`former`, `logs`, `archive` or `log`."""
    ranges: Mapping[str, MarkRange]
    why: str


@attrs.frozen
class AvailableSources:
    previous_node: str
    """Empty if there is none, or it is unreachable."""
    log_origins: Collection[str]
    has_archive: bool
    active_recoveries: int = 0
    is_alone: bool = False
    """True without a network: no other node can return with more events."""
    is_unbounded: bool = False
    """True if logs come first for any number of places."""

    @property
    def max_log_places(self) -> int:
        return sys.maxsize if self.is_unbounded else MAX_LOG_PLACES // (1 + self.active_recoveries)


def plan_steps(
    ranges: Mapping[str, MarkRange], sources: AvailableSources, *, all_origins: bool = False
) -> list[PlanStep]:
    steps: list[PlanStep] = []
    count = count_places(ranges)
    many = count is not None and count > sources.max_log_places
    if sources.previous_node and not (many and sources.has_archive):
        steps.append(
            PlanStep("former", ranges, f"{sources.previous_node} has all events for the client")
        )
    near = {origin: each for origin, each in ranges.items() if origin in sources.log_origins}
    can_ask = ranges.keys() == near.keys() and not all_origins and not many
    logs = PlanStep("logs", near, f"the logs of {len(near)} origins can be asked")
    if sources.has_archive and not can_ask:
        why = "it has all past events" if all_origins else "it has events that no log has any more"
        if many and not all_origins:
            why = f"{count} places are more than logs are read for now ({sources.max_log_places})"
        steps.append(PlanStep("archive", ranges, why))
        if near:
            steps.append(attrs.evolve(logs, why="events that are not archived yet"))
    elif near:
        steps.append(logs)
        if sources.has_archive:
            steps.append(PlanStep("archive", ranges, "events that retention removed from the logs"))
    if not steps and sources.is_alone:
        steps.append(PlanStep(OWN_LOG, ranges, "there is no other source than this log"))
    return steps


def count_places(ranges: Mapping[str, MarkRange]) -> int | None:
    """None if one range has no end."""
    total = 0
    for after, upto in ranges.values():
        if upto is None:
            return None
        total += upto[1] - after[1]
    return total


def missing_ranges(after: Mark, upto: Mark | None, covered: Sequence[Interval]) -> list[Interval]:
    """Return the parts of (after, upto] that the archive lacks before its last event."""
    last = max((end for _, end in covered), default=after)
    requested = (after, last if upto is None else min(last, upto))
    # A new epoch continues with the next offset, so empty ranges are not missing.
    return [each for each in difference([requested], covered) if each[0][1] < each[1][1]]


class RemainingRanges:
    def __init__(
        self, ranges: Mapping[str, MarkRange], known: Mapping[str, Mark] | None = None
    ) -> None:
        """`known` are the least ends of ranges that have no end."""
        # An epoch may have begun without events.
        self._left = {
            origin: (after, upto)
            for origin, (after, upto) in ranges.items()
            if upto is None or upto[1] > after[1]
        }
        self._known = dict(known or {})
        self._open = {origin: after for origin, (after, upto) in ranges.items() if upto is None}

    def copy(self) -> RemainingRanges:
        copied = RemainingRanges(self._left, self._known)
        copied._open = dict(self._open)
        return copied

    def restore(self, before: RemainingRanges) -> None:
        self._left, self._open = dict(before._left), dict(before._open)

    @property
    def ranges(self) -> dict[str, MarkRange]:
        """None is empty."""
        return dict(self._left)

    def advance(self, marks: Mapping[str, Mark]) -> None:
        for origin, mark in marks.items():
            if origin in self._open:
                self._open[origin] = max(mark, self._open[origin])
            found = self._left.get(origin)
            if found is None:
                continue
            after, upto = found
            if upto is not None and mark >= upto:
                del self._left[origin]
            elif mark > after:
                self._left[origin] = (mark, upto)

    @property
    def open_ends(self) -> dict[str, Mark]:
        """By origin with an open range, the mark up to which it was read."""
        return dict(self._open)

    def close_ranges(self, origins: Iterable[str]) -> None:
        """Close open ranges. Only the part up to a known end remains."""
        for origin in origins:
            if origin not in self._open or self._left.get(origin, (None, (0, 0)))[1] is not None:
                continue
            reached, known = self._open[origin], self._known.get(origin, (0, 0))
            # A restored log may reuse lower offsets in later epochs.
            if known > reached and known[1] > reached[1]:
                self._left[origin] = (reached, known)
            else:
                del self._left[origin]

    def add_range(self, origin: str, after: Mark, upto: Mark) -> None:
        self._left[origin] = (after, upto)

    def close_all(self) -> None:
        self.close_ranges(list(self._left))
