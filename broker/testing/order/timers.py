"""Times of the connection monitor (RCM R19-R25; A8)."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Timers:
    """Seconds."""

    heartbeat: float = 1.0
    liveness: float = 5.0
    silence: float = 1.0
    suspect: float = 60.0
    reconnect: float = 3.0
