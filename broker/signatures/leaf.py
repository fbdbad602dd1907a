"""Leaf of a signed batch: a salted hash of an event's place, header and document.

The salt keeps the leaf of an event secret from readers of other events of its batch, who get the
leaf in their paths. Without it, they could guess a short document.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Final, NamedTuple

from broker.event.place import Mark

SALT_BYTES: Final = 16
_PLACE = struct.Struct(">IQ")


class PlacedEvent(NamedTuple):
    """An event of one origin. Its record has nine elements (`broker.event.record`)."""

    mark: Mark
    record: bytes
    document: bytes


def hash_event(salt: bytes, origin: bytes, event: PlacedEvent) -> bytes:
    """Return the hash of the leaf: RFC 6962's leaf of salt, place, origin, digest and header."""
    mark, record, document = event
    digest = sha256(document).digest()
    return sha256(
        b"".join((b"\0", salt, _PLACE.pack(*mark), digest, origin, b"\0", record))
    ).digest()
