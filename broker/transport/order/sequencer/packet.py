"""Packets of the sequencer variant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import attrs

from broker.transport.order.packet import MessageId, Stamp

#: Bits of a stamp for the number within an epoch.
NUMBER_BITS = 32
#: A longer packet is an error.
MOST_HEADERS = 10_000

#: Highest delivered number by site and incarnation.
Delivered: TypeAlias = Mapping[tuple[str, int], int]


class Header(NamedTuple):
    """A message without its payload: see `Message.connected`."""

    id: MessageId
    connected: frozenset[str]


#: Messages with their stamps, the lowest first.
Places: TypeAlias = tuple[tuple[Stamp, Header], ...]


class Epoch(NamedTuple):
    """Reign of one sequencer. A takeover begins a higher one."""

    counter: int
    sequencer: str

    def stamp(self, number: int) -> Stamp:
        return Stamp(self.counter << NUMBER_BITS | number, self.sequencer)


#: For each epoch the number after the highest of those without a gap that a site knows.
KnownNumbers: TypeAlias = Mapping[Epoch, int]


@attrs.frozen
class Follow:
    """Its sender takes numbers from the receiver from now on, and knows epochs up to `counter`."""

    counter: int


@attrs.frozen
class Raised:
    """Its sender enters an epoch of another sequencer. The receiver leaves those up to this one."""

    counter: int


@attrs.frozen
class Left:
    """Answer to `Raised`: its sender gives no numbers up to this counter any more."""

    counter: int


@attrs.frozen
class Takeover:
    """Its sender begins an epoch, and has delivered and knows these."""

    epoch: Epoch
    delivered: Delivered
    known: KnownNumbers


@attrs.frozen
class Answer:
    """Answer to a takeover. After an accepting one, its sender refuses lower epochs."""

    epoch: Epoch
    delivered: Delivered
    known: KnownNumbers
    #: Stamps that the receiver does not know, as far as its sender knows them.
    places: Places
    #: Messages without a number at its sender.
    waiting: tuple[Header, ...]

    def has_delivered(self, id: MessageId) -> bool:
        return id.number <= self.delivered.get(id[:2], 0)


@attrs.frozen
class Refusal:
    """Its sender follows another site (`counter` is 0), or knows epochs up to `counter`."""

    epoch: Epoch
    counter: int


@attrs.frozen
class Begin:
    """The epoch begins, after these places of earlier epochs.

    With them the receiver knows all numbers that its sender knows.
    """

    epoch: Epoch
    places: Places
    known: KnownNumbers
    #: Sites that have answered the takeover.
    members: frozenset[str] = frozenset()


@attrs.frozen
class Numbers:
    """Numbers from `first` on, for these messages."""

    epoch: Epoch
    first: int
    headers: tuple[Header, ...]


@attrs.frozen
class Request:
    """Its sender waits for numbers of these messages."""

    headers: tuple[Header, ...]


@attrs.frozen
class Known:
    """Answer of a follower to a request: stamps that it knows."""

    places: Places
    #: Followers between its sender and a sequencer.
    depth: int = 0
