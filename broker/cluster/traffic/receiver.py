"""The node's position in each flow, and its missing ranges (DCP D30, D42-D45; N1).

Here an origin stands for one of its flows (`broker.event.flow`).

A range that starts after the position reveals a missing range. It is held for some time (`claims`),
since frames on different routes overtake each other, except for ranges of a transport that brings
them in order. Then the node requests a page from the origin node, with backoff until an answer
arrives.

While this node's interest is not active everywhere, all ranges are held: senders may not have
received all of it, so ranges may lack events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from broker.cluster.address import Address
from broker.cluster.traffic.claims import Claims, reorder_seconds
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.missing_range import RETRY_SECONDS, MissingRange
from broker.cluster.traffic.position_reports import PositionReports
from broker.cluster.traffic.received_range import (
    AppendRange,
    ReceivedRange,
    ReceiverCounts,
    ReceiverEffect,
    RequestPage,
    StoreHistories,
)
from broker.cluster.traffic.unconfirmed_places import UnconfirmedPlaces
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.log.history import MAX_EPOCH

#: Seconds; then other nodes may have dropped this node's interest (`tables.table.TableTimes`).
UNFILTERED_AFTER = 15.0
#: Further new origins are ignored.
MAX_ORIGINS = 16_384
MAX_ORIGIN_NODES = 4
#: Later ranges of further origins reveal their missing ranges again.
MAX_INCOMPLETE_ORIGINS = 1_024


class Receiver:
    def __init__(
        self,
        log_coverage: Callable[[str], Mark | None],
        patience: float = float("inf"),
        start_of: Callable[[str, Mark], Mark] = lambda _, mark: mark,
        histories: KnownHistories | None = None,
        may_drop: Callable[[str], bool] = lambda _: False,
        claims: Claims | None = None,
        begins_after: Callable[[str], Mark] = lambda _: (0, 0),
    ) -> None:
        """`log_coverage` returns the logged position in an origin. After `patience` seconds
        without an answer a missing range expires. `start_of` returns the start mark of a new
        origin. Its argument is the mark behind which all events of the present interest are
        sent. The result is lower where an older subscription needs earlier events. `may_drop`
        returns whether a queue policy may drop an origin's events on the way. `begins_after` is
        that of `PositionReports`."""
        self._log_coverage = log_coverage
        self._patience = patience
        self._start_of = start_of
        self._histories = histories or KnownHistories()
        self._may_drop = may_drop
        self._claims = claims or Claims()
        self._unconfirmed = UnconfirmedPlaces()
        self._cursors: dict[str, Mark] = {}
        """Ahead of the log: their events are being committed."""
        self._start_marks: dict[str, Mark] = {}
        """Origins without logged events."""
        self._missing: dict[str, MissingRange] = {}
        self._last_received: dict[str, dict[Address, float]] = {}
        """Oldest first."""
        self._reports = PositionReports(self._histories, begins_after)
        self._is_paused = False
        self.counts = ReceiverCounts()

    @property
    def incomplete_origins(self) -> int:
        return len(self._missing)

    def position_of(self, origin: str) -> Mark | None:
        """Return the position, including events being committed; None for a new origin."""
        return (
            self._cursors.get(origin) or self._log_coverage(origin) or self._start_marks.get(origin)
        )

    @property
    def pending_upto(self) -> dict[str, Mark]:
        """Upper end of the ranges that are held or being committed, by origin."""
        held = {
            origin: max(each.range.upto for each in missing.held)
            for origin, missing in self._missing.items()
            if missing.held
        }
        return {**held, **{o: max(mark, held.get(o, mark)) for o, mark in self._cursors.items()}}

    def pause(self) -> None:
        """Hold all ranges: other nodes may not have this node's interest."""
        self._is_paused = True

    def resume(self, now: float) -> list[ReceiverEffect]:
        if not self._is_paused:
            return []
        self._is_paused = False
        effects: list[ReceiverEffect] = []
        for origin, missing in list(self._missing.items()):
            missing.request_at, missing.since = now + reorder_seconds(origin), now
            effects += self._release(origin, now)
        return effects

    @property
    def start_marks(self) -> Mapping[str, Mark]:
        """Of origins without logged events."""
        return self._start_marks

    def start_origin(self, origin: str, mark: Mark) -> bool:
        """Set the start mark of an origin without events, for interest in events behind `mark`.

        Return False for a known origin, or where other interest needs a lower mark.
        """
        position = self.position_of(origin)
        if position is None and len(self._start_marks) >= MAX_ORIGINS:
            return False
        lowest = self._start_of(origin, mark)
        if position is None or (self._start_marks.get(origin) == position and lowest < position):
            self._start_marks[origin] = lowest
        return position is None and lowest == mark

    def select_acceptable(self, frame: Frame, indices: Sequence[int]) -> Sequence[int]:
        """Return the ranges without dropped events, if interest needs all by now, else all.

        Interest with another policy may have been added since the request.
        """
        whole = [index for index in indices if not frame.ranges[index].dropped]
        if len(whole) == len(indices) or self._may_drop(frame.origin):
            return indices
        self.counts.dropped += len(indices) - len(whole)
        return whole

    def receive_range(self, received: ReceivedRange, now: float) -> list[ReceiverEffect]:
        flow = received.frame.origin
        if received.is_carried and not received.is_in_order:
            confirmed = self._unconfirmed.limit(received, self.position_of(flow))
            return [] if confirmed is None else self._receive_confirmed(confirmed, now)
        effects = self._receive_confirmed(received, now)
        waiting = self._unconfirmed.confirm(received, self.position_of(flow))
        return effects if waiting is None else [*effects, *self.receive_range(waiting, now)]

    def _receive_confirmed(self, received: ReceivedRange, now: float) -> list[ReceiverEffect]:
        origin, history = received.frame.origin, received.frame.history
        log = origin_of(origin)
        received = self._claims.limit(received)
        if self._is_over_limit(origin):
            self.counts.dropped += 1
            return []
        if self._is_contradicting(received):
            # Another process assigned this node's places: the origin node must learn that.
            return self._hold(received, now, is_counted=not self._is_paused)
        if history is None or not self._histories.record_history(log, history):
            return self._accept_range(received, now)
        return [
            StoreHistories(log, self._histories.histories_of(log)),
            *self._accept_range(received, now),
        ]

    def _is_contradicting(self, received: ReceivedRange) -> bool:
        frame = received.frame
        return self._histories.contradicts(
            origin_of(frame.origin), frame.history, self.position_of(frame.origin)
        )

    def _accept_range(self, received: ReceivedRange, now: float) -> list[ReceiverEffect]:
        origin, span = received.frame.origin, received.range
        node = received.frame.origin_node
        last_received = self._last_received.setdefault(origin, {})
        was_silent = now - last_received.pop(node, now) > UNFILTERED_AFTER
        if len(last_received) >= MAX_ORIGIN_NODES:
            del last_received[next(iter(last_received))]
        last_received[node] = now
        if span.unavailable_upto is not None and not span.dropped:
            self.counts.gone += 1
        if self._is_paused:
            return self._hold(received, now, is_counted=False)
        cursor = self.position_of(origin)
        if cursor is None:
            cursor = self._start_with(received)
        elif span.upto <= cursor:
            self.counts.duplicate += 1
            if self._reports.is_due(origin, span, cursor):
                return [*self._reports.report(origin, node, cursor, now)]
            missing = self._missing.get(origin)
            if missing is None or span.upto < cursor or span.has_more:
                return []
            return self._release(origin, now)
        if span.upto[0] > MAX_EPOCH:
            self.counts.dropped += 1
            return []
        if not span.can_follow(cursor):
            return self._hold(received, now, was_silent=was_silent)
        appended = self._append(received, cursor)
        return [appended, *self._release(origin, now, has_advanced=True, has_more=span.has_more)]

    def skip_lost_range(
        self,
        origin: str,
        upto: Mark | None,
        node: Address,
        empty_frame: Frame,
        reason: str,
        now: float,
    ) -> list[ReceiverEffect]:
        """Advance to `upto` or the next held range, over events that do not come for `reason`.

        `node` reported the loss. `empty_frame` has one range for this node and no events.
        """
        missing, cursor = self._missing.get(origin), self.position_of(origin)
        if missing is None or cursor is None or self._is_paused:
            return []
        if node != missing.target and node not in missing.requests:
            return []
        first = missing.end
        end = first if upto is None else min(upto, first or upto)
        if end is None or end <= cursor:
            return []
        span = empty_frame.ranges[0]._replace(after=cursor, upto=end, unavailable_upto=end)
        return self.receive_range(ReceivedRange(span, empty_frame, 0, reason), now)

    def last_received_at(self, origin: str) -> float | None:
        return max(self._last_received.get(origin, {}).values(), default=None)

    def nodes_of(self, origin: str) -> list[Address]:
        """Return the nodes of an origin, the latest sender first."""
        return list(reversed(self._last_received.get(origin, {})))

    def confirm_durable(self, origin: str, now: float) -> list[ReceiverEffect]:
        """Request the next page if all appended events are durable."""
        cursor = self._cursors.get(origin)
        logged = self._log_coverage(origin)
        if cursor is not None and logged is not None and logged >= cursor:
            del self._cursors[origin]
        if logged is not None:
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
        """Restart from the log's position after a pause."""
        self.counts.failed += 1
        self._cursors.pop(origin, None)
        if origin not in self._missing:
            self._missing[origin] = MissingRange(node, now + RETRY_SECONDS, now)
        self._missing[origin].is_page_pending = False

    def handle_timeout(self, now: float) -> list[ReceiverEffect]:
        effects: list[ReceiverEffect] = []
        if self._is_paused:
            return effects
        for origin, missing in self._missing.items():
            if missing.request_at <= now:
                missing.request_at = now + missing.backoff.next_wait(now)
                effects.append(self._request(origin, missing))
        return effects

    def mark_gone(self, origin: str) -> None:
        """Do not wait long for a missing range: its log does not come back."""
        if origin in self._missing:
            self._missing[origin].is_gone = True

    def expired_requests(
        self, now: float, is_gone: Callable[[str], bool] = lambda _: False
    ) -> list[tuple[str, Address, bool]]:
        """Return (origin, requested node, whether the origin is gone) of ranges without an answer
        for `patience` seconds, or `GONE_PATIENCE` if the origin is gone."""
        if self._is_paused:
            return []
        found: list[tuple[str, Address, bool]] = []
        for origin, missing in self._missing.items():
            gone = missing.is_gone or is_gone(origin)
            if missing.end is not None and now >= missing.expires_at(self._patience, is_gone=gone):
                found.append((origin, missing.target, gone))
                self._histories.forget_origin(origin_of(origin))
        self.counts.given_up += len(found)
        return found

    def next_timeout(self) -> float | None:
        if self._is_paused:
            return None
        return min((missing.request_at for missing in self._missing.values()), default=None)

    def request_now(self, now: float) -> None:
        """Make all requests due: a route may exist now."""
        for missing in self._missing.values():
            missing.request_at = min(missing.request_at, now)
            missing.backoff.report_progress()

    def _is_over_limit(self, origin: str) -> bool:
        return (
            origin not in self._last_received
            and len(self._last_received) >= MAX_ORIGINS
            and self.position_of(origin) is None
        )

    def _start_with(self, received: ReceivedRange) -> Mark:
        origin, span = received.frame.origin, received.range
        mark = self._start_marks[origin] = self._start_of(origin, span.first_after or span.after)
        return mark

    def _append(self, received: ReceivedRange, cursor: Mark) -> AppendRange:
        self._cursors[received.frame.origin] = received.range.upto
        self.counts.taken += 1
        self.counts.policy_dropped += sum([each.events for each in received.range.dropped])
        return AppendRange(received, cursor)

    def _hold(
        self,
        received: ReceivedRange,
        now: float,
        *,
        is_counted: bool = True,
        was_silent: bool = False,
    ) -> list[ReceiverEffect]:
        origin = received.frame.origin
        missing = self._missing.get(origin)
        if missing is None:
            if len(self._missing) >= MAX_INCOMPLETE_ORIGINS:
                self.counts.dropped += 1
                return []
            self.counts.holes += is_counted
            request_at = now + self._claims.seconds_before(received)
            missing = MissingRange(received.frame.origin_node, request_at, now, was_silent)
            self._missing[origin] = missing
        elif missing.request_at > now + RETRY_SECONDS and not missing.requests:
            # The carrying transport has passed what the network has announced before.
            request_at = now + self._claims.seconds_before(received)
            missing.request_at = min(missing.request_at, request_at)
        missing.target = received.frame.origin_node
        missing.is_unfiltered |= was_silent
        self.counts.dropped += not missing.hold(received)
        return []

    def _release(
        self, origin: str, now: float, *, has_advanced: bool = False, has_more: bool = False
    ) -> list[ReceiverEffect]:
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
            if not span.can_follow(cursor) or self._is_contradicting(received):
                self._hold(received, now)
            elif span.upto > cursor:
                effects.append(self._append(received, cursor))
        if missing.held or has_more:
            missing.is_page_pending = has_more
            if has_more or has_advanced or effects:
                missing.since = now
                missing.requests.clear()
                missing.backoff.report_progress()
                wait = RETRY_SECONDS if has_more else self._claims.seconds_before(missing.held[0])
                missing.request_at = now + wait
        else:
            del self._missing[origin]
        return effects

    def _request(self, origin: str, missing: MissingRange) -> RequestPage:
        self.counts.asked += 1
        # The last sender may have less than others: a replica, while the origin node is back.
        nodes = (missing.target, *self._last_received.get(origin, ()))
        node = min(nodes, key=lambda each: missing.requests[each])
        attempt = missing.requests[node]
        missing.requests[node] += 1
        after = self.position_of(origin) or (0, 0)
        path = self._histories.path_to(origin_of(origin), after)
        is_unfiltered = missing.is_unfiltered or self._claims.is_unclaimed_after(origin, after)
        may_drop = not is_unfiltered and self._may_drop(origin)
        return RequestPage(node, origin, after, is_unfiltered, path, may_drop, attempt)
