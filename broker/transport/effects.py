"""Effects: the values that a core's methods return, applied in order by the driver."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import attrs

from broker.errors import BrokerError
from broker.transport.view import View

Peer: TypeAlias = Hashable


@attrs.frozen
class SendDown:
    """Give `packets` to the layer below, or to the socket channel, in order."""

    packets: Sequence[bytes]
    peer: Peer | None = None


@attrs.frozen
class DeliverUp:
    """Give `messages` to the layer above, or to the receiver, in order."""

    messages: Sequence[bytes]
    peer: Peer | None = None


@attrs.frozen
class Consumed:
    """Return credit to the layer below.

    A layer that keeps messages does so when it releases them.
    """

    count: int


@attrs.frozen
class ViewChanged:
    """Report the link's new state to the layer above, or to the receiver."""

    view: View


@attrs.frozen
class WritableChanged:
    """Ask the user of the stack to stop submitting, or to continue."""

    writable: bool


@attrs.frozen
class Failed:
    """End the present connection: the driver aborts the socket channel.

    The core stays usable, and a new connection may follow its next DISCONNECTED.
    """

    error: BrokerError


Effect: TypeAlias = SendDown | DeliverUp | Consumed | ViewChanged | WritableChanged | Failed
