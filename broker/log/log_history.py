"""The part of `EventLog` that handles its histories (`broker.log.history`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence

import lmdb
from twisted.internet.defer import Deferred

from broker.errors import BrokerError, Cloned
from broker.event.flow import FlowInterval
from broker.event.place import Mark, NamedHistory
from broker.event.site_notice import MovedMessages
from broker.log.history import Adoption, BranchLoss, HistoryTable
from broker.log.log_reader import LogReader
from broker.log.pending_commit import PendingCommit
from broker.log.worker import Worker


class LogHistory(LogReader):
    """Forks, losses, and the end of a log that another process continues."""

    _epoch: int
    _next_offset: int
    _pending: PendingCommit
    _write: Worker
    _disowned_by: Cloned | None = None

    @abstractmethod
    def check_available(self) -> None:
        """Raise `LogUnavailable` while no place can be given."""

    @abstractmethod
    def _commit_soon(self) -> None:
        """Commit pending contents within `COMMIT_DELAY`."""

    @abstractmethod
    def _commit_now(self) -> None:
        """Commit pending contents, unless a commit runs."""

    @property
    def newest_own(self) -> Mark:
        """Newest own place, durable or not."""
        return (self._epoch, self._next_offset - 1)

    @property
    def current_history(self) -> NamedHistory:
        newest = self.history_chain.histories[-1]
        return newest.epoch, newest.id, newest.branch

    @property
    def start_mark(self) -> Mark:
        return self._file.start_mark

    def find_fork(self, mark: Mark, path: Sequence[NamedHistory] = ()) -> Mark | None:
        """Return the place where the branch of an own place leaves this log; None for one of this
        log.

        `path` are the known histories that led to the place. A place beyond this log was given by
        another process, on a copy that is not newer than this process's.
        """
        fork = self.history_chain.find_fork(mark, self.newest_own, path)
        if fork is None or path or mark <= self.newest_own:
            return fork
        return min(fork, self.start_mark)

    def histories_of(self, origin: str) -> tuple[NamedHistory, ...]:
        return self._file.foreign_histories.get(origin, ())

    def put_histories(self, origin: str, histories: tuple[NamedHistory, ...]) -> None:
        """Store histories with the next commit."""
        self._file.foreign_histories = {**self._file.foreign_histories, origin: histories}
        self._pending.commit.histories[origin] = histories
        self._commit_soon()

    def statements(self, kinds: Collection[bytes]) -> dict[tuple[bytes, str], bytes]:
        """Return stored statements about origins, by kind and origin."""
        return self._file.statements(kinds)

    def put_statement(self, kind: bytes, origin: str, value: bytes | None) -> None:
        """Store a statement with the next commit; None deletes it."""
        self._pending.commit.statements[kind, origin] = value
        self._commit_soon()

    def put_flow(self, flow: str, intervals: tuple[FlowInterval, ...]) -> None:
        """Store the intervals of another origin's flow with the next commit."""
        if self.flows.put(flow, intervals):
            self._pending.commit.flows[flow] = intervals
            self._commit_soon()

    def move_messages(self, notice: MovedMessages) -> None:
        """Give the logged events of messages their present places, with the next commit."""
        for each in notice.moves:
            key = notice.stack, each.site, each.incarnation, each.number
            self._pending.commit.moved[key] = each
        self._commit_soon()

    def begin_epoch(self, epoch: int) -> None:
        """Continue in a later epoch as soon as it is stored."""
        if epoch > self._epoch:
            self._epoch = epoch
            self._commit_now()

    def record_loss(
        self,
        branch: Mark,
        upto: Mark,
        runs: tuple[tuple[int, int], ...],
        done: Callable[[BrokerError | None], None],
    ) -> None:
        """Record that own events of another branch up to `upto`, with the offsets in `runs`, are
        lost.

        As many next places are empty. Offsets continue above those of the other branch, so the
        offset alone orders two marks.
        """
        self.check_available()
        after, count = self.newest_own, sum(last - first + 1 for first, last in runs)
        loss = BranchLoss(after, (after[0], after[1] + count), branch, upto, runs)
        self._next_offset = loss.next_offset
        self._pending.commit.losses.append(loss)
        self._pending.add_events(
            [],
            (self.origin, (after[0], loss.next_offset - 1)),
            lambda result: done(result if isinstance(result, BrokerError) else None),
        )
        self._commit_now()

    def disown(self, error: Cloned) -> None:
        """Give no more places: another process does. The next start gives the log another name."""
        self._disowned_by = error

        def disown(histories: HistoryTable, txn: lmdb.Transaction) -> None:
            histories.disown(txn, self._file.start_mark)

        self._write(self._file.change_history, disown).addErrback(lambda _: None)

    @property
    def pending_adoption(self) -> Adoption | None:
        return self._file.pending_adoption

    def finish_adoption(self) -> Deferred[None]:
        return self._write(self._file.change_history, HistoryTable.finish_adoption)
