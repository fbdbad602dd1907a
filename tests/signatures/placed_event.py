"""An event and the fields that its proof covers, by name."""

from __future__ import annotations

from typing import NamedTuple

from broker.event.place import Mark
from broker.event.placeholder import digest_of


class PlacedEvent(NamedTuple):
    """`broker.signatures.leaf.EventFields`."""

    mark: Mark
    record: bytes
    digest: bytes

    @classmethod
    def of(cls, mark: Mark, record: bytes, document: bytes) -> PlacedEvent:
        return cls(mark, record, digest_of(document))
