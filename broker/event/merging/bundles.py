"""Live order by BundleNumber: each event waits for the number before it, within bounds."""

from __future__ import annotations

import bisect
import heapq
from collections import OrderedDict
from typing import Final, Generic, TypeVar

import attrs

from broker.event.merging.bundle_order import order_by_bundles
from broker.event.merging.held_event import BundleKey, HeldEvent, MissingNumbers, SortKey

T = TypeVar("T")

#: A bundle has no end mark: it is dropped after so many other bundles had events.
MAX_BUNDLES: Final = 10_000
#: A bundle that starts with a higher number waits for those before it.
MAX_FIRST_NUMBER: Final = 1


@attrs.define(eq=False)
class _Bundle(Generic[T]):
    last: int | None = None
    """Greatest number that was released."""
    waiting: list[tuple[int, SortKey, int, HeldEvent[T]]] = attrs.field(factory=list)
    """(number, key, serial, event), sorted."""

    def is_next(self, number: int) -> bool:
        return number <= (MAX_FIRST_NUMBER if self.last is None else self.last + 1)


class Bundles(Generic[T]):
    def __init__(self) -> None:
        self._bundles: OrderedDict[BundleKey, _Bundle[T]] = OrderedDict()

    def add(self, held: HeldEvent[T]) -> None:
        for key, bundle in zip(held.bundle_keys, held.bundles, strict=True):
            waiting = self._get_bundle(key).waiting
            bisect.insort(waiting, (bundle.bundle_number, held.key, held.serial, held))
        self._evict_bundles()

    def release_ready(self, keys: list[BundleKey]) -> list[HeldEvent[T]]:
        """Release events that need not wait, by the declared order.

        Events of other bundles may become ready by this.
        """
        released: list[HeldEvent[T]] = []
        ready: list[tuple[SortKey, int, HeldEvent[T]]] = []
        for key in keys:
            self._collect_ready(key, ready)
        while ready:
            _, _, held = heapq.heappop(ready)
            if not held.is_released:
                self._release(held)
                released.append(held)
                for key in held.bundle_keys:
                    self._collect_ready(key, ready)
        return released

    def release_through(self, held: HeldEvent[T]) -> list[HeldEvent[T] | MissingNumbers]:
        """Release the event and all before it; `MissingNumbers` replace missing events."""
        outputs: list[HeldEvent[T] | MissingNumbers] = []
        touched: list[BundleKey] = []
        for each in order_by_bundles(self._events_through(held)):
            outputs += self._missing_before(each)
            self._release(each)
            outputs.append(each)
            touched += each.bundle_keys
        return [*outputs, *self.release_ready(touched)]

    def _get_bundle(self, key: BundleKey) -> _Bundle[T]:
        state = self._bundles.get(key)
        if state is None:
            state = self._bundles[key] = _Bundle()
        self._bundles.move_to_end(key)
        return state

    def _evict_bundles(self) -> None:
        for _ in range(len(self._bundles) - MAX_BUNDLES):
            key, state = self._bundles.popitem(last=False)
            if state.waiting:
                # It has held events, for a bounded time.
                self._bundles[key] = state

    def _collect_ready(
        self, key: BundleKey, ready: list[tuple[SortKey, int, HeldEvent[T]]]
    ) -> None:
        state = self._get_bundle(key)
        while state.waiting and state.waiting[0][3].is_released:
            del state.waiting[0]
        if state.waiting:
            _, order, serial, held = state.waiting[0]
            if self._is_ready(held):
                heapq.heappush(ready, (order, serial, held))

    def _is_ready(self, held: HeldEvent[T]) -> bool:
        for key, bundle in zip(held.bundle_keys, held.bundles, strict=True):
            if not self._get_bundle(key).is_next(bundle.bundle_number):
                return False
        return True

    def _events_through(self, held: HeldEvent[T]) -> list[HeldEvent[T]]:
        found = {held.serial: held}
        unseen = [held]
        while unseen:
            each = unseen.pop()
            for key, bundle in zip(each.bundle_keys, each.bundles, strict=True):
                for number, order, _, other in self._get_bundle(key).waiting:
                    if (number, order) >= (bundle.bundle_number, each.key):
                        break
                    if not other.is_released and other.serial not in found:
                        found[other.serial] = other
                        unseen.append(other)
        return list(found.values())

    def _missing_before(self, held: HeldEvent[T]) -> list[MissingNumbers]:
        missing = []
        for (stream, bundle_id), bundle in zip(held.bundle_keys, held.bundles, strict=True):
            last = self._get_bundle((stream, bundle_id)).last
            if last is not None and bundle.bundle_number > last + 1:
                missing.append(
                    MissingNumbers(stream, bundle_id, last + 1, bundle.bundle_number - 1)
                )
        return missing

    def _release(self, held: HeldEvent[T]) -> None:
        held.is_released = True
        for key, bundle in zip(held.bundle_keys, held.bundles, strict=True):
            state = self._get_bundle(key)
            number = bundle.bundle_number
            held.late |= state.last is not None and number < state.last
            state.last = number if state.last is None else max(state.last, number)
