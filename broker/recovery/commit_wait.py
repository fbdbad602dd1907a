"""Wait for the commit of own events in requested ranges.

The cut of a subscription counts places from the time they are given. A page has durable events
only, and the recovery would report the rest up to the cut as lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred, succeed

from broker.delivery.recovery_contract import MarkRange
from broker.log.event_log import EventLog


def wait_for_commit(log: EventLog, ranges: Mapping[str, MarkRange]) -> Deferred[None]:
    """Fire when the own events of these ranges are durable, or their commit has failed."""
    durable = log.coverage[log.origin]
    ends = [upto for flow, (_, upto) in ranges.items() if upto and log.flows.is_own(flow)]
    if not any(durable < upto <= log.own_end for upto in ends) or not log.is_writable:
        return succeed(None)
    committed: Deferred[None] = Deferred()
    log.append([], lambda _: committed.callback(None))
    return committed
