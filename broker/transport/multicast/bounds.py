"""Bounds of the bodies and references that are kept for each peer."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Bounds:
    """Bytes. Both follow from the send buffers of the links."""

    unacknowledged: int = 1 << 20
    """Sent bodies; further messages go as copies. Repairs must fit into a link beside messages."""
    held: int = 16 << 20
    """Messages behind a missing body whose credit is returned: more than a peer's send buffer,
    since the repair comes behind what that has. Beyond it the peer has to wait."""

    @classmethod
    def for_buffers(cls, send_buffer_bytes: int) -> Bounds:
        """Return the bounds for links that all have this send buffer."""
        unacknowledged = min(send_buffer_bytes // 4, cls().unacknowledged)
        return cls(unacknowledged=unacknowledged, held=2 * send_buffer_bytes)
