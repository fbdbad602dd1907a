"""Notes of a client process: one JSON line for each observation."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broker.client.received import Gap, Receipt, ReceivedEvent
from broker.event.event_id import EventId
from broker.event.place import Place
from broker.testing.guarantees.records import digest_of


class Notebook:
    """Written lines survive `kill -9`."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note(self, kind: str, **fields: Any) -> None:
        """The time is of the machine's monotonic clock."""
        line = json.dumps({"kind": kind, "at": time.monotonic(), **fields})
        os.write(self._file, line.encode() + b"\n")

    def note_receipt(self, receipt: Receipt) -> None:
        place = None if receipt.place is None else place_fields(receipt.place)
        self.note("receipt", key=key_fields(receipt.event_id), place=place)

    def note_delivery(self, event: ReceivedEvent) -> None:
        header = event.header
        self.note(
            "delivered",
            key=key_fields(event.event_id),
            place=place_fields(event.place),
            stream=event.stream,
            type=f"{header.type_name} {header.version}",
            level=header.security_level.rank,
            digest=digest_of(event.document),
            liveness=event.liveness.value,
        )

    def note_gap(self, gap: Gap) -> None:
        self.note(
            "gap",
            first=place_fields(gap.first),
            last=place_fields(gap.last),
            count=gap.count,
            reason=gap.reason,
        )


def key_fields(event_id: EventId) -> list[Any]:
    return [event_id.client_id, event_id.incarnation, event_id.sequence_number]


def place_fields(place: Place) -> list[Any]:
    return [place.origin, place.epoch, place.offset]


class NotebookReader:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def read_new(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with open(self._path, "rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._offset += len(line)
                yield json.loads(line)
