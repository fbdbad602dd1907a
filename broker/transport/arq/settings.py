"""Settings of connections over datagrams."""

from __future__ import annotations

import attrs

from broker.errors import ConfigurationError
from broker.transport.socket.datagram_transport import DEFAULT_DATAGRAM, MAX_DATAGRAM

#: Every kind but DATA fits.
MIN_DATAGRAM = 256
#: Numbers are encoded as 16-bit distances.
MAX_WINDOW = 32 * 1024


@attrs.frozen(kw_only=True)
class ArqSettings:
    """Settings of a connection: sizes in bytes, times in seconds, rates in bytes per second.

    The two ends may differ. Raises `ConfigurationError` for values out of range.
    """

    datagram_bytes: int = DEFAULT_DATAGRAM
    #: Datagrams not yet read by the user: then the sender waits.
    window: int = 1024
    #: Unacknowledged bytes: above a half `writable_changed(False)` is reported, below a quarter
    #: `writable_changed(True)`.
    send_buffer_bytes: int = 4 * 1024 * 1024
    #: Loss and delay move the rate within the bounds.
    start_rate: float = 8e6
    least_rate: float = 250e3
    most_rate: float = 125e6
    #: Share of a round: radio links lose this without being full.
    tolerated_loss: float = 0.3
    #: Before a missing number is requested; early requests raise it.
    reorder_delay: float = 0.002
    ack_every: int = 32
    ack_delay: float = 0.01
    #: An end polls without a datagram, and gives up after `liveness` (M6).
    poll: float = 2.0
    liveness: float = 10.0
    handshake_timeout: float = 5.0
    #: Connections without a proven key; the oldest is dropped.
    half_open: int = 128
    #: Of one port; more are refused.
    connections: int = 1024

    def __attrs_post_init__(self) -> None:
        _check_range("datagram_bytes", self.datagram_bytes, MIN_DATAGRAM, MAX_DATAGRAM)
        _check_range("window", self.window, 4, MAX_WINDOW)
        _check_range("tolerated_loss", self.tolerated_loss, 0.0, 1.0)
        for name in (
            *("send_buffer_bytes", "least_rate", "reorder_delay", "ack_every", "ack_delay"),
            *("poll", "handshake_timeout", "half_open", "connections"),
        ):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"arq {name}: must be more than 0")
        if not self.least_rate <= self.start_rate <= self.most_rate:
            raise ConfigurationError("arq start_rate: must be in least_rate to most_rate")
        if self.liveness <= self.poll:
            raise ConfigurationError("arq liveness: must be more than poll")


def constant_rate(rate: float, datagram_bytes: int) -> ArqSettings:
    """Return the settings of a pacer without congestion control."""
    return ArqSettings(
        datagram_bytes=datagram_bytes, start_rate=rate, least_rate=rate, most_rate=rate
    )


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ConfigurationError(f"arq {name}: {value} is not in {least} to {most}")
