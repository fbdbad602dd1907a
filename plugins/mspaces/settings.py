"""The options of the `mspaces` stack."""

from __future__ import annotations

import attrs

MIB = 2**20


@attrs.frozen(kw_only=True)
class MspacesSettings:
    """Sizes are in bytes, times in seconds.

    Other nodes can replace a dead neighbour, so `liveness` is shorter than a client's.
    """

    #: Bytes delivered and not yet consumed.
    window_bytes: int = 4 * MIB
    #: Bytes submitted and not yet acknowledged; above a half the multicast layer returns FULL.
    send_buffer_bytes: int = 8 * MIB
    #: A PING is sent after this time without another packet.
    keepalive: float = 1.0
    #: A neighbour that is silent for this time has failed.
    liveness: float = 4.0
