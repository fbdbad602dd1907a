"""Order by BundleNumber, live: each event waits for the number before its own, within bounds."""

from __future__ import annotations

import bisect
import heapq
from collections import OrderedDict
from typing import Final, Generic, TypeVar

import attrs

from broker.event.merging.chains import chain_order
from broker.event.merging.held import BundleKey, Held, Key, Missing

T = TypeVar("T")

#: A bundle has no mark for its end: it is remembered until so many others have spoken since.
BUNDLES_REMEMBERED: Final = 10_000
#: The first event of a bundle has this number at most; a higher one waits for those before it.
FIRST_NUMBER: Final = 1


@attrs.define(eq=False)
class _Bundle(Generic[T]):
    last: int | None = None
    """The greatest number that was given out."""
    waiting: list[tuple[int, Key, int, Held[T]]] = attrs.field(factory=list)
    """(number, key, serial, event), sorted."""

    def has_come_to(self, number: int) -> bool:
        return number <= (FIRST_NUMBER if self.last is None else self.last + 1)


class Bundles(Generic[T]):
    """The bundles that are known, and the events that wait in them."""

    def __init__(self) -> None:
        self._bundles: OrderedDict[BundleKey, _Bundle[T]] = OrderedDict()

    def hold(self, held: Held[T]) -> None:
        """Take an event: it waits in each of its bundles."""
        for key, bundle in zip(held.bundle_keys, held.bundles, strict=True):
            waiting = self._bundle(key).waiting
            bisect.insort(waiting, (bundle.bundle_number, held.key, held.serial, held))
        self._forget_some()

    def release(self, keys: list[BundleKey]) -> list[Held[T]]:
        """The events of these bundles that need not wait; of several, the first by declared order.

        What they let go in other bundles goes with them.
        """
        released: list[Held[T]] = []
        ready: list[tuple[Key, int, Held[T]]] = []
        for key in keys:
            self._look(key, ready)
        while ready:
            _, _, held = heapq.heappop(ready)
            if not held.out:
                self._give(held)
                released.append(held)
                for key in held.bundle_keys:
                    self._look(key, ready)
        return released

    def force(self, held: Held[T]) -> list[Held[T] | Missing]:
        """The event and all that come before it, with what is missing told in its place."""
        outputs: list[Held[T] | Missing] = []
        touched: list[BundleKey] = []
        for each in chain_order(self._before(held)):
            outputs += self._holes_before(each)
            self._give(each)
            outputs.append(each)
            touched += each.bundle_keys
        return [*outputs, *self.release(touched)]

    # ------------------------------------------------------------------ inside

    def _bundle(self, key: BundleKey) -> _Bundle[T]:
        state = self._bundles.get(key)
        if state is None:
            state = self._bundles[key] = _Bundle()
        self._bundles.move_to_end(key)
        return state

    def _forget_some(self) -> None:
        for _ in range(len(self._bundles) - BUNDLES_REMEMBERED):
            key, state = self._bundles.popitem(last=False)
            if state.waiting:
                # It will be over when what it holds is out, and nobody holds without bound.
                self._bundles[key] = state

    def _look(self, key: BundleKey, ready: list[tuple[Key, int, Held[T]]]) -> None:
        state = self._bundle(key)
        while state.waiting and state.waiting[0][3].out:
            del state.waiting[0]
        if state.waiting:
            _, order, serial, held = state.waiting[0]
            if self._has_its_turn(held):
                heapq.heappush(ready, (order, serial, held))

    def _has_its_turn(self, held: Held[T]) -> bool:
        for key, bundle in zip(held.bundle_keys, held.bundles, strict=True):
            if not self._bundle(key).has_come_to(bundle.bundle_number):
                return False
        return True

    def _before(self, held: Held[T]) -> list[Held[T]]:
        """The event and all that wait before it in its bundles, and in theirs."""
        found = {held.serial: held}
        unseen = [held]
        while unseen:
            each = unseen.pop()
            for key, bundle in zip(each.bundle_keys, each.bundles, strict=True):
                for number, order, _, other in self._bundle(key).waiting:
                    if (number, order) >= (bundle.bundle_number, each.key):
                        break
                    if not other.out and other.serial not in found:
                        found[other.serial] = other
                        unseen.append(other)
        return list(found.values())

    def _holes_before(self, held: Held[T]) -> list[Missing]:
        holes = []
        for (stream, bundle_id), bundle in zip(held.bundle_keys, held.bundles, strict=True):
            last = self._bundle((stream, bundle_id)).last
            if last is not None and bundle.bundle_number > last + 1:
                holes.append(Missing(stream, bundle_id, last + 1, bundle.bundle_number - 1))
        return holes

    def _give(self, held: Held[T]) -> None:
        held.out = True
        for key, bundle in zip(held.bundle_keys, held.bundles, strict=True):
            state = self._bundle(key)
            number = bundle.bundle_number
            held.late |= state.last is not None and number < state.last
            state.last = number if state.last is None else max(state.last, number)
