"""The sequences that a node knows, and how far each has come here (X7)."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

import attrs

from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from plugins.dcp.control import MOST_SEQUENCES
from plugins.dcp.event_range import Description, EventRange, SequenceKey
from plugins.dcp.omission import dropped_count
from plugins.dcp.receiver import SequenceReceiver

#: Epochs of one flow: a late packet of the last one may still come.
_MOST_EPOCHS = 2


@attrs.define(eq=False)
class SequenceState:
    description: Description
    receiver: SequenceReceiver[EventRange] | None
    """None at a root, which does not get it from parents."""
    end: int | None = None
    """End of the ranges that this node has passed on; None: there is none."""
    outgoing: list[EventRange] = attrs.field(factory=list)
    """Ranges up to `end` that leave with the next flush."""

    @property
    def cut(self) -> int:
        """AN behind which all events of the present query come here."""
        receiver = self.receiver
        if receiver is None:
            return self.end or 0
        return max(self.end or 0, receiver.required.newest_an, receiver.current or 0)

    def acknowledge_to(self, parent: Hashable) -> None:
        """Note that a parent is told the present place."""
        receiver = self.receiver
        chain = None if receiver is None else receiver.find_chain(parent)
        if receiver is not None and receiver.current is not None and chain is not None:
            chain.acknowledge(receiver.current)

    def describe_place(self, an: int) -> str:
        return f"{self.description.flow} {self.description.epoch}:{an}"

    def make_batch(self, range_: EventRange, *, is_late: bool = False) -> FlowBatch:
        """Return a range as a batch of its flow."""
        description = self.description
        epoch = description.epoch
        # A range from the beginning has all events since an earlier epoch.
        after: Mark = (epoch, range_.previous) if range_.previous else description.begins_after
        upto = epoch, range_.upto
        flow, node = description.flow, description.origin_node
        left_out = range_.omission
        count = None if left_out is None else dropped_count(left_out)
        if count is not None:
            return FlowBatch(flow, node, after, upto, (), (count,))
        return FlowBatch(flow, node, after, upto, range_.events, is_late=is_late)


class Sequences:
    def __init__(self) -> None:
        self.refused = 0
        """Sequences without room."""
        self._states: dict[SequenceKey, SequenceState] = {}
        self._epochs: dict[str, list[int]] = {}

    def __iter__(self) -> Iterator[SequenceState]:
        return iter(list(self._states.values()))

    def __len__(self) -> int:
        return len(self._states)

    def get(self, key: SequenceKey) -> SequenceState | None:
        return self._states.get(key)

    def add(self, state: SequenceState) -> bool:
        """Add a sequence, in place of the oldest epoch of its flow. Return False without room."""
        key = state.description.key
        epochs = sorted({*self._epochs.get(key.flow, ()), key.epoch})
        if len(epochs) > _MOST_EPOCHS:
            oldest = epochs.pop(0)
            if oldest == key.epoch:
                return False
            del self._states[SequenceKey(key.flow, oldest)]
        elif len(self._states) >= MOST_SEQUENCES:
            self.refused += 1
            return False
        self._epochs[key.flow] = epochs
        self._states[key] = state
        return True

    def split_batch(self, batch: FlowBatch) -> Iterator[tuple[SequenceState, EventRange]]:
        """Yield the new ranges of a root's batch, each with its sequence, which may begin now."""
        epoch, end = batch.upto
        after = batch.after
        for earlier in sorted({event.mark[0] for event in batch.events} - {epoch}):
            events = [each for each in batch.events if each.mark[0] == earlier]
            upto = events[-1].mark
            yield from self._find_own(batch, earlier, after, upto[1], events)
            after = upto
        events = [each for each in batch.events if each.mark[0] == epoch]
        yield from self._find_own(batch, epoch, after, end, events)

    def _find_own(
        self,
        batch: FlowBatch,
        epoch: int,
        after: Mark,
        upto: int,
        events: Sequence[CarriedEvent],
    ) -> Iterator[tuple[SequenceState, EventRange]]:
        previous = after[1] if after[0] == epoch else 0
        state = self.get(SequenceKey(batch.flow, epoch))
        if state is None:
            begins_after = after if previous == 0 else (0, 0)
            description = Description(batch.flow, epoch, batch.origin_node, begins_after)
            state = SequenceState(description, None)
            if not self.add(state):
                return
        start = max(previous, state.end or 0)
        if upto <= start:
            return
        range_ = EventRange.of_events(previous, upto, events)
        yield state, range_.after(start) if start > previous else range_

    def marks(self) -> dict[str, Mark]:
        """Return for each flow the mark behind which all events of the present query come."""
        found: dict[str, Mark] = {}
        for state in self._states.values():
            flow, mark = state.description.flow, (state.description.epoch, state.cut)
            found[flow] = max(mark, found.get(flow, mark))
        return found
