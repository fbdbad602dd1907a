"""Finds events for a damaged log: in replicas, other nodes' logs, and the archive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.archive.interval import difference
from broker.cluster.address import Address
from broker.errors import BrokerError
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.event.placeholder import placeholder_code
from broker.event.stream import StreamPattern
from broker.log.damage import Damage, Span
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.log.replica_table import REPLICA_TABLE
from broker.matching.query.query import Query
from broker.recovery.context import RecoveryContext
from broker.recovery.log_page_reader import LogPageRequest
from broker.replay.request import PLACE, ReplayRequest
from broker.transport.sleep import sleep

#: Seconds.
RETRY_INTERVAL = 2.0
#: Bounds of one round, and of each node.
MAX_NODES = 32
MAX_PAGES = 8
_ALL_LEVELS = 2


@attrs.define
class _Search:
    damage: Damage
    offsets: frozenset[int]
    """Empty if they are unknown."""
    found: dict[int, LoggedEvent] = attrs.field(factory=dict)
    needs_events: bool = False
    """True if a placeholder does not count: the places are own, or of a replica."""
    origin_answered: bool = False

    @property
    def span(self) -> Span:
        return self.damage.spans[0]

    @property
    def is_complete(self) -> bool:
        return bool(self.offsets) and self.offsets <= self.found.keys()

    def add_events(self, events: Iterable[LoggedEvent]) -> None:
        span = self.span
        for event in events:
            if placeholder_code(event.document) is not None and self.needs_events:
                continue
            same = event.origin == span.origin or (
                self.needs_events and origin_of(event.origin) == span.origin
            )
            if same and span.after[1] < event.offset <= span.upto[1]:
                if event.origin != span.origin:
                    event = attrs.evolve(event, origin=span.origin)
                self.found.setdefault(event.offset, event)


class LogRepair:
    """Implementation of `broker.log.repair.FindEvents`."""

    log = Logger()

    def __init__(
        self,
        event_log: EventLog,
        context: RecoveryContext,
        nodes: Callable[[str], Sequence[Address]],
        is_cut_off: Callable[[], bool],
        parse_query: Callable[[str, Mapping[str, str]], Query],
    ) -> None:
        """`nodes` returns nodes that may have an origin's events, the likeliest first. `is_cut_off`
        returns whether none is reachable.
        """
        self._log = event_log
        self._context = context
        self._nodes = nodes
        self._is_cut_off = is_cut_off
        self._pattern = StreamPattern.parse(">")
        self._parse_query = parse_query

    def find_events(self, damage: Damage) -> Deferred[Sequence[LoggedEvent]]:
        return Deferred.fromCoroutine(self._find_events(damage))

    async def _find_events(self, damage: Damage) -> Sequence[LoggedEvent]:
        if not damage.origin:
            return []
        search = _Search(
            damage,
            frozenset(offset for _, offset in damage.marks),
            needs_events=damage.table == REPLICA_TABLE or damage.origin == self._log.origin,
        )
        until = self._context.clock.seconds() + self._context.patience
        while True:
            await self._read_replica(search)
            problem = await self._read_nodes(search) or self._awaits_node(search)
            archive_problem = None
            if not search.is_complete:
                archive_problem = await self._read_archive(search)
            if search.is_complete or not (problem or archive_problem):
                break
            if self._context.clock.seconds() >= until:
                if archive_problem is not None:
                    raise archive_problem
                break
            await sleep(self._context.clock, RETRY_INTERVAL)
        return list(search.found.values())

    async def _read_replica(self, search: _Search) -> None:
        span = search.span
        if search.damage.table == REPLICA_TABLE or span.origin not in self._log.replica_spans:
            return
        try:
            search.add_events(
                await self._log.read_replica(span.origin, span.after, 1_000, 8 << 20, wait=False)
            )
        except BrokerError:
            return

    async def _read_nodes(self, search: _Search) -> BrokerError | None:
        fetching = self._context.page_exchange
        if fetching is None:
            return None
        problem: BrokerError | None = None
        nodes = list(dict.fromkeys(self._nodes(search.span.origin)))[:MAX_NODES]
        for any_origin in (False, True):
            for node in nodes:
                if search.is_complete:
                    return None
                try:
                    await self._read_node(search, node, any_origin)
                except BrokerError as error:
                    problem = error
        return problem

    def _awaits_node(self, search: _Search) -> bool:
        """Return whether a node that may have more is unreachable."""
        if self._context.page_exchange is None:
            return False
        if search.span.origin == self._log.origin:
            return self._is_cut_off()
        return not search.origin_answered

    async def _read_node(self, search: _Search, node: Address, any_origin: bool) -> None:
        for flow in self._flows_of(search):
            await self._read_flow(search, flow, node, any_origin)

    def _flows_of(self, search: _Search) -> list[str]:
        """A log of one's own, or a replica, has the events of all flows under its origin."""
        origin = search.span.origin
        return self._log.flows.of_origin(origin) if search.needs_events else [origin]

    async def _read_flow(self, search: _Search, flow: str, node: Address, any_origin: bool) -> None:
        fetching = self._context.page_exchange
        assert fetching is not None
        span = search.span
        after: Mark = span.after
        serial = 0
        for _ in range(MAX_PAGES):
            page = await fetching.fetch_page(
                node,
                LogPageRequest(
                    *(self._pattern, self._parse_query("true()", {}), _ALL_LEVELS),
                    ranges={flow: (after, span.upto)},
                    serial=serial,
                    allow_partial=any_origin,
                ),
            )
            search.add_events(page.events)
            is_own = page.is_proven and page.origin == origin_of(span.origin)
            search.origin_answered |= is_own and not page.next_serial
            serial, after = page.next_serial, max(after, page.reached.get(flow, after))
            if not serial or after >= span.upto or search.is_complete:
                return

    async def _read_archive(self, search: _Search) -> BrokerError | None:
        archive, span = self._context.archive, search.span
        if archive is None:
            return None
        covered = (await archive.get_coverage({span.origin: span.after})).intervals
        wanted = (span.after, span.upto)
        if span.origin in covered and difference([wanted], covered[span.origin]) == (wanted,):
            return None
        request = ReplayRequest(
            *(">", "true()"),
            clearance=_ALL_LEVELS,
            ranges=dict.fromkeys(self._flows_of(search), (span.after, span.upto)),
            others=False,
            order=PLACE,
        )
        replay = archive.replays.start_replay(request)
        try:
            while events := await replay.next_events():
                search.add_events(events)
        except BrokerError as error:
            return error
        finally:
            replay.cancel()
        return None
