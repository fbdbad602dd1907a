"""Tells subscribers whose queries touch what a newer version of an event type changed (M16).

What happens to each query is worked out in slices between other work, once per distinct query. A
durable subscription whose client was away is looked at when the client is back. A notice goes out
when its session takes more; until then it waits, as many as `MAX_WAITING` for a session: beyond
that the oldest is dropped and counted.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from broker.delivery.feed import Feed, FeedState
from broker.dtd.reference import DtdReference
from broker.matching.query.query import Query
from broker.matching.schema.known_types import KnownTypes
from broker.matching.schema.query_effect import Effect, QueryEffect, find_effect
from broker.matching.schema.schema_difference import SchemaDifference, compare_versions, sort_labels
from broker.sessions.session import Session
from broker.subscriptions.new_versions import NewVersions
from broker.wire.messages import TypeChanged

#: Distinct queries looked at in a turn, each for a few hundred microseconds; seconds between turns.
QUERIES_PER_SLICE = 16
SLICE_INTERVAL = 0.01
#: Notices that wait for one session.
MAX_WAITING = 1000
#: New versions that wait to be compared; a further one is logged and counted, and nobody is told.
MAX_COMPARISONS = 10_000
#: Differences that are kept for clients that come back.
MAX_DIFFERENCES = 16
#: Ms for which it is not known how long a client was away that comes from another node, or with a
#: position of its own: it is told of the versions of this time, maybe once more.
UNKNOWN_ABSENCE_MS = 3_600_000
#: Paths in each list of a notice, the others are counted; characters of a path and of its reason.
MAX_PATHS = 20
MAX_PATH = 200
MAX_REASON = 500


@attrs.define
class NoticeCounts:
    """What became of notices."""

    sent: int = 0
    dropped: int = 0
    """Their session took none for too long."""
    versions: int = 0
    """Newer versions that turned up."""
    not_compared: int = 0
    """Of them, those of which nobody was told: too many at once, or a DTD was gone."""


@attrs.define(eq=False)
class _Comparison:
    """A new version, and the subscriptions that have yet to be looked at."""

    between: SchemaDifference | None = None
    includes_all: bool = False
    """Whether all subscriptions of now are to be added to those that are left."""
    left: deque[tuple[Session, Feed]] = attrs.field(factory=deque)
    effects: dict[Query, QueryEffect] = attrs.field(factory=dict)


class TypeChangeNotices:
    """Compares versions of types, and has sessions told. `new_version` is for the DTD cache."""

    log = Logger()

    def __init__(
        self,
        types: KnownTypes,
        versions: NewVersions,
        sessions: Callable[[], Iterable[Session]],
        clock: IReactorTime,
    ) -> None:
        self.counts = NoticeCounts()
        self._types = types
        self._versions = versions
        self._sessions = sessions
        self._clock = clock
        self._comparisons: OrderedDict[DtdReference, _Comparison] = OrderedDict()
        self._differences: OrderedDict[DtdReference, SchemaDifference] = OrderedDict()
        self._waiting: dict[Session, deque[tuple[Feed, TypeChanged]]] = {}
        self._next_slice: IDelayedCall | None = None

    def add_version(self, reference: DtdReference) -> None:
        """A version newer than all known of its type has turned up."""
        self.counts.versions += 1
        self._versions.record_version(reference)
        comparison = self._find_comparison(reference)
        if comparison is not None:
            comparison.includes_all = True

    def check_missed_versions(self, feed: Feed, left_ms: int | None) -> None:
        """A subscription goes on whose client was away since a time (ms since 1970), if known."""
        known = self._versions
        missed = (
            known.versions_within(UNKNOWN_ABSENCE_MS)
            if left_ms is None
            else known.versions_since(left_ms)
        )
        for session in self._sessions() if missed else ():
            if _is_live(session, feed):
                for reference in missed:
                    comparison = self._find_comparison(reference)
                    if comparison is not None and not comparison.includes_all:
                        comparison.left.append((session, feed))

    def _find_comparison(self, reference: DtdReference) -> _Comparison | None:
        """The comparison under way for a version, or a new one; None if there are too many."""
        comparison = self._comparisons.get(reference)
        if comparison is None:
            if len(self._comparisons) >= MAX_COMPARISONS:
                self._count_not_compared(reference, "too many others wait")
                return None
            comparison = self._comparisons[reference] = _Comparison()
            self._schedule()
        return comparison

    def _count_not_compared(self, reference: DtdReference, reason: str) -> None:
        self.counts.not_compared += 1
        self.log.warn(
            "{new} is not compared: {why}; nobody is told", new=str(reference), reason=reason
        )

    def send_waiting(self) -> None:
        """Send what waits, as far as the sessions take it: to be called every second or so."""
        for session, waiting in list(self._waiting.items()):
            for _ in range(len(waiting)):
                if session.has_ended or not session.writable:
                    break
                self._send(session, *waiting.popleft())
            if session.has_ended or not waiting:
                self._waiting.pop(session, None)

    def stop(self) -> None:
        """Look at nothing more."""
        self._comparisons.clear()
        if self._next_slice is not None:
            self._next_slice.cancel()
            self._next_slice = None

    # ------------------------------------------------------------------ one slice after the other

    def _schedule(self) -> None:
        if self._next_slice is None:
            self._next_slice = self._clock.callLater(SLICE_INTERVAL, self._run_slice)

    def _run_slice(self) -> None:
        self._next_slice = None
        room = QUERIES_PER_SLICE
        while room > 0 and self._comparisons:
            reference, comparison = next(iter(self._comparisons.items()))
            if comparison.includes_all:
                comparison.includes_all = False
                comparison.left = deque(
                    (session, feed)
                    for session in self._sessions()
                    for feed in session.delivery.feeds
                )
            between = comparison.between
            if between is None and comparison.left:
                between = comparison.between = self._find_difference(reference)
            if between is None or not comparison.left:
                del self._comparisons[reference]
                continue
            session, feed = comparison.left.popleft()
            if feed.query is None or not _is_live(session, feed):
                continue
            effect = comparison.effects.get(feed.query)
            if effect is None:
                room -= 1
                effect = comparison.effects[feed.query] = find_effect(feed.query, between)
            if effect.effect is not Effect.UNAFFECTED:
                self._send_or_queue(session, feed, build_notice(feed.number, between, effect))
        if self._comparisons:
            self._schedule()

    def _find_difference(self, reference: DtdReference) -> SchemaDifference | None:
        """What a version changes against the one before it; None if one of them is not here."""
        known = self._differences.get(reference)
        if known is not None:
            return known
        before = self._types.previous_version(reference)
        old = None if before is None else self._types.get_dtd(before)
        new = self._types.get_dtd(reference)
        if old is None or new is None:
            self._count_not_compared(reference, f"it or {before} is not here")
            return None
        found = self._differences[reference] = compare_versions(old, new)
        if len(self._differences) > MAX_DIFFERENCES:
            self._differences.popitem(last=False)
        return found

    def _send_or_queue(self, session: Session, feed: Feed, message: TypeChanged) -> None:
        waiting = self._waiting.get(session)
        if waiting is None and session.writable:
            self._send(session, feed, message)
            return
        if waiting is None:
            waiting = self._waiting[session] = deque()
        waiting.append((feed, message))
        if len(waiting) > MAX_WAITING:
            waiting.popleft()
            self.counts.dropped += 1

    def _send(self, session: Session, feed: Feed, message: TypeChanged) -> None:
        if not _is_live(session, feed):
            return
        if feed.state is FeedState.UNCONFIRMED:
            # It was not told yet that there is a subscription of this number.
            self._waiting.setdefault(session, deque()).append((feed, message))
            return
        self.counts.sent += 1
        session.send_message(message)


def build_notice(number: int, between: SchemaDifference, effect: QueryEffect) -> TypeChanged:
    """What the client of a subscription is told; paths that its query reads stand first."""
    own = set(effect.paths)

    def first(labels: Iterable[str]) -> list[str]:
        ordered = sort_labels(labels)
        return [label for label in ordered if label in own] + [
            label for label in ordered if label not in own
        ]

    changed = [f"{label}: {between.changed[label]}" for label in first(between.changed)]
    lists = [list(effect.paths), first(between.added), first(between.removed), changed]
    paths, came, went, others = (
        tuple(_shorten(entry) for entry in each[:MAX_PATHS]) for each in lists
    )
    return TypeChanged(
        number=number,
        type=between.new.reference.type,
        old=between.old.reference.version,
        new=between.new.reference.version,
        effect=effect.effect.value,
        reason=effect.reason[:MAX_REASON],
        paths=paths,
        came=came,
        went=went,
        changed=others,
        left_out=sum(max(0, len(each) - MAX_PATHS) for each in lists),
    )


def _shorten(entry: str) -> str:
    return entry if len(entry) <= MAX_PATH else f"...{entry[3 - MAX_PATH :]}"


def _is_live(session: Session, feed: Feed) -> bool:
    return not session.has_ended and session.delivery.find_feed(feed.number) is feed
