"""Reads the events of one origin from other nodes, their replicas, and the archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twisted.logger import Logger

from broker.cluster.address import Address
from broker.errors import BrokerError
from broker.event.place import Mark
from broker.event.placeholder import placeholder_code
from broker.event.stream import StreamPattern
from broker.matching.query.query import Query
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.log_page_reader import LogPageRequest
from broker.recovery.messages import EVERYTHING_LOGGED
from broker.recovery.page_exchange import PageExchange
from broker.recovery.page_merge import EventPages
from broker.replay.request import PLACE, ReplayRequest

_ALL_LEVELS = 2


class OriginReader:
    log = Logger()

    def __init__(
        self,
        origin: str,
        page_exchange: PageExchange,
        archive: ArchiveAccess | None,
        parse_query: Callable[[str, Mapping[str, str]], Query],
    ) -> None:
        self._origin = origin
        self._page_exchange = page_exchange
        self._archive = archive
        self._pattern, self._query = StreamPattern.parse(">"), parse_query("true()", {})

    async def recover_from_node(self, address: Address, after: Mark, upto: Mark) -> EventPages:
        """Yield a node's logged events and its replica. Errors are logged."""
        try:
            async for events in self.read_log(address, after, upto):
                yield events
            async for events in self.read_replica(address, after, upto):
                yield events
        except BrokerError as error:
            self.log.info("reading from {node} failed: {e}", node=str(address), e=error)

    def read_log(self, address: Address, after: Mark, upto: Mark) -> EventPages:
        """Yield events in order. Raises `BrokerError`."""
        return self._read_pages(address, EVERYTHING_LOGGED, after, upto)

    def read_replica(self, address: Address, after: Mark, upto: Mark) -> EventPages:
        """Yield events in order. Raises `BrokerError`."""
        return self._read_pages(address, "", after, upto)

    async def _read_pages(self, address: Address, name: str, after: Mark, upto: Mark) -> EventPages:
        origin = self._origin
        begun, serial = after, 0
        while True:
            request = LogPageRequest(
                *(self._pattern, self._query, _ALL_LEVELS, {origin: (begun, upto)}, serial),
                name=name,
            )
            asked = begun, serial
            page = await self._page_exchange.fetch_page(address, request)
            events = [
                each
                for each in page.events
                if each.origin == origin
                and after < each.mark <= upto
                and placeholder_code(each.document) is None
            ]
            if events:
                yield events
            begun = max(begun, page.reached.get(origin, begun))
            if not page.next_serial and page.begins.get(origin, begun) > begun:
                begun = page.begins[origin]
            elif not page.next_serial or page.next_serial == serial and not events:
                return
            if begun >= upto or (begun, page.next_serial) == asked:
                return
            serial = page.next_serial

    async def recover_from_archive(self, after: Mark, upto: Mark) -> EventPages:
        """Errors are logged."""
        try:
            async for events in self.read_archive(after, upto):
                yield events
        except BrokerError as error:
            self.log.warn("reading the archive failed: {error}", error=error)

    async def read_archive(self, after: Mark, upto: Mark) -> EventPages:
        """Yield events in order. Raises `BrokerError`."""
        if self._archive is None:
            return
        ranges = {self._origin: (after, upto)}
        request = ReplayRequest(
            *(">", "true()"), clearance=_ALL_LEVELS, ranges=ranges, others=False, order=PLACE
        )
        replay = self._archive.replays.start_replay(request)
        try:
            while events := await replay.next_events():
                yield events
        finally:
            replay.cancel()
