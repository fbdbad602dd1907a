"""Page requests of other nodes that wait: the nodes have their turns."""

from __future__ import annotations

from collections import OrderedDict

from broker.cluster.address import Address
from broker.recovery.messages import FetchPage


class RequestQueue:
    """A bounded queue, in which a node with many requests delays those of another by one.

    At the bound, the node with the most loses its newest request.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._by_node: OrderedDict[Address, OrderedDict[int, FetchPage]] = OrderedDict()
        """By node and number of the request; the next node is first."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, request: FetchPage) -> FetchPage | None:
        """Add a request, unless it waits already. Return the one that is dropped, if any."""
        if request.request in self._by_node.get(request.source, ()):
            return None
        dropped = None
        if self._count >= self._most:
            # Ties are rare; the request itself may be the newest of such a node.
            fullest = max(self._by_node, key=lambda node: len(self._by_node[node]))
            if len(self._by_node.get(request.source, ())) >= len(self._by_node[fullest]):
                return request
            _, dropped = self._by_node[fullest].popitem()
            self._remove_taken(fullest)
        self._by_node.setdefault(request.source, OrderedDict())[request.request] = request
        self._count += 1
        return dropped

    def take_next(self) -> FetchPage:
        """Remove and return the oldest request of the next node. Raises `KeyError` without one."""
        node, requests = next(iter(self._by_node.items()))
        _, request = requests.popitem(last=False)
        self._by_node.move_to_end(node)
        self._remove_taken(node)
        return request

    def _remove_taken(self, node: Address) -> None:
        self._count -= 1
        if not self._by_node[node]:
            del self._by_node[node]
