from __future__ import annotations

from typing import Any, cast

import attrs
import pytest

from broker.errors import BadPosition, BadQuery
from broker.event.place import Mark, NamedHistory, Position
from broker.log.commit import Bounds
from broker.log.coverage import Coverage
from broker.log.event_log import EventLog
from broker.log.history import BranchLoss, History, HistoryChain
from broker.log.known_flows import KnownFlows
from broker.log.logged_event import LoggedEvent
from broker.subscriptions.start_position import (
    check_position,
    find_lost_branches,
    find_start,
    first_serial_after,
    rewind_lost_branches,
)
from broker.wire.messages import Subscribe

CUT: dict[str, Mark] = {"own": (3, 8), "far": (1, 4)}


class Writing:
    """The first own event is written at serial 5, and not announced yet."""

    coverage = Coverage({"far": (1, 9)})
    bounds = Bounds(2, 1, 4, 0)

    def first_after(self, origin: str, mark: tuple[int, int]) -> int:
        return 6


def test_events_written_but_not_announced_are_read() -> None:
    log = cast(Any, Writing())
    assert first_serial_after(log, {"far": (1, 9), "own": (1, 0)}) == 5


@attrs.define
class Log:
    """Serials 1 to 12: four of `far` that arrived at 1 to 4, then eight own ones.

    Another process gave the own places of epoch 1 behind the fifth too.
    """

    events: list[LoggedEvent] = attrs.field(
        factory=lambda: [
            *(LoggedEvent(1, n, n, 0, b"", b"", "far", n) for n in range(1, 5)),
            *(LoggedEvent(1, n, 4 + n, 0, b"", b"", "own", 4 + n) for n in range(1, 6)),
            *(LoggedEvent(3, n, 4 + n, 0, b"", b"", "own", 4 + n) for n in range(6, 9)),
        ]
    )
    origin: str = "own"
    flows: KnownFlows = attrs.field(factory=lambda: KnownFlows("own", {}))
    own_end: Mark = (3, 8)
    newest: Mark = (3, 12)
    bounds: Bounds = attrs.field(factory=lambda: Bounds(3, 1, 12, 0))
    coverage: Coverage = attrs.field(factory=lambda: Coverage(CUT))
    history_chain: HistoryChain = attrs.field(
        factory=lambda: HistoryChain(
            [History(1, 11, 0, (0, 0)), History(3, 13, 1, (1, 5))],
            [BranchLoss((3, 5), (3, 5), (1, 5), (1, 7))],
        )
    )
    named: dict[str, tuple[NamedHistory, ...]] = attrs.field(factory=dict)

    def find_fork(self, mark: Mark) -> Mark | None:
        return self.history_chain.find_fork(mark, self.own_end)

    def histories_of(self, origin: str) -> tuple[NamedHistory, ...]:
        return self.named.get(origin, ())

    def first_after(self, origin: str, mark: Mark) -> int:
        behind = (e.serial for e in self.events if e.origin == origin and e.mark > mark)
        return next(behind, self.bounds.last + 1)

    def first_at(self, arrival: int) -> int:
        return next(e.serial for e in self.events if e.arrival >= arrival)

    def position_before(self, serial: int) -> dict[str, Mark]:
        return {e.origin: e.mark for e in self.events if e.serial < serial}


def log_with(**named: tuple[NamedHistory, ...]) -> EventLog:
    """The histories are of other origins."""
    return cast(EventLog, Log(named=named))


def wanted(start: str, time: int = 0) -> Subscribe:
    return Subscribe(1, ">", "true()", {}, "", start, (), time)


def begins(start: str, position: Position | None, time: int = 0) -> tuple[int, dict[str, Mark]]:
    """Return the first serial, and the client's assumed position."""
    found = find_start(log_with(), wanted(start, time), position, CUT)
    return found.serial, dict(found.position)


def test_a_subscription_begins_at_the_named_start() -> None:
    assert begins("new", None) == (13, CUT)
    assert begins("all", None) == (1, {})
    assert begins("time", None, 3) == (3, {"far": (1, 2)})
    with pytest.raises(BadQuery):
        begins("yesterday", None)


def test_a_time_holds_for_origins_without_a_mark() -> None:
    position = Position({"own": (1, 2)})
    assert begins("position", position, 3) == (3, {"far": (1, 2), "own": (1, 2)})
    # All are read, as for a durable subscription.
    assert begins("position", position) == (1, {"own": (1, 2)})
    assert begins("stored", position, 3) == (1, {"own": (1, 2)})


@pytest.mark.parametrize("start", ["position", "stored"])
def test_a_future_position_is_refused(start: str) -> None:
    assert begins(start, Position({"own": (3, 8), "far": (1, 4)})) == (13, CUT)
    with pytest.raises(BadPosition):
        begins(start, Position({"own": (3, 9)}))


@pytest.mark.parametrize(
    ("own", "back"),
    [((1, 4), (1, 4)), ((1, 6), (1, 6)), ((1, 7), (1, 7)), ((1, 8), (1, 5)), ((3, 6), (3, 6))],
)
def test_a_place_on_a_lost_branch_is_moved_back_if_no_loss_covers_it(own: Mark, back: Mark) -> None:
    """The node has reported the lost branch up to its seventh place."""
    assert rewind_lost_branches(log_with(), {"own": own, "far": (1, 2)}) == {
        "own": back,
        "far": (1, 2),
    }
    assert rewind_lost_branches(log_with(), {"far": (1, 2)}) == {"far": (1, 2)}


@pytest.mark.parametrize(
    ("far", "back"), [((1, 4), (1, 4)), ((1, 8), (1, 5)), ((3, 6), (3, 6)), ((5, 1), (5, 1))]
)
def test_a_place_of_another_origin_on_a_lost_branch_is_moved_back(far: Mark, back: Mark) -> None:
    log = log_with(far=((1, 11, (0, 0)), (3, 13, (1, 5))))
    assert rewind_lost_branches(log, {"far": far}) == {"far": back}


@pytest.mark.parametrize(
    ("had", "lost"),
    [
        ((1, 2), (((1, 5), (3, 0)), ((3, 9), (4, 0)))),
        ((1, 8), (((1, 8), (3, 0)), ((3, 9), (4, 0)))),
        ((3, 0), (((3, 9), (4, 0)),)),
        ((3, 12), (((3, 12), (4, 0)),)),
        ((4, 0), None),
        ((4, 3), None),
    ],
)
def test_lost_branches_are_unreceived_places_behind_a_branch_place(
    had: Mark, lost: tuple[tuple[Mark, Mark], ...] | None
) -> None:
    log = log_with(far=((3, 13, (1, 5)), (4, 14, (3, 9))))
    found = find_lost_branches(log, ["far", "own"], {"far": had})
    assert found == ({} if lost is None else {"far": lost})


def test_a_position_gets_the_flows_that_it_does_not_name() -> None:
    """They began later, so their marks lie before their first events."""
    known = {"own/s": (((3, 6), None),), "far/s": (((1, 2), None),)}
    log = cast(EventLog, Log(flows=KnownFlows("own", known)))
    found = find_start(log, wanted("position"), Position({"own": (1, 4), "far": (1, 3)}), CUT)
    assert found.position == {"own": (1, 4), "own/s": (1, 4), "far": (1, 3), "far/s": (1, 2)}
    assert found.skip == found.position


def test_a_place_of_an_own_flow_may_not_lie_in_the_future() -> None:
    log = cast(EventLog, Log(flows=KnownFlows("own", {"own/s": (((1, 0), None),)})))
    check_position(log, Position({"own/s": (3, 8)}))
    with pytest.raises(BadPosition, match="future of own/s"):
        check_position(log, Position({"own/s": (3, 9)}))
