"""Delivered events of ordered flows that wait for their types.

An event whose type this node lacks delays only later events of its origin, in all flows of one
stack. When the type has come or is given up, the events are handed over, in their order.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import attrs

from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.streams.contract import FlowBatch

#: Bytes of documents of one origin, and of all. Beyond them the waiting events of the origin are
#: dropped, and requested again. A lone event may be larger.
MOST_BYTES: Final = 4 << 20
MOST_BYTES_OF_ALL: Final = 16 << 20

#: Returns how many events of a batch need not wait for their types. If others must, the function is
#: called when the first one of them need not wait any more.
CountReady: TypeAlias = Callable[[FlowBatch, Callable[[], object]], int]
#: Stack and origin.
_Key: TypeAlias = tuple[str, str]


@attrs.define
class _Waiting:
    batches: deque[FlowBatch] = attrs.field(factory=deque)
    size: int = 0

    @property
    def is_lone_event(self) -> bool:
        return sum(len(each.events) for each in self.batches) < 2


class TypeWaits:
    def __init__(
        self, hand_over: Callable[[FlowBatch], object], drop: Callable[[str, Mark], object]
    ) -> None:
        """`hand_over` gets batches that need not wait any more. `drop` is called for a flow whose
        events behind a place have to come again."""
        self._hand_over = hand_over
        self._drop = drop
        self.count_ready: CountReady = lambda batch, _: len(batch.events)
        self.stack_of: Callable[[str], str] = lambda _: ""
        """Returns the name of the stack that carries a flow."""
        self._waiting: dict[_Key, _Waiting] = {}
        self.waiting_bytes = 0

    def is_waiting(self, flow: str) -> bool:
        """Return whether delivered events of the origin of a flow wait."""
        return bool(self._waiting) and self._key_of(flow) in self._waiting

    def is_full(self, flow: str) -> bool:
        """Return whether the events of the origin of a flow are beyond the bound."""
        return self.is_waiting(flow) and self._is_full(self._waiting[self._key_of(flow)])

    def hold(self, batch: FlowBatch) -> int:
        """Return how many events of a delivered batch need not wait. The others are held."""
        key, count = self._key_of(batch.flow), 0
        if key not in self._waiting:
            count = self.count_ready(batch, lambda: self._end_wait(key))
        if count < len(batch.events):
            after = batch.events[count - 1].mark if count else batch.after
            self._add(key, attrs.evolve(batch, after=after, events=batch.events[count:]))
        return count

    def drop_overflow(self) -> None:
        """Drop the events of origins that are beyond the bound. Call it between deliveries."""
        for key in [key for key, each in self._waiting.items() if self._is_full(each)]:
            first: dict[str, Mark] = {}
            for batch in self._remove(key):
                first.setdefault(batch.flow, batch.after)
            for flow, after in first.items():
                self._drop(flow, after)

    def forget_flow(self, flow: str) -> None:
        """Forget the events of a flow, which come again."""
        key = self._key_of(flow)
        for batch in self._remove(key):
            if batch.flow != flow:
                self._add(key, batch)

    def _end_wait(self, key: _Key) -> None:
        """Hand over the events of an origin, up to the next one whose type is missing."""
        for batch in self._remove(key):
            self._hand_over(batch)

    def _is_full(self, waiting: _Waiting) -> bool:
        is_beyond = waiting.size > MOST_BYTES or self.waiting_bytes > MOST_BYTES_OF_ALL
        return is_beyond and not waiting.is_lone_event

    def _add(self, key: _Key, batch: FlowBatch) -> None:
        waiting = self._waiting.setdefault(key, _Waiting())
        waiting.batches.append(batch)
        size = sum([len(each.document) for each in batch.events])
        waiting.size += size
        self.waiting_bytes += size

    def _remove(self, key: _Key) -> deque[FlowBatch]:
        waiting = self._waiting.pop(key, _Waiting())
        self.waiting_bytes -= waiting.size
        return waiting.batches

    def _key_of(self, flow: str) -> _Key:
        return self.stack_of(flow), origin_of(flow)
