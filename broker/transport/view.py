"""Views: the state of the peer, as one layer reports it to the layer above."""

from __future__ import annotations

import enum
from typing import Final

import attrs

from broker.errors import BrokerError

#: Reason of a view SUSPECTED of a peer that was disconnected: the owners of the link exchange
#: offers. Users of a link are told DISCONNECTED meanwhile.
NEGOTIATING: Final = "negotiating"


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
    ends start anew. Then `undelivered` counts dropped messages for the peer's previous incarnation
    (K22). Some of these may have arrived without an acknowledgement.

    With DISCONNECTED, `error` is None after an orderly close. It is repeated for each failed
    attempt.

    A connection monitor below sets the fields from `reason` on. CONNECTED is `resumed` if it is
    that of the same connection, which was only suspected.
    """

    state: LinkState
    resumed: bool = False
    undelivered: int = 0
    error: BrokerError | None = None
    reason: str = ""
    """Reason for a suspicion, or for its end."""
    since: float = 0.0
    """Monotonic time at which the state began."""
    until: float | None = None
    """Monotonic time at which a timer changes the state, if nothing happens before; None: none
    does."""
    is_restarted: bool = False
    """A later process of the peer has begun a connection: messages from now on are for it, and
    those before that have not arrived are lost."""
