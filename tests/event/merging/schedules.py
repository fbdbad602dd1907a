"""Runs of a merger in virtual time, and naive oracles."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import attrs

from broker.event.envelope import Bundle, EventLinkage, Order
from broker.event.event_id import EventId
from broker.event.merging.held_event import LinkedEvent, MergeOutput, MissingNumbers, ReleasedEvent
from broker.event.merging.merger import Merger
from broker.event.merging.settings import Merging
from broker.event.merging.vocabulary import Constraint, Rule, rule_of

Event: TypeAlias = LinkedEvent[int]


def event(
    item: int,
    time: int,
    stream: str = "s",
    client: str = "c",
    linkage: EventLinkage = EventLinkage(),
    *,
    sequence: int | None = None,
    size: int = 1,
    origin: str = "",
) -> Event:
    """The sequence number follows the event's number by default."""
    number = item + 1 if sequence is None else sequence
    return LinkedEvent(item, stream, EventId(client, time, number, 1), linkage, size, origin)


def linked(
    constraint: str | None, scheme: str | None, *order: str, bundles: Sequence[tuple[str, int]] = ()
) -> EventLinkage:
    """An entry of the order with `#` in front is a bundle."""
    return EventLinkage(
        bundles=tuple(Bundle(name, number) for name, number in bundles),
        time_constraint=constraint,
        merge_scheme=scheme,
        order=tuple(Order(name.lstrip("#"), name.startswith("#")) for name in order),
    )


@attrs.define
class Run:
    """Outputs of a merger, with their times."""

    merger: Merger[int]
    outputs: list[tuple[float, MergeOutput[int]]] = attrs.field(factory=list)

    def until(self, now: float) -> None:
        """Let all deadlines up to `now` pass."""
        while (deadline := self.merger.next_timeout()) is not None and deadline <= now:
            self._keep(deadline, self.merger.handle_timeout(deadline))

    def receive(self, now: float, *events: Event) -> list[int]:
        """Return the items released at once."""
        self.until(now)
        outputs = self.merger.receive(events, now)
        self._keep(now, outputs)
        return [output.item for output in outputs if isinstance(output, ReleasedEvent)]

    def passed(self, now: float, **times: int) -> list[int]:
        """Set stream times; return the items released at once."""
        self.until(now)
        outputs = self.merger.set_stream_times(times, now)
        self._keep(now, outputs)
        return [output.item for output in outputs if isinstance(output, ReleasedEvent)]

    def finish(self, now: float) -> None:
        self.until(now)
        self._keep(now, self.merger.finish())

    def _keep(self, now: float, outputs: Iterable[MergeOutput[int]]) -> None:
        self.outputs += [(now, output) for output in outputs]

    @property
    def items(self) -> list[int]:
        return [output.item for _, output in self.outputs if isinstance(output, ReleasedEvent)]

    @property
    def late(self) -> set[int]:
        return {o.item for _, o in self.outputs if isinstance(o, ReleasedEvent) and o.late}

    @property
    def missing(self) -> list[MissingNumbers]:
        return [output for _, output in self.outputs if isinstance(output, MissingNumbers)]

    @property
    def given_at(self) -> dict[int, float]:
        return {o.item: now for now, o in self.outputs if isinstance(o, ReleasedEvent)}


#: Flight plans precede their tracks.
PAIR = linked("within 250ms", "time", "fp", "tz")


def run(wait: float = 1.0, **more: float) -> Run:
    """`more` are settings of `Merging`."""
    return Run(Merger(Merging(wait=wait, **more)))  # type: ignore[arg-type]


def naive_key(rule: Rule, each: Event) -> tuple[int, EventIdKey]:
    ids = [bundle.bundle_id for bundle in each.linkage.bundles]
    ranks = [
        number
        for number, entry in enumerate(rule.order)
        if (entry.is_bundle and entry.name in ids)
        or (not entry.is_bundle and entry.name == each.stream)
    ]
    client, time, sequence, incarnation = each.event_id
    return (ranks or [len(rule.order)])[0], (time, client, incarnation, sequence)


EventIdKey: TypeAlias = tuple[int, str, int, int]


def naive_by_time(rule: Rule, events: Iterable[Event]) -> list[int]:
    """Quadratic, and literally as in the document."""
    rest = list(events)
    ordered: list[int] = []
    while rest:
        opener = min(each.event_id.timestamp for each in rest)
        burst = [each for each in rest if naive_together(rule.constraint, opener, each)]
        rest = [each for each in rest if each not in burst]
        ordered += [each.item for each in sorted(burst, key=lambda e: naive_key(rule, e))]
    return ordered


def naive_together(constraint: Constraint, opener: int, each: Event) -> bool:
    time = each.event_id.timestamp
    length = constraint.length_ms
    if constraint.kind.value == "none":
        return time == opener
    if constraint.kind.value == "within":
        return time - opener <= length
    return time // length == opener // length


def check_run(run: Run, arrivals: Sequence[tuple[float, Event]]) -> None:
    """AssertionError unless the run keeps all guarantees."""
    events = {each.item: each for _, each in arrivals}
    came = {each.item: now for now, each in arrivals}
    assert sorted(run.items) == sorted(events), "each once"
    rules = {item: rule_of(each.linkage)[0] for item, each in events.items()}
    merging = run.merger._merging
    for item, now in run.given_at.items():
        rule = rules[item]
        assert rule is None or now <= came[item] + merging.hold_limit(rule) + 1e-9, "in time"
    for rule in {rule for rule in rules.values() if rule is not None}:
        mine = [item for item in run.items if rules[item] == rule]
        if rule.scheme.value == "time":
            in_time = [item for item in mine if item not in run.late]
            assert in_time == naive_by_time(rule, (events[item] for item in in_time)), "in order"
            check_late_by_time(run, rule, mine, events, came)
    bundled = {item: each for item, each in events.items() if _is_bundled(rules[item], each)}
    check_bundles(run, bundled)
    check_unlinked(run, [each for _, each in arrivals], rules)


def _is_bundled(rule: Rule | None, each: Event) -> bool:
    return rule is not None and rule.scheme.value == "bundle" and bool(each.linkage.bundles)


def check_late_by_time(
    run: Run, rule: Rule, mine: list[int], events: dict[int, Event], came: dict[int, float]
) -> None:
    for item in run.late.intersection(mine):
        assert run.given_at[item] == came[item], "a late event does not wait"
        before = [events[each] for each in mine[: mine.index(item)] if each not in run.late]
        own = events[item]
        assert any(
            each.event_id.timestamp > own.event_id.timestamp
            or naive_key(rule, each) > naive_key(rule, own)
            for each in before
        ), "something that follows it was out"


def check_bundles(run: Run, events: dict[int, Event]) -> None:
    """Check rising numbers in each bundle, and a report at each missing one."""
    last: dict[tuple[str, str], int] = {}
    told: list[tuple[str, str, int, int]] = []
    for _, output in run.outputs:
        if isinstance(output, MissingNumbers):
            told.append((output.stream, output.bundle_id, output.first, output.last))
        elif isinstance(output, ReleasedEvent) and output.item in events:
            each = events[output.item]
            holes = []
            for bundle in each.linkage.bundles:
                key, number = (each.stream, bundle.bundle_id), bundle.bundle_number
                if not output.late:
                    assert number >= last.get(key, number), "numbers rise"
                if key in last and number > last[key] + 1:
                    holes.append((*key, last[key] + 1, number - 1))
                last[key] = max(last.get(key, 0), number)
            if not output.late:
                assert told == holes, "holes are told"
            told = []
    assert not told


def check_unlinked(run: Run, arrivals: Sequence[Event], rules: dict[int, Rule | None]) -> None:
    index = {item: number for number, item in enumerate(run.items)}
    for number, each in enumerate(arrivals):
        if rules[each.item] is None:
            for before in arrivals[:number]:
                if before.event_id.client_id == each.event_id.client_id:
                    assert index[before.item] < index[each.item], "a publisher's order"
