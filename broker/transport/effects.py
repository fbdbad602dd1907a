"""What a core may ask for: the values that its methods return, applied in order by the driver."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

import attrs

from broker.errors import BrokerError
from broker.transport.view import View

#: The label of a peer below a layer that has several; None where there is only one.
Peer: TypeAlias = Hashable


@attrs.frozen
class SendDown:
    """Give `packets` to the layer below, or to the socket channel, in this order."""

    packets: Sequence[bytes]
    peer: Peer | None = None


@attrs.frozen
class DeliverUp:
    """Give `messages` to the layer above, or to the receiver of the stack, in this order."""

    messages: Sequence[bytes]
    peer: Peer | None = None


@attrs.frozen
class Consumed:
    """This layer has taken `count` of the messages delivered to it for good.

    Returns the credit to the layer below. A layer that passes messages through one to one returns
    what it was told by the layer above; one that keeps messages itself says so when it lets go.
    """

    count: int


@attrs.frozen
class ViewChanged:
    """Tell the layer above, or the receiver, the new state of the link."""

    view: View


@attrs.frozen
class WritableChanged:
    """Tell the user of the stack to stop submitting for the moment, or to go on."""

    writable: bool


@attrs.frozen
class Failed:
    """The present connection can not go on: the driver aborts the socket channel with `error`.

    The core stays usable: its next `view_changed` will be DISCONNECTED, and a new connection may
    follow.
    """

    error: BrokerError


Effect: TypeAlias = SendDown | DeliverUp | Consumed | ViewChanged | WritableChanged | Failed
