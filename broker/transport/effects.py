"""Effects: the values that a core's methods return, applied in order by the driver.

Effects of a core of one link name no peer: the driver stores it. Effects of other cores name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

from broker.errors import BrokerError
from broker.transport.message import Message, Peer
from broker.transport.view import View

#: A packet (bytes) of one link, or a `Message` above the links.
Unit: TypeAlias = Any


@attrs.frozen
class SendDown:
    """Give `packets` to the layer below, or to the socket channel, in order, and at once.

    The lowest layer above the links names the peer: its link gets them.
    """

    packets: Sequence[Unit]
    peer: Peer | None = None


@attrs.frozen
class DeliverUp:
    """Give `messages` to the layer above, or to the receiver, in order."""

    messages: Sequence[Unit]
    peer: Peer | None = None


@attrs.frozen
class Consumed:
    """Return credit to the layer below.

    A layer that keeps messages does so when it releases them.
    """

    count: int
    peer: Peer | None = None


@attrs.frozen
class ViewChanged:
    """Report the link's new state to the layer above, or to the receiver."""

    view: View
    peer: Peer | None = None


@attrs.frozen
class WritableChanged:
    """Ask the layers above, and the user, to stop submitting to the peer, or to continue."""

    writable: bool
    peer: Peer | None = None


@attrs.frozen
class Failed:
    """End the present connection: the driver aborts the socket channel.

    The core stays usable, and a new connection may follow its next DISCONNECTED.
    """

    error: BrokerError
    peer: Peer | None = None


@attrs.frozen
class Outcomes:
    """Report to the layer above that `outcomes` of its messages are complete."""

    messages: Sequence[Message]
    peer: Peer | None = None


Effect: TypeAlias = (
    SendDown | DeliverUp | Consumed | ViewChanged | WritableChanged | Failed | Outcomes
)
