"""Notices of stream transports, in sequence with the events of ordered flows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from broker.cluster.address import Address
from broker.cluster.ingest_job import IngestJob
from broker.cluster.relay_ingest import ORDERED_FLOWS, RelayIngest
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.received_range import ReceivedRange
from broker.errors import LogUnavailable
from broker.log.event_log import EventLog

#: Share of a notice in the bytes of the queue.
_SIZE: Final = 256
_NOWHERE: Final = Range(Address((), ""), (0, 0), (0, 0))
_FRAME: Final = make_page_frame(ORDERED_FLOWS, _NOWHERE.destination, [_NOWHERE], [])
_NO_EVENTS: Final = ReceivedRange(_NOWHERE, attrs.evolve(_FRAME, body=bytes(_SIZE)), 0)


class OrderedNotices:
    """Calls functions in one sequence with the deliveries of ordered flows.

    If the queue is full, or the log is unavailable, a function is called at once: the events
    before it come later, too.
    """

    def __init__(self, relay_ingest: RelayIngest, event_log: EventLog) -> None:
        self._relay_ingest = relay_ingest
        self._log = event_log

    def call_in_order(self, function: Callable[[int], object]) -> None:
        """Call a function with the next serial, when all events passed before are delivered."""

        def passed(_: IngestJob) -> None:
            serial = self._next_serial

            def committed(_: object) -> None:
                # After a failed commit its serials are given again.
                function(min(serial, self._next_serial))

            try:
                self._log.append([], committed)
            except LogUnavailable:
                function(serial)

        job = IngestJob(_NO_EVENTS, (), passed)
        if not self._relay_ingest.add_job(job):
            function(self._next_serial)

    @property
    def _next_serial(self) -> int:
        return self._log.newest[1] + 1
