"""Histories of a log: one for each start, and the losses that other nodes have shown.

A copy of a log that is started again forks its history. Each start takes an epoch and records its
branch place. A mark of another branch lies after the branch place of the next known history. Two
copies may take one epoch; then their ids differ.

`docs/protocols/histories.md` has the stored bytes.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs
import lmdb

from broker.event.flow import FlowInterval
from broker.event.place import Mark, NamedHistory
from broker.log.checked_table import CheckedTable

#: Older histories and losses are dropped.
MAX_HISTORIES = 256
MAX_LOSSES = 64
#: Most runs of one loss.
MAX_RUNS = 64
#: Quarters of a second since 2020, until 2054. Copies started within one quarter give the same
#: places.
EPOCH_MS = 250
EPOCHS_SINCE_MS = 1_577_836_800_000
#: A place in a later epoch is not believed: behind it a log would soon have no epoch left.
MAX_EPOCH = (1 << 32) - (1 << 20)
_RECORD = struct.Struct(">QIIQ")
_LOSS = struct.Struct(">IQIQIQIQ")
_RUN = struct.Struct(">QQ")
_EPOCH = struct.Struct(">I")
_OFFSET = struct.Struct(">Q")
_MARK = struct.Struct(">IQ")
_NAMED = struct.Struct(">IQIQ")
_INTERVAL = struct.Struct(">IQIQ")
_HISTORY_KEY, _LOSS_KEY, _NAMED_KEY = b"h", b"l", b"n"
_DISOWNED_KEY, _ADOPTION_KEY, _RENAMED_KEY, _RESTORED_KEY = b"x", b"a", b"e", b"r"
_FLOW_KEY, _WITHHELD_KEY = b"f", b"w"
#: Until of an open interval of a flow.
_OPEN = (0, 0)
#: Offsets skipped by a restored log: its previous end is unknown.
_UNKNOWN_LOSS = 1 << 32


@attrs.frozen
class History:
    """Own events that one process logged, up to its first failed commit."""

    epoch: int
    id: int
    parent: int
    """Epoch of the history that it continues; 0 for the first."""
    branch: Mark
    """The newest own place at its beginning, in its parent's epoch."""


@attrs.frozen
class BranchLoss:
    """Own events of another branch that could not be recovered.

    The places in (after, last] are empty, and reported as a gap.
    """

    after: Mark
    last: Mark
    branch: Mark
    """Beginning of the other branch."""
    upto: Mark
    """The newest place of the other branch that a node has shown."""
    runs: tuple[tuple[int, int], ...] = ()
    """First and last offset of each lost run of the other branch."""

    def gaps(self, began: Mark) -> Iterator[tuple[Mark, Mark]]:
        """Yield (first, last) for a reader on the other branch, or before it."""
        on_branch = began[1] if self.branch < began < self.after else 0
        for first, last in self.runs:
            if last > on_branch:
                epoch = self.upto[0]
                yield (epoch, max(first, on_branch + 1)), (epoch, last)

    def is_before(self, mark: Mark) -> bool:
        """Return True before the other branch's end, in an epoch before the loss."""
        return bool(self.count) and mark < self.upto and mark[0] < self.after[0]

    @property
    def count(self) -> int:
        return self.last[1] - self.after[1]

    @property
    def next_offset(self) -> int:
        """Offset of the next event, above those of the other branch."""
        return max(self.last[1], self.upto[1] + 1) + 1


@attrs.frozen
class Adoption:
    """Own events under an earlier name of the log, some of which must be logged again."""

    origin: str
    after: Mark
    """The newest place when the last process under that name began."""
    is_continued: bool
    """Another process continues under that name, so it gives the same places to other events. Else
    the name belongs to another key, and only the archive may miss events."""


class HistoryChain:
    """Histories of the present branch, and known losses of others."""

    def __init__(
        self, histories: Iterable[History] = (), losses: Iterable[BranchLoss] = ()
    ) -> None:
        self.histories: tuple[History, ...] = tuple(sorted(histories, key=_epoch_of))
        self.losses: tuple[BranchLoss, ...] = tuple(sorted(losses, key=_after_of))
        self._epochs = [each.epoch for each in self.histories]

    def find_fork(self, mark: Mark, newest: Mark, path: Sequence[NamedHistory] = ()) -> Mark | None:
        """Return the place where the branch of a mark leaves this one; None on this branch.

        `newest` is the newest own place. `path` are the known histories that led to the mark,
        ascending. A mark before all known epochs counts as one of this branch, unless it lies after
        the first known history's beginning.
        """
        at = mark
        ids = {history.epoch: history.id for history in self.histories}
        for epoch, id, branch in reversed(path):
            if epoch == at[0] and ids.get(epoch) != id:
                # Another process has given this place.
                at = branch
        index = bisect_right(self._epochs, at[0])
        end = self.histories[index].branch if index < len(self.histories) else newest
        if at > end:
            return end
        return None if at == mark else at

    def next_after(self, mark: Mark) -> Mark:
        """Return the place after which this branch continues for a reader at a mark.

        It differs on another branch, and before a recorded loss.
        """
        index = bisect_right(self._epochs, mark[0])
        if index < len(self.histories) and mark > self.histories[index].branch:
            return self.histories[index].epoch, self.histories[index].branch[1]
        return next((last for after, last in self.empty_ranges if after <= mark < last), mark)

    @property
    def empty_ranges(self) -> tuple[tuple[Mark, Mark], ...]:
        """Places of this branch that stand for losses."""
        return tuple((loss.after, loss.last) for loss in self.losses if loss.count)

    def newest_of_branch(self, branch: Mark) -> Mark:
        found = [loss.upto for loss in self.losses if loss.branch == branch]
        return max(found, default=branch)


def missing_runs(first: int, last: int, found: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Return the runs without `found`, at most `MAX_RUNS`: then the last one covers the rest."""
    runs: list[tuple[int, int]] = []
    for each in [*sorted(n for n in set(found) if first <= n <= last), last + 1]:
        if first < each:
            runs.append((first, each - 1))
        first = each + 1
    if len(runs) > MAX_RUNS:
        runs[MAX_RUNS - 1 :] = [(runs[MAX_RUNS - 1][0], runs[-1][1])]
    return tuple(runs)


class HistoryTable:
    """The table, as transactions of the log use it."""

    def __init__(self, values: CheckedTable) -> None:
        self.table = values

    def start_process(
        self, txn: lmdb.Transaction, previous: int, offset: int, now_ms: int
    ) -> tuple[int, int]:
        """Add the history of a new process; return its epoch, and the newest used offset.

        In a restored log, a loss of unknown size is recorded first.
        """
        epoch = next_epoch(previous, now_ms)
        self.add_history(txn, previous, epoch, offset)
        if not self._pop(txn, _RESTORED_KEY):
            return epoch, offset
        branch, after = (previous, offset), (epoch, offset)
        upto = (previous, offset + _UNKNOWN_LOSS)
        loss = BranchLoss(after, (epoch, offset + 1), branch, upto, ((offset + 1, upto[1]),))
        self.add_loss(txn, loss)
        return epoch, loss.next_offset - 1

    def add_history(self, txn: lmdb.Transaction, parent: int, epoch: int, offset: int) -> None:
        """Add a history that begins after its parent's newest own place."""
        # 63 bits, and not 0.
        id = int.from_bytes(os.urandom(8), "big") >> 1 | 1
        record = _RECORD.pack(id, parent, parent, offset)
        self.table.put(txn, _HISTORY_KEY + _EPOCH.pack(epoch), record)
        self._drop_oldest(txn, _HISTORY_KEY, MAX_HISTORIES)

    def put_foreign(
        self, txn: lmdb.Transaction, origin: str, histories: Iterable[NamedHistory]
    ) -> None:
        value = b"".join([_NAMED.pack(epoch, id, *branch) for epoch, id, branch in histories])
        self.table.put(txn, _NAMED_KEY + origin.encode(), value)

    def foreign_histories(self, txn: lmdb.Transaction) -> dict[str, tuple[NamedHistory, ...]]:
        return {
            key[1:].decode(): tuple(
                [(epoch, id, (at, offset)) for epoch, id, at, offset in _NAMED.iter_unpack(value)]
            )
            for key, value in self._rows(txn, _NAMED_KEY)
        }

    def put_statements(
        self, txn: lmdb.Transaction, statements: Mapping[tuple[bytes, str], bytes | None]
    ) -> None:
        """Store signed statements about origins, by kind and origin; None deletes one."""
        for (kind, origin), value in statements.items():
            if value is None:
                self.table.delete(txn, kind + origin.encode())
            else:
                self.table.put(txn, kind + origin.encode(), value)

    def statements(
        self, txn: lmdb.Transaction, kinds: Iterable[bytes]
    ) -> dict[tuple[bytes, str], bytes]:
        """Return statements by kind and origin."""
        return {
            (kind, key[1:].decode()): bytes(value)
            for kind in kinds
            for key, value in self._rows(txn, kind)
        }

    def put_flow(self, txn: lmdb.Transaction, flow: str, intervals: Iterable[FlowInterval]) -> None:
        self._put_intervals(txn, _FLOW_KEY, flow, intervals)

    def flow_intervals(self, txn: lmdb.Transaction) -> dict[str, tuple[FlowInterval, ...]]:
        return self._intervals(txn, _FLOW_KEY)

    def put_withheld(
        self, txn: lmdb.Transaction, flow: str, intervals: Iterable[FlowInterval]
    ) -> None:
        self._put_intervals(txn, _WITHHELD_KEY, flow, intervals)

    def withheld_intervals(self, txn: lmdb.Transaction) -> dict[str, tuple[FlowInterval, ...]]:
        """Return the intervals of own flows whose events are withheld until they are copied."""
        return self._intervals(txn, _WITHHELD_KEY)

    def _put_intervals(
        self, txn: lmdb.Transaction, kind: bytes, flow: str, intervals: Iterable[FlowInterval]
    ) -> None:
        rows = [_INTERVAL.pack(*since, *(until or _OPEN)) for since, until in intervals]
        self.table.put(txn, kind + flow.encode(), b"".join(rows))

    def _intervals(self, txn: lmdb.Transaction, kind: bytes) -> dict[str, tuple[FlowInterval, ...]]:
        return {
            key[1:].decode(): tuple(
                [
                    ((epoch, offset), None if until == _OPEN else until)
                    for epoch, offset, *end in _INTERVAL.iter_unpack(value)
                    for until in [(end[0], end[1])]
                ]
            )
            for key, value in self._rows(txn, kind)
        }

    def _pop(self, txn: lmdb.Transaction, key: bytes) -> bool:
        found = self.table.get_or_none(txn, key) is not None
        if found:
            self.table.delete(txn, key)
        return found

    def add_loss(self, txn: lmdb.Transaction, loss: BranchLoss) -> None:
        record = _LOSS.pack(*loss.after, *loss.last, *loss.branch, *loss.upto)
        record += b"".join([_RUN.pack(*run) for run in loss.runs])
        self.table.put(txn, _LOSS_KEY + _OFFSET.pack(loss.after[1]), record)
        self._drop_oldest(txn, _LOSS_KEY, MAX_LOSSES)

    def disown(self, txn: lmdb.Transaction, began: Mark) -> None:
        """Record that another process continues this log: the next start renames it. `began` is the
        newest place when this process began."""
        self.table.put(txn, _DISOWNED_KEY, _MARK.pack(*began))

    def mark_restored(self, txn: lmdb.Transaction) -> None:
        """Record that this log is an older copy with unknown losses."""
        self.table.put(txn, _RESTORED_KEY, b"1")

    def end_disowned(self, txn: lmdb.Transaction, origin: str) -> bool:
        """End the histories of a disowned log; False if it is not disowned. Other nodes may not
        know its last events: see `pending_adoption`."""
        after = self.table.get_or_none(txn, _DISOWNED_KEY)
        if after is None:
            return False
        self.table.delete(txn, _DISOWNED_KEY)
        self._end_histories(txn, _ADOPTION_KEY, after + origin.encode())
        return True

    def rename(self, txn: lmdb.Transaction, origin: str) -> None:
        """End the histories of a log whose name belongs to another key."""
        histories = self.read_chain(txn).histories
        began = histories[-1].branch if histories else (0, 0)
        self._end_histories(txn, _RENAMED_KEY, _MARK.pack(*began) + origin.encode())

    def _end_histories(self, txn: lmdb.Transaction, kind: bytes, adoption: bytes) -> None:
        for key, _ in self._rows(txn, _HISTORY_KEY) + self._rows(txn, _LOSS_KEY):
            self.table.delete(txn, key)
        self.table.put(txn, kind, adoption)

    def pending_adoption(self, txn: lmdb.Transaction) -> Adoption | None:
        for kind in (_ADOPTION_KEY, _RENAMED_KEY):
            value = self.table.get_or_none(txn, kind)
            if value is not None:
                epoch, offset = _MARK.unpack_from(value)
                origin = value[_MARK.size :].decode()
                return Adoption(origin, (epoch, offset), kind == _ADOPTION_KEY)
        return None

    def finish_adoption(self, txn: lmdb.Transaction) -> None:
        for kind in (_ADOPTION_KEY, _RENAMED_KEY):
            if self._pop(txn, kind):
                return

    def read_chain(self, txn: lmdb.Transaction) -> HistoryChain:
        histories = [
            _decode_history(_EPOCH.unpack(key[1:])[0], value)
            for key, value in self._rows(txn, _HISTORY_KEY)
        ]
        losses = [_decode_loss(value) for _, value in self._rows(txn, _LOSS_KEY)]
        return HistoryChain(histories, losses)

    def _rows(self, txn: lmdb.Transaction, kind: bytes) -> list[tuple[bytes, bytes]]:
        items = self.table.items(txn, kind)
        return [(key, value) for key, value in items if value is not None]

    def _drop_oldest(self, txn: lmdb.Transaction, kind: bytes, most: int) -> None:
        keys = [key for key, _ in self._rows(txn, kind)]
        for key in keys[: max(0, len(keys) - most)]:
            self.table.delete(txn, key)


def next_epoch(previous: int, now_ms: int) -> int:
    """Return an epoch above `previous`, and above copies started before now."""
    return max(previous + 1, (now_ms - EPOCHS_SINCE_MS) // EPOCH_MS) & 0xFFFFFFFF


def _decode_history(epoch: int, value: bytes) -> History:
    id, parent, branch_epoch, branch_offset = _RECORD.unpack_from(value)
    return History(epoch, id, parent, (branch_epoch, branch_offset))


def _decode_loss(value: bytes) -> BranchLoss:
    numbers = _LOSS.unpack_from(value)
    runs = tuple((first, last) for first, last in _RUN.iter_unpack(value[_LOSS.size :]))
    after, last, branch, upto = zip(numbers[::2], numbers[1::2], strict=True)
    return BranchLoss(after, last, branch, upto, runs)


def _epoch_of(history: History) -> int:
    return history.epoch


def _after_of(loss: BranchLoss) -> Mark:
    return loss.after
