"""The stack of every client session: socket (tcp) - p2p (DESIGN 7)."""

from __future__ import annotations

from broker.queue_memory import HeldBytes
from broker.transport.layer import ILinkLayer
from broker.transport.p2p.layer import P2PLayer

#: Room for a message's header and records.
ENVELOPE_BYTES = 64 * 1024


def session_layers(
    incarnation: int,
    window_bytes: int,
    largest_bytes: int = 0,
    held: HeldBytes | None = None,
) -> list[ILinkLayer]:
    """Return the layers of a client session: socket (tcp) - p2p (DESIGN 7).

    `largest_bytes` is the largest event that this end sends, if it may exceed its window.
    `incarnation` is the client's own, or a node's random number for each session. A node counts the
    send buffer with `held`.
    """
    return [
        P2PLayer(
            incarnation=incarnation,
            window_bytes=window_bytes,
            # A sender that stops when the stack is not writable (at half of this) has room for one
            # more message.
            send_buffer_bytes=2 * max(window_bytes, largest_bytes) + ENVELOPE_BYTES,
            held=held,
        )
    ]
