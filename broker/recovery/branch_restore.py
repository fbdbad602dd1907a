"""Restores own events that this log has lost (`docs/protocols/histories.md`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.ingest_job import IngestJob
from broker.cluster.network import Network
from broker.cluster.relayed_entry import encode_verified
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import PageRequest
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import BrokerError, LogUnavailable
from broker.event.origin import is_signed_origin
from broker.event.place import Mark
from broker.log.deduplication import Freshness
from broker.log.event_log import EventLog
from broker.log.history import MAX_EPOCH, BranchLoss, missing_runs
from broker.log.logged_event import LoggedEvent
from broker.matching.contract import Accepted
from broker.matching.query.query import Query
from broker.recovery.adopted_events import PAGE_BYTES, PAGE_EVENTS, AdoptedEvents
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.origin_reader import OriginReader
from broker.recovery.page_exchange import PageExchange
from broker.signatures.event_check import find_forged
from broker.transport.clock import IClock
from broker.transport.sleep import sleep

#: Seconds to collect nodes with a place on another branch.
COLLECT_TIME = 1.0
#: Seconds from the first request in which readers of an earlier history wait.
SETTLE_TIME = 1.5
#: Seconds until the archive is checked.
ARCHIVE_DELAY = 4.0
#: Seconds between two attempts and two checks of a new epoch; number of attempts.
RETRY_INTERVAL = 2.0
EPOCH_POLL_INTERVAL = 0.1
MAX_TRIES = 30
#: A place further behind the branch is not believed.
MAX_BRANCH_PLACES = 1 << 32
#: Bound of the readers with a stored place; the oldest is dropped.
MAX_READERS = 16_384

OnCommitted = Callable[[list[LoggedEvent], Sequence[tuple[int, ...]]], None]


@attrs.define
class RestoreCounts:
    branches: int = 0
    restored: int = 0
    lost: int = 0
    forged: int = 0
    """Returned events without a signature of this log; dropped."""


class BranchRestore:
    log = Logger()

    def __init__(
        self,
        network: Network,
        event_log: EventLog,
        page_exchange: PageExchange,
        archive: ArchiveAccess | None,
        clock: IClock,
        parse_query: Callable[[str, Mapping[str, str]], Query],
        on_committed: OnCommitted,
        report_losses: Callable[[], object],
    ) -> None:
        """`on_committed` gets own durable events; `report_losses` is called after a loss."""
        self._network = network
        self._event_log = event_log
        self._archive = archive
        self._origin_readers = [
            OriginReader(flow, page_exchange, archive, parse_query)
            for flow in event_log.flows.of_origin(event_log.origin)
        ]
        """By flow, the default one first; the archive has all under the origin."""
        self._clock = clock
        self._adopted_events = AdoptedEvents(event_log, archive, clock, self._relog_known)
        self._committed = on_committed
        self._report_losses = report_losses
        self._waiting: dict[Address, PageRequest] = {}
        self._returned_up_to: dict[Address, Mark] = {}
        """By reader the end of the restored events on another branch."""
        self._is_running = False
        self._has_checked_archive = False
        self._first_request_at: float | None = None
        self.counts = RestoreCounts()
        network.driver.must_delay_page = self.must_delay_page
        network.driver.page_server.reader_has_all = self.has_lost_events

    def must_delay_page(self, request: PageRequest) -> bool:
        """Return True if the answer must wait until this reader's events are restored."""
        log = self._event_log
        if not log.flows.is_own(request.origin) or self._has_returned(request):
            return False
        branch = log.find_fork(request.after, request.path)
        if branch is None and not (self._is_settling() and request.after[0] < log.newest_own[0]):
            return False
        is_possible = branch is None or _can_follow(request.after, branch)
        if not is_possible or len(self._waiting) >= MAX_READERS:
            self.log.warn("{node} sent an impossible place", node=str(request.source))
            return False
        self._waiting[request.source] = request
        if not self._is_running:
            self._start()
        return True

    def _start(self) -> None:
        self._is_running = True
        Deferred.fromCoroutine(self._restore_waiting()).addErrback(
            lambda failure: self.log.failure("fetching lost events failed", failure)
        )

    def _is_settling(self) -> bool:
        """Return whether nodes may still show places on another branch."""
        if not self._event_log.history_chain.histories[-1].branch[1]:
            return False
        if self._first_request_at is None:
            self._first_request_at = self._clock.seconds()
        return self._clock.seconds() - self._first_request_at < SETTLE_TIME

    def has_lost_events(self, reader: Address, loss: BranchLoss) -> bool:
        shown = self._returned_up_to.get(reader, (0, 0))
        return loss.branch < shown <= (loss.after[0], 0) and shown >= loss.upto

    def _has_returned(self, request: PageRequest) -> bool:
        return self._returned_up_to.get(request.source, (0, 0)) >= request.after

    # ------------------------------------------------------------------ adopted and archived events

    def start_due_job(self) -> None:
        """Call it each second."""
        if self._event_log.pending_adoption and self._network.state and not self._is_running:
            self._is_running = True
            Deferred.fromCoroutine(self._relog_adopted()).addErrback(
                lambda failure: self.log.failure("logging events again failed", failure)
            )
        elif self._archive and self._network.state and not self._has_checked_archive:
            self._has_checked_archive = True
            Deferred.fromCoroutine(self._restore_from_archive(self._archive)).addErrback(
                lambda failure: self.log.failure("reading the archive failed", failure)
            )

    async def _restore_from_archive(self, archive: ArchiveAccess) -> None:
        log = self._event_log
        await sleep(self._clock, ARCHIVE_DELAY)
        coverage = await archive.get_coverage({log.origin: (0, 0)})
        if not coverage.is_known or self._is_running:
            await sleep(self._clock, RETRY_INTERVAL)
            self._has_checked_archive = False
            return
        shown: dict[Mark, Mark] = {}
        for _, upto in coverage.intervals.get(log.origin, ()):
            branch = log.find_fork(upto)
            if branch is not None and _can_follow(upto, branch):
                shown[branch] = max(upto, shown.get(branch, upto))
        self._is_running = True
        try:
            for branch, upto in sorted(shown.items()):
                if upto > log.history_chain.newest_of_branch(branch):
                    await self._restore_branch(branch, upto, {})
        finally:
            self._is_running = False
        if self._waiting:
            self._start()

    async def _relog_adopted(self) -> None:
        try:
            await self._adopted_events.log_again()
        finally:
            self._is_running = False

    # ------------------------------------------------------------------ one branch

    async def _restore_waiting(self) -> None:
        try:
            await sleep(self._clock, COLLECT_TIME)
            while self._waiting:
                waiting, self._waiting = self._waiting, {}
                await self._restore_branches(waiting)
                for address, request in waiting.items():
                    if len(self._returned_up_to) >= MAX_READERS:
                        del self._returned_up_to[next(iter(self._returned_up_to))]
                    self._returned_up_to[address] = request.after
                    self._network.driver.serve_page(request)
        finally:
            self._is_running = False

    async def _restore_branches(self, waiting: Mapping[Address, PageRequest]) -> None:
        branches: dict[Mark, dict[Address, Mark]] = {}
        for address, request in waiting.items():
            branch = self._event_log.find_fork(request.after, request.path)
            if branch is not None:
                branches.setdefault(branch, {})[address] = request.after
        for branch, shown in sorted(branches.items()):
            await self._restore_branch(branch, max(shown.values()), shown)

    async def _restore_branch(
        self, branch: Mark, upto: Mark, shown: Mapping[Address, Mark]
    ) -> None:
        log = self._event_log
        known = log.history_chain.newest_of_branch(branch)
        self.counts.branches += 1
        self.log.warn(
            "another process on this log, or on a copy of it, has logged events behind {branch}: "
            "{nodes} have them up to {upto}, and they are fetched",
            nodes=", ".join(map(str, sorted(shown))) or "the archive's files",
            upto=f"{upto[0]}:{upto[1]}",
            branch=f"{branch[0]}:{branch[1]}",
        )
        await self._relog_covered(branch, upto)
        offsets: set[int] = set()
        near = [each.node.address for each in self._network.neighbours if each.up]
        first = branch[1] + 1
        # A neighbour that has read on may have a replica of the branch.
        for address in dict.fromkeys((*sorted(shown, key=shown.__getitem__, reverse=True), *near)):
            if address not in shown and not missing_runs(first, upto[1], offsets):
                break
            for reader in self._origin_readers:
                async for events in reader.recover_from_node(address, branch, upto):
                    offsets |= await self._relog(events, address)
        async for events in self._origin_readers[0].recover_from_archive(branch, upto):
            offsets |= await self._relog(events, None)
        if upto > known:
            # Each round counts only its new losses.
            first = max(branch[1], known[1]) + 1
            await self._record_loss(branch, upto, missing_runs(first, upto[1], offsets))

    async def _relog_covered(self, branch: Mark, upto: Mark) -> None:
        """Log again own events that readers mistake for those of the branch.

        The clock was behind at the start, or another process started in the same epoch.
        """
        log = self._event_log
        if upto[0] >= log.newest_own[0]:
            log.begin_epoch(upto[0] + 1)
            while not log.is_writable:
                # The previous epoch is still being written.
                await sleep(self._clock, EPOCH_POLL_INTERVAL)
        while events := await log.read_past_damage(log.origin, branch, PAGE_EVENTS, PAGE_BYTES):
            branch = events[-1].mark
            covered = [event for event in events if event.mark <= upto]
            if covered:
                await self._relog(covered, None, known=True)
            if len(covered) < len(events):
                return

    async def _record_loss(
        self, branch: Mark, upto: Mark, runs: tuple[tuple[int, int], ...]
    ) -> None:
        count = sum(last - first + 1 for first, last in runs)
        self.counts.lost += count
        log = self._event_log

        def begin(done: Callable[[BrokerError | None], None]) -> None:
            log.record_loss(branch, upto, runs, done)

        await self._until_durable(begin)
        if count:
            self.log.error("{count} events of this log are lost: no source has them", count=count)
            self._network.announce_lost_events()
            self._report_losses()

    # ------------------------------------------------------------------ into the log

    async def _relog_known(self, events: Sequence[LoggedEvent]) -> None:
        await self._relog(events, None, known=True)

    async def _relog(
        self, events: Sequence[LoggedEvent], sender: Address | None, known: bool = False
    ) -> set[int]:
        """Log events again, with `known` also known ones. Returns the old offsets."""
        state, log = self._network.state, self._event_log
        if state is None:
            return set()
        own = state.address
        if not known:
            events = self._own_events(events)
        if not events:
            return set()
        covered = Range(own, (0, 0), events[-1].mark, is_unfiltered=True)
        frame = make_page_frame(log.origin, sender or own, [covered], events)
        for _ in range(MAX_TRIES):
            matched: Deferred[IngestJob | None] = Deferred()

            def give_up(matched: Deferred[IngestJob | None] = matched) -> None:
                if not matched.called:
                    matched.callback(None)

            def done(job: IngestJob, matched: Deferred[IngestJob | None] = matched) -> None:
                if not matched.called:
                    matched.callback(job)

            late = self._clock.callLater(RETRY_INTERVAL * 5, give_up)
            self._network.driver.relay_ingest.match_range(
                ReceivedRange(covered, frame, 0), done, lambda: None
            )
            job = await matched
            if late.active():
                late.cancel()
            if job is not None and not job.undecided:
                await self._append(job, known)
                return {
                    each.mark[1]
                    for each, verdict in zip(job.events, job.verdicts, strict=True)
                    if isinstance(verdict, Accepted)
                }
            if job is not None:
                await sleep(self._clock, RETRY_INTERVAL)
        self.log.error("{count} restored events were not logged", count=len(events))
        return set()

    def _own_events(self, events: Sequence[LoggedEvent]) -> Sequence[LoggedEvent]:
        """Return the events that this log has signed. Others are forged by the node or the archive
        that gives them back: this node would sign them."""
        origin = self._event_log.origin
        if not is_signed_origin(origin):
            return events
        forged = [each for each, _ in find_forged(origin, events, must_sign=True)]
        if forged:
            self.counts.forged += len(forged)
            self.log.error("{count} returned events of this log are forged", count=len(forged))
        return [each for each in events if each not in forged]

    async def _append(self, job: IngestJob, known: bool) -> None:
        log, now = self._event_log, self._network.wall_clock()
        entries: list[tuple[bytes, int, bytes]] = []
        matches: list[tuple[int, ...]] = []

        def begin(done: Callable[[BrokerError | None], None]) -> None:
            log.check_available()
            entries.clear()
            matches.clear()
            for each, verdict in zip(job.events, job.verdicts, strict=True):
                if not isinstance(verdict, Accepted):
                    continue
                header = verdict.header
                event_id = header.event_id
                key = (event_id.client_id, event_id.incarnation)
                fresh = log.deduplication.record(key, event_id.sequence_number, now)
                if fresh is Freshness.DUPLICATE and not known:
                    continue
                rank = header.security_level.rank
                entries.append((encode_verified(header, each.record), rank, each.document))
                matches.append(verdict.subscriptions)

            def durable(events: list[LoggedEvent] | BrokerError) -> None:
                if isinstance(events, BrokerError):
                    done(events)
                    return
                self.counts.restored += len(events)
                if events:
                    self._committed(events, list(matches))
                done(None)

            log.append(list(entries), durable)

        await self._until_durable(begin)

    async def _until_durable(
        self, begin: Callable[[Callable[[BrokerError | None], None]], None]
    ) -> None:
        while True:
            ended: Deferred[BrokerError | None] = Deferred()
            try:
                begin(ended.callback)
                if await ended is None:
                    return
            except LogUnavailable:
                pass
            await sleep(self._clock, RETRY_INTERVAL)


def _can_follow(place: Mark, branch: Mark) -> bool:
    return place[0] <= MAX_EPOCH and place[1] - branch[1] <= MAX_BRANCH_PLACES
