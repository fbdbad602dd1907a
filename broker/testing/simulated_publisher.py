"""A publisher in virtual time."""

from __future__ import annotations

from typing import Any

from broker.client.client import Client
from broker.client.received import Receipt
from broker.errors import BrokerError
from broker.event.envelope import EventType, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark
from broker.testing.flights import flight


class Publisher:
    def __init__(self, client: Client) -> None:
        self.client = client
        self.results: list[tuple[EventId, Receipt | BrokerError]] = []
        self.published = 0

    def publish(
        self,
        stream: str = "asdi.zbw.tz",
        altitude: int = 1000,
        size: int = 0,
        level: SecurityLevel = SecurityLevel.MED,
        name: str = "flight",
    ) -> None:
        """`name` is the root element."""
        self.published += 1
        kind = EventType(name, "1.0", security_level=level)
        payload = flight(altitude, size).replace(b"flight", name.encode())
        number = self.client._mint.last_sequence_number + 1
        settled: Any = self.client.publish(stream, payload, kind)
        event_id = EventId(self.client.client_id, 0, number, self.client.incarnation)

        def keep(result: Any) -> None:
            value = getattr(result, "value", result)
            self.results.append((event_id, value))

        settled.addBoth(keep)

    @property
    def receipts(self) -> list[Receipt]:
        return [result for _, result in self.results if isinstance(result, Receipt)]

    @property
    def marks(self) -> list[Mark]:
        return [receipt.place.mark for receipt in self.receipts if receipt.place]
