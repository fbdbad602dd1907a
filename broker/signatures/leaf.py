"""Leaf of a signed batch: a salted hash of an event's place, header and document.

The salt keeps the leaf of an event secret from readers of other events of its batch, who get the
leaf in their proofs. Without it, they could guess a short document.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Final, NamedTuple, TypeAlias

from broker.event.place import Mark
from broker.event.placeholder import digest_of

SALT_BYTES: Final = 16
#: A forger needs an event with the hash of a given one. The salt is new, so that a publisher can
#: not prepare two events with one hash.
HASH_BYTES: Final = 16
#: A zero byte, salt, epoch, offset and length of the record.
_HEAD = struct.Struct(f">x{SALT_BYTES}sIQI")
#: Those of a `PlacedEvent`: a plain tuple is made in a fifth of the time.
EventFields: TypeAlias = tuple[Mark, bytes, bytes]


class PlacedEvent(NamedTuple):
    """An event of one origin, as its proof covers it."""

    mark: Mark
    record: bytes
    """Of nine elements (`broker.event.record`)."""
    digest: bytes
    """SHA-256 of the document."""

    @classmethod
    def of(cls, mark: Mark, record: bytes, document: bytes) -> PlacedEvent:
        return cls(mark, record, digest_of(document))


def hash_event(salt: bytes, origin: bytes, event: EventFields) -> bytes:
    """Return the hash of the leaf."""
    (epoch, offset), record, digest = event
    head = _HEAD.pack(salt, epoch, offset, len(record))
    return sha256(b"".join((head, origin, b"\0", record, digest))).digest()[:HASH_BYTES]
