"""The stack of every client session: socket (tcp) - p2p (DESIGN 7)."""

from __future__ import annotations

from broker.transport.layer import ILayer
from broker.transport.p2p.layer import P2PLayer

#: Room for what a message holds beside its events: a header, and a record for each.
ENVELOPE_BYTES = 64 * 1024


def session_layers(incarnation: int, window_bytes: int, largest_bytes: int = 0) -> list[ILayer]:
    """The layers above the socket, bottom up, for one end of one session.

    `largest_bytes` is the length of the largest event that this end sends, if that may be more
    than its own window.
    `incarnation` tells this end's memory of the session from any other's: a client takes its own
    incarnation's number, a node a random one for each session.
    """
    return [
        P2PLayer(
            incarnation=incarnation,
            window_bytes=window_bytes,
            # Who sends while the stack is writable (it is up to half of this) finds room for a
            # message as large as the window, or the largest, and what is written around it.
            send_buffer_bytes=2 * max(window_bytes, largest_bytes) + ENVELOPE_BYTES,
        )
    ]
