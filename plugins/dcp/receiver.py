"""The receiving end of one sequence, from several parents (DCP D41-D46).

Each packet states a range (previous, AN]: its parent sent no other event in it on this link. The
receiver delivers a range that begins at or before its own place, *current*, and ends behind it. So
a filtered event is no loss. Ranges further ahead are held: a *missing range* is before them.

While parents select events by different queries, a range of an older query says nothing of events
that only the present one selects. `cut` is the AN behind which the present query counts. Behind it
a range of an older query is taken apart into its events. They need no retransmission, but only a
range of the present query leads over the ANs between them (X4).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import attrs

from plugins.dcp.event_range import IRange
from plugins.dcp.held_ranges import HeldRanges
from plugins.dcp.parent_chain import NEVER, ParentChain
from plugins.dcp.parent_path import ParentPath, SmoothedTime

#: Ranges in a request that are not sent again.
MOST_LISTED: Final = 32
#: ANs ahead of the present place; a range further ahead is damaged or forged.
MOST_JUMP: Final = 2**32
#: Events whose hash and time of arrival are known.
_MOST_RECENT: Final = 1_024
_MOST_NACK_INTERVAL: Final = 1.0


RangeT = TypeVar("RangeT", bound=IRange)


@attrs.frozen(kw_only=True)
class ReceiverSettings:
    """Times in seconds, sizes in bytes."""

    patience: float = 2.0
    """After this time the next range goes on, and it is left to the log."""
    least_fast_nack: float = 0.005
    least_nack: float = 0.05
    fixed_fast_nack: float = 0.0
    """More than 0: it replaces the measured delay. So does `fixed_nack`."""
    fixed_nack: float = 0.0
    held_bytes: int = 4 << 20


class Nack(NamedTuple):
    """A request to send what is behind `current` again, except for the held ranges."""

    current: int
    held: Sequence[tuple[int, int]]


class Disagreement(NamedTuple):
    """Two parents sent different events with one AN."""

    an: int
    first: Hashable
    other: Hashable


class SequenceReceiver(Generic[RangeT]):
    """Puts the ranges of several parents in one order, each event once."""

    def __init__(self, parents: Mapping[Hashable, ParentPath], settings: ReceiverSettings) -> None:
        """`parents` has the paths of the live parents; its owner keeps it up to date."""
        self.current: int | None = None
        """End of what was delivered."""
        self.cut = 0
        self.passed = 0
        """Missing ranges that were left to the log."""
        self.nacks = 0
        self.dropped = 0
        """Ranges without room, or too far ahead."""
        self.disagreements: list[Disagreement] = []
        """New ones; the owner empties the list."""
        self._parents = parents
        self._settings = settings
        self._chains: dict[Hashable, ParentChain] = {}
        self._held = HeldRanges[RangeT](settings.held_bytes)
        self._recent: dict[int, tuple[int, float, Hashable]] = {}
        """Hash, time of arrival and parent of the last events by AN."""
        self._gap = SmoothedTime()
        self._received_at: float | None = None
        self._missing_since: float | None = None
        self._certain_since: float | None = None
        self._nack_at: float | None = None
        self._nack_interval = 0.0

    # ------------------------------------------------------------------ input

    def begin(self, an: int, now: float) -> list[RangeT]:
        """Begin behind an AN, unless the sequence has begun. What is before is in the log."""
        if self.current is None:
            self.current = an
        return self._advance(now)

    def set_parent(self, parent: Hashable, cut: int, now: float) -> list[RangeT]:
        """State that all events of the present query are in a parent's ranges behind `cut`."""
        chain = self._chain_of(parent)
        chain.cut = cut
        # It can not send what was before its first range, or not selected by this query.
        if not chain.has_begun and cut != NEVER:
            chain.begin(cut)
        return self._advance(now)

    def remove_parent(self, parent: Hashable, now: float) -> list[RangeT]:
        self._chains.pop(parent, None)
        return self._advance(now)

    def receive(
        self, parent: Hashable, range_: RangeT, now: float, *, is_repeated: bool = False
    ) -> Sequence[RangeT]:
        """Take a range of a parent, and return what is to be delivered, in order.

        `is_repeated` is True for a retransmission.
        """
        path, chain = self._parents[parent], self._chain_of(parent)
        path.bytes += range_.size
        if self.current is None:
            self.current = range_.previous
        if range_.upto > self.current + MOST_JUMP:
            self.dropped += 1
            return ()
        self._follow_chain(chain, path, range_, now, is_repeated=is_repeated)
        self._compare(parent, path, range_, now, is_repeated=is_repeated)
        if range_.upto <= self.current:
            return ()
        trusted = max(self.cut, self.current) >= chain.cut
        if trusted and range_.previous <= self.current and not self._held:
            # The usual case.
            delivered = range_ if range_.previous == self.current else range_.after(self.current)
            self.current = range_.upto
            self._missing_since = None
            self._note_arrival(now)
            if self._has_missing_range():
                return [delivered, *self._advance(now)]
            return (delivered,)
        for part in (range_,) if trusted else self._trusted_parts(range_, chain.cut):
            self._hold(part)
        self._note_arrival(now)
        return self._advance(now)

    def receive_end(self, parent: Hashable, an: int, now: float) -> list[RangeT]:
        """Note that a parent has sent all up to an AN."""
        chain = self._chain_of(parent)
        if self.current is None or an > self.current + MOST_JUMP or an <= chain.end:
            return []
        self._parents[parent].lost += 1
        chain.end, chain.advanced_at = an, now
        return self._advance(now)

    def receive_unavailable(
        self, parent: Hashable, after: int, upto: int, now: float
    ) -> list[RangeT]:
        """Note that a parent can not send a range."""
        chain = self._chain_of(parent)
        if self.current is None or after >= upto or upto > self.current + MOST_JUMP:
            return []
        chain.add_unavailable(after, upto)
        return self._advance(now)

    def overlaps(self, parent: Hashable) -> bool:
        """Return whether a parent's chain leads on from the present place, or before it."""
        chain = self._chains.get(parent)
        if self.current is None or chain is None:
            # Without a range of this sequence nothing can be missing.
            return self.current is None or not self._chains
        return chain.start <= self.current and chain.cut <= max(self.cut, self.current)

    def set_cut(self, an: int, now: float) -> list[RangeT]:
        """Let the present query count behind an AN.

        The held ranges behind it were selected by older ones.
        """
        self.cut = max(self.cut, an)
        for range_ in self._held.take_all():
            for part in self._trusted_parts(range_, NEVER):
                self._hold(part)
        return self._advance(now)

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float | None:
        """Return the time of the next request, or of the end of the patience."""
        if self._missing_since is None:
            return None
        given_up_at = self._missing_since + self._settings.patience
        return min(given_up_at, self._next_nack_at())

    def handle_timeout(self, now: float) -> tuple[list[RangeT], Nack | None]:
        """Return what is delivered without the missing range, and a request to all parents."""
        if self._missing_since is None:
            return [], None
        if now >= self._missing_since + self._settings.patience:
            return self._pass_missing_range(now), None
        if now < self._next_nack_at():
            return [], None
        interval = self._nack_interval
        self._nack_interval = min(
            _MOST_NACK_INTERVAL,
            2 * interval if interval else self._answer_time(),
        )
        self._nack_at = now
        self.nacks += 1
        assert self.current is not None
        return [], Nack(self.current, self._held.spans(MOST_LISTED))

    @property
    def is_incomplete(self) -> bool:
        return self._missing_since is not None

    # ------------------------------------------------------------------ chains

    def _chain_of(self, parent: Hashable) -> ParentChain:
        return self._chains.setdefault(parent, ParentChain())

    def _follow_chain(
        self, chain: ParentChain, path: ParentPath, range_: RangeT, now: float, *, is_repeated: bool
    ) -> None:
        if range_.upto > chain.end:
            if not chain.has_begun:
                chain.begin(range_.previous)
            elif range_.previous > chain.end and not is_repeated:
                path.lost += 1
            chain.end, chain.advanced_at = range_.upto, now
        elif not is_repeated and range_.upto < chain.end:
            path.reordering.add_sample(now - chain.advanced_at)
            path.lost = max(0, path.lost - 1)

    def _compare(
        self,
        parent: Hashable,
        path: ParentPath,
        range_: RangeT,
        now: float,
        *,
        is_repeated: bool,
    ) -> None:
        recent = self._recent
        for an, digest in range_.digests():
            known = recent.get(an)
            if known is None:
                if self.current is not None and an <= self.current:
                    # It is older than the memory, or came from the log.
                    path.duplicate += 1
                    continue
                recent[an] = digest, now, parent
                path.first += 1
                path.repaired += is_repeated
                if len(recent) > _MOST_RECENT:
                    del recent[next(iter(recent))]
                continue
            path.duplicate += 1
            if not is_repeated and known[2] != parent:
                path.skew.add_sample(now - known[1])
            if known[0] != digest:
                self.disagreements.append(Disagreement(an, known[2], parent))

    def _trusted_parts(self, range_: RangeT, parent_cut: int) -> list[RangeT]:
        """Return the parts of a range that have all events of the present query, and its other
        events alone."""
        parts: list[RangeT] = []
        rest = range_
        if rest.previous < self.cut:
            upto = min(self.cut, rest.upto)
            parts.append(rest.until(upto))
            rest = rest.after(upto)
        if rest.upto > parent_cut > rest.previous:
            parts += rest.until(parent_cut).single_events()
            parts.append(rest.after(parent_cut))
        elif rest.previous >= parent_cut:
            parts.append(rest)
        else:
            parts += rest.single_events()
        return [each for each in parts if each.previous < each.upto]

    # ------------------------------------------------------------------ held ranges

    def _hold(self, range_: RangeT) -> None:
        assert self.current is not None
        if range_.upto > self.current:
            self._held.add(range_)

    def _advance(self, now: float) -> list[RangeT]:
        """Return held ranges that follow. Pass missing ranges that no parent has."""
        delivered: list[RangeT] = []
        while True:
            self._take_following(delivered)
            if not self._has_missing_range():
                self._missing_since = None
                return delivered
            end = self._unavailable_end()
            if end is None:
                break
            self._skip_to(end)
        if delivered or self._missing_since is None:
            self._missing_since, self._certain_since, self._nack_at = now, None, None
            self._nack_interval = 0.0
        if self._certain_since is None and self._is_certain():
            self._certain_since = now
        return delivered

    def _take_following(self, delivered: list[RangeT]) -> None:
        if self.current is not None:
            following = self._held.take_following(self.current)
            if following:
                delivered += following
                self.current = following[-1].upto

    def _has_missing_range(self) -> bool:
        current = self.current
        if current is None:
            return False
        # A parent that selects by an older query may be ahead of what the present one selects.
        counts_behind = max(self.cut, current)
        return bool(self._held) or any(
            each.end > current and each.cut <= counts_behind for each in self._chains.values()
        )

    def _is_certain(self) -> bool:
        """Return whether the chain of each live parent has passed the missing range."""
        assert self.current is not None
        chains = [self._chains.get(parent) for parent in self._parents]
        return bool(chains) and all(
            each is not None and each.has_passed(self.current) for each in chains
        )

    def _unavailable_end(self) -> int | None:
        """Return the AN up to which no live parent can send events; None: one may."""
        assert self.current is not None
        ends: list[int] = []
        for parent in self._parents:
            chain = self._chains.get(parent)
            end = None if chain is None else chain.unavailable_after(self.current)
            if end is None:
                return None
            ends.append(end)
        if self._held:
            ends.append(self._held.first_begin)
        return min(ends, default=None)

    def _skip_to(self, an: int) -> None:
        assert self.current is not None and an > self.current
        self.current = an
        self.passed += 1
        self._missing_since = None

    def _pass_missing_range(self, now: float) -> list[RangeT]:
        """Let the next range go on as it is."""
        assert self.current is not None
        ends = [each.end for each in self._chains.values() if each.end > self.current]
        self._skip_to(self._held.first_begin if self._held else min(ends))
        return self._advance(now)

    # ------------------------------------------------------------------ delays

    def _note_arrival(self, now: float) -> None:
        if self._received_at is not None:
            self._gap.add_sample(now - self._received_at)
        self._received_at = now

    def _next_nack_at(self) -> float:
        assert self._missing_since is not None
        if self._nack_at is not None:
            return self._nack_at + self._nack_interval
        slow = self._missing_since + self._nack_delay()
        if self._certain_since is None:
            return slow
        return min(slow, self._certain_since + self._fast_nack_delay())

    def _fast_nack_delay(self) -> float:
        settings = self._settings
        reordering = max((each.reordering.mean for each in self._parents.values()), default=0.0)
        return settings.fixed_fast_nack or max(settings.least_fast_nack, 4 * reordering)

    def _nack_delay(self) -> float:
        settings = self._settings
        if settings.fixed_nack:
            return settings.fixed_nack
        skew = max((each.skew.late_after for each in self._parents.values()), default=0.0)
        delay = max(settings.least_nack, self._answer_time(), 2 * self._gap.mean, skew)
        # Time for several requests is left.
        return min(delay, settings.patience / 4)

    def _answer_time(self) -> float:
        """Return the seconds in which each parent would have answered a request."""
        trips = [path.round_trip for path in self._parents.values()]
        longest = max((each.smoothed + 4 * each.variation for each in trips), default=0.0)
        return max(self._settings.least_fast_nack, longest)
