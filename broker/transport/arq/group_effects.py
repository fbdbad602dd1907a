"""Effects of a group's core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import attrs

from broker.transport.effects import DeliverUp, SendDown, WritableChanged


@attrs.frozen
class SendToGroup:
    datagrams: Sequence[bytes]


@attrs.frozen
class PacketsLost:
    """Packets can not be recovered; later ones follow."""

    sender: str
    count: int


@attrs.frozen
class SenderAppeared:
    sender: str


@attrs.frozen
class ReachabilityChanged:
    """A sender confirms that it receives the group's datagrams, or confirms it no longer.

    After its disappearance a sender is unreachable until it confirms again.
    """

    sender: str
    is_reachable: bool


@attrs.frozen
class SenderDisappeared:
    sender: str


#: `SendDown` has an address as its peer, `DeliverUp` the sender's name.
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
