"""Own events that this log has lost are given back by the nodes that have them.

A log that was started from an older copy lacks what its node logged since. Another node that has
more shows it when it asks this node to go on: its place lies on another branch of this log's
history (`broker.log.histories`). What that node, its replica and the archive still have of that
branch is fetched and logged again, each event under a new place unless its EventId is known here.
So it reaches all subscribers that lack it, wherever they are. What nobody has is a loss: so many
places that hold nothing, which every reader is told as a gap when it passes them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import attrs
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.ingest_job import IngestJob
from broker.cluster.network import Network
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame import Range
from broker.cluster.traffic.messages import PageRequest
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import BrokerError, LogUnavailable
from broker.event.place import Mark
from broker.log.deduplication import Freshness
from broker.log.event_log import EventLog
from broker.log.histories import Loss, runs_without
from broker.log.records import LoggedEvent, encode_header
from broker.matching.contract import Accepted
from broker.matching.query.query import Query
from broker.recovery.archive_access import ArchiveAccess
from broker.recovery.origin_reader import OriginReader
from broker.recovery.page_exchange import PageExchange
from broker.transport.clock import IClock

#: Seconds that the first node with a place on another branch waits for others to show theirs.
COLLECT_TIME = 1.0
#: Seconds from the first question for this log, for which readers that come from an earlier history
#: wait: then what is lost is told them where it lay.
SETTLE_TIME = 1.5
#: Seconds after which the archive is asked whether it has more than this log.
ARCHIVE_DELAY = 4.0
#: Seconds until something that failed is tried again, and how often it is.
RETRY_INTERVAL = 2.0
EPOCH_POLL_INTERVAL = 0.1
MAX_TRIES = 30
#: A place so far behind the branch is not believed.
MAX_BRANCH_PLACES = 1 << 32
#: Nodes that are remembered with the place that they have shown.
MAX_READERS = 16_384
#: Own events that are read at a time to be logged again.
PAGE_EVENTS = 512
PAGE_BYTES = 512 << 10

OnCommitted = Callable[[list[LoggedEvent], Sequence[tuple[int, ...]]], None]


@attrs.define
class RestoreCounts:
    """Since the start."""

    branches: int = 0
    """Times that other nodes have shown a branch of which this log lacks the end."""
    restored: int = 0
    """Events that came back, and were not known here."""
    lost: int = 0
    """Places of other branches that nobody has."""


class BranchRestore:
    """One node's."""

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
        """`committed` is told own events that have become durable, `tell_losses` that own events
        were lost."""
        self._network = network
        self._event_log = event_log
        self._archive = archive
        self._origin_reader = OriginReader(event_log.origin, page_exchange, archive, parse_query)
        self._clock = clock
        self._committed = on_committed
        self._report_losses = report_losses
        self._waiting: dict[Address, PageRequest] = {}
        self._returned_up_to: dict[Address, Mark] = {}
        """What a node has shown of another branch, and has given back."""
        self._is_running = False
        self._has_checked_archive = False
        self._first_request_at: float | None = None
        """When the first reader has asked."""
        self.counts = RestoreCounts()
        network.driver.must_delay_page = self.must_wait
        network.driver.page_server.reader_has_all = self.has_lost_events

    def must_wait(self, resume: PageRequest) -> bool:
        """Whether a reader has events that this log lacks: it is answered when it has given them
        back."""
        log = self._event_log
        if resume.origin != log.origin or self._has_returned(resume):
            return False
        branch = log.fork(resume.after, resume.path)
        if branch is None and not (self._is_settling() and resume.after[0] < log.newest_own[0]):
            return False
        beyond = 0 if branch is None else resume.after[1] - branch[1]
        if beyond > MAX_BRANCH_PLACES or len(self._waiting) >= MAX_READERS:
            self.log.warn("{node} shows a place that can not be", node=str(resume.source))
            return False
        self._waiting[resume.source] = resume
        if not self._is_running:
            self._start()
        return True

    def _start(self) -> None:
        self._is_running = True
        Deferred.fromCoroutine(self._restore_waiting()).addErrback(
            lambda failure: self.log.failure("fetching lost events failed", failure)
        )

    def _is_settling(self) -> bool:
        """Whether nodes that have more of this log may not have had the time to show it."""
        if not self._event_log.chain.histories[-1].branch[1]:
            # It began with this process.
            return False
        if self._first_request_at is None:
            self._first_request_at = self._clock.seconds()
        return self._clock.seconds() - self._first_request_at < SETTLE_TIME

    def has_lost_events(self, reader: Address, loss: Loss) -> bool:
        """Whether a reader was on the other branch, behind all that was lost of that."""
        shown = self._returned_up_to.get(reader, (0, 0))
        return loss.branch < shown <= (loss.after[0], 0) and shown >= loss.upto

    def _has_returned(self, resume: PageRequest) -> bool:
        return self._returned_up_to.get(resume.source, (0, 0)) >= resume.after

    # ------------------------------------------------------------------ a log that was disowned

    def start_due_job(self) -> None:
        """To be called each second: log again what this log has under its former name, or what
        only the archive has of another branch."""
        if self._event_log.adopting and self._network.state and not self._is_running:
            self._is_running = True
            Deferred.fromCoroutine(self._relog_adopted(*self._event_log.adopting)).addErrback(
                lambda failure: self.log.failure("logging events again failed", failure)
            )
        elif self._archive and self._network.state and not self._has_checked_archive:
            self._has_checked_archive = True
            Deferred.fromCoroutine(self._restore_from_archive(self._archive)).addErrback(
                lambda failure: self.log.failure("asking the archive failed", failure)
            )

    async def _restore_from_archive(self, archive: ArchiveAccess) -> None:
        """Settle the branches of which the archive has more than this log."""
        log = self._event_log
        # Nodes that have more come first: the archive may lack some of that.
        await self._sleep(ARCHIVE_DELAY)
        coverage = await archive.get_coverage({log.origin: (0, 0)})
        if not coverage.is_known or self._is_running:
            await self._sleep(RETRY_INTERVAL)
            self._has_checked_archive = False
            return
        shown: dict[Mark, Mark] = {}
        for _, upto in coverage.intervals.get(log.origin, ()):
            branch = log.fork(upto)
            if branch is not None and upto[1] - branch[1] <= MAX_BRANCH_PLACES:
                shown[branch] = max(upto, shown.get(branch, upto))
        self._is_running = True
        try:
            for branch, upto in sorted(shown.items()):
                if upto > log.chain.shown(branch):
                    await self._restore_branch(branch, upto, {})
        finally:
            self._is_running = False
        if self._waiting:
            self._start()

    async def _relog_adopted(self, origin: str, after: Mark) -> None:
        """Another process has gone on under this log's former name, on a copy. It may lack what
        this one's last process has logged, and so may others."""
        log = self._event_log
        try:
            while events := await log.read_past_damage(origin, after, PAGE_EVENTS, PAGE_BYTES):
                await self._relog(events, None, known=True)
                after = events[-1].mark
            await log.adopted()
        finally:
            self._is_running = False
        self.log.info("the events of {origin} are logged again here", origin=origin)

    # ------------------------------------------------------------------ one branch

    async def _restore_waiting(self) -> None:
        try:
            await self._sleep(COLLECT_TIME)
            while self._waiting:
                waiting, self._waiting = self._waiting, {}
                await self._restore_branches(waiting)
                for address, resume in waiting.items():
                    if len(self._returned_up_to) >= MAX_READERS:
                        del self._returned_up_to[next(iter(self._returned_up_to))]
                    self._returned_up_to[address] = resume.after
                    self._network.driver.serve_page(resume)
        finally:
            self._is_running = False

    async def _restore_branches(self, waiting: Mapping[Address, PageRequest]) -> None:
        branches: dict[Mark, dict[Address, Mark]] = {}
        for address, resume in waiting.items():
            branch = self._event_log.fork(resume.after, resume.path)
            if branch is not None:
                branches.setdefault(branch, {})[address] = resume.after
        for branch, shown in sorted(branches.items()):
            await self._restore_branch(branch, max(shown.values()), shown)

    async def _restore_branch(
        self, branch: Mark, upto: Mark, shown: Mapping[Address, Mark]
    ) -> None:
        """Fetch the events of a branch up to a place from the nodes that have `shown` theirs, and
        from the archive."""
        log = self._event_log
        known = log.chain.shown(branch)
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
        # A neighbour may have a replica of the branch, and have read on for itself.
        for address in dict.fromkeys((*sorted(shown, key=shown.__getitem__, reverse=True), *near)):
            if address not in shown and not runs_without(first, upto[1], offsets):
                break
            async for events in self._origin_reader.recover_from_node(address, branch, upto):
                offsets |= await self._relog(events, address)
        async for events in self._origin_reader.recover_from_archive(branch, upto):
            offsets |= await self._relog(events, None)
        if upto > known:
            # Of several rounds each counts what it brings to light.
            first = max(branch[1], known[1]) + 1
            await self._record_loss(branch, upto, runs_without(first, upto[1], offsets))

    async def _relog_covered(self, branch: Mark, upto: Mark) -> None:
        """Log again own events that readers of the branch take for events that they have.

        Their places are not behind `upto`: this machine's clock was behind when it started, or
        another process has started in the same epoch.
        """
        log = self._event_log
        if upto[0] >= log.newest_own[0]:
            log.begin_epoch(upto[0] + 1)
            while not log.is_writable:
                # Until then events with places in the former epoch are on their way into the log.
                await self._sleep(EPOCH_POLL_INTERVAL)
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
            log.lose(branch, upto, runs, done)

        await self._until_durable(begin)
        if count:
            self.log.error(
                "{count} events of this log are lost: nobody has them any more", count=count
            )
            self._network.announce_lost_events()
            self._report_losses()

    # ------------------------------------------------------------------ into the log

    async def _relog(
        self, events: Sequence[LoggedEvent], sender: Address | None, known: bool = False
    ) -> set[int]:
        """Give events places at the end of this log; with `known` also those whose EventId is.

        Returns the former offsets of the events that are in the log now.
        """
        knowledge, log = self._network.state, self._event_log
        if knowledge is None:
            return set()
        own = knowledge.address
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
                    for each, verdict in zip(job.carried, job.verdicts, strict=True)
                    if isinstance(verdict, Accepted)
                }
            if job is not None:
                # An own event is logged only once it is validated.
                await self._sleep(RETRY_INTERVAL)
        self.log.error("{count} events that came back were not logged", count=len(events))
        return set()

    async def _append(self, job: IngestJob, known: bool) -> None:
        log, now = self._event_log, self._network.wall_clock()
        entries: list[tuple[bytes, int, bytes]] = []
        matches: list[tuple[int, ...]] = []

        def begin(done: Callable[[BrokerError | None], None]) -> None:
            log.check_available()
            entries.clear()
            matches.clear()
            for each, verdict in zip(job.carried, job.verdicts, strict=True):
                if not isinstance(verdict, Accepted):
                    continue
                header = verdict.header
                event_id = header.event_id
                key = (event_id.client_id, event_id.incarnation)
                fresh = log.deduplication.record(key, event_id.sequence_number, now)
                if fresh is Freshness.DUPLICATE and not known:
                    continue
                rank = header.security_level.rank
                entries.append((encode_header(header), rank, each.document))
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
        """Append, again and again while the log can not be written."""
        while True:
            ended: Deferred[BrokerError | None] = Deferred()
            try:
                begin(ended.callback)
                if await ended is None:
                    return
            except LogUnavailable:
                pass
            await self._sleep(RETRY_INTERVAL)

    def _sleep(self, seconds: float) -> Deferred[None]:
        later: Deferred[None] = Deferred()
        self._clock.callLater(seconds, later.callback, None)
        return later
