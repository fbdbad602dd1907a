"""Late events: parents had left them out of ranges that this router has already passed on.

Behind a later event of its flow such an event would be out of order. So the node of this router
reports it to its subscriptions, and each child gets it by a control message of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from broker.errors import ProtocolError
from broker.event.flow import origin_of
from broker.streams.contract import FlowBatch
from plugins.dcp.children import Children
from plugins.dcp.control import LateEvent
from plugins.dcp.copy_alarms import CopyAlarms
from plugins.dcp.event_range import EventRange, decode_range
from plugins.dcp.packet import MOST_AN
from plugins.dcp.router_host import IRouterHost
from plugins.dcp.sequences import SequenceState


class LateEvents:
    def __init__(self, host: IRouterHost, alarms: CopyAlarms, children: Children) -> None:
        self._host = host
        self._alarms = alarms
        self._children = children
        self._found: list[FlowBatch] = []

    def pass_on(self, state: SequenceState, range_: EventRange, now: float) -> None:
        """Pass on the late events of a received range; to the node with the next `flush`."""
        found, wanted = self._alarms.report_omissions(state, range_, now)
        if found.events and origin_of(state.description.flow) != self._host.origin:
            self._found.append(state.make_batch(found, is_late=True))
        if wanted.events and len(self._children):
            links = self._host.match(state.make_batch(wanted))
            self._children.forward_late(state, wanted, links)

    def flush(self) -> None:
        """Deliver late events, behind the ranges that lack them. The node checks signatures."""
        found, self._found = self._found, []
        for batch in found:
            self._host.deliver(batch)


def read_late_event(message: LateEvent) -> Iterator[EventRange]:
    """Yield the range of the event in a message. Raises `ProtocolError`."""
    range_ = decode_range(0, MOST_AN, message.epoch, message.entry)
    if len(range_.events) != 1 or range_.omission is not None:
        raise ProtocolError("a late event that is not one event")
    yield from range_.single_events()
