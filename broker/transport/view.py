"""Views: the state of the peer, as one layer reports it to the layer above."""

from __future__ import annotations

import enum

import attrs

from broker.errors import BrokerError


class LinkState(enum.Enum):
    """Reachability of the peer (RCM R24, R25)."""

    CONNECTED = "connected"
    #: Silent for the moment; the layer still buffers.
    SUSPECTED = "suspected"
    DISCONNECTED = "disconnected"


@attrs.frozen
class View:
    """State of a link from now on, in order with the messages around it.

    With CONNECTED, `resumed` is True if nothing was lost and nothing comes twice. Otherwise both
    ends start anew, and `undelivered` counts the buffered messages for the peer's previous
    incarnation that were dropped (K22). Some of these may have arrived without an acknowledgement.

    With DISCONNECTED, `error` is the reason, or None after an orderly close. DISCONNECTED may come
    several times in a row, once for each attempt that failed.
    """

    state: LinkState
    resumed: bool = False
    undelivered: int = 0
    error: BrokerError | None = None
