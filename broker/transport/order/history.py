"""Delivered messages of a site in the order of their stamps."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import NamedTuple, TypeAlias

from broker.transport.order.effects import Place
from broker.transport.order.packet import MessageId, Stamp

#: Sort key of a message: the number orders messages of one sender at one place.
Key: TypeAlias = tuple[Stamp, int]


class _Run(NamedTuple):
    """Messages whose numbers and stamps follow each other by one."""

    stamp: Stamp
    id: MessageId
    length: int

    def key_at(self, index: int) -> Key:
        return self.stamp.after(index), self.id.number + index

    def count_below(self, key: Key) -> int:
        """Return how many messages are below a key."""
        stamp, number = key
        count = self.stamp.count_below(stamp)
        # At an equal stamp the number decides.
        is_below = self.stamp.after(count) == stamp and self.id.number + count < number
        return min(self.length, count + is_below)

    def cut(self, index: int) -> tuple[_Run, _Run]:
        stamp, id, count = self
        return _Run(stamp, id, index), _Run(stamp.after(index), id.after(index), count - index)


class History:
    """The last `most` delivered messages by stamp, late ones included (R12, R35).

    Beyond `most` the lowest stamps are dropped. A message below them is late and has no
    neighbour before it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._keys: list[Key] = []
        """The first key of each run."""
        self._runs: list[_Run] = []
        self._highest: Key | None = None

    @property
    def highest(self) -> int:
        """Time of the highest delivered stamp, or 0."""
        return self._highest[0].time if self._highest else 0

    def is_late(self, stamp: Stamp, number: int) -> bool:
        """Return True if a message with a higher stamp was delivered."""
        return self._highest is not None and (stamp, number) < self._highest

    def count_late(self, stamp: Stamp, number: int, count: int) -> int:
        """Return how many messages of a run, from its first one on, are late."""
        if self._highest is None or (stamp, number) >= self._highest:
            return 0
        return _Run(stamp, MessageId(stamp.site, 0, number), count).count_below(self._highest)

    def add(self, stamp: Stamp, id: MessageId, count: int = 1) -> Place | None:
        """Add a delivered message, or a run in time. Return the neighbours of a late message."""
        key, run = (stamp, id.number), _Run(stamp, id, count)
        self._count += count
        if self._highest is None or key > self._highest:
            self._keys.append(key)
            self._runs.append(run)
            self._highest = run.key_at(count - 1)
            if self._count > self._most + self._most // 4:
                self._drop_lowest()
            return None
        index = bisect_left(self._keys, key)
        if index and 0 < (below := self._runs[index - 1].count_below(key)):
            self._split(index - 1, below)
        before, after = None, None
        if index:
            earlier = self._runs[index - 1]
            before = earlier.id.after(earlier.length - 1)
        if index < len(self._runs):
            after = self._runs[index].id
        self._keys.insert(index, key)
        self._runs.insert(index, run)
        return Place(before, after)

    def remove(self, stamp: Stamp, id: MessageId) -> bool:
        """Remove a message. Return False if it is not there."""
        key = stamp, id.number
        index = bisect_right(self._keys, key) - 1
        if index < 0:
            return False
        at = self._runs[index].count_below(key)
        if at == self._runs[index].length:
            return False
        if self._runs[index].key_at(at) != key or self._runs[index].id.after(at) != id:
            return False
        if at:
            self._split(index, at)
            index += 1
        self._split(index, 1)
        del self._keys[index], self._runs[index]
        self._count -= 1
        self._highest = self._runs[-1].key_at(self._runs[-1].length - 1) if self._runs else None
        return True

    def _split(self, index: int, count: int) -> None:
        """Cut a run behind its first messages, if there are others."""
        if count < self._runs[index].length:
            self._runs[index : index + 1] = self._runs[index].cut(count)
            self._keys.insert(index + 1, self._runs[index + 1].key_at(0))

    def _drop_lowest(self) -> None:
        dropped = 0
        while self._count - self._runs[dropped].length >= self._most:
            self._count -= self._runs[dropped].length
            dropped += 1
        del self._keys[:dropped], self._runs[:dropped]
