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
    ArrivalCounts,
    Arrived,
    Ask,
    Effect,
    NoteHistory,
    Take,
)
from broker.event.place import Mark

#: Seconds that a range waits for what belongs before it.
PATIENCE = 0.1
#: Seconds until the home is asked again, at first and at most; each time twice as long.
ASK_AGAIN = 1.0
MOST_ASK_AGAIN = 30.0
#: Seconds without a word of an origin, after which a hole may come of this node having been cut off
#: for so long that others have forgotten what it wants (`tables.table.TableTimes`).
FORGOTTEN = 15.0
#: Ranges of an origin, and bytes of them, that are held behind a hole; more are dropped, since
#: they come again when the home is asked.
MOST_HELD = 64
MOST_HELD_BYTES = 4 << 20
#: Origins of which something came since the start, and those that somebody names and nothing came
#: of; more that are new to the node are not taken.
MOST_ORIGINS = 16_384
#: Nodes that answer for an origin, of which it is remembered when they did.
MOST_HOMES = 4
#: Origins of which something is held or asked; of further ones what shows a hole is dropped, and
#: shows it again with the next range.
MOST_WAITING = 1_024


@attrs.define
class _Waiting:
    """An origin with a hole."""

    home: Address
    ask_at: float
    since: float
    """When it was found, or the node got further in it."""
    all: bool = False
    """What this node wants may have been forgotten meanwhile."""
    pause: float = ASK_AGAIN
    answered: bool = False
    """A page has come, and is to be asked for the next when it is durable."""
    asked: Counter[Address] = attrs.field(factory=Counter)
    """Who was asked how often since something came of it."""
    held: list[Arrived] = attrs.field(factory=list)
    size: int = 0


class Arrivals:
    """Where the node stands in each origin, with what is on its way into the log."""

    def __init__(
        self,
        covered: Callable[[str], Mark | None],
        patience: float = float("inf"),
        begins: Callable[[str, Mark], Mark] = lambda _, mark: mark,
        histories: KnownHistories | None = None,
    ) -> None:
        """`covered` says how far the log itself has an origin; None if it is new to it. After
        `patience` seconds without an answer a hole is hopeless. `begins` says of an origin that is
        new to the node where that begins with it, given the mark from which on all comes that is
        wanted now: before that where something has waited for longer."""
        self._covered = covered
        self._patience = patience
        self._beginning = begins
        self._histories = histories or KnownHistories()
        self._cursors: dict[str, Mark] = {}
        """Where they are further than the log: it is on its way."""
        self._begins: dict[str, Mark] = {}
        """Where the node begins with origins of which its log has nothing."""
        self._waiting: dict[str, _Waiting] = {}
        self._heard: dict[str, dict[Address, float]] = {}
        """When something came of an origin last: of its home, and of who answers in its place."""
        self._showed: dict[str, float] = {}
        """When a home in an earlier epoch was asked last."""
        self._closed = False
        self.counts = ArrivalCounts()

    @property
    def waiting(self) -> int:
        """Origins of which something is missing now."""
        return len(self._waiting)

    def stands_at(self, origin: str) -> Mark | None:
        """How far the node has got, with what is on its way into the log; None for a new origin."""
        return self._cursors.get(origin) or self._covered(origin) or self._begins.get(origin)

    @property
    def chosen(self) -> dict[str, Mark]:
        """Up to where it was chosen already what comes of an origin: it is on its way into the log,
        or held behind a hole."""
        held = {
            origin: max(each.range.upto for each in waiting.held)
            for origin, waiting in self._waiting.items()
            if waiting.held
        }
        return {**held, **{o: max(mark, held.get(o, mark)) for o, mark in self._cursors.items()}}

    def close(self) -> None:
        """Others may not know what this node wants: take nothing."""
        self._closed = True

    def open(self, now: float) -> list[Effect]:
        """What this node wants flows: take what was held, and ask for what is missing."""
        if not self._closed:
            return []
        self._closed = False
        effects: list[Effect] = []
        for origin, waiting in list(self._waiting.items()):
            waiting.ask_at, waiting.since = now + PATIENCE, now
            effects += self._release(origin, now)
        return effects

    @property
    def begun(self) -> Mapping[str, Mark]:
        """Where the node begins with origins of which it has logged nothing."""
        return self._begins

    def begin(self, origin: str, mark: Mark) -> bool:
        """Something is wanted that lies behind `mark`, of an origin of which nothing has come yet;
        whether the node begins with it there. It does not where it knows it already, or where
        something else wants more."""
        known = self.stands_at(origin)
        if known is None and len(self._begins) >= MOST_ORIGINS:
            return False
        lowest = self._beginning(origin, mark)
        if known is None or (self._begins.get(origin) == known and lowest < known):
            self._begins[origin] = lowest
        return known is None and lowest == mark

    def arrive(self, arrived: Arrived, now: float) -> list[Effect]:
        """A range for this node has come."""
        origin, history = arrived.frame.origin, arrived.frame.history
        if self._is_too_much(origin):
            self.counts.dropped += 1
            return []
        if self._contradicts(arrived):
            # Another process has given the places that this node has: the home must know.
            return self._hold(arrived, now, ask=not self._closed)
        if history is None or not self._histories.note(origin, history):
            return self._arrive(arrived, now)
        return [NoteHistory(origin, self._histories.of(origin)), *self._arrive(arrived, now)]

    def _contradicts(self, arrived: Arrived) -> bool:
        frame = arrived.frame
        return self._histories.contradicts(
            frame.origin, frame.history, self.stands_at(frame.origin)
        )

    def _arrive(self, arrived: Arrived, now: float) -> list[Effect]:
        origin, told = arrived.frame.origin, arrived.range
        home = arrived.frame.home
        heard = self._heard.setdefault(origin, {})
        silent = now - heard.pop(home, now) > FORGOTTEN
        if len(heard) >= MOST_HOMES:
            del heard[next(iter(heard))]
        heard[home] = now
        if told.gone is not None:
            self.counts.gone += 1
        if self._closed:
            return self._hold(arrived, now, ask=False)
        cursor = self.stands_at(origin)
        if cursor is None:
            cursor = self._begin_with(arrived)
        elif told.upto <= cursor:
            self.counts.duplicate += 1
            if told.upto[0] < cursor[0]:
                return self._show(origin, home, cursor, now)
            waiting = self._waiting.get(origin)
            if waiting is None or told.upto < cursor or told.more:
                return []
            return self._release(origin, now)
        if told.after > cursor and told.gone is None:
            return self._hold(arrived, now, silent=silent)
        taken = self._take(arrived, cursor)
        return [taken, *self._release(origin, now, nearer=True, more=told.more)]

    def lost(
        self, origin: str, upto: Mark | None, home: Address, empty: Frame, now: float
    ) -> list[Effect]:
        """Who was asked says that what is missing is in no log any more, to `upto` or altogether.

        The node goes on behind it, at most to where something has come: `empty` is a frame of the
        origin with a range for this node and nothing in it.
        """
        waiting, cursor = self._waiting.get(origin), self.stands_at(origin)
        if waiting is None or cursor is None or self._closed:
            return []
        if home != waiting.home and home not in waiting.asked:
            return []
        first = min((each.range.after for each in waiting.held), default=None)
        end = first if upto is None else min(upto, first or upto)
        if end is None or end <= cursor:
            return []
        told = empty.ranges[0]._replace(after=cursor, upto=end, gone=end)
        return self.arrive(Arrived(told, empty, 0, lost=True), now)

    def heard(self, origin: str) -> float | None:
        """When something came of an origin last, of whoever answers for it."""
        return max(self._heard.get(origin, {}).values(), default=None)

    def homes(self, origin: str) -> list[Address]:
        """Who has answered for an origin, the last one first."""
        return list(reversed(self._heard.get(origin, {})))

    def settled(self, origin: str, now: float) -> list[Effect]:
        """Something has become durable: where that is all, the next page may be asked for."""
        cursor = self._cursors.get(origin)
        covered = self._covered(origin)
        if cursor is not None and covered is not None and covered >= cursor:
            del self._cursors[origin]
        if covered is not None:
            self._begins.pop(origin, None)
        waiting = self._waiting.get(origin)
        if waiting is None or not waiting.answered or origin in self._cursors or self._closed:
            return []
        waiting.answered = False
        waiting.ask_at = now + ASK_AGAIN
        return [self._ask(origin, waiting)]

    def failed(self, origin: str, home: Address, now: float) -> None:
        """What was taken could not be logged: after a pause go on from where the log stands."""
        self.counts.failed += 1
        self._cursors.pop(origin, None)
        if origin not in self._waiting:
            self._waiting[origin] = _Waiting(home, now + ASK_AGAIN, now)
        self._waiting[origin].answered = False

    def handle_timeout(self, now: float) -> list[Effect]:
        """Ask for what is missing."""
        effects: list[Effect] = []
        if self._closed:
            return effects
        for origin, waiting in self._waiting.items():
            if waiting.ask_at <= now:
                waiting.ask_at = now + waiting.pause
                waiting.pause = min(2 * waiting.pause, MOST_ASK_AGAIN)
                effects.append(self._ask(origin, waiting))
        return effects

    def hopeless(self, now: float) -> list[tuple[str, Address]]:
        """Origins with holes that nobody has answered for, and who was asked: `lost` goes on."""
        if self._closed:
            return []
        found = [
            (origin, waiting.home)
            for origin, waiting in self._waiting.items()
            if waiting.held and now >= waiting.since + self._patience
        ]
        self.counts.given_up += len(found)
        for origin, _ in found:
            self._histories.forget(origin)
        return found

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        if self._closed:
            return None
        return min((waiting.ask_at for waiting in self._waiting.values()), default=None)

    def ask_now(self, now: float) -> None:
        """There may be a way where there was none: whoever waits asks at once."""
        for waiting in self._waiting.values():
            waiting.ask_at = min(waiting.ask_at, now)
            waiting.pause = ASK_AGAIN

    # ------------------------------------------------------------------ inside

    def _show(self, origin: str, home: Address, cursor: Mark, now: float) -> list[Effect]:
        """A home is in an earlier epoch than this node has seen: it may have been started from an
        older copy of its log, by a clock that is behind. Show it what this node has."""
        if now - self._showed.get(origin, float("-inf")) < MOST_ASK_AGAIN / 6:
            return []
        self._showed[origin] = now
        return [Ask(home, origin, cursor, path=self._histories.path(origin, cursor))]

    def _is_too_much(self, origin: str) -> bool:
        return (
            origin not in self._heard
            and len(self._heard) >= MOST_ORIGINS
            and self.stands_at(origin) is None
        )

    def _begin_with(self, arrived: Arrived) -> Mark:
        """The first range of an origin has come: where the node begins with it."""
        origin, told = arrived.frame.origin, arrived.range
        mark = self._begins[origin] = self._beginning(origin, told.since or told.after)
        return mark

    def _take(self, arrived: Arrived, cursor: Mark) -> Take:
        self._cursors[arrived.frame.origin] = arrived.range.upto
        self.counts.taken += 1
        return Take(arrived, cursor)

    def _hold(
        self, arrived: Arrived, now: float, *, ask: bool = True, silent: bool = False
    ) -> list[Effect]:
        origin = arrived.frame.origin
        waiting = self._waiting.get(origin)
        if waiting is None:
            if len(self._waiting) >= MOST_WAITING:
                self.counts.dropped += 1
                return []
            self.counts.holes += ask
            waiting = self._waiting[origin] = _Waiting(
                arrived.frame.home, now + PATIENCE, now, silent
            )
        waiting.home = arrived.frame.home
        waiting.all |= silent
        size = len(arrived.frame.body) + len(arrived.frame.records)
        if len(waiting.held) >= MOST_HELD or waiting.size + size > MOST_HELD_BYTES:
            self.counts.dropped += 1
        else:
            waiting.held.append(arrived)
            waiting.size += size
        return []

    def _release(
        self, origin: str, now: float, *, nearer: bool = False, more: bool = False
    ) -> list[Effect]:
        """There may be way for what is held now, and that may not be all."""
        waiting = self._waiting.get(origin)
        if waiting is None:
            return []
        effects: list[Effect] = []
        held, waiting.held, waiting.size = waiting.held, [], 0
        for arrived in sorted(held, key=lambda each: each.range.after):
            told = arrived.range
            cursor = self.stands_at(origin)
            if cursor is None:
                cursor = self._begin_with(arrived)
            if (told.after > cursor and told.gone is None) or self._contradicts(arrived):
                self._hold(arrived, now)
            elif told.upto > cursor:
                effects.append(self._take(arrived, cursor))
        if waiting.held or more:
            waiting.answered = more
            if more or nearer or effects:
                waiting.since = now
                waiting.asked.clear()
                waiting.pause = ASK_AGAIN
                waiting.ask_at = now + (ASK_AGAIN if more else PATIENCE)
        else:
            del self._waiting[origin]
        return effects

    def _ask(self, origin: str, waiting: _Waiting) -> Ask:
        self.counts.asked += 1
        # Who spoke of it last may have less than another one: a keeper, of a node that is back.
        homes = (waiting.home, *self._heard.get(origin, ()))
        home = min(homes, key=lambda each: waiting.asked[each])
        waiting.asked[home] += 1
        after = self.stands_at(origin) or (0, 0)
        return Ask(home, origin, after, waiting.all, self._histories.path(origin, after))
