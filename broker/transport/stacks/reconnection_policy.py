"""Policy of the links of a stack: when they are dialled, and how long they are kept."""

from __future__ import annotations

import attrs


@attrs.frozen
class ReconnectionPolicy:
    """A fixed period of dialling (RCM R19), and a time for which links outlive a disconnection.

    A broken link is dialled at once, then each `period` seconds. An attempt that takes longer,
    handshake included, is given up.
    """

    period: float
    keep: float = 0.0
    """Seconds for which the layers of a disconnected peer are kept, with their buffers."""
