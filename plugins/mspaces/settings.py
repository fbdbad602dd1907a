"""The options of the `mspaces` stack."""

from __future__ import annotations

import attrs

MIB = 2**20


@attrs.frozen(kw_only=True)
class MspacesSettings:
    """Sizes are in bytes, times in seconds.

    Nodes talk all the time, and a neighbour that is dead must be noticed soon, since others can
    take its place: so liveness is shorter than a client's.
    """

    #: Delivered and not yet consumed, at most.
    window_bytes: int = 4 * MIB
    #: Submitted and not yet acknowledged, at most; above a half the multicast layer says FULL.
    send_buffer_bytes: int = 8 * MIB
    #: A PING goes out when nothing else did for so long.
    keepalive: float = 1.0
    #: A neighbour that is silent for so long is given up.
    liveness: float = 4.0
