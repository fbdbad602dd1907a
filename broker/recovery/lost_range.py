"""Events that their origin's log has removed, read for transports that order them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import attrs

from broker.cluster.carried_event import as_carried_event
from broker.cluster.ordered_ranges import FoundPart
from broker.delivery.recovery_contract import LostRange, RecoveryRequest
from broker.event.envelope import SecurityLevel
from broker.event.flow import pattern_of
from broker.event.place import Mark
from broker.event.stream import StreamPattern
from broker.log.logged_event import LoggedEvent
from broker.matching.query.query import Query
from broker.recovery.log_source import LogSource
from broker.recovery.node_recovery import NodeRecovery
from broker.recovery.planner import RemainingRanges
from broker.streams.contract import CarriedEvent


async def read_lost_range(
    recovery: NodeRecovery, everything: Query, flow: str, after: Mark, upto: Mark
) -> AsyncIterator[FoundPart]:
    """Yield the events of a flow from replicas and the archive, else from other nodes' logs.

    Raises `BrokerError` if the archive can not be read now.
    """
    request = RecoveryRequest(
        StreamPattern.parse(pattern_of(flow)),
        everything,
        max(each.rank for each in SecurityLevel),
        {flow: (after, upto)},
    )
    active = recovery.start_recovery(request)
    try:
        while events := await active.next_events():
            async for part in _read_others(recovery, request, active.preceding_losses()):
                yield part
            yield FoundPart(list(map(as_carried_event, events)), None)
        async for part in _read_others(recovery, request, active.remaining_losses()):
            yield part
    finally:
        active.cancel()


async def _read_others(
    recovery: NodeRecovery, request: RecoveryRequest, losses: Sequence[LostRange]
) -> AsyncIterator[FoundPart]:
    """Yield what other nodes logged of these ranges: they may be sites of the group."""
    for loss in losses:
        ranges = {loss.origin: (loss.after, loss.upto)}
        remaining = RemainingRanges(ranges)
        source = LogSource(attrs.evolve(request, ranges=ranges), recovery.context, remaining)
        async for events in source.read_partial_logs():
            lost = [end for _, _, end in source.missing_ranges]
            source.missing_ranges.clear()
            for part in _split_at_losses(events, lost):
                yield part
        if remaining.ranges:
            yield FoundPart((), loss.upto)


def _split_at_losses(events: Sequence[LoggedEvent], lost: Sequence[Mark]) -> list[FoundPart]:
    """Return parts of which each loss, given by its end, precedes all events."""
    parts: list[FoundPart] = []
    found: list[CarriedEvent] = []
    ends = sorted(lost)
    for event in events:
        passed = [end for end in ends if end < event.mark]
        ends = ends[len(passed) :]
        if passed or not parts:
            found = []
            parts.append(FoundPart(found, passed[-1] if passed else None))
        found.append(as_carried_event(event))
    return parts
