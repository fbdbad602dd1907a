"""Start position of a subscription in a node's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from broker.errors import BadPosition, BadQuery
from broker.event.flow import origin_of
from broker.event.place import Mark, Position
from broker.log.event_log import EventLog
from broker.wire.messages import Subscribe

#: Values of `start` in Subscribe; `last` needs a recovery.
STARTS = ("new", "all", "position", "time", "stored", "last")


@attrs.frozen
class StartPosition:
    serial: int
    position: Mapping[str, Mark]
    """Of the client."""
    skip: dict[str, Mark] = attrs.field(factory=dict)
    """Marks of events behind the serial that the client already has."""


def find_start(
    log: EventLog, request: Subscribe, position: Position | None, cut: Mapping[str, Mark]
) -> StartPosition:
    """`position` is the client's, if known.

    Raises `BadQuery` for an unknown start, `BadPosition` for a future one.
    """
    if request.start not in STARTS:
        raise BadQuery(f"start {request.start[:20]!r} is none of {', '.join(STARTS)}")
    if request.start == "all":
        return _start_at(log, log.bounds.first)
    if request.start == "time":
        return _start_at(log, log.first_at(request.time))
    if position is None:
        return StartPosition(log.newest[1] + 1, cut)
    position = complete_position(log, position)
    if request.time and request.start == "position":
        # The time still holds for origins without a mark.
        before = log.position_before(log.first_at(request.time))
        position = Position({**before, **position.marks})
    check_position(log, position)
    return StartPosition(
        first_serial_after(log, position.marks), position.marks, dict(position.marks)
    )


def complete_position(log: EventLog, position: Position) -> Position:
    """Add the flows that a position does not name, of origins that it names."""
    marks = log.flows.complete_marks(position.marks)
    return position if marks is position.marks else Position(marks)


def first_serial_after(log: EventLog, marks: Mapping[str, Mark]) -> int:
    """Return the serial of the first durable event behind these marks.

    All events of an origin without a mark lie behind them.
    """
    serials = [log.first_after(origin, marks.get(origin, (0, 0))) for origin in log.coverage]
    # Events without a durable place follow the durable ones. The coverage may not include the first
    # event of a new origin.
    return min([*serials, log.bounds.last + 1])


def find_active_from(
    log: EventLog, own: Mapping[str, Mark], marks: Mapping[str, Mark]
) -> dict[str, Mark]:
    """Return the marks behind which a new active subscription misses no event.

    Nodes selected earlier events of other origins without it. Own events are complete behind `own`
    (`EventLog.own_cut`).
    """
    known = {**log.end_position(), **own}
    # Other nodes' cuts of an own ordered flow count withheld events.
    marks = {o: mark for o, mark in marks.items() if o not in log.flows.ordered}
    return {o: max(known.get(o, (0, 0)), marks.get(o, (0, 0))) for o in {*known, *marks}}


def check_position(log: EventLog, position: Position) -> None:
    """Raise `BadPosition` if the position lies behind this node's last own event."""
    for origin in (log.origin, *log.flows.own):
        mark = position.marks.get(origin)
        if mark is not None and mark > log.own_end:
            raise BadPosition(
                f"position {mark[0]}:{mark[1]} lies in the future of {origin}, "
                f"whose last place is {log.own_end[0]}:{log.own_end[1]}"
            )


def rewind_lost_branches(log: EventLog, marks: Mapping[str, Mark]) -> Mapping[str, Mark]:
    """Move places on a lost branch back to its start: an origin's new places may have lower
    offsets."""
    back = {
        origin: min([mark, *(branch for epoch, _, branch in path if mark[0] < epoch)])
        for origin, mark in marks.items()
        if (path := log.histories_of(origin_of(origin)))
    }
    for flow in (log.origin, *log.flows.own):
        own = marks.get(flow)
        fork = None if own is None else log.find_fork(own)
        if own is not None and fork is not None and own > log.history_chain.newest_of_branch(fork):
            back[flow] = fork
    return {**marks, **back}


def find_lost_branches(
    log: EventLog, origins: Iterable[str], had: Mapping[str, Mark]
) -> dict[str, tuple[tuple[Mark, Mark], ...]]:
    """Return the ranges of places behind `had` that each origin's later histories lack.

    A history begins at a branch place, behind which earlier histories are lost.
    """
    found = {}
    for origin in origins:
        after = had.get(origin, (0, 0))
        path = log.histories_of(origin_of(origin))
        ends = ((max(after, branch), (epoch, 0)) for epoch, _, branch in path)
        if branches := tuple(end for end in ends if end[0] < end[1]):
            found[origin] = branches
    return found


def _start_at(log: EventLog, serial: int) -> StartPosition:
    return StartPosition(serial, log.position_before(serial))
