"""Check of the ranges of received frames: their origin has signed what they claim.

Other nodes than the origin make ranges too, which have no statement: a node where events enter its
unit, for the destinations inside, and a node with a replica.
"""

from __future__ import annotations

import attrs

from broker.cluster.address import Address, is_within
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.range_claim import FrameEvents, claims_nothing, hash_claim
from broker.errors import BadSignature
from broker.event.flow import origin_of
from broker.event.origin import is_signed_origin
from broker.signatures.range_statement import StatementChecker


@attrs.frozen
class FrameSource:
    """Properties of the link, and of the origin, that decide what a frame's ranges must have."""

    own: Address
    is_inside: bool
    """A node of the own cluster sent the frame."""
    is_origin_inside: bool
    """A reachable node of the own cluster has the log."""
    may_lose_statements: bool = False
    """An earlier version on the way is allowed to remove them."""


def check_ranges(frame: Frame, source: FrameSource) -> None:
    """Raise `BadSignature` for a wrong range for this node, its cluster, or a unit around it."""
    indices = [n for n, each in enumerate(frame.ranges) if _is_checked(each.destination, source)]
    if source.may_lose_statements:
        indices = [each for each in indices if frame.ranges[each].proof is not None]
    if not indices or not is_signed_origin(origin_of(frame.origin)):
        return
    events = frame.events_by_range()
    checker = None
    if frame.statement is not None:
        checker = StatementChecker(frame.origin, frame.statement)
    for index in indices:
        _check_range(frame, index, events, source, checker)


def only_passes(frame: Frame, own: Address) -> bool:
    """Return True if the frame of another cluster has no range for the own one."""
    return not any(_is_for_cluster(each.destination, own) for each in frame.ranges)


def names_unavailable(frame: Frame) -> bool:
    """Return True if a frame names events that are in no log any more."""
    return any(each.unavailable_upto is not None for each in frame.ranges)


def _check_range(
    frame: Frame,
    index: int,
    events: FrameEvents,
    source: FrameSource,
    checker: StatementChecker | None,
) -> None:
    span = frame.ranges[index]
    found = events.of_range(index)
    if span.proof is None or checker is None:
        if span.proof is None and _is_of_other_node(span, frame.origin_node, source):
            return
        if not claims_nothing(span, found.marks) and not span.is_announcement:
            raise BadSignature(f"a range of {frame.origin} is not signed")
    else:
        checker.check(span.proof.group, hash_claim(span, found))


def _is_checked(destination: Address, source: FrameSource) -> bool:
    if source.is_inside and destination.node:
        return destination == source.own
    return _is_for_cluster(destination, source.own)


def _is_for_cluster(destination: Address, own: Address) -> bool:
    if destination.node:
        return destination.unit == own.unit
    # The events enter the unit here.
    return is_within(own.unit, destination.unit)


def _is_of_other_node(span: Range, origin_node: Address, source: FrameSource) -> bool:
    """Return True if another node than the origin makes such ranges."""
    if span.unavailable_upto is not None:
        # Only the origin's log shows that events are in no log any more.
        return False
    if span.destination.node:
        return source.is_inside and not source.is_origin_inside
    around = span.destination.unit[:-1]
    return bool(around) and not is_within(origin_node.unit, around)
