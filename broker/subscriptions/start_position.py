"""Where a subscription begins in a node's log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from broker.errors import BadPosition, BadQuery
from broker.event.place import Mark, Position
from broker.log.event_log import EventLog
from broker.wire.messages import Subscribe

#: What the client names as `start` in Subscribe; `last` is for who can recover.
STARTS = ("new", "all", "position", "time", "stored", "last")


@attrs.frozen
class StartPosition:
    """Where a subscription begins in the log."""

    serial: int
    position: Mapping[str, Mark]
    """How far its client has got when it begins."""
    skip: dict[str, Mark] = attrs.field(factory=dict)
    """What lies behind the serial and is not for it: it has had these origins up to there."""


def find_start(
    log: EventLog, request: Subscribe, position: Position | None, cut: Mapping[str, Mark]
) -> StartPosition:
    """Where the subscription begins; `position` is how far its client has got, where that is known.

    Raises `BadQuery` for a start that there is not, `BadPosition` for one that is yet to come.
    """
    if request.start not in STARTS:
        raise BadQuery(f"start {request.start[:20]!r} is none of {', '.join(STARTS)}")
    if request.start == "all":
        return _start_at(log, log.bounds.first)
    if request.start == "time":
        return _start_at(log, log.first_at(request.time))
    if position is None:
        return StartPosition(log.newest[1] + 1, cut)
    if request.time and request.start == "position":
        # It began at a time, which holds on for origins of which it has had nothing.
        before = log.position_before(log.first_at(request.time))
        position = Position({**before, **position.marks})
    check_position(log, position)
    return StartPosition(first_serial_after(log, position.marks), position.marks, dict(position.marks))


def first_serial_after(log: EventLog, marks: Mapping[str, Mark]) -> int:
    """The serial of the first durable event that lies behind these marks.

    Everything of an origin that they do not name does.
    """
    serials = [log.first_after(origin, marks.get(origin, (0, 0))) for origin in log.coverage]
    # An event that has no durable place yet lies behind all that have one; also one that was
    # written a moment ago, the first of its origin, maybe, which nothing tells of yet.
    return min([*serials, log.bounds.last + 1])


def find_active_from(log: EventLog, own: Mark, marks: Mapping[str, Mark]) -> dict[str, Mark]:
    """Behind which marks a subscription misses nothing, now that it flows.

    What was logged of other origins until now was chosen by nodes that did not know of it; of the
    own events it has all behind `own`.
    """
    known = log.end_position()
    known[log.origin] = own
    return {o: max(known.get(o, (0, 0)), marks.get(o, (0, 0))) for o in {*known, *marks}}


def check_position(log: EventLog, position: Position) -> None:
    """Raise `BadPosition` where this node's own events have not got so far."""
    mark = position.marks.get(log.origin)
    if mark is not None and mark > log.own_end:
        raise BadPosition(
            f"position {mark[0]}:{mark[1]} lies in the future of {log.origin}, "
            f"which has got to {log.own_end[0]}:{log.own_end[1]}"
        )


def rewind_lost_branches(log: EventLog, marks: Mapping[str, Mark]) -> Mapping[str, Mark]:
    """The marks, with places of a lost branch set back to where that began: the log of their origin
    was started from an older copy, and its new places may have lower offsets."""
    back = {
        origin: min([mark, *(branch for epoch, _, branch in path if mark[0] < epoch)])
        for origin, mark in marks.items()
        if (path := log.histories_of(origin))
    }
    own = marks.get(log.origin)
    fork = None if own is None else log.find_fork(own)
    if own is not None and fork is not None and own > log.history_chain.newest_of_branch(fork):
        back[log.origin] = fork
    return {**marks, **back}


def find_lost_branches(
    log: EventLog, origins: Iterable[str], had: Mapping[str, Mark]
) -> dict[str, tuple[tuple[Mark, Mark], ...]]:
    """By origin the places behind `had` that it has given, and that its later histories lack.

    Each history begins at a branch place. What the one before gave behind that is lost to the
    origin. Nothing is there if its log was never started from an older copy."""
    found = {}
    for origin in origins:
        after = had.get(origin, (0, 0))
        path = log.histories_of(origin)
        ends = ((max(after, branch), (epoch, 0)) for epoch, _, branch in path)
        if branches := tuple(end for end in ends if end[0] < end[1]):
            found[origin] = branches
    return found


def _start_at(log: EventLog, serial: int) -> StartPosition:
    return StartPosition(serial, log.position_before(serial))
