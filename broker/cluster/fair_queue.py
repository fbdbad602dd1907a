"""A bounded queue of requests that serves the sending nodes in turn."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

from broker.cluster.address import Address

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")


class FairQueue(Generic[Key, Item]):
    """A node, or a unit, with many requests delays those of another by one.

    At the bound, the node with the most loses its newest request.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_node: OrderedDict[Address, OrderedDict[Key, Item]] = OrderedDict()
        """The next node is first, and has its oldest request first."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, node: Address, key: Key, item: Item, *, replaces: bool = True) -> Item | None:
        """Add a request. One of the node with this key is replaced, or remains. Return the request
        that is dropped at the bound."""
        own = self._by_node.get(node, ())
        if key in own:
            if replaces:
                self._by_node[node][key] = item
            return None
        dropped = None
        if self._count >= self._most:
            fullest = max(self._by_node, key=lambda each: len(self._by_node[each]))
            if len(own) >= len(self._by_node[fullest]):
                return item
            _, dropped = self._by_node[fullest].popitem()
            self._record_removed(fullest)
        self._by_node.setdefault(node, OrderedDict())[key] = item
        self._count += 1
        return dropped

    def take_next(self) -> Item:
        """Remove and return the oldest request of the next node. Raises `StopIteration` if there is
        none."""
        node, requests = next(iter(self._by_node.items()))
        _, item = requests.popitem(last=False)
        self._by_node.move_to_end(node)
        self._record_removed(node)
        return item

    def _record_removed(self, node: Address) -> None:
        self._count -= 1
        if not self._by_node[node]:
            del self._by_node[node]
