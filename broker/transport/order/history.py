"""Delivered messages of a site in the order of their stamps."""

from __future__ import annotations

from bisect import bisect_left
from typing import TypeAlias

from broker.transport.order.effects import Place
from broker.transport.order.packet import MessageId, Stamp

#: Sort key of a message: the number orders messages of one sender at one place.
Key: TypeAlias = tuple[Stamp, int]


class History:
    """The last `most` delivered messages by stamp, late ones included (R12, R35).

    Beyond `most` the lowest stamps are dropped. A message below them is late and has no
    neighbour before it.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._keys: list[Key] = []
        self._ids: list[MessageId] = []

    @property
    def highest(self) -> int:
        """Time of the highest delivered stamp, or 0."""
        return self._keys[-1][0].time if self._keys else 0

    def is_late(self, stamp: Stamp, number: int) -> bool:
        """Return True if a message with a higher stamp was delivered."""
        return bool(self._keys) and (stamp, number) < self._keys[-1]

    def add(self, stamp: Stamp, id: MessageId) -> Place | None:
        """Add a delivered message. Return the neighbours of a late one."""
        key = stamp, id.number
        if not self._keys or key > self._keys[-1]:
            self._keys.append(key)
            self._ids.append(id)
            if len(self._keys) > self._most + self._most // 4:
                excess = len(self._keys) - self._most
                del self._keys[:excess], self._ids[:excess]
            return None
        index = bisect_left(self._keys, key)
        place = Place(self._ids[index - 1] if index else None, self._ids[index])
        self._keys.insert(index, key)
        self._ids.insert(index, id)
        return place

    def remove(self, stamp: Stamp, id: MessageId) -> bool:
        """Remove a message. Return False if it is not there."""
        key = stamp, id.number
        index = bisect_left(self._keys, key)
        if index == len(self._keys) or self._keys[index] != key or self._ids[index] != id:
            return False
        del self._keys[index], self._ids[index]
        return True
