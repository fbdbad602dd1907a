"""A child of parents whose packets a test writes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Final

from broker.streams.contract import CarriedEvent
from plugins.dcp.confirming_receiver import ConfirmingReceiver
from plugins.dcp.event_range import EventRange
from plugins.dcp.nack_timer import NackSettings
from plugins.dcp.parent_path import ParentPath
from plugins.dcp.receiver import Nack, ReceiverSettings, SequenceReceiver

PATIENT: Final = ReceiverSettings(nack=NackSettings(patience=1e6))
#: Previous AN, AN, and ANs of events.
Delivered = list[tuple[int, int, list[int]]]


def make_range(previous: int, upto: int, ans: Iterable[int], document: bytes = b"") -> EventRange:
    return EventRange.of_events(
        previous, upto, [CarriedEvent((1, an), b"r", document or b"%d" % an) for an in ans]
    )


class Child:
    """A receiver, and all that it has delivered."""

    def __init__(
        self,
        parents: str,
        settings: ReceiverSettings = PATIENT,
        start: int | None = 0,
        *,
        confirms: bool = False,
    ) -> None:
        self.paths: dict[Hashable, ParentPath] = {each: ParentPath(each) for each in parents}
        self.core = SequenceReceiver[EventRange](self.paths, settings)
        if confirms:
            self.core = ConfirmingReceiver[EventRange](self.paths, settings, None, EventRange)
        self.spans: list[tuple[int, int]] = []
        """Of all delivered ranges."""
        self.events: list[CarriedEvent] = []
        if start is not None:
            for each in parents:
                self.core.set_parent(each, start, 0, 0.0)
            self.core.begin(start, 0.0)

    def give(
        self,
        parent: str,
        previous: int,
        upto: int,
        *ans: int,
        now: float = 0.0,
        document: bytes = b"",
        is_repeated: bool = False,
    ) -> Delivered:
        range_ = make_range(previous, upto, ans, document)
        return self.take(self.core.receive(parent, range_, now, is_repeated=is_repeated))

    def take(self, ranges: Iterable[EventRange]) -> Delivered:
        found: Delivered = []
        for each in ranges:
            self.events += each.events
            self.spans.append((each.previous, each.upto))
            found.append((each.previous, each.upto, [event.mark[1] for event in each.events]))
        return found

    def nacks_until(self, end: float) -> list[tuple[float, Nack]]:
        """Let time pass; return the requests and their times, in whole microseconds."""
        found = []
        while (due := self.core.next_timeout()) is not None and due <= end:
            ranges, nack = self.core.handle_timeout(due)
            self.take(ranges)
            if nack is not None:
                found.append((round(due, 6), nack))
        return found

    @property
    def ans(self) -> list[int]:
        return [event.mark[1] for event in self.events]
