"""The parents of a node, and the query in force at each of them (DCP D41-D46; X4).

The node's interest has a number, its *epoch*. A parent states when it selects by the interest of an
epoch, and from which AN of each sequence on. Wider interest counts from there as soon as the first
parent has it, with `confirms` the second one. Ranges of other parents are trusted again when those
have it, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Final

import attrs
from msgspec.structs import replace

from plugins.dcp.confirming_receiver import LEAST_STATEMENTS, ConfirmingReceiver
from plugins.dcp.connection import Connection
from plugins.dcp.control import InForce, Interest, Query, SequenceStart
from plugins.dcp.event_range import EventRange, SequenceKey
from plugins.dcp.mesh.joint_loss import MOST_SAMPLES, JointLoss
from plugins.dcp.mesh.loss_observer import LossObserver
from plugins.dcp.mesh.parent_count import most_samples
from plugins.dcp.mesh.selection import Candidate
from plugins.dcp.mesh.standing import Standing, elements_of
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.receiver import SequenceReceiver
from plugins.dcp.recent_events import RecentEvents
from plugins.dcp.sequences import Sequences, SequenceState
from plugins.dcp.settings import DcpSettings

#: Time in which a first parent should select by new interest, and the same without enough. After
#: it the interest counts from the present places, and earlier events come from the log.
_COVERED_WITHIN: Final = 5.0
_COVERED_ALONE_WITHIN: Final = 2.0
#: A parent is asked whether it lives after so many seconds without a packet.
_SILENT_FOR: Final = 0.25

Deliver = Callable[[SequenceState, Iterable[EventRange]], object]


@attrs.define(eq=False)
class Parent:
    connection: Connection
    candidate: Candidate
    standing: Standing
    epoch: int = -1
    """Of the interest by which it selects events; -1: it sends none yet."""
    is_leaving: bool = False
    """True if it ends as soon as another one has proven itself."""
    beacon_at: float = 0.0
    """Time of its last beacon, or of its beginning."""
    path_loss: float = 0.0
    """Share of packets that are lost between a root and this node through it."""

    def as_candidate(self) -> Candidate:
        """Return it as it stands now, to compare it with offers."""
        return attrs.evolve(self.candidate, level=self.standing.level)


class Parents:
    def __init__(
        self,
        sequences: Sequences,
        settings: DcpSettings,
        deliver: Deliver,
        *,
        is_root: bool,
        first_epoch: int,
    ) -> None:
        """`deliver` takes ranges of a sequence in order. `first_epoch` differs from those of
        earlier processes."""
        self.paths: dict[Hashable, ParentPath] = {}
        """Of the parents that send events."""
        self.epoch = first_epoch
        """Of the newest interest."""
        self.covered_epoch = self.epoch
        """Interest up to this epoch is in force at a parent, or counts without."""
        self.queries: frozenset[Query] = frozenset()
        self._queue = "block"
        self._sequences = sequences
        self._settings = settings
        self._deliver = deliver
        self._is_root = is_root
        self._parents: dict[Connection, Parent] = {}
        self._least_epoch = self.epoch
        """Lowest epoch whose query has all of the interest that counts."""
        self._widened: list[tuple[int, float]] = []
        """Epochs of wider interest that does not count yet, each with the time."""
        self._recent = RecentEvents()
        most = most_samples(settings.loss_target) if settings.loss_target else MOST_SAMPLES
        self.losses = JointLoss(most)
        """Losses of events at the parents, by their connections."""
        self._observer = LossObserver(self._recent, self.losses, self.paths)
        self._incomplete: dict[SequenceState, None] = {}
        """Sequences in which a range is missing."""
        self._waiting: list[tuple[int, Callable[[], object]]] = []

    def __iter__(self) -> Iterator[Parent]:
        return iter(list(self._parents.values()))

    def __len__(self) -> int:
        return len(self._parents)

    def __contains__(self, connection: object) -> bool:
        return connection in self._parents

    def get(self, connection: Connection) -> Parent | None:
        return self._parents.get(connection)

    # ------------------------------------------------------------------ interest

    def set_queries(self, queries: Iterable[Query], now: float, queue: str = "block") -> None:
        """Ask all parents for these queries, with a queue policy."""
        wanted = frozenset(queries)
        if wanted == self.queries and queue == self._queue:
            return
        is_wider = not wanted <= self.queries
        self.queries, self._queue = wanted, queue
        self.epoch += 1
        if self._is_root or not is_wider:
            if not self._widened:
                self.covered_epoch = self.epoch
        else:
            self._widened.append((self.epoch, now))
        interest = self.interest
        for parent in self._parents.values():
            parent.connection.send_control(interest)

    @property
    def interest(self) -> Interest:
        return Interest(self.epoch, tuple(sorted(self.queries)), self._queue)

    def when_covered(self, call: Callable[[], object]) -> None:
        """Call a function once the present interest is in force at a parent, or counts without."""
        if self.covered_epoch >= self.epoch:
            call()
        else:
            self._waiting.append((self.epoch, call))

    def _cover(self, epoch: int) -> None:
        """Let the interest up to an epoch count."""
        self._widened = [each for each in self._widened if each[0] > epoch]
        self.covered_epoch = self._widened[0][0] - 1 if self._widened else self.epoch
        due = [call for at, call in self._waiting if at <= self.covered_epoch]
        self._waiting = [each for each in self._waiting if each[0] > self.covered_epoch]
        for call in due:
            call()

    # ------------------------------------------------------------------ parents

    def add(self, connection: Connection, candidate: Candidate, now: float) -> None:
        standing = Standing(candidate.level, 1, elements_of(candidate.name, candidate.diversity))
        self._parents[connection] = Parent(connection, candidate, standing, beacon_at=now)
        connection.path.name = candidate.name

    def name_of(self, connection: Hashable) -> str:
        found = self._parents.get(connection) if isinstance(connection, Connection) else None
        return "a previous parent" if found is None else found.candidate.name

    def is_proven(self, connection: Connection) -> bool:
        """Return whether a parent brings all that the others have brought, without a gap (X5)."""
        parent = self._parents[connection]
        return parent.epoch >= self._least_epoch and all(
            state.receiver is None or state.receiver.overlaps(connection)
            for state in self._sequences
        )

    def remove(self, connection: Connection, now: float) -> None:
        if self._parents.pop(connection, None) is None:
            return
        self.paths.pop(connection, None)
        self.losses.remove(connection)
        for state in self._sequences:
            if state.receiver is not None:
                self._deliver(state, state.receiver.remove_parent(connection, now))

    def put_in_force(self, connection: Connection, message: InForce, now: float) -> None:
        """Handle that a parent selects by the interest of an epoch."""
        parent = self._parents[connection]
        if not parent.epoch < message.epoch <= self.epoch:
            return
        parent.epoch = message.epoch
        self.paths.setdefault(connection, connection.path)
        for start in message.sequences:
            connection.open_sequence(start, now)
        starts: Mapping[SequenceKey, int] = {e.description.key: e.an for e in message.sequences}
        for state in self._sequences:
            # A sequence that is not listed has begun with this query, and its begin came earlier.
            an = starts.get(state.description.key, 0)
            if state.receiver is not None and state.receiver.find_chain(connection) is not None:
                ranges = state.receiver.set_parent(connection, an, message.epoch, now)
                self._deliver(state, ranges)
        reached = message.epoch
        if self._settings.confirms:
            # One parent alone could state a false begin.
            epochs = sorted(each.epoch for each in self._parents.values())
            reached = epochs[-LEAST_STATEMENTS] if len(epochs) >= LEAST_STATEMENTS else -1
        widened = [epoch for epoch, _ in self._widened if epoch <= reached]
        if widened and self._settings.confirms:
            starts = self._find_first_begins(widened[-1])
        if widened:
            self._require(widened[-1], starts, now)
        if reached >= 0:
            self._cover(reached)

    def _find_first_begins(self, epoch: int) -> dict[SequenceKey, int]:
        """Return from where on a first parent selects by the interest of an epoch."""
        return {
            state.description.key: state.receiver.find_begin(epoch)
            for state in self._sequences
            if state.receiver is not None
        }

    def _require(self, epoch: int, starts: Mapping[SequenceKey, int], now: float) -> None:
        """Let the interest of an epoch count, behind the given ANs and the present places."""
        self._least_epoch = epoch
        for state in self._sequences:
            receiver = state.receiver
            if receiver is not None:
                an = max(starts.get(state.description.key, 0), receiver.current or 0)
                self._deliver(state, receiver.require(an, epoch, now))

    # ------------------------------------------------------------------ sequences

    def open_sequence(self, connection: Connection, start: SequenceStart, now: float) -> None:
        """Handle a sequence that is new on the connection of a parent."""
        parent = self._parents.get(connection)
        if self._is_root or parent is None:
            return
        state = self._sequences.get(start.description.key)
        if state is None:
            receiver = self._make_receiver()
            receiver.require(0, self._least_epoch, now)
            description = start.description
            if self._settings.confirms:
                # Whether an earlier epoch has further events is left to the log.
                description = replace(description, begins_after=(description.epoch, 0))
            state = SequenceState(description, receiver)
            if not self._sequences.add(state):
                return
        assert state.receiver is not None
        receiver = state.receiver
        self._deliver(state, receiver.set_parent(connection, start.an, parent.epoch, now))
        self._deliver(state, receiver.begin(start.an, now))

    def _make_receiver(self) -> SequenceReceiver[EventRange]:
        shared = self.paths, self._settings.receiver, self._recent
        if self._settings.confirms:
            return ConfirmingReceiver[EventRange](*shared, EventRange)
        return SequenceReceiver[EventRange](*shared)

    # ------------------------------------------------------------------ time

    def next_timeout(self) -> float | None:
        times = [self._widened[0][1] + self._covered_within] if self._widened else []
        for state in self._incomplete:
            due = None if state.receiver is None else state.receiver.next_timeout()
            if due is not None:
                times.append(due)
        return min(times, default=None)

    def watch(self, state: SequenceState) -> None:
        """Note whether a range is missing in a sequence. Call it after each call of a receiver."""
        is_incomplete = state.receiver is not None and state.receiver.is_incomplete
        # The place of an old epoch may have been given to a newer one.
        if is_incomplete and self._sequences.get(state.description.key) is state:
            self._incomplete[state] = None
        else:
            self._incomplete.pop(state, None)

    @property
    def _covered_within(self) -> float:
        least = LEAST_STATEMENTS if self._settings.confirms else 1
        return _COVERED_WITHIN if len(self._parents) >= least else _COVERED_ALONE_WITHIN

    def probe_silent(self, now: float) -> None:
        """Let parents that are silent while others bring events show that they live."""
        for parent in self._parents.values():
            if now > parent.connection.liveness.received_at + _SILENT_FOR:
                parent.connection.probe()

    def handle_timeout(self, now: float) -> None:
        self._observer.observe(self.paths, now)
        late = [epoch for epoch, since in self._widened if now >= since + self._covered_within]
        if late:
            self._require(late[-1], {}, now)
            self._cover(late[-1])
        for state in list(self._incomplete):
            self.watch(state)
            if state not in self._incomplete:
                continue
            assert state.receiver is not None
            passed = state.receiver.passed
            ranges, nack = state.receiver.handle_timeout(now)
            if state.receiver.passed > passed:
                # No copy has come of what is left to the log.
                self.losses.add(list(self.paths), list(self.paths))
            self._deliver(state, ranges)
            if nack is not None:
                for connection in self._nack_targets(state.receiver.has_asked_once):
                    connection.send_nack(state.description.key, nack, now)

    def _nack_targets(self, is_first: bool) -> list[Connection]:
        """Return the parents of which a missing range is requested (K32)."""
        connections = list(self._parents)
        live = [each for each in connections if not each.path.is_suspect]
        if self._settings.asks_all or not is_first or not live:
            return connections
        return [min(live, key=lambda each: each.path.round_trip.smoothed)]
