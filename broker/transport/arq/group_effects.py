"""What a group's core may ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.transport.effects import DeliverUp, SendDown, WritableChanged


@attrs.frozen
class SendToGroup:
    """Send datagrams to the whole group."""

    datagrams: Sequence[bytes]


@attrs.frozen
class PacketsLost:
    """So many packets of a sender could not be had any more; what follows comes."""

    sender: str
    count: int


@attrs.frozen
class SenderAppeared:
    """A sender is there, or is there again: a new life of it begins."""

    sender: str


@attrs.frozen
class ReachabilityChanged:
    """A sender hears what is sent to the group, or does not any more: it said so, or stopped saying
    so. One that vanished hears nothing until the contrary is told."""

    sender: str
    is_reachable: bool


@attrs.frozen
class SenderDisappeared:
    """A sender has left, or is silent."""

    sender: str


#: `SendDown` has the address as its peer, `DeliverUp` the sender's name.
Effect: TypeAlias = (
    SendToGroup
    | SendDown
    | DeliverUp
    | WritableChanged
    | PacketsLost
    | SenderAppeared
    | ReachabilityChanged
    | SenderDisappeared
)
