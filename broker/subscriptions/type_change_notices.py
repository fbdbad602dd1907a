"""Notices to subscribers about newer versions that affect their queries (M16).

Effects are computed in time slices, once for each distinct query. A durable subscription is checked
when its client returns. Up to `MAX_WAITING` notices wait for a session; beyond that the oldest is
dropped and counted.
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
from broker.matching.schema.schema_difference import (
    Effect,
    QueryEffect,
    SchemaDifference,
    compare_versions,
    find_effect,
    sort_labels,
)
from broker.sessions.session import Session
from broker.subscriptions.new_versions import NewVersions
from broker.wire.messages import TypeChanged

#: At a few hundred microseconds for each distinct query; seconds between slices.
QUERIES_PER_SLICE = 16
SLICE_INTERVAL = 0.01
#: For one session.
MAX_WAITING = 1000
#: Waiting versions; further ones are logged, counted and not compared.
MAX_COMPARISONS = 10_000
#: For clients that return.
MAX_DIFFERENCES = 16
#: Assumed absence (ms) of a client from another node, or with its own position. It may get notices
#: twice.
UNKNOWN_ABSENCE_MS = 3_600_000
#: Paths in each list of a notice, further ones are counted; characters of a path, and of the
#: reason.
MAX_PATHS = 20
MAX_PATH = 200
MAX_REASON = 500


@attrs.define
class NoticeCounts:
    sent: int = 0
    dropped: int = 0
    """The session was full for too long."""
    versions: int = 0
    not_compared: int = 0
    """Too many at once, or a DTD was missing."""


@attrs.define(eq=False)
class _Comparison:
    """A new version, and the subscriptions still to check."""

    between: SchemaDifference | None = None
    includes_all: bool = False
    """True if all current subscriptions must be added to `left`."""
    left: deque[tuple[Session, Feed]] = attrs.field(factory=deque)
    effects: dict[Query, QueryEffect] = attrs.field(factory=dict)


class TypeChangeNotices:
    """Compares versions of types, and sends notices. The DTD cache calls `add_version`."""

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
        """Add a version that is newer than all known ones of its type."""
        self.counts.versions += 1
        self._versions.record_version(reference)
        comparison = self._find_comparison(reference)
        if comparison is not None:
            comparison.includes_all = True

    def check_missed_versions(self, feed: Feed, left_ms: int | None) -> None:
        """`left_ms` is in ms since 1970; None: unknown."""
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
        """Find or start a comparison; None if there are too many."""
        comparison = self._comparisons.get(reference)
        if comparison is None:
            if len(self._comparisons) >= MAX_COMPARISONS:
                self._count_not_compared(reference, "too many versions wait")
                return None
            comparison = self._comparisons[reference] = _Comparison()
            self._schedule()
        return comparison

    def _count_not_compared(self, reference: DtdReference, reason: str) -> None:
        self.counts.not_compared += 1
        self.log.warn(
            "{new} is not compared: {reason}; no notices are sent",
            new=str(reference),
            reason=reason,
        )

    def send_waiting(self) -> None:
        """Call it about every second."""
        for session, waiting in list(self._waiting.items()):
            for _ in range(len(waiting)):
                if session.has_ended or not session.writable:
                    break
                self._send(session, *waiting.popleft())
            if session.has_ended or not waiting:
                self._waiting.pop(session, None)

    def stop(self) -> None:
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
        known = self._differences.get(reference)
        if known is not None:
            return known
        before = self._types.previous_version(reference)
        old = None if before is None else self._types.get_dtd(before)
        new = self._types.get_dtd(reference)
        if old is None or new is None:
            self._count_not_compared(reference, f"its DTD or that of {before} is missing")
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
            # The client does not know this subscription's number yet.
            self._waiting.setdefault(session, deque()).append((feed, message))
            return
        self.counts.sent += 1
        session.send_message(message)


def build_notice(number: int, between: SchemaDifference, effect: QueryEffect) -> TypeChanged:
    """Paths that its query reads come first."""
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
