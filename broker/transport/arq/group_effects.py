"""What a group's core may ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.transport.effects import DeliverUp, SendDown, WritableChanged


@attrs.frozen
class ToGroup:
    """Send datagrams to the whole group."""

    datagrams: Sequence[bytes]


@attrs.frozen
class Gap:
    """So many packets of a sender could not be had any more; what follows comes."""

    sender: str
    count: int


@attrs.frozen
class Appeared:
    """A sender is there, or is there again: a new life of it begins."""

    sender: str


@attrs.frozen
class Hears:
    """A sender hears what is sent to the group, or does not any more: it said so, or stopped saying
    so. One that vanished hears nothing until the contrary is told."""

    sender: str
    hears: bool


@attrs.frozen
class Vanished:
    """A sender has left, or is silent."""

    sender: str


#: `SendDown` has the address as its peer, `DeliverUp` the sender's name.
Effect: TypeAlias = (
    ToGroup | SendDown | DeliverUp | WritableChanged | Gap | Appeared | Hears | Vanished
)
