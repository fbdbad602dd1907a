"""Where what was missed is looked for, and why there: a pure decision (issue 5, planner).

The node where the client was has all that was for it, in one order. An origin's own log has all of
its events. The archive has all of all origins, but a few seconds later, and a job in it takes its
time; so a little of origins that can be asked is asked of them.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from broker.archive.interval import Interval, difference
from broker.delivery.recovery import MarkRange
from broker.event.place import Mark

#: Places that logs are asked for rather than the archive, by all recoveries at a time together: to
#: look at so many takes a node about as long as a job in the archive, which serves all at once.
MAX_LOG_PLACES = 100_000

#: The source where there is no other one, and never will be: whatever this node has.
OWN_LOG = "log"


@attrs.frozen
class PlanStep:
    """One source that is asked for what is left then."""

    source: str
    """`former`, `logs`, `archive` or `log`."""
    ranges: Mapping[str, MarkRange]
    why: str


@attrs.frozen
class AvailableSources:
    """What there is to ask."""

    previous_node: str
    """The address of the node where the client was; empty where there is none, or no way to it."""
    log_origins: Collection[str]
    """Origins whose logs can be asked."""
    has_archive: bool
    active_recoveries: int = 0
    """How many other recoveries are under way."""
    is_alone: bool = False
    """Whether there is no network: nobody can come back who has more."""
    is_unbounded: bool = False
    """Whether logs are asked first for however many places."""

    @property
    def max_log_places(self) -> int:
        """Places that one recovery may ask logs for."""
        return sys.maxsize if self.is_unbounded else MAX_LOG_PLACES // (1 + self.active_recoveries)


def plan_steps(
    ranges: Mapping[str, MarkRange], sources: AvailableSources, *, all_origins: bool = False
) -> list[PlanStep]:
    """The sources in the order in which they are asked; each for what those before it did not have.

    `whole`: all of the past is wanted, of whatever origin, and not only what lies in the ranges.
    """
    steps: list[PlanStep] = []
    count = count_places(ranges)
    many = count is not None and count > sources.max_log_places
    if sources.previous_node and not (many and sources.has_archive):
        steps.append(
            PlanStep("former", ranges, f"{sources.previous_node} has all that was for the client")
        )
    near = {origin: each for origin, each in ranges.items() if origin in sources.log_origins}
    can_ask = ranges.keys() == near.keys() and not all_origins and not many
    logs = PlanStep("logs", near, f"the logs of {len(near)} origins can be asked")
    if sources.has_archive and not can_ask:
        why = "it has all that there ever was" if all_origins else "it has what no log has any more"
        if many and not all_origins:
            why = f"{count} places are more than logs are asked for now ({sources.max_log_places})"
        steps.append(PlanStep("archive", ranges, why))
        if near:
            steps.append(attrs.evolve(logs, why="what is not yet in the archive"))
    elif near:
        steps.append(logs)
        if sources.has_archive:
            steps.append(PlanStep("archive", ranges, "what retention took from the logs"))
    if not steps and sources.is_alone:
        steps.append(PlanStep(OWN_LOG, ranges, "nobody else can be asked: whatever this log has"))
    return steps


def count_places(ranges: Mapping[str, MarkRange]) -> int | None:
    """How many places the ranges have; None where one has no end."""
    total = 0
    for after, upto in ranges.values():
        if upto is None:
            return None
        total += upto[1] - after[1]
    return total


def missing_ranges(after: Mark, upto: Mark | None, covered: Sequence[Interval]) -> list[Interval]:
    """What the archive lacks of (after, upto], before the last that it has."""
    last = max((end for _, end in covered), default=after)
    requested = (after, last if upto is None else min(last, upto))
    # Where an epoch ended, the next one begins with the next offset.
    return [each for each in difference([requested], covered) if each[0][1] < each[1][1]]


class RemainingRanges:
    """What is left of the ranges."""

    def __init__(
        self, ranges: Mapping[str, MarkRange], known: Mapping[str, Mark] | None = None
    ) -> None:
        """`known`: up to where there is something, of those that have no end."""
        # An epoch may have begun in which there is nothing: nobody need be asked for that.
        self._left = {
            origin: (after, upto)
            for origin, (after, upto) in ranges.items()
            if upto is None or upto[1] > after[1]
        }
        self._known = dict(known or {})
        self._open = {origin: after for origin, (after, upto) in ranges.items() if upto is None}

    def copy(self) -> RemainingRanges:
        """As much as is left now."""
        copied = RemainingRanges(self._left, self._known)
        copied._open = dict(self._open)
        return copied

    def restore(self, before: RemainingRanges) -> None:
        """As much is left again as was in a copy."""
        self._left, self._open = dict(before._left), dict(before._open)

    @property
    def ranges(self) -> dict[str, MarkRange]:
        """By origin; none of these is empty."""
        return dict(self._left)

    def advance(self, marks: Mapping[str, Mark]) -> None:
        """All up to these was looked at."""
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
        """Of the ranges that had no end, up to where they were looked at."""
        return dict(self._open)

    def close_ranges(self, origins: Iterable[str]) -> None:
        """Those of these whose range has no end have come to it: what is known to lie behind it is
        left."""
        for origin in origins:
            if origin not in self._open or self._left.get(origin, (None, (0, 0)))[1] is not None:
                continue
            reached, known = self._open[origin], self._known.get(origin, (0, 0))
            # An epoch may have begun in which there is nothing. If its log was set back behind what
            # is known, its later places may have lower offsets.
            if known > reached and known[1] > reached[1]:
                self._left[origin] = (reached, known)
            else:
                del self._left[origin]

    def add_range(self, origin: str, after: Mark, upto: Mark) -> None:
        """Something is wanted of an origin that was not named."""
        self._left[origin] = (after, upto)

    def close_all(self) -> None:
        """Ranges without an end have come to it."""
        self.close_ranges(list(self._left))
