"""The sending end of one sequence for one child (DCP D30, D45, D47-D52).

A range waits until the connection may send. Ranges without events leave with the next one that has
some. Sent ranges are kept until the child acknowledges them. What is gone by then is stated as
unavailable, as are missing ranges in the sequence of this node itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import attrs

from plugins.dcp.event_range import IRange
from plugins.dcp.receiver import Nack

#: Answers to one request.
_MOST_ANSWERS: Final = 256


RangeT = TypeVar("RangeT", bound=IRange)


class Unavailable(NamedTuple):
    """The sender can not send this range."""

    after: int
    upto: int


@attrs.define(eq=False)
class Sent(Generic[RangeT]):
    """A range that was sent, and is not acknowledged."""

    range: RangeT
    sent_at: float
    is_kept: bool = True


class SequenceSender(Generic[RangeT]):
    """Ranges for one child, each once, and again on request."""

    def __init__(self, start: int, make_range: Callable[[int, int], RangeT]) -> None:
        """The first range begins at `start`. `make_range` makes one without events."""
        self.start = start
        self.end = start
        """End of the newest range, sent or not."""
        self.sent_upto = start
        self.acknowledged = start
        self.waiting_bytes = 0
        self.skipped_bytes = 0
        """Bytes not sent, since the child had them from another parent."""
        self._make_range = make_range
        self._waiting: deque[RangeT | Unavailable] = deque()
        self._queued_upto = start
        """Behind it, up to `end`, are only ranges without events, which do not wait to be sent."""
        self._sent: deque[Sent[RangeT]] = deque()
        self._dropped = 0
        """Oldest waiting ranges without events."""

    # ------------------------------------------------------------------ input

    def append(self, range_: RangeT) -> None:
        """Send a range. It begins at the end of the last one, or behind a missing range."""
        if range_.previous < self.end:
            # The child had the begin from another parent.
            whole = range_.size
            range_ = range_.after(min(self.end, range_.upto))
            self.skipped_bytes += whole - range_.size
        if range_.upto <= self.end:
            return
        self.pass_missing(range_.previous)
        self.end = range_.upto
        if range_.size:
            self._waiting.append(range_)
            self.waiting_bytes += range_.size
            self._queued_upto = self.end

    def pass_missing(self, upto: int) -> None:
        """State the range up to an AN as unavailable."""
        if upto > self.end:
            self.flush_empty()
            self._waiting.append(Unavailable(self.end, upto))
            self.end = self._queued_upto = upto

    def flush_empty(self) -> None:
        """Let ranges without events leave without waiting for events (D97)."""
        if self.end > self._queued_upto:
            self._waiting.append(self._make_range(self._queued_upto, self.end))
            self._queued_upto = self.end

    # ------------------------------------------------------------------ sending

    @property
    def is_waiting(self) -> bool:
        return bool(self._waiting)

    def is_waiting_until(self, an: int) -> bool:
        """Return whether a range that ends at or before an AN is the next to send."""
        return bool(self._waiting) and self._waiting[0].upto <= an

    @property
    def kept_count(self) -> int:
        """Sent ranges that are not acknowledged."""
        return len(self._sent)

    @property
    def is_acknowledged(self) -> bool:
        return self.acknowledged >= self.end

    def next_to_send(self, room: int, now: float) -> Sent[RangeT] | Unavailable:
        """Return the next range to send, of at most `room` bytes or with one event."""
        found = self._pop_waiting()
        if isinstance(found, Unavailable):
            self.sent_upto = found.upto
            return found
        head, size = found, found.size
        if size > room:
            head, rest = found.split(room)
            size = head.size
            if rest is not None:
                self._waiting.appendleft(rest)
                self._dropped = 0
        self.waiting_bytes -= size
        if head.previous > self.sent_upto:
            # Ranges without events were before it.
            head = head.begin_at(self.sent_upto)
        self.sent_upto = head.upto
        sent = Sent(head, now)
        self._sent.append(sent)
        return sent

    def _pop_waiting(self) -> RangeT | Unavailable:
        if self._dropped:
            self._dropped -= 1
        return self._waiting.popleft()

    def drop_waiting(self, least: int) -> int:
        """Give up the oldest waiting ranges of at least so many bytes; return the bytes."""
        dropped = 0
        upto = self.sent_upto
        while self._waiting and dropped < least:
            found = self._pop_waiting()
            upto = found.upto
            if not isinstance(found, Unavailable):
                dropped += found.size
        if upto > self.sent_upto:
            self._waiting.appendleft(Unavailable(self.sent_upto, upto))
        self.waiting_bytes -= dropped
        return dropped

    def drop_oldest(self) -> int:
        """State that a queue policy dropped the events of the oldest waiting range that has some.

        Return the freed bytes; 0: none has.
        """
        while self._dropped < len(self._waiting):
            found = self._waiting[self._dropped]
            self._dropped += 1
            if not isinstance(found, Unavailable):
                rest = self._waiting[self._dropped - 1] = found.without_events()
                freed = found.size - rest.size
                if freed > 0:
                    self.waiting_bytes -= freed
                    return freed
        return 0

    # ------------------------------------------------------------------ acknowledged, or not

    def acknowledge(self, an: int) -> int:
        """Forget ranges that the child has, and return their bytes."""
        self.acknowledged = max(self.acknowledged, an)
        freed = 0
        while self._sent and self._sent[0].range.upto <= an:
            sent = self._sent.popleft()
            sent.is_kept = False
            freed += sent.range.size
        if an > self.sent_upto:
            self._skip_to(an)
        return freed

    def _skip_to(self, an: int) -> None:
        """Send nothing that the child has from another parent (D51)."""
        waiting_before = self.waiting_bytes
        while self._waiting:
            found = self._waiting[0]
            if found.upto > an:
                if not isinstance(found, Unavailable) and found.previous < an:
                    rest = self._waiting[0] = found.after(an)
                    self.waiting_bytes -= found.size - rest.size
                break
            self._pop_waiting()
            if not isinstance(found, Unavailable):
                self.waiting_bytes -= found.size
        self.skipped_bytes += waiting_before - self.waiting_bytes
        self.sent_upto = an
        self.end = max(self.end, an)
        self._queued_upto = max(self._queued_upto, an)

    def forget(self, sent: Sent[RangeT]) -> int:
        """Keep the oldest sent range no longer; return its bytes."""
        assert self._sent[0] is sent
        self._sent.popleft()
        sent.is_kept = False
        return sent.range.size

    def answer(self, nack: Nack, now: float, round_trip: float) -> list[Sent[RangeT] | Unavailable]:
        """Return the ranges to send again for a child's request, and the unavailable ones.

        Nothing is sent again within a round trip.
        """
        current = nack.current
        answers: list[Sent[RangeT] | Unavailable] = []
        end = current
        for sent in self._sent:
            previous, upto = sent.range.previous, sent.range.upto
            if upto <= current:
                continue
            if previous > end:
                answers.append(Unavailable(end, previous))
            end = upto
            if now < sent.sent_at + round_trip or _is_held(previous, upto, nack.held):
                continue
            sent.sent_at = now
            answers.append(sent)
            if len(answers) >= _MOST_ANSWERS:
                return answers
        if end < self.sent_upto:
            answers.append(Unavailable(end, self.sent_upto))
        return answers


def _is_held(previous: int, upto: int, held: Sequence[tuple[int, int]]) -> bool:
    return any(first <= previous and upto <= last for first, last in held)
