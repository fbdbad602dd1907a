"""Lost own events are restored once each and in order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import SimpleNamespace
from typing import Any, cast

import attrs
import msgpack
import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from broker.cluster.address import Address
from broker.cluster.ingest_job import IngestJob
from broker.cluster.traffic.messages import PageRequest
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import BrokerError, NotValid
from broker.event.place import Mark, NamedHistory
from broker.log.deduplication import Deduplication, Freshness
from broker.log.history import Adoption
from broker.log.known_flows import KnownFlows
from broker.log.logged_event import LoggedEvent, header_from_fields
from broker.matching.contract import Accepted, Refused, Verdict
from broker.matching.query.query import parse_query
from broker.recovery.archive_access import ArchiveAccess, Coverage
from broker.recovery.branch_restore import (
    ARCHIVE_DELAY,
    COLLECT_TIME,
    RETRY_INTERVAL,
    BranchRestore,
)
from broker.recovery.log_page_reader import LogPageRequest, Page
from broker.recovery.messages import EVERYTHING_LOGGED
from broker.replay.request import ReplayRequest
from tests.recovery.test_branch_restore import HERE, READER, shows
from tests.recovery.test_log_merge import logged

BRANCH = (4, 10)
#: Events 11 to 15 of a publisher, on a branch that the log has lost.
LOST = [attrs.evolve(logged("own", n, n, "p", n), epoch=4) for n in range(11, 16)]


@attrs.define
class Log:
    """A log that continued behind its 10th event; commits finish at once."""

    former: Sequence[LoggedEvent] = ()
    """Events under its previous name."""
    logged_again: list[int] = attrs.field(factory=list)
    """Sequence numbers."""
    losses: list[tuple[tuple[int, int], ...]] = attrs.field(factory=list)
    read: list[Mark] = attrs.field(factory=list)
    pending_adoption: Adoption | None = None
    origin: str = "own"
    flows: KnownFlows = attrs.field(factory=lambda: KnownFlows("own", {}))
    newest_own: Mark = (5, 12)
    is_writable: bool = True
    deduplication: Deduplication = attrs.field(
        factory=lambda: Deduplication(lambda _: None, width=64)
    )

    @property
    def history_chain(self) -> Any:
        histories = [SimpleNamespace(branch=BRANCH)]
        return SimpleNamespace(histories=histories, newest_of_branch=lambda branch: branch)

    def find_fork(self, mark: Mark, path: Sequence[NamedHistory] = ()) -> Mark | None:
        return BRANCH if BRANCH < mark < (5, 0) else None

    def check_available(self) -> None:
        """It is available."""

    async def read_past_damage(self, origin: str, after: Mark, *_: int) -> list[LoggedEvent]:
        if origin == self.origin:
            return []
        self.read.append(after)
        return [event for event in self.former if event.mark > after][:2]

    def append(
        self,
        entries: list[tuple[bytes, int, bytes]],
        done: Callable[[list[LoggedEvent] | BrokerError], None],
    ) -> None:
        numbers = [header_of(record).event_id.sequence_number for record, *_ in entries]
        self.logged_again += numbers
        done([logged("own", 100 + n, 0, "p", n) for n in numbers])

    def record_loss(
        self, branch: Mark, upto: Mark, runs: tuple[tuple[int, int], ...], done: Callable[..., None]
    ) -> None:
        self.losses.append(runs)
        done(None)

    def finish_adoption(self) -> Deferred[None]:
        self.pending_adoption = None
        return succeed(None)


@attrs.define
class Node:
    """Another node, or the archive, has the lost events."""

    log: Log = attrs.field(factory=Log)
    archive: ArchiveAccess | None = None
    refused: Collection[int] = ()
    """Offsets of invalid events."""
    undecided: int = 0
    """Number of attempts in which the DTD is missing."""
    silent: int = 0
    """Number of attempts before that in which the matcher does not answer."""
    clock: Clock = attrs.field(factory=Clock)
    served: list[PageRequest] = attrs.field(factory=list)
    state: Any = attrs.field(factory=lambda: SimpleNamespace(address=HERE))
    neighbours: Sequence[Any] = ()
    driver: Any = attrs.field(init=False)
    restore: BranchRestore = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        relay_ingest = SimpleNamespace(match_range=self._match)
        self.driver = SimpleNamespace(
            page_server=SimpleNamespace(),
            relay_ingest=relay_ingest,
            serve_page=self.served.append,
        )
        me: Any = self
        self.restore = BranchRestore(
            *(me, cast(Any, self.log), me, self.archive, self.clock),
            lambda text, _: parse_query(text),
            lambda *_: None,
            lambda: None,
        )

    def wall_clock(self) -> int:
        return 0

    def announce_lost_events(self) -> None:
        """All readers ask for later events."""

    def fetch_page(self, address: Address, request: LogPageRequest) -> Deferred[Page]:
        return succeed(Page(LOST if request.name == EVERYTHING_LOGGED else [], {}, 0))

    def _match(self, arrived: ReceivedRange, done: Callable[[IngestJob], None], late: Any) -> None:
        if self.silent:
            self.silent -= 1
            return
        job = IngestJob(
            arrived, arrived.frame.events_at(arrived.frame.event_indices_for(arrived.index)), done
        )
        job.verdicts = [self._verdict(each.mark[1], header_of(each.record)) for each in job.events]
        if self.undecided:
            self.undecided -= 1
            job.undecided = {0}
        done(job)

    def _verdict(self, offset: int, header: Any) -> Verdict:
        return Refused(NotValid("bad")) if offset in self.refused else Accepted(header, ())

    def give_back(self, after: Mark = (4, 15), reader: Address = READER) -> None:
        assert self.restore.must_delay_page(shows(after, reader=reader))
        self.clock.advance(COLLECT_TIME)


def header_of(record: bytes) -> Any:
    return header_from_fields(msgpack.unpackb(record))


def test_valid_unknown_events_are_restored() -> None:
    node = Node(refused={11})
    node.log.deduplication.record(("p", 1), 12, 0)
    node.give_back()
    assert node.log.logged_again == [13, 14, 15]
    # The known event has a place on this branch.
    assert node.log.losses == [((11, 11),)]
    counts = node.restore.counts
    assert (counts.branches, counts.restored, counts.lost) == (1, 3, 1)
    known = node.log.deduplication.check
    assert [known(("p", 1), n) for n in (13, 15)] == [Freshness.DUPLICATE] * 2


def test_a_reader_is_served_after_the_restore() -> None:
    node = Node()
    node.give_back()
    assert [(each.source, each.after) for each in node.served] == [(READER, (4, 15))]
    assert not node.restore.must_delay_page(shows((4, 15)))
    assert node.restore.must_delay_page(shows((4, 16))), "it has more now"
    assert node.log.logged_again == [11, 12, 13, 14, 15]


def test_beyond_the_bound_the_first_reader_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("broker.recovery.branch_restore.MAX_READERS", 2)
    node = Node()
    readers = [Address(("c",), f"n{number}") for number in range(3)]
    for reader in readers:
        node.give_back(reader=reader)
    waits = [node.restore.must_delay_page(shows((4, 15), reader=reader)) for reader in readers]
    assert waits == [True, False, False]


@pytest.mark.parametrize(
    ("said", "pause"),
    [({"undecided": 1}, RETRY_INTERVAL), ({"silent": 1}, 5 * RETRY_INTERVAL)],
    ids=str,
)
def test_undecided_events_are_logged_later(said: dict[str, Any], pause: float) -> None:
    node = Node(**said)
    node.give_back()
    node.clock.advance(pause - 0.1)
    assert (node.log.logged_again, node.log.losses) == ([], [])
    node.clock.advance(0.1)
    assert (node.log.logged_again, node.log.losses) == ([11, 12, 13, 14, 15], [()])


def test_each_event_under_a_previous_name_is_logged_again_once() -> None:
    """A known event too: its only place may be under that name."""
    events = [attrs.evolve(logged("former", n, n, "p", n), epoch=4) for n in range(1, 6)]
    log = Log(former=events, pending_adoption=Adoption("former", (4, 1), True))
    log.deduplication.record(("p", 1), 5, 0)
    node = Node(log)
    node.restore.start_due_job()
    assert log.logged_again == [2, 3, 4, 5]
    assert log.read == [(4, 1), (4, 3), (4, 5)]
    assert log.pending_adoption is None
    node.restore.start_due_job()
    assert log.logged_again == [2, 3, 4, 5]


class Replay:
    def __init__(self) -> None:
        self._events = list(LOST)

    def next_events(self) -> Deferred[list[LoggedEvent]]:
        events, self._events = self._events, []
        return succeed(events)

    def cancel(self) -> None:
        """It has ended."""


def test_an_unreadable_archive_is_asked_again_for_branches() -> None:
    told = [Coverage(), Coverage({"own": [((0, 0), (4, 15))]}, is_known=True)]
    requests: list[ReplayRequest] = []

    def start_replay(request: ReplayRequest) -> Replay:
        requests.append(request)
        return Replay()

    archive = ArchiveAccess(
        cast(Any, SimpleNamespace(start_replay=start_replay)),
        lambda _: succeed(told.pop(0)),
        *(cast(Any, None), lambda: None, 1.0),
    )
    node = Node(archive=archive)

    def look(seconds: float) -> None:
        for _ in range(round(seconds)):
            node.restore.start_due_job()
            node.clock.advance(1.0)

    look(ARCHIVE_DELAY + RETRY_INTERVAL)
    assert (len(told), node.log.logged_again) == (1, [])
    look(1.0 + ARCHIVE_DELAY)
    assert (len(told), node.log.logged_again) == (0, [11, 12, 13, 14, 15])
    look(10.0)
    assert [each.ranges for each in requests] == [{"own": (BRANCH, (4, 15))}]
