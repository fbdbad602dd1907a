"""Random schedules: parents of one child in virtual time, with loss and reordering."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from plugins.dcp.event_range import EventRange
from plugins.dcp.nack_timer import NackSettings
from plugins.dcp.receiver import Nack, ReceiverSettings
from plugins.dcp.sender import SequenceSender, Unavailable
from tests.plugins.dcp.receiving_child import PATIENT, Child, make_range

STEP: Final = 0.005
LAST: Final = 150
IMPATIENT: Final = ReceiverSettings(nack=NackSettings(patience=1.0))


class Parent:
    """A parent that packs the events of a source at random."""

    def __init__(self, name: str, schedule: Schedule) -> None:
        self.name = name
        self.epoch = 0
        """Of the query by which it selects events."""
        self.sender = SequenceSender[EventRange](0, EventRange)
        self._schedule = schedule
        self._random = random = schedule.random
        self._delay = random.choice([0.002, 0.02, 0.2])
        self._jitter = random.choice([0.0, 0.02, 0.1])
        self._loss = random.choice([0.0, 0.05, 0.3])
        self._eagerness = random.uniform(0.5, 2.0)
        """Share of the changes that it has made, by its share of the sequence."""
        self._ordered_at = 0.0

    def carry(self, call: Callable[[], object]) -> None:
        """Call a function at the other end, later and perhaps out of order, or not at all."""
        if self._random.random() >= self._loss:
            self._schedule.calls.append((self._arrival_time(), call))

    def carry_in_order(self, call: Callable[[], object]) -> None:
        """Call a function at the other end as a control message."""
        self._ordered_at = max(self._ordered_at, self._arrival_time())
        self._schedule.calls.append((self._ordered_at, call))

    def _arrival_time(self) -> float:
        return self._schedule.now + self._delay + self._random.uniform(0.0, self._jitter)

    def step(self) -> None:
        random, child = self._random, self._schedule.child
        if random.random() < 0.3:
            self._append_some()
        if random.random() < 0.05:
            self.sender.flush_empty()
        while self.sender.is_waiting and random.random() < 0.7:
            item = self.sender.next_to_send(random.choice([1, 60, 1_000]), self._schedule.now)
            self.send(item if isinstance(item, Unavailable) else item.range, is_repeated=False)
        if random.random() < 0.05:
            end = self.sender.sent_upto
            self.carry(
                lambda: child.take(child.core.receive_end(self.name, end, self._schedule.now))
            )
        if random.random() < 0.05:
            current = child.core.current or 0
            self.carry(lambda: self.sender.acknowledge(current))

    def _append_some(self) -> None:
        schedule, place = self._schedule, self.sender.end
        if place == LAST:
            return
        self._change_query(place)
        upto = self._random.randint(place + 1, min(LAST, place + 15))
        selected = schedule.selections[self.epoch]
        ans = (an for an in range(place + 1, upto + 1) if an in selected)
        self.sender.append(make_range(place, upto, ans))

    def _change_query(self, place: int) -> None:
        """Select by a newer query, perhaps."""
        schedule, random = self._schedule, self._random
        newest = len(schedule.selections) - 1
        due = self._eagerness * newest * place / LAST - self.epoch
        if self.epoch < newest and random.random() < due:
            epoch = self.epoch = min(newest, self.epoch + random.choice([1, 1, 2]))
            self.carry_in_order(lambda: schedule.put_in_force(self.name, place, epoch))

    def send(self, item: EventRange | Unavailable, *, is_repeated: bool) -> None:
        child, schedule, name = self._schedule.child, self._schedule, self.name
        if isinstance(item, Unavailable):
            self.carry(
                lambda: child.take(child.core.receive_unavailable(name, *item, schedule.now))
            )
        else:
            self.carry(
                lambda: child.take(
                    child.core.receive(name, item, schedule.now, is_repeated=is_repeated)
                )
            )

    def request(self, nack: Nack) -> None:
        self.carry(lambda: self._answer(nack))

    def _answer(self, nack: Nack) -> None:
        for each in self.sender.answer(nack, self._schedule.now, 2 * self._delay):
            self.send(each if isinstance(each, Unavailable) else each.range, is_repeated=True)


class Liar(Parent):
    """A parent that states ranges without some of their events, or wider than it has them."""

    def send(self, item: EventRange | Unavailable, *, is_repeated: bool) -> None:
        if not isinstance(item, Unavailable):
            random = self._random
            ans = [event.mark[1] for event in item.events if random.random() < 0.5]
            item = make_range(item.previous, item.upto + random.choice([0, 0, 5]), ans)
        super().send(item, is_repeated=is_repeated)


class Schedule:
    """A child with its parents. Its query may change several times."""

    def __init__(self, seed: int, *, names: str, changes: int = 0, liar: str = "") -> None:
        """With a `liar` among the parents, the child confirms ranges."""
        self.random = random = Random(seed)
        self.now = 0.0
        self.calls: list[tuple[float, Callable[[], object]]] = []
        self.selections: list[frozenset[int]] = []
        """ANs of the events that the query of each epoch selects."""
        self.required: list[tuple[int, int]] = [(0, 0)]
        """Epochs, each with the AN behind which it is required."""
        self._wider: list[int] = []
        """Epochs whose query selects events that the last one did not."""
        everything = random.sample(range(1, LAST + 1), random.randint(20, LAST))
        self._add_query(frozenset(everything), 1.0 if not changes else random.choice([0.2, 0.8]))
        for epoch in range(1, changes + 1):
            if random.random() < 0.8:
                self._wider.append(epoch)
                more = random.choice([0.2, 0.5, 1.0])
                self._add_query(frozenset(everything), more, self.selections[-1])
            else:
                self._add_query(self.selections[-1], 0.8)
        self.child = Child(names, confirms=bool(liar), settings=IMPATIENT if liar else PATIENT)
        self.parents = [Parent(each, self) for each in names if each != liar]
        if liar:
            self.parents.append(Liar(liar, self))

    def _add_query(
        self, events: frozenset[int], share: float, always: frozenset[int] = frozenset()
    ) -> None:
        chosen = {an for an in sorted(events) if self.random.random() < share}
        self.selections.append(always | chosen)

    def put_in_force(self, name: str, an: int, epoch: int) -> None:
        """Let the query of an epoch count, as a node does when the first parent has it."""
        core = self.child.core
        self.child.take(core.set_parent(name, an, epoch, self.now))
        wider = [each for each in self._wider if each <= epoch]
        if wider:
            self._wider = [each for each in self._wider if each > epoch]
            begin = max(an, core.current or 0)
            self.required.append((max(begin, self.required[-1][0]), wider[-1]))
            self.child.take(core.require(begin, wider[-1], self.now))

    @property
    def promised(self) -> set[int]:
        """The events that the required query and all later ones select."""
        found = set()
        for an in range(1, LAST + 1):
            epoch = max(each for begin, each in self.required if begin < an)
            if all(an in each for each in self.selections[epoch:]):
                found.add(an)
        return found

    def run(self, seconds: float) -> None:
        core = self.child.core
        while (core.current or 0) < LAST and self.now < seconds:
            self.now += STEP
            for each in self.parents:
                each.step()
            due = sorted((each for each in self.calls if each[0] <= self.now), key=_time_of)
            self.calls = [each for each in self.calls if each[0] > self.now]
            for _, call in due:
                call()
            ranges, nack = core.handle_timeout(self.now)
            self.child.take(ranges)
            if nack is not None:
                for each in self.parents:
                    each.request(nack)


def _time_of(call: tuple[float, Callable[[], object]]) -> float:
    return call[0]
