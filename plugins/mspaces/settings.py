"""Options of the `mspaces` stack."""

from __future__ import annotations

import attrs

from broker.config import value_kind
from broker.config.setting import setting

KIB = 2**10
MIB = 2**20
GIB = 2**30


@attrs.frozen(kw_only=True)
class MspacesSettings:
    """Sizes are in bytes, times in seconds.

    Other nodes can replace a dead neighbour, so `liveness` is shorter than a client's.
    """

    window_bytes: int = setting(
        value_kind.size(64 * KIB, GIB), 4 * MIB, "Bytes received on a link and not yet handled."
    )
    send_buffer_bytes: int = setting(
        value_kind.size(64 * KIB, GIB),
        8 * MIB,
        "Bytes sent on a link and not yet acknowledged; events are dropped above a half of it, "
        "and requested later.",
    )
    keepalive: float = setting(
        value_kind.duration(0.01, 3600.0), 1.0, "Silence after which a link is tested."
    )
    liveness: float = setting(
        value_kind.duration(0.1, 86400.0), 4.0, "Silence after which a neighbour has failed."
    )
