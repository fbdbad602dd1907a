"""One client of a group: its callback, or its queue."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from broker.errors import Closed
from broker.event.site_notice import SiteStatus
from broker.streams.messaging import ClientAddress, IGroupClient, Item, LostItems, Receive
from broker.transport.message import Message, Outcome, Peer

#: Bounds of the queue of a client that is not read.
MOST_ITEMS = 10_000
MOST_BYTES = 16 << 20


class Owner(Protocol):
    """The multiplexer of a site."""

    @property
    def sites(self) -> tuple[str, ...]: ...
    @property
    def statuses(self) -> Mapping[str, SiteStatus]: ...
    def send(self, client: GroupClient, message: Message) -> Deferred[Mapping[Peer, Outcome]]: ...
    def remove(self, client: GroupClient) -> None: ...


@implementer(IGroupClient)
class GroupClient:
    """A full queue takes nothing more until it is half empty. Then the client gets the count of the
    items that it has lost there, and the present statuses."""

    log = Logger()

    def __init__(self, owner: Owner, address: ClientAddress, receive: Receive | None) -> None:
        self.address = address
        self.is_closed = False
        self._owner = owner
        self._receive = receive
        self._queue: deque[tuple[Item, int]] = deque()
        self._bytes = 0
        self._lost = 0
        self._waiter: Deferred[None] | None = None

    @property
    def sites(self) -> tuple[str, ...]:
        return self._owner.sites

    def send(self, message: Message) -> Deferred[Mapping[Peer, Outcome]]:
        if self.is_closed:
            raise Closed(f"the client {self.address.client} is closed")
        return self._owner.send(self, message)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._owner.remove(self)
            self._wake()

    def __aiter__(self) -> AsyncIterator[Item]:
        if self._receive is not None:
            raise Closed(f"the client {self.address.client} has a callback")
        return self

    async def __anext__(self) -> Item:
        while not self._queue:
            if self.is_closed:
                raise StopAsyncIteration
            self._waiter = Deferred()
            await self._waiter
        item, size = self._queue.popleft()
        self._bytes -= size
        if self._lost and self._is_half_empty:
            lost, self._lost = self._lost, 0
            statuses: Sequence[Item] = list(self._owner.statuses.values())
            self._queue.extend((each, 0) for each in (LostItems(lost), *statuses))
        return item

    # ----------------------------------------------------------------- for the multiplexer

    def put(self, item: Item, size: int = 0) -> bool:
        """Pass an item on. Return False if the queue is full: the item is lost."""
        if self.is_closed:
            return True
        if self._receive is not None:
            try:
                self._receive(item)
            except Exception:
                self.log.failure("a callback failed: {name} is closed", name=self.address)
                self.close()
            return True
        if self._lost or len(self._queue) >= MOST_ITEMS or self._bytes + size > MOST_BYTES:
            self._lost += 1
            return False
        self._queue.append((item, size))
        self._bytes += size
        self._wake()
        return True

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter.callback(None)

    @property
    def _is_half_empty(self) -> bool:
        return len(self._queue) <= MOST_ITEMS // 2 and self._bytes <= MOST_BYTES // 2
