"""Timers and bounds of the connection monitor."""

from __future__ import annotations

import attrs

from broker.errors import ConfigurationError


@attrs.frozen(kw_only=True)
class MonitorSettings:
    """Times in seconds (RCM R19-R25). Raises `ConfigurationError` for values that do not fit.

    A bound of 0 switches a quality level off.
    """

    #: Between two heartbeats. They measure the link, so they are sent under traffic too.
    heartbeat: float = 1.0
    #: A peer is silent if nothing is heard for so long, or if it hears nothing for so long.
    liveness: float = 5.0
    #: A silent connection is closed after this time.
    silence: float = 1.0
    #: A suspected peer is disconnected after this time.
    suspect: float = 60.0
    #: A connection on which no HELLO comes in this time is closed.
    reconnect: float = 3.0
    #: Bounds of quality. A suspicion ends below a half of the bound.
    most_round_trip: float = 5.0
    #: Of the oldest heartbeat, and so of all messages before it, that the peer has not heard.
    most_age: float = 10.0
    #: Difference of the site clocks, beyond the uncertainty of its measurement.
    most_clock_offset: float = 1.0

    def __attrs_post_init__(self) -> None:
        for name in ("heartbeat", "silence", "reconnect"):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"{name}: must be more than 0")
        for name in ("suspect", "most_round_trip", "most_age", "most_clock_offset"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}: must not be less than 0")
        if self.liveness <= self.heartbeat:
            raise ConfigurationError("liveness: must be more than heartbeat")
