"""Readers with events that the log lacks wait until these are restored."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from types import SimpleNamespace
from typing import Any, cast

import attrs
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import capturedLogs

from broker.cluster.address import Address
from broker.cluster.traffic.frame import MAX_HOPS
from broker.cluster.traffic.messages import PageRequest
from broker.event.place import Mark, NamedHistory
from broker.log.history import BranchLoss
from broker.log.known_flows import KnownFlows
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import parse_query
from broker.recovery.branch_restore import (
    MAX_BRANCH_PLACES,
    MAX_READERS,
    SETTLE_TIME,
    BranchRestore,
)
from tests.recovery.test_log_merge import logged

HERE, READER, KEEPER = (Address(("c",), name) for name in ("here", "reader", "keeper"))


@attrs.define
class Log:
    """A log that continued behind its 10th event, in epoch 5."""

    branch: Mark | None = None
    """The place at which any reader's branch leaves this log."""
    begun_at: int = 10
    origin: str = "own"
    flows: KnownFlows = attrs.field(factory=lambda: KnownFlows("own", {}))
    newest_own: Mark = (5, 12)
    pending_adoption: None = None

    @property
    def history_chain(self) -> Any:
        return SimpleNamespace(histories=[SimpleNamespace(branch=(4, self.begun_at))])

    def find_fork(self, mark: Mark, path: Sequence[NamedHistory] = ()) -> Mark | None:
        return self.branch


def make_restore(log: Log, clock: Clock, network: object = None) -> BranchRestore:
    driver = SimpleNamespace(page_server=SimpleNamespace())
    return BranchRestore(
        cast(Any, network or SimpleNamespace(driver=driver, state=None)),
        cast(Any, log),
        *(cast(Any, None), None, clock),
        lambda text, _: parse_query(text),
        lambda *_: None,
        lambda: None,
    )


def shows(after: Mark, origin: str = "own", reader: Address = READER) -> PageRequest:
    return PageRequest(HERE, reader, MAX_HOPS, origin, after)


def test_a_reader_from_another_branch_waits_and_is_asked_once() -> None:
    clock = Clock()
    made = make_restore(Log(branch=(4, 10)), clock)
    assert made.must_delay_page(shows((4, 15)))
    assert made.must_delay_page(shows((4, 16)))
    assert made.must_delay_page(shows((4, 15), reader=Address(("c",), "other")))
    assert len(clock.getDelayedCalls()) == 1
    assert not made.must_delay_page(shows((4, 15), origin="far"))


@pytest.mark.parametrize(
    ("beyond", "waits"), [(MAX_BRANCH_PLACES, True), (MAX_BRANCH_PLACES + 1, False)]
)
def test_an_impossible_place_is_not_awaited(beyond: int, waits: bool) -> None:
    made = make_restore(Log(branch=(4, 10)), Clock())
    with capturedLogs() as captured:
        assert made.must_delay_page(shows((4, 10 + beyond))) is waits
    assert bool(captured) is not waits


def test_the_number_of_waiting_readers_is_bounded() -> None:
    made = make_restore(Log(branch=(4, 10)), Clock())
    waits = [
        made.must_delay_page(shows((4, 15), reader=Address(("c",), f"n{number}")))
        for number in range(MAX_READERS + 1)
    ]
    assert waits == [True] * MAX_READERS + [False]


def test_after_a_start_readers_of_earlier_epochs_wait() -> None:
    clock = Clock()
    made = make_restore(Log(), clock)
    assert not made.must_delay_page(shows((5, 11))), "it has been here since this start"
    assert made.must_delay_page(shows((4, 8)))
    clock.advance(SETTLE_TIME - 0.1)
    assert made.must_delay_page(shows((4, 8), reader=Address(("c",), "other")))
    late = make_restore(Log(), clock)
    assert late.must_delay_page(shows((4, 8)))
    clock.advance(SETTLE_TIME)
    assert not late.must_delay_page(shows((4, 9), reader=Address(("c",), "other")))


def test_a_log_that_began_with_this_process_lacks_nothing() -> None:
    assert not make_restore(Log(begun_at=0), Clock()).must_delay_page(shows((4, 8)))


@pytest.mark.parametrize("returned", [3, 5])
def test_neighbours_are_asked_for_events_that_no_reader_returns(
    returned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Soak 8011: the neighbour with a replica of the branch had read on."""
    near = [SimpleNamespace(node=SimpleNamespace(address=KEEPER), up=True)]
    network = SimpleNamespace(
        driver=SimpleNamespace(page_server=SimpleNamespace()), neighbours=near
    )
    log = SimpleNamespace(
        origin="own",
        flows=KnownFlows("own", {}),
        history_chain=SimpleNamespace(newest_of_branch=lambda branch: branch),
    )
    asked: list[Address] = []
    lost: list[Sequence[tuple[int, int]]] = []

    class Sources:
        async def recover_from_node(
            self, address: Address, after: Mark, upto: Mark
        ) -> AsyncIterator[Any]:
            asked.append(address)
            numbers = {READER: range(1, returned + 1), HERE: range(1, 3)}.get(address, (4,))
            yield [logged("own", 10 + n, n, "p", n) for n in numbers]

        async def recover_from_archive(self, after: Mark, upto: Mark) -> AsyncIterator[Any]:
            return
            yield

    async def relog(events: Sequence[LoggedEvent], sender: object) -> set[int]:
        return {event.offset for event in events}

    async def nothing(*_: object) -> None:
        return

    async def record_loss(branch: Mark, upto: Mark, runs: Sequence[tuple[int, int]]) -> None:
        lost.append(runs)

    made = make_restore(cast(Any, log), Clock(), network)
    for name, does in (
        ("_relog_covered", nothing),
        ("_relog", relog),
        ("_record_loss", record_loss),
    ):
        monkeypatch.setattr(made, name, does)
    made._origin_readers = [cast(Any, Sources())]
    shown: dict[Address, Mark] = {HERE: (1, 12), READER: (1, 15)}
    Deferred.fromCoroutine(made._restore_branch((1, 10), (1, 15), shown))
    # The furthest reader comes first.
    assert asked == ([READER, HERE, KEEPER] if returned == 3 else [READER, HERE])
    assert lost == ([((15, 15),)] if returned == 3 else [()])


@pytest.mark.parametrize(
    ("shown", "has_all"),
    [
        (None, False),
        ((1, 3), False),
        ((1, 8), False),
        ((1, 9), True),
        ((2, 1), True),
        ((5, 0), True),
        ((5, 1), False),
    ],
)
def test_a_reader_behind_a_loss_has_all_of_its_events(shown: Mark | None, has_all: bool) -> None:
    made = make_restore(Log(), Clock())
    if shown is not None:
        made._returned_up_to[READER] = shown
    loss = BranchLoss((5, 3), (5, 9), (1, 3), (1, 9), ((4, 9),))
    assert made.has_lost_events(READER, loss) is has_all
