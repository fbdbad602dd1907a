"""Tells subscribers whose queries touch what a newer version of an event type changed (M16).

What happens to each query is worked out in slices between other work, once per distinct query. A
notice goes out when its session takes more; until then it waits, as many as `MAX_WAITING` for a
session: beyond that the oldest is dropped and counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

import attrs
from twisted.internet.interfaces import IDelayedCall, IReactorTime
from twisted.logger import Logger

from broker.content.query.query import Query
from broker.content.schema.difference import Difference, difference, in_order
from broker.content.schema.effect import Effect, QueryEffect, effect_on
from broker.content.schema.known import KnownTypes
from broker.dtd.reference import DtdReference
from broker.router.feed import Feed, Pace
from broker.router.session import Session
from broker.session.messages import TypeChanged

#: Distinct queries looked at in a turn, each for a few hundred microseconds; seconds between turns.
QUERIES_A_TURN = 16
PAUSE = 0.01
#: Notices that wait for one session.
MAX_WAITING = 1000
#: New versions under way; a further one is logged and counted, and nobody is told.
MAX_COMPARISONS = 16
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

    between: Difference
    left: Iterator[tuple[Session, Feed]]
    effects: dict[Query, QueryEffect] = attrs.field(factory=dict)


class Notices:
    """Compares versions of types, and has sessions told. `new_version` is for the DTD cache."""

    log = Logger()

    def __init__(
        self,
        types: KnownTypes,
        sessions: Callable[[], Iterable[Session]],
        clock: IReactorTime,
    ) -> None:
        self.counts = NoticeCounts()
        self._types = types
        self._sessions = sessions
        self._clock = clock
        self._comparisons: deque[_Comparison] = deque()
        self._waiting: dict[Session, deque[tuple[Feed, TypeChanged]]] = {}
        self._turn: IDelayedCall | None = None

    def new_version(self, reference: DtdReference) -> None:
        """A version newer than all known of its type has turned up."""
        self.counts.versions += 1
        before = self._types.before(reference)
        old = None if before is None else self._types.dtd(before)
        new = self._types.dtd(reference)
        if old is None or new is None or len(self._comparisons) >= MAX_COMPARISONS:
            self.counts.not_compared += 1
            self.log.warn(
                "{new} is not compared with {old}: nobody is told",
                new=str(reference),
                old=str(before),
            )
            return
        between = difference(old, new)
        live = [(session, feed) for session in self._sessions() for feed in session.link.feeds]
        self._comparisons.append(_Comparison(between, iter(live)))
        self._schedule()

    def flush(self) -> None:
        """Send what waits, as far as the sessions take it: to be called every second or so."""
        for session, waiting in list(self._waiting.items()):
            for _ in range(len(waiting)):
                if session.over or not session.writable:
                    break
                self._send(session, *waiting.popleft())
            if session.over or not waiting:
                self._waiting.pop(session, None)

    def stop(self) -> None:
        """Look at nothing more."""
        self._comparisons.clear()
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None

    # ------------------------------------------------------------------ one slice after the other

    def _schedule(self) -> None:
        if self._turn is None:
            self._turn = self._clock.callLater(PAUSE, self._work)

    def _work(self) -> None:
        self._turn = None
        room = QUERIES_A_TURN
        while room and self._comparisons:
            comparison = self._comparisons[0]
            pair = next(comparison.left, None)
            if pair is None:
                self._comparisons.popleft()
                continue
            query = pair[1].query
            if query is None or not _is_live(*pair):
                continue
            effect = comparison.effects.get(query)
            if effect is None:
                room -= 1
                effect = comparison.effects[query] = effect_on(query, comparison.between)
            if effect.effect is not Effect.UNAFFECTED:
                self._tell(*pair, notice(pair[1].number, comparison.between, effect))
        if self._comparisons:
            self._schedule()

    def _tell(self, session: Session, feed: Feed, message: TypeChanged) -> None:
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
        if feed.pace is Pace.UNCONFIRMED:
            # It was not told yet that there is a subscription of this number.
            self._waiting.setdefault(session, deque()).append((feed, message))
            return
        self.counts.sent += 1
        session.send_message(message)


def notice(number: int, between: Difference, effect: QueryEffect) -> TypeChanged:
    """What the client of a subscription is told; paths that its query reads stand first."""
    own = set(effect.paths)

    def first(labels: Iterable[str]) -> list[str]:
        ordered = in_order(labels)
        return [label for label in ordered if label in own] + [
            label for label in ordered if label not in own
        ]

    changed = [f"{label}: {between.changed[label]}" for label in first(between.changed)]
    lists = [list(effect.paths), first(between.came), first(between.went), changed]
    paths, came, went, others = (
        tuple(_short(entry) for entry in each[:MAX_PATHS]) for each in lists
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


def _short(entry: str) -> str:
    return entry if len(entry) <= MAX_PATH else f"...{entry[3 - MAX_PATH :]}"


def _is_live(session: Session, feed: Feed) -> bool:
    return not session.over and session.link.get(feed.number) is feed
