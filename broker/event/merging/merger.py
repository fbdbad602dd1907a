"""Merge of events by their linkage (M38).

Sans-I/O. `docs/merging.md` has the state tables.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import attrs

from broker.event.merging.bundles import Bundles
from broker.event.merging.bursts import END_OF_STREAMS
from broker.event.merging.group import Group
from broker.event.merging.held_event import (
    HeldEvent,
    LinkedEvent,
    MergeOutput,
    MissingNumbers,
    ReleasedEvent,
    UnknownWord,
    sort_key,
)
from broker.event.merging.publisher_times import PublisherTimes
from broker.event.merging.settings import Merging
from broker.event.merging.vocabulary import Rule, Scheme, limited_bundles, rule_of

T = TypeVar("T")

#: Distinct linkages merged by time; a full merger releases the one unused for longest.
MAX_GROUPS: Final = 1_000
#: Unknown words that are reported; more are ignored.
MAX_UNKNOWN_WORDS: Final = 100


@attrs.define
class Counts:
    given: int = 0
    late: int = 0
    missing: int = 0
    """Bundle numbers that did not arrive in time."""
    overdue: int = 0
    """Events released because their deadline passed."""
    crowded: int = 0
    """Events released because too many were held."""


class Merger(Generic[T]):
    """One merge of one subscriber: each event comes out once."""

    def __init__(
        self, merging: Merging, expects: Callable[[str], bool] = lambda stream: True
    ) -> None:
        """`expects` is false for streams whose events can not arrive: the merge does not wait for
        them."""
        self._merging = merging
        self._expects = expects
        self._publisher_times = PublisherTimes(merging.delay)
        self._groups: OrderedDict[Rule, Group[T]] = OrderedDict()
        self._bundles: Bundles[T] = Bundles()
        self._held: dict[int, HeldEvent[T]] = {}
        """By serial, so the oldest is the first."""
        self._publisher_queues: dict[str, deque[HeldEvent[T]]] = {}
        """Held events of each publisher, in order of arrival."""
        self._deadlines: list[tuple[float, int]] = []
        self._outputs: list[MergeOutput[T]] = []
        self._serial = 0
        self._bytes = 0
        self._unknown: set[str] = set()
        self.counts = Counts()

    @property
    def held(self) -> int:
        return len(self._held)

    @property
    def held_bytes(self) -> int:
        return self._bytes

    def receive(self, events: Sequence[LinkedEvent[T]], now: float) -> list[MergeOutput[T]]:
        for linked in events:
            self._publisher_times.record_event(linked.event_id, now, linked.origin)
            self._add(linked, now)
            while (
                len(self._held) > self._merging.max_events or self._bytes > self._merging.max_bytes
            ):
                self.counts.crowded += 1
                self._release_through(next(iter(self._held.values())))
        self._release_ready(now)
        return self._drain_outputs()

    def set_stream_times(self, times: Mapping[str, int], now: float) -> list[MergeOutput[T]]:
        """Set the origins' stream times, in ms since 1970; 0: unknown."""
        self._publisher_times.set_stream_times(times)
        self._release_ready(now)
        return self._drain_outputs()

    def next_timeout(self) -> float | None:
        while self._deadlines and self._deadlines[0][1] not in self._held:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def handle_timeout(self, now: float) -> list[MergeOutput[T]]:
        while (deadline := self.next_timeout()) is not None and deadline <= now:
            self.counts.overdue += 1
            self._release_through(self._held[self._deadlines[0][1]])
        self._release_ready(now)
        return self._drain_outputs()

    def finish(self) -> list[MergeOutput[T]]:
        while self._held:
            self._release_through(next(iter(self._held.values())))
            for group in self._groups.values():
                self._output_all(group.bursts.release_ready(END_OF_STREAMS))
        return self._drain_outputs()

    def _add(self, linked: LinkedEvent[T], now: float) -> None:
        rule = self._choose_rule(linked)
        bundles = limited_bundles(linked.linkage)
        if rule is None or (rule.scheme is Scheme.BUNDLE and not bundles):
            self._add_unlinked(linked)
            return
        lanes = rule.lanes(linked.stream, bundles)
        held = HeldEvent(
            self._next_serial(),
            linked,
            bundles,
            rule,
            sort_key(rule, linked.event_id, lanes),
            now + self._merging.hold_limit(rule),
        )
        if rule.scheme is Scheme.TIME:
            group = self._get_group(rule, now)
            group.record_publisher(linked.event_id.client_id, lanes)
            if group.bursts.add(held):
                self._hold(held)
            else:
                held.late = True
                self._output(held)
        else:
            self._hold(held)
            self._bundles.add(held)
            self._output_all(self._bundles.release_ready(held.bundle_keys))

    def _add_unlinked(self, linked: LinkedEvent[T]) -> None:
        """Hold it only behind held events of its own publisher."""
        line = self._publisher_queues.get(linked.event_id.client_id)
        held = HeldEvent(self._next_serial(), linked, (), None, (0, 0, "", 0, 0), float("inf"))
        if line:
            self._hold(held)
        else:
            self._output(held)

    def _choose_rule(self, linked: LinkedEvent[T]) -> Rule | None:
        if self._merging.rule is not None:
            return self._merging.rule
        rule, words = rule_of(linked.linkage)
        for word in words:
            if word not in self._unknown and len(self._unknown) < MAX_UNKNOWN_WORDS:
                self._unknown.add(word)
                self._outputs.append(UnknownWord(word))
        return rule

    def _get_group(self, rule: Rule, now: float) -> Group[T]:
        group = self._groups.get(rule)
        if group is None:
            group = self._groups[rule] = Group(rule, now, self._expects)
            if len(self._groups) > MAX_GROUPS:
                _, oldest = self._groups.popitem(last=False)
                self._output_all(oldest.bursts.release_ready(END_OF_STREAMS))
        self._groups.move_to_end(rule)
        return group

    def _next_serial(self) -> int:
        self._serial += 1
        return self._serial

    def _hold(self, held: HeldEvent[T]) -> None:
        self._held[held.serial] = held
        self._bytes += held.linked.size
        self._publisher_queues.setdefault(held.linked.event_id.client_id, deque()).append(held)
        if held.rule is not None:
            heapq.heappush(self._deadlines, (held.deadline, held.serial))

    def _release_through(self, held: HeldEvent[T]) -> None:
        """`held` is the oldest of its publisher, so it is never unlinked."""
        if held.rule is None:
            raise AssertionError("an unlinked event is the oldest of its queue")
        if held.rule.scheme is Scheme.TIME:
            self._output_all(self._groups[held.rule].bursts.release_through(held))
            return
        for output in self._bundles.release_through(held):
            if isinstance(output, MissingNumbers):
                self.counts.missing += output.last - output.first + 1
                self._outputs.append(output)
            else:
                self._output_with_followers(output)

    def _release_ready(self, now: float) -> None:
        for group in self._groups.values():
            self._output_all(group.release_ready(self._publisher_times, now, self._merging.idle))

    def _output_all(self, events: Sequence[HeldEvent[T]]) -> None:
        for held in events:
            self._output_with_followers(held)

    def _output_with_followers(self, held: HeldEvent[T]) -> None:
        self._output(held)
        client_id = held.linked.event_id.client_id
        line = self._publisher_queues.get(client_id)
        while line and (line[0].serial not in self._held or line[0].rule is None):
            first = line.popleft()
            if first.rule is None:
                self._output(first)
        if line is not None and not line:
            del self._publisher_queues[client_id]

    def _output(self, held: HeldEvent[T]) -> None:
        if self._held.pop(held.serial, None) is not None:
            self._bytes -= held.linked.size
        self.counts.given += 1
        self.counts.late += held.late
        self._outputs.append(ReleasedEvent(held.linked.item, held.late))

    def _drain_outputs(self) -> list[MergeOutput[T]]:
        outputs, self._outputs = self._outputs, []
        return outputs
