"""What a layer tells the one above about the other end: is it there, and does it remember us."""

from __future__ import annotations

import enum

import attrs

from broker.errors import BrokerError


class LinkState(enum.Enum):
    """How well the peer can be reached (RCM R24, R25)."""

    CONNECTED = "connected"
    #: Silent for the moment; the layer still hopes and buffers.
    SUSPECTED = "suspected"
    DISCONNECTED = "disconnected"


@attrs.frozen
class View:
    """The state of a link from now on, told in order with the messages around it.

    With CONNECTED, `resumed` says whether the conversation goes on where it was: nothing is lost
    and nothing comes twice. When it is False both ends start from nothing, and `undelivered`
    counts the messages that were buffered for the former incarnation of the peer and have been
    dropped by the reset (K22); some of them may have arrived without our having learnt it.

    With DISCONNECTED, `error` is why, or None after an orderly close. DISCONNECTED may be told
    more than once in a row, once for each attempt that failed.
    """

    state: LinkState
    resumed: bool = False
    undelivered: int = 0
    error: BrokerError | None = None
