"""Open requests to other nodes, each answered by the node that was asked."""

from __future__ import annotations

from typing import Final, TypeAlias, TypeVar

from twisted.internet.defer import Deferred

from broker.cluster.address import Address
from broker.cluster.node_messenger import NodeMessenger
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import NumberedMessage
from broker.transport.clock import IClock
from broker.transport.open_requests import OpenRequests

#: A further request counts as unanswered.
MOST_OPEN: Final = 10_000
Reply = TypeVar("Reply", bound=NumberedMessage)
FirstFields: TypeAlias = tuple[Address, Address, int, int]


class NodeRequests(OpenRequests[tuple[Address, int], Reply]):
    """Requests to other nodes. A reply has the number, and comes from the node that was asked."""

    def __init__(
        self, messenger: NodeMessenger, clock: IClock, kind: type[Reply], most: int = MOST_OPEN
    ) -> None:
        super().__init__(clock, most)
        self._messenger = messenger
        messenger.add_listener(kind, self._receive_reply)

    def first_fields(self, target: Address | None) -> FirstFields | None:
        """None if the node is unreachable or too many requests are open."""
        own = self._messenger.own_address
        if own is None or target is None or not self._messenger.is_reachable(target):
            return None
        if self.is_full:
            return None
        return target, own, MAX_HOPS, self._messenger.next_request_number()

    def send(
        self, request: NumberedMessage, seconds: float, attempt: int = 0
    ) -> Deferred[Reply | None]:
        """Also send a request again, as a further attempt. The result is None without a reply."""
        reply = self.wait(request, seconds)
        self._messenger.send(request, attempt)
        return reply

    def wait(self, request: NumberedMessage, seconds: float) -> Deferred[Reply | None]:
        """Wait for another reply to a request that was sent."""
        return self.add((request.target, request.request), max(seconds, 0.0))

    def _receive_reply(self, message: Reply) -> None:
        self.settle((message.source, message.request), message)
