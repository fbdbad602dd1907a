"""Packets of the cores that stamp at the sender, and the names of messages and places."""

from __future__ import annotations

from typing import NamedTuple

import attrs

#: About the bytes of a message in memory, beside its payload.
MESSAGE_COST = 512


class MessageId(NamedTuple):
    """Identity of a message. Numbers of an incarnation begin with 1 and have no gaps (K21)."""

    site: str
    incarnation: int
    number: int


class Stamp(NamedTuple):
    """Place of a message in the order: 64 bits, signed, and the name of a site for ties (L2)."""

    time: int
    site: str


class Reserved(NamedTuple):
    """Number and stamp of an own message that is not released yet.

    A message number of the sequencer variant has no stamp.
    """

    number: int
    stamp: Stamp | None


class Message(NamedTuple):
    """One message of a site to all sites of its group.

    `connected` are the sites that its sender saw as connected when it released the message.
    """

    id: MessageId
    payload: bytes
    connected: frozenset[str]
    #: None if a sequencer gives the place.
    stamp: Stamp | None = None

    @property
    def cost(self) -> int:
        """About the bytes in memory."""
        return len(self.payload) + MESSAGE_COST


@attrs.frozen
class Clock:
    """All later stamps of its sender are higher (K20, T15)."""

    time: int
