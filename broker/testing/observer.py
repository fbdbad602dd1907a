"""Observations of simulated runs, for the guarantees' checker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from broker.client.client import Client
from broker.client.received import Gap, Receipt, ReceivedEvent
from broker.event.event_id import EventId
from broker.event.place import Place
from broker.event.reader import read_event
from broker.testing.flights import Interest, altitude_of
from broker.testing.guarantees import (
    Delivered,
    End,
    EventKey,
    Kind,
    Observations,
    Process,
    Published,
    ReportedGap,
    Subscriber,
)
from broker.testing.guarantees.records import digest_of
from broker.testing.simulated_reader import LogEntries, Reader
from broker.testing.virtual_time import VirtualTime


class Observer:
    def __init__(self, time: VirtualTime, durability: str = "node") -> None:
        self.seen = Observations()
        self._time = time
        self._durability = durability

    def watch(self, client: Client) -> Client:
        enqueue: Any = client._enqueue

        def recorded(document: bytes, event_id: EventId, time: int | None) -> Any:
            settled = enqueue(document, event_id, time)
            event = read_event(document)
            kind = event.event_type
            self.seen.record_publication(
                Published(
                    EventKey.of(event_id),
                    event.stream,
                    f"{kind.name} {kind.version}",
                    kind.security_level.rank,
                    digest_of(document),
                    altitude_of(document),
                    self._time.clock.seconds(),
                )
            )
            settled.addCallback(self._record_receipt)
            return settled

        client._enqueue = recorded  # type: ignore[method-assign]
        return client

    def record_logs(self, logs: LogEntries, *, complete: bool = True) -> None:
        """`complete`: no log lost any event."""
        for log in logs.values():
            for entry in log:
                key = EventKey.of(entry.header.event_id)
                self.seen.record_place(key, Place(entry.flow, *entry.mark))
        self.seen.has_all_places = complete

    def add_subscriber(
        self,
        name: str,
        readers: Sequence[Reader],
        *,
        kind: Kind = Kind.DURABLE,
        clearance: int = 2,
    ) -> Subscriber:
        """A reader's process is killed when the next one starts."""
        interest = readers[0].interest
        made = self.seen.add_subscriber(
            name, lambda event: _matches(interest, event), kind=kind, clearance=clearance
        )
        for number, reader in enumerate(readers, 1):
            process = made.add_process()
            process.end = End.RUNNING if number == len(readers) else End.KILLED
            if reader.is_flowing:
                process.record_flow(reader.starts_after)
            if reader.error is not None:
                process.error = repr(reader.error)
            process.items += map(_item, reader.items)
        return made

    @staticmethod
    def mark_unhandled(process: Process, events: Sequence[ReceivedEvent]) -> None:
        process.items += [attrs.evolve(_delivered(each), handled=False) for each in events]

    def _record_receipt(self, receipt: Receipt) -> Receipt:
        key = EventKey.of(receipt.event_id)
        now = self._time.clock.seconds()
        self.seen.record_receipt(key, self._durability, receipt.place, now)
        return receipt


def _matches(interest: Interest, event: Published) -> bool:
    return interest.matches(event.stream, event.value)


def _item(item: ReceivedEvent | Gap) -> Delivered | ReportedGap:
    if isinstance(item, Gap):
        return ReportedGap(
            item.first.origin, item.first.mark, item.last.mark, item.count, item.reason
        )
    return _delivered(item)


def _delivered(item: ReceivedEvent) -> Delivered:
    header = item.header
    return Delivered(
        EventKey.of(item.event_id),
        item.place,
        item.stream,
        f"{header.type_name} {header.version}",
        header.security_level.rank,
        digest_of(item.document),
        item.liveness.value,
    )
