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

    def after(self, count: int) -> MessageId:
        """Return the id that follows by this number."""
        return MessageId(self.site, self.incarnation, self.number + count)


class Stamp(NamedTuple):
    """Place of a message in the order: 64 bits, signed, and the name of a site for ties (L2).

    The stamps of a run follow each other by one.
    """

    time: int
    site: str

    def after(self, count: int) -> Stamp:
        """Return the stamp of the message of a run that follows by this number."""
        return Stamp(self.time + count, self.site)

    def count_below(self, other: Stamp) -> int:
        """Return how many stamps, from this one on, are below another stamp."""
        return max(other.time - self.time + (self.site < other.site), 0)


class Reserved(NamedTuple):
    """Numbers and stamps of own messages that are not released yet; both follow each other by one.

    The numbers of the sequencer variant have no stamps.
    """

    number: int
    stamp: Stamp | None
    length: int = 1

    def without(self, count: int) -> Reserved:
        """Return the rest behind the first messages."""
        stamp = None if self.stamp is None else self.stamp.after(count)
        return Reserved(self.number + count, stamp, self.length - count)


class Message(NamedTuple):
    """One message of a site to all sites of its group, or a run of them.

    A run has `length` messages. Their numbers and stamps follow each other by one, from `id` and
    `stamp` on; the payload is that of all. So a batch of a publisher costs as much as one message,
    and is cut only where another message stands between.

    `connected` are the sites that its sender saw as connected when it released the message.
    """

    id: MessageId
    payload: bytes
    connected: frozenset[str]
    #: None if a sequencer gives the place.
    stamp: Stamp | None = None
    length: int = 1

    @property
    def cost(self) -> int:
        """About the bytes in memory."""
        return len(self.payload) + MESSAGE_COST * self.length

    @property
    def last(self) -> int:
        """Number of the last message."""
        return self.id.number + self.length - 1

    @property
    def last_stamp(self) -> Stamp | None:
        return None if self.stamp is None else self.stamp.after(self.length - 1)

    def cut(self, count: int) -> tuple[Message, Message]:
        """Return the first messages of a run, with the payload, and the others."""
        id, payload, connected, stamp, whole = self
        first = Message(id, payload, connected, stamp, count)
        stamp = None if stamp is None else stamp.after(count)
        return first, Message(id.after(count), b"", connected, stamp, whole - count)


@attrs.frozen
class Clock:
    """All later stamps of its sender are higher (K20, T15)."""

    time: int
