"""Reads the events of one origin from other nodes, their replicas, and the archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.logger import Logger

from broker.cluster.address import Address
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.event.placeholder import refusal_code
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.log_page_reader import PageRequest
from broker.recovery.messages import RETURNED
from broker.recovery.page_exchange import Fetching
from broker.recovery.page_merge import Pages
from broker.replay.request import PLACE, ReplayRequest

_EVERYTHING = 2


class OriginSources:
    """Those of one origin, for any range of its places."""

    log = Logger()

    def __init__(
        self,
        origin: str,
        fetching: Fetching,
        archive: ArchiveAccess | None,
        parse_query: Callable[[str, Mapping[str, str]], Query],
    ) -> None:
        self._origin = origin
        self._fetching = fetching
        self._archive = archive
        self._pattern, self._query = StreamPattern.parse(">"), parse_query("true()", {})

    async def of_node(self, address: Address, after: Mark, upto: Mark) -> Pages:
        """What a node has logged of the branch, and the replica that it has."""
        try:
            async for events in self.logged_at(address, after, upto):
                yield events
            async for events in self.replica_at(address, after, upto):
                yield events
        except BrokerError as error:
            self.log.info("{node} gives nothing back: {e}", node=str(address), e=error)

    def logged_at(self, address: Address, after: Mark, upto: Mark) -> Pages:
        """Events in a node's log, in the order of their places. Raises `BrokerError`."""
        return self._pages(address, RETURNED, after, upto)

    def replica_at(self, address: Address, after: Mark, upto: Mark) -> Pages:
        """Events in a node's replica, in the order of their places. Raises `BrokerError`."""
        return self._pages(address, "", after, upto)

    async def _pages(self, address: Address, name: str, after: Mark, upto: Mark) -> Pages:
        origin = self._origin
        begun, serial = after, 0
        while True:
            request = PageRequest(
                *(self._pattern, self._query, _EVERYTHING, {origin: (begun, upto)}, serial),
                name=name,
            )
            page = await self._fetching.fetch(address, request)
            events = [
                each
                for each in page.events
                if each.origin == origin
                and after < each.mark <= upto
                and refusal_code(each.document) is None
            ]
            if events:
                yield events
            begun = page.reached.get(origin, begun)
            if not page.next and page.begins.get(origin, begun) > begun:
                # A replica lacks something, and goes on behind it.
                begun = page.begins[origin]
            elif not page.next or page.next == serial and not events:
                return
            if begun >= upto:
                return
            serial = page.next

    async def of_archive(self, after: Mark, upto: Mark) -> Pages:
        """What the archive has of the branch; nothing without an archive."""
        try:
            async for events in self.archived(after, upto):
                yield events
        except BrokerError as error:
            self.log.warn("the archive gives nothing back: {error}", error=error)

    async def archived(self, after: Mark, upto: Mark) -> Pages:
        """Events in the archive, in the order of their places. Raises `BrokerError`."""
        if self._archive is None:
            return
        ranges = {self._origin: (after, upto)}
        request = ReplayRequest(
            *(">", "true()"), clearance=_EVERYTHING, ranges=ranges, others=False, order=PLACE
        )
        replay = self._archive.replays.replay(request)
        try:
            while events := await replay.more():
                yield events
        finally:
            replay.cancel()
