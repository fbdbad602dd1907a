"""Events in the order in which they come, to the order that their linkage asks for (M38).

Sans-I/O: events and the time go in, what is to be given out and the next deadline come out.
`docs/merging.md` has the table of states.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import attrs

from broker.event.merging.bundles import Bundles
from broker.event.merging.bursts import OVER
from broker.event.merging.group import Group
from broker.event.merging.held import Given, Held, Linked, Missing, Output, UnknownWord, key_of
from broker.event.merging.settings import Merging
from broker.event.merging.sources import Sources
from broker.event.merging.vocabulary import Rule, Scheme, bundles_of, rule_of

T = TypeVar("T")

#: Merges at once: each distinct linkage of events that are to be merged by time is one.
MOST_GROUPS: Final = 1_000
#: Unknown words that are told; whoever makes up more gets no more attention.
MOST_UNKNOWN: Final = 100


@attrs.define
class Counts:
    """What a merge did, since it began."""

    given: int = 0
    late: int = 0
    missing: int = 0
    """Numbers of bundles that did not come in time."""
    overdue: int = 0
    """Events that were given out because their time was over."""
    crowded: int = 0
    """Events that were given out because too many were held."""


class Merger(Generic[T]):
    """One merge of one subscriber. Every event that goes in comes out once."""

    def __init__(
        self, merging: Merging, expects: Callable[[str], bool] = lambda stream: True
    ) -> None:
        """`expects` tells whether events of a stream can come at all: others are not waited for."""
        self._merging = merging
        self._expects = expects
        self._sources = Sources(merging.delay)
        self._groups: OrderedDict[Rule, Group[T]] = OrderedDict()
        self._bundles: Bundles[T] = Bundles()
        self._held: dict[int, Held[T]] = {}
        """By serial, so the oldest is the first."""
        self._lines: dict[str, deque[Held[T]]] = {}
        """What is held of each publisher, as it came."""
        self._deadlines: list[tuple[float, int]] = []
        self._outputs: list[Output[T]] = []
        self._serial = 0
        self._bytes = 0
        self._unknown: set[str] = set()
        self.counts = Counts()

    @property
    def held(self) -> int:
        """Events that came in and are not out yet."""
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        """What they take."""
        return self._bytes

    def receive(self, events: Sequence[Linked[T]], now: float) -> list[Output[T]]:
        """Events that came just now, in this order."""
        for linked in events:
            self._sources.heard(linked.event_id, now, linked.origin)
            self._take(linked, now)
            while (
                len(self._held) > self._merging.max_events or self._bytes > self._merging.max_bytes
            ):
                self.counts.crowded += 1
                self._force(next(iter(self._held.values())))
        self._release(now)
        return self._result()

    def passed(self, times: Mapping[str, int], now: float) -> list[Output[T]]:
        """Take the stream times of all origins, in ms since 1970; 0: not known."""
        self._sources.passed(times)
        self._release(now)
        return self._result()

    def next_timeout(self) -> float | None:
        """When `handle_timeout` is wanted."""
        while self._deadlines and self._deadlines[0][1] not in self._held:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def handle_timeout(self, now: float) -> list[Output[T]]:
        """Give out what has waited long enough."""
        while (deadline := self.next_timeout()) is not None and deadline <= now:
            self.counts.overdue += 1
            self._force(self._held[self._deadlines[0][1]])
        self._release(now)
        return self._result()

    def finish(self) -> list[Output[T]]:
        """No more events will come: everything in its order."""
        while self._held:
            self._force(next(iter(self._held.values())))
            for group in self._groups.values():
                self._give_all(group.bursts.release(OVER))
        return self._result()

    # ------------------------------------------------------------------ in

    def _take(self, linked: Linked[T], now: float) -> None:
        rule = self._rule(linked)
        bundles = bundles_of(linked.linkage)
        if rule is None or (rule.scheme is Scheme.BUNDLE and not bundles):
            self._take_unlinked(linked)
            return
        lanes = rule.lanes(linked.stream, bundles)
        held = Held(
            self._next_serial(),
            linked,
            bundles,
            rule,
            key_of(rule, linked.event_id, lanes),
            now + self._merging.patience(rule),
        )
        if rule.scheme is Scheme.TIME:
            group = self._group(rule, now)
            group.heard(linked.event_id.client_id, lanes)
            if group.bursts.hold(held):
                self._hold(held)
            else:
                held.late = True
                self._put_out(held)
        else:
            self._hold(held)
            self._bundles.hold(held)
            self._give_all(self._bundles.release(held.bundle_keys))

    def _take_unlinked(self, linked: Linked[T]) -> None:
        """It waits for nothing but what is held of its own publisher, whose order is kept."""
        line = self._lines.get(linked.event_id.client_id)
        held = Held(self._next_serial(), linked, (), None, (0, 0, "", 0, 0), float("inf"))
        if line:
            self._hold(held)
        else:
            self._put_out(held)

    def _rule(self, linked: Linked[T]) -> Rule | None:
        if self._merging.rule is not None:
            return self._merging.rule
        rule, words = rule_of(linked.linkage)
        for word in words:
            if word not in self._unknown and len(self._unknown) < MOST_UNKNOWN:
                self._unknown.add(word)
                self._outputs.append(UnknownWord(word))
        return rule

    def _group(self, rule: Rule, now: float) -> Group[T]:
        group = self._groups.get(rule)
        if group is None:
            group = self._groups[rule] = Group(rule, now, self._expects)
            if len(self._groups) > MOST_GROUPS:
                _, oldest = self._groups.popitem(last=False)
                self._give_all(oldest.bursts.release(OVER))
        self._groups.move_to_end(rule)
        return group

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def _hold(self, held: Held[T]) -> None:
        self._held[held.serial] = held
        self._bytes += held.linked.size
        self._lines.setdefault(held.linked.event_id.client_id, deque()).append(held)
        if held.rule is not None:
            heapq.heappush(self._deadlines, (held.deadline, held.serial))

    # ------------------------------------------------------------------ out

    def _force(self, held: Held[T]) -> None:
        """The oldest in its publisher's line is never an unlinked one: it has a rule."""
        if held.rule is None:
            raise AssertionError("what waits for nothing is held")
        if held.rule.scheme is Scheme.TIME:
            self._give_all(self._groups[held.rule].bursts.force(held))
            return
        for output in self._bundles.force(held):
            if isinstance(output, Missing):
                self.counts.missing += output.last - output.first + 1
                self._outputs.append(output)
            else:
                self._give(output)

    def _release(self, now: float) -> None:
        for group in self._groups.values():
            self._give_all(group.release(self._sources, now, self._merging.idle))

    def _give_all(self, events: Sequence[Held[T]]) -> None:
        for held in events:
            self._give(held)

    def _give(self, held: Held[T]) -> None:
        self._put_out(held)
        client_id = held.linked.event_id.client_id
        line = self._lines.get(client_id)
        while line and (line[0].serial not in self._held or line[0].rule is None):
            first = line.popleft()
            if first.rule is None:
                self._put_out(first)
        if line is not None and not line:
            del self._lines[client_id]

    def _put_out(self, held: Held[T]) -> None:
        if self._held.pop(held.serial, None) is not None:
            self._bytes -= held.linked.size
        self.counts.given += 1
        self.counts.late += held.late
        self._outputs.append(Given(held.linked.item, held.late))

    def _result(self) -> list[Output[T]]:
        outputs, self._outputs = self._outputs, []
        return outputs
