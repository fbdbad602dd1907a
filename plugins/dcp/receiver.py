"""The receiving end of one sequence, from several parents (DCP D41-D46).

Each packet states a range (previous, AN]: its parent sent no other event in it on this link. The
receiver delivers a range that begins at or before its own place, *current*, and ends behind it. So
a filtered event is no loss. Ranges further ahead are held: a *missing range* is before them.

While parents select events by different queries, a range of an older query may lack events
that a newer one selects. Each epoch of the query is required behind an AN. Where a parent had
not reached that epoch, its range is taken apart into its events. They need no retransmission, but
only a range of the required query leads over the ANs between them (X4).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import attrs

from broker.streams.dropped_count import DroppedCount
from plugins.dcp.copy_comparison import CopyComparison
from plugins.dcp.epoch_steps import NEVER, EpochSteps
from plugins.dcp.event_range import IRange
from plugins.dcp.held_ranges import HeldRanges
from plugins.dcp.nack_timer import NackSettings, NackTimer
from plugins.dcp.parent_chain import ParentChain
from plugins.dcp.parent_chains import ParentChains
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.recent_events import FirstCopy, RecentEvents
from plugins.dcp.trusted_parts import trusted_parts

#: Ranges in a request that are not sent again.
MOST_LISTED: Final = 32
#: ANs ahead of the present place; a range further ahead is damaged or forged.
MOST_JUMP: Final = 2**32


RangeT = TypeVar("RangeT", bound=IRange)


@attrs.frozen(kw_only=True)
class ReceiverSettings:
    nack: NackSettings = NackSettings()
    held_bytes: int = 4 << 20


class Nack(NamedTuple):
    """A request to send the events behind `current` again, except for the held ranges."""

    current: int
    held: Sequence[tuple[int, int]]


class SequenceReceiver(Generic[RangeT]):
    """Puts the ranges of several parents in one order, each event once."""

    def __init__(
        self,
        parents: Mapping[Hashable, ParentPath],
        settings: ReceiverSettings,
        recent: RecentEvents | None = None,
    ) -> None:
        """`parents` has the paths of the live parents; its owner keeps it up to date. `recent` is
        shared by all sequences of a node."""
        self.current: int | None = None
        """End of the delivered ranges."""
        self.required = EpochSteps()
        """Epochs of the query that ranges must be selected by."""
        self.passed = 0
        """Missing ranges that were left to the log."""
        self.nacks = 0
        self.dropped_events: dict[int, DroppedCount] = {}
        """New events that no parent has kept, by AN; the owner empties it."""
        self._too_far = 0
        self.forgotten_upto = 0
        """Greatest AN of an event that `recent` does not remember any more."""
        self._parents = parents
        self._chains = ParentChains(parents)
        self.copies = CopyComparison(
            self, RecentEvents() if recent is None else recent, self._chains
        )
        self._held = HeldRanges[RangeT](settings.held_bytes)
        self._received_at: float | None = None
        self._timer = NackTimer(parents, settings.nack)

    # ------------------------------------------------------------------ input

    def begin(self, an: int, now: float) -> list[RangeT]:
        """Begin behind an AN, unless the sequence has begun. Earlier events are in the log."""
        if self.current is None:
            self.current = an
        return self._advance(now)

    def set_parent(self, parent: Hashable, an: int, epoch: int, now: float) -> list[RangeT]:
        """State that a parent selects by the query of an epoch behind an AN.

        A parent without a range yet can not send earlier ones.
        """
        chain = self._chains.get(parent)
        chain.epochs.add(an, epoch)
        if not chain.has_begun:
            chain.begin(an)
        return self._advance(now)

    def find_chain(self, parent: Hashable) -> ParentChain | None:
        """Return None for a parent that has sent no part of the sequence, and not stated its
        begin."""
        return self._chains.find(parent)

    def remove_parent(self, parent: Hashable, now: float) -> list[RangeT]:
        self._chains.remove(parent)
        return self._advance(now)

    def receive(
        self, parent: Hashable, range_: RangeT, now: float, *, is_repeated: bool = False
    ) -> Sequence[RangeT]:
        """Take a range of a parent, and return the ranges to deliver, in order.

        `is_repeated` is True for a retransmission.
        """
        path, chain = self._parents[parent], self._chains.get(parent)
        path.bytes += range_.size
        if self.current is None:
            self.current = range_.previous
        if range_.upto > self.current + MOST_JUMP:
            self._too_far += 1
            return ()
        self._follow_chain(chain, path, range_, now, is_repeated=is_repeated)
        current = self.current
        if self.copies.compare(parent, path, range_, current, now, is_repeated=is_repeated):
            range_ = range_.adopt(self._held)
        chain.claims.add(range_.previous, range_.upto, current)
        if range_.upto <= current:
            return ()
        is_trusted = self._is_trusted(chain)
        delivered: list[RangeT] = []
        for part in (range_,) if is_trusted else self._take_apart(range_, chain):
            if part.previous > self.current:
                if self._held.add(part, now) and is_trusted:
                    self._timer.note_further(now)
            elif part.upto > self.current:
                # The usual case.
                rest = part if part.previous == self.current else part.after(self.current)
                # Held ranges of other parents may have events that this one has left out.
                delivered.append(rest.add_events(self._held) if self._held else rest)
                self.current = part.upto
                self._timer.stop()
        self._note_arrival(now)
        if self._timer.is_running or self._has_missing_range():
            delivered += self._advance(now)
        return delivered

    def note_part(self, previous: int, upto: int, now: float) -> None:
        """Note that a part of a range has come: if it is the missing one, requests and patience
        begin anew."""
        current = self.current
        if self._timer.is_running and current is not None and previous <= current < upto:
            self._timer.start(now, now)

    def receive_end(self, parent: Hashable, an: int, now: float) -> list[RangeT]:
        """Note that a parent has sent all up to an AN."""
        chain = self._chains.get(parent)
        if self.current is None or an > self.current + MOST_JUMP or an <= chain.end:
            return []
        chain.count_jump(an, self._parents[parent])
        chain.advance(an, now)
        return self._advance(now)

    def receive_unavailable(
        self,
        parent: Hashable,
        after: int,
        upto: int,
        now: float,
        dropped: DroppedCount | None = None,
    ) -> list[RangeT]:
        """Note that a parent can not send a range; `dropped`: it is one event, which a queue policy
        dropped."""
        chain = self._chains.get(parent)
        if self.current is None or after >= upto or upto > self.current + MOST_JUMP:
            return []
        chain.add_unavailable(after, upto, self.current, dropped)
        if after <= chain.end < upto:
            chain.advance(upto, now)
        return self._advance(now)

    def overlaps(self, parent: Hashable) -> bool:
        """Return whether a parent's chain leads on from the present place, or before it."""
        chain = self._chains.find(parent)
        if self.current is None or chain is None:
            # Without a range of this sequence nothing can be missing.
            return self.current is None or not self._chains
        reached_after = chain.epochs.reached_after(self.required.newest)
        return chain.start <= self.current and reached_after <= self._required_from

    def find_begin(self, epoch: int) -> int:
        """Return the first AN behind which a parent selects by the query of an epoch; 0: none."""
        begins = [each.epochs.reached_after(epoch) for each in self._chains]
        return min((each for each in begins if each != NEVER), default=0)

    @property
    def _required_from(self) -> int:
        """Place from which on only the newest epoch counts."""
        return max(self.required.newest_an, self.current or 0)

    def require(self, an: int, epoch: int, now: float) -> list[RangeT]:
        """Let the query of an epoch count behind an AN.

        The held ranges behind it were selected by older ones.
        """
        self.required.add(an, epoch)
        for range_ in self._held.take_all():
            if range_.upto <= an:
                self._hold(range_, now)
                continue
            rest = range_
            if range_.previous < an:
                self._hold(range_.until(an), now)
                rest = range_.after(an)
            for each in rest.single_events():
                self._hold(each, now)
        return self._advance(now)

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float | None:
        """Return the time of the next request, or of the end of the patience."""
        return self._timer.next_timeout()

    def handle_timeout(self, now: float) -> tuple[list[RangeT], Nack | None]:
        """Return ranges to deliver without the missing one, and a request to all parents."""
        if not self._timer.is_running:
            return [], None
        if now >= self._timer.given_up_at:
            return self._pass_missing_range(now), None
        # A parent may have become suspect.
        delivered = self._advance(now)
        if delivered or not self._timer.is_running or not self._timer.take_due(now):
            return delivered, None
        self.nacks += 1
        assert self.current is not None
        return [], Nack(self.current, self._held.spans(MOST_LISTED))

    @property
    def dropped(self) -> int:
        """Ranges without room, or too far ahead."""
        return self._too_far + self._held.dropped

    @property
    def has_asked_once(self) -> bool:
        """True after the first request for the missing range, before the second one."""
        return self._timer.is_first

    @property
    def is_incomplete(self) -> bool:
        return self._timer.is_running

    def find_copy(self, an: int) -> FirstCopy | None:
        """Return the remembered copies of an event."""
        return self.copies.find(an)

    # ------------------------------------------------------------------ chains

    def _is_trusted(self, chain: ParentChain) -> bool:
        """Return whether a parent's ranges lead over the ANs between their events."""
        assert self.current is not None
        return chain.epochs.reached_after(self.required.newest) <= self.current

    def _take_apart(self, range_: RangeT, chain: ParentChain) -> Sequence[RangeT]:
        """Return the parts of a range that is not trusted as a whole."""
        return trusted_parts(range_, chain.epochs, self.required)

    def _follow_chain(
        self, chain: ParentChain, path: ParentPath, range_: RangeT, now: float, *, is_repeated: bool
    ) -> None:
        if range_.upto > chain.end:
            if not chain.has_begun:
                chain.begin(range_.previous)
            elif range_.previous > chain.end and not is_repeated:
                chain.count_jump(range_.previous, path)
            chain.advance(range_.upto, now)
        elif not is_repeated and range_.upto < chain.end:
            path.reordering.add_sample(now - chain.advanced_at)
            path.lost = max(0, path.lost - 1)

    # ------------------------------------------------------------------ held ranges

    def _hold(self, range_: RangeT, now: float) -> None:
        assert self.current is not None
        if range_.upto > self.current:
            self._held.add(range_, now)

    def _advance(self, now: float) -> list[RangeT]:
        """Return held ranges that follow. Pass missing ranges that no parent has."""
        delivered: list[RangeT] = []
        while True:
            self._take_following(delivered)
            if not self._has_missing_range():
                self._timer.stop()
                return delivered
            if self._confirm_following(delivered, now):
                continue
            assert self.current is not None
            end = self._find_lost_end(self.current, now)
            if end is None:
                break
            dropped = self._chains.find_dropped(self.current)
            if dropped is not None:
                self.dropped_events[self.current + 1] = dropped
            self._skip_to(min(end, self._held.first_begin) if self._held else end)
        if not self._shows_missing_range():
            self._timer.stop()
            return delivered
        if delivered or not self._timer.is_running:
            # The patience with several missing ranges is not that with one after another.
            self._timer.start(now, self._held.first_received_at if self._held else now)
        assert self.current is not None
        if self._chains.have_passed(self.current, self.required):
            self._timer.set_certain(now)
        return delivered

    def _confirm_following(self, delivered: list[RangeT], now: float) -> bool:
        """Deliver places without events that no range leads over. Return False if there are
        none."""
        return False

    def _find_lost_end(self, current: int, now: float) -> int | None:
        """Return the end of the range behind the present place that is left to the log; None:
        parents may still bring it."""
        return self._chains.unavailable_after(current, self.required)

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
        if self._held:
            return True
        for each in self._chains:
            # A parent that selects by an older query may be ahead.
            if each.end > current and self._selects_by_required(each):
                return True
        return False

    def _shows_missing_range(self) -> bool:
        """Return whether events may be missing.

        A parent that began ahead of the present place, without events, does not show it. The others
        soon state how far they have come, and nothing waits for that (A7).
        """
        current = self.current
        assert current is not None
        return any(each.size for each in self._held) or any(
            self._has_lost(each, current) for each in self._chains
        )

    def _has_lost(self, chain: ParentChain, current: int) -> bool:
        """Return whether a range of a parent is missing behind the present place."""
        return chain.start <= current < chain.end

    def _selects_by_required(self, chain: ParentChain) -> bool:
        return chain.epochs.reached_after(self.required.newest) <= self._required_from

    def _skip_to(self, an: int) -> None:
        assert self.current is not None and an > self.current
        self.current = an
        self.passed += 1
        self._timer.stop()

    def _pass_missing_range(self, now: float) -> list[RangeT]:
        """Let the next range go on as it is."""
        assert self.current is not None
        ends = [each.end for each in self._chains if each.end > self.current]
        self._skip_to(self._held.first_begin if self._held else min(ends))
        return self._advance(now)

    def _note_arrival(self, now: float) -> None:
        if self._received_at is not None:
            self._timer.gap.add_sample(now - self._received_at)
        self._received_at = now
