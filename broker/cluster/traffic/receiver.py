"""What a node has of each origin, and what it is missing (DCP D30, D42-D45; N1).

A range that begins where the node stands, or before, is taken. One that begins later shows a hole:
it is held for a moment, since it may have come by a quicker way than what belongs before it; then
the origin's home is asked to go on from where the node stands, again and again until it answers.

While what the node wants does not flow, nothing is taken: a range says that it has all that is
wanted, and that is true of what others know of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import attrs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.received_range import (
    AppendRange,
    ReceivedRange,
    ReceiverCounts,
    ReceiverEffect,
    RequestPage,
    StoreHistories,
)
from broker.event.place import Mark

#: Seconds that a range waits for what belongs before it.
REORDER_SECONDS = 0.1
#: Seconds until the home is asked again, at first and at most; each time twice as long.
RETRY_SECONDS = 1.0
MAX_RETRY_SECONDS = 30.0
#: Seconds without a word of an origin, after which a hole may come of this node having been cut off
#: for so long that others have forgotten what it wants (`tables.table.TableTimes`).
UNFILTERED_AFTER = 15.0
#: Ranges of an origin, and bytes of them, that are held behind a hole; more are dropped, since
#: they come again when the home is asked.
MAX_HELD_RANGES = 64
MAX_HELD_BYTES = 4 << 20
#: Origins of which something came since the start, and those that somebody names and nothing came
#: of; more that are new to the node are not taken.
MAX_ORIGINS = 16_384
#: Nodes that answer for an origin, of which it is remembered when they did.
MAX_ORIGIN_NODES = 4
#: Origins of which something is held or asked; of further ones what shows a hole is dropped, and
#: shows it again with the next range.
MAX_INCOMPLETE_ORIGINS = 1_024


@attrs.define
class _MissingRange:
    """An origin with a hole."""

    target: Address
    request_at: float
    since: float
    """When it was found, or the node got further in it."""
    is_unfiltered: bool = False
    """What this node wants may have been forgotten meanwhile."""
    backoff: float = RETRY_SECONDS
    is_page_pending: bool = False
    """A page has come, and is to be asked for the next when it is durable."""
    requests: Counter[Address] = attrs.field(factory=Counter)
    """Who was asked how often since something came of it."""
    held: list[ReceivedRange] = attrs.field(factory=list)
    held_bytes: int = 0


class Receiver:
    """Where the node stands in each origin, with what is on its way into the log."""

    def __init__(
        self,
        log_coverage: Callable[[str], Mark | None],
        patience: float = float("inf"),
        start_of: Callable[[str, Mark], Mark] = lambda _, mark: mark,
        histories: KnownHistories | None = None,
    ) -> None:
        """`covered` says how far the log itself has an origin; None if it is new to it. After
        `patience` seconds without an answer a hole is hopeless. `begins` says of an origin that is
        new to the node where that begins with it, given the mark from which on all comes that is
        wanted now: before that where something has waited for longer."""
        self._log_coverage = log_coverage
        self._patience = patience
        self._start_of = start_of
        self._histories = histories or KnownHistories()
        self._cursors: dict[str, Mark] = {}
        """Where they are further than the log: it is on its way."""
        self._start_marks: dict[str, Mark] = {}
        """Where the node begins with origins of which its log has nothing."""
        self._missing: dict[str, _MissingRange] = {}
        self._last_received: dict[str, dict[Address, float]] = {}
        """When something came of an origin last: of its home, and of who answers in its place."""
        self._history_sent_at: dict[str, float] = {}
        """When a home in an earlier epoch was asked last."""
        self._is_paused = False
        self.counts = ReceiverCounts()

    @property
    def incomplete_origins(self) -> int:
        """Origins of which something is missing now."""
        return len(self._missing)

    def position_of(self, origin: str) -> Mark | None:
        """How far the node has got, with what is on its way into the log; None for a new origin."""
        return (
            self._cursors.get(origin) or self._log_coverage(origin) or self._start_marks.get(origin)
        )

    @property
    def pending_upto(self) -> dict[str, Mark]:
        """Up to where it was chosen already what comes of an origin: it is on its way into the log,
        or held behind a hole."""
        held = {
            origin: max(each.range.upto for each in missing.held)
            for origin, missing in self._missing.items()
            if missing.held
        }
        return {**held, **{o: max(mark, held.get(o, mark)) for o, mark in self._cursors.items()}}

    def pause(self) -> None:
        """Others may not know what this node wants: take nothing."""
        self._is_paused = True

    def resume(self, now: float) -> list[ReceiverEffect]:
        """What this node wants flows: take what was held, and ask for what is missing."""
        if not self._is_paused:
            return []
        self._is_paused = False
        effects: list[ReceiverEffect] = []
        for origin, missing in list(self._missing.items()):
            missing.request_at, missing.since = now + REORDER_SECONDS, now
            effects += self._release(origin, now)
        return effects

    @property
    def start_marks(self) -> Mapping[str, Mark]:
        """Where the node begins with origins of which it has logged nothing."""
        return self._start_marks

    def start_origin(self, origin: str, mark: Mark) -> bool:
        """Something is wanted that lies behind `mark`, of an origin of which nothing has come yet;
        whether the node begins with it there. It does not where it knows it already, or where
        something else wants more."""
        position = self.position_of(origin)
        if position is None and len(self._start_marks) >= MAX_ORIGINS:
            return False
        lowest = self._start_of(origin, mark)
        if position is None or (self._start_marks.get(origin) == position and lowest < position):
            self._start_marks[origin] = lowest
        return position is None and lowest == mark

    def receive_range(self, received: ReceivedRange, now: float) -> list[ReceiverEffect]:
        """A range for this node has come."""
        origin, history = received.frame.origin, received.frame.history
        if self._is_over_limit(origin):
            self.counts.dropped += 1
            return []
        if self._is_contradicting(received):
            # Another process has given the places that this node has: the home must know.
            return self._hold(received, now, ask=not self._is_paused)
        if history is None or not self._histories.record_history(origin, history):
            return self._accept_range(received, now)
        return [
            StoreHistories(origin, self._histories.histories_of(origin)),
            *self._accept_range(received, now),
        ]

    def _is_contradicting(self, received: ReceivedRange) -> bool:
        frame = received.frame
        return self._histories.contradicts(
            frame.origin, frame.history, self.position_of(frame.origin)
        )

    def _accept_range(self, received: ReceivedRange, now: float) -> list[ReceiverEffect]:
        origin, span = received.frame.origin, received.range
        node = received.frame.origin_node
        last_received = self._last_received.setdefault(origin, {})
        was_silent = now - last_received.pop(node, now) > UNFILTERED_AFTER
        if len(last_received) >= MAX_ORIGIN_NODES:
            del last_received[next(iter(last_received))]
        last_received[node] = now
        if span.unavailable_upto is not None:
            self.counts.gone += 1
        if self._is_paused:
            return self._hold(received, now, ask=False)
        cursor = self.position_of(origin)
        if cursor is None:
            cursor = self._start_with(received)
        elif span.upto <= cursor:
            self.counts.duplicate += 1
            if span.upto[0] < cursor[0]:
                return self._send_history(origin, node, cursor, now)
            missing = self._missing.get(origin)
            if missing is None or span.upto < cursor or span.has_more:
                return []
            return self._release(origin, now)
        if span.after > cursor and span.unavailable_upto is None:
            return self._hold(received, now, was_silent=was_silent)
        appended = self._append(received, cursor)
        return [appended, *self._release(origin, now, has_advanced=True, has_more=span.has_more)]

    def skip_lost_range(
        self, origin: str, upto: Mark | None, node: Address, empty_frame: Frame, now: float
    ) -> list[ReceiverEffect]:
        """Who was asked says that what is missing is in no log any more, to `upto` or altogether.

        The node goes on behind it, at most to where something has come: `empty` is a frame of the
        origin with a range for this node and nothing in it.
        """
        missing, cursor = self._missing.get(origin), self.position_of(origin)
        if missing is None or cursor is None or self._is_paused:
            return []
        if node != missing.target and node not in missing.requests:
            return []
        first = min((each.range.after for each in missing.held), default=None)
        end = first if upto is None else min(upto, first or upto)
        if end is None or end <= cursor:
            return []
        span = empty_frame.ranges[0]._replace(after=cursor, upto=end, unavailable_upto=end)
        return self.receive_range(ReceivedRange(span, empty_frame, 0, is_lost=True), now)

    def last_received_at(self, origin: str) -> float | None:
        """When something came of an origin last, of whoever answers for it."""
        return max(self._last_received.get(origin, {}).values(), default=None)

    def nodes_of(self, origin: str) -> list[Address]:
        """Who has answered for an origin, the last one first."""
        return list(reversed(self._last_received.get(origin, {})))

    def confirm_durable(self, origin: str, now: float) -> list[ReceiverEffect]:
        """Something has become durable: where that is all, the next page may be asked for."""
        cursor = self._cursors.get(origin)
        log_coverage = self._log_coverage(origin)
        if cursor is not None and log_coverage is not None and log_coverage >= cursor:
            del self._cursors[origin]
        if log_coverage is not None:
            self._start_marks.pop(origin, None)
        missing = self._missing.get(origin)
        if (
            missing is None
            or not missing.is_page_pending
            or origin in self._cursors
            or self._is_paused
        ):
            return []
        missing.is_page_pending = False
        missing.request_at = now + RETRY_SECONDS
        return [self._request(origin, missing)]

    def retry_after_failure(self, origin: str, node: Address, now: float) -> None:
        """What was taken could not be logged: after a pause go on from where the log stands."""
        self.counts.failed += 1
        self._cursors.pop(origin, None)
        if origin not in self._missing:
            self._missing[origin] = _MissingRange(node, now + RETRY_SECONDS, now)
        self._missing[origin].is_page_pending = False

    def handle_timeout(self, now: float) -> list[ReceiverEffect]:
        """Ask for what is missing."""
        effects: list[ReceiverEffect] = []
        if self._is_paused:
            return effects
        for origin, missing in self._missing.items():
            if missing.request_at <= now:
                missing.request_at = now + missing.backoff
                missing.backoff = min(2 * missing.backoff, MAX_RETRY_SECONDS)
                effects.append(self._request(origin, missing))
        return effects

    def expired_requests(self, now: float) -> list[tuple[str, Address]]:
        """Origins with holes that nobody has answered for, and who was asked: `lost` goes on."""
        if self._is_paused:
            return []
        found = [
            (origin, missing.target)
            for origin, missing in self._missing.items()
            if missing.held and now >= missing.since + self._patience
        ]
        self.counts.given_up += len(found)
        for origin, _ in found:
            self._histories.forget_origin(origin)
        return found

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        if self._is_paused:
            return None
        return min((missing.request_at for missing in self._missing.values()), default=None)

    def request_now(self, now: float) -> None:
        """There may be a way where there was none: whoever waits asks at once."""
        for missing in self._missing.values():
            missing.request_at = min(missing.request_at, now)
            missing.backoff = RETRY_SECONDS

    # ------------------------------------------------------------------ inside

    def _send_history(
        self, origin: str, node: Address, cursor: Mark, now: float
    ) -> list[ReceiverEffect]:
        """A home is in an earlier epoch than this node has seen: it may have been started from an
        older copy of its log, by a clock that is behind. Show it what this node has."""
        if now - self._history_sent_at.get(origin, float("-inf")) < MAX_RETRY_SECONDS / 6:
            return []
        self._history_sent_at[origin] = now
        return [RequestPage(node, origin, cursor, path=self._histories.path_to(origin, cursor))]

    def _is_over_limit(self, origin: str) -> bool:
        return (
            origin not in self._last_received
            and len(self._last_received) >= MAX_ORIGINS
            and self.position_of(origin) is None
        )

    def _start_with(self, received: ReceivedRange) -> Mark:
        """The first range of an origin has come: where the node begins with it."""
        origin, span = received.frame.origin, received.range
        mark = self._start_marks[origin] = self._start_of(origin, span.first_after or span.after)
        return mark

    def _append(self, received: ReceivedRange, cursor: Mark) -> AppendRange:
        self._cursors[received.frame.origin] = received.range.upto
        self.counts.taken += 1
        return AppendRange(received, cursor)

    def _hold(
        self, received: ReceivedRange, now: float, *, ask: bool = True, was_silent: bool = False
    ) -> list[ReceiverEffect]:
        origin = received.frame.origin
        missing = self._missing.get(origin)
        if missing is None:
            if len(self._missing) >= MAX_INCOMPLETE_ORIGINS:
                self.counts.dropped += 1
                return []
            self.counts.holes += ask
            missing = self._missing[origin] = _MissingRange(
                received.frame.origin_node, now + REORDER_SECONDS, now, was_silent
            )
        missing.target = received.frame.origin_node
        missing.is_unfiltered |= was_silent
        size = len(received.frame.body) + len(received.frame.records)
        if len(missing.held) >= MAX_HELD_RANGES or missing.held_bytes + size > MAX_HELD_BYTES:
            self.counts.dropped += 1
        else:
            missing.held.append(received)
            missing.held_bytes += size
        return []

    def _release(
        self, origin: str, now: float, *, has_advanced: bool = False, has_more: bool = False
    ) -> list[ReceiverEffect]:
        """There may be way for what is held now, and that may not be all."""
        missing = self._missing.get(origin)
        if missing is None:
            return []
        effects: list[ReceiverEffect] = []
        held, missing.held, missing.held_bytes = missing.held, [], 0
        for received in sorted(held, key=lambda each: each.range.after):
            span = received.range
            cursor = self.position_of(origin)
            if cursor is None:
                cursor = self._start_with(received)
            if (span.after > cursor and span.unavailable_upto is None) or self._is_contradicting(
                received
            ):
                self._hold(received, now)
            elif span.upto > cursor:
                effects.append(self._append(received, cursor))
        if missing.held or has_more:
            missing.is_page_pending = has_more
            if has_more or has_advanced or effects:
                missing.since = now
                missing.requests.clear()
                missing.backoff = RETRY_SECONDS
                missing.request_at = now + (RETRY_SECONDS if has_more else REORDER_SECONDS)
        else:
            del self._missing[origin]
        return effects

    def _request(self, origin: str, missing: _MissingRange) -> RequestPage:
        self.counts.asked += 1
        # Who spoke of it last may have less than another one: a keeper, of a node that is back.
        nodes = (missing.target, *self._last_received.get(origin, ()))
        node = min(nodes, key=lambda each: missing.requests[each])
        missing.requests[node] += 1
        after = self.position_of(origin) or (0, 0)
        return RequestPage(
            node, origin, after, missing.is_unfiltered, self._histories.path_to(origin, after)
        )
