"""Settings of connections over datagrams."""

from __future__ import annotations

import attrs

from broker.errors import ConfigurationError

#: The longest datagram that is read: that of a jumbo frame.
MAX_DATAGRAM = 9000
#: The smallest value of `datagram_bytes`: every kind but DATA fits.
MIN_DATAGRAM = 256
#: Numbers within a window are encoded as 16-bit distances.
MAX_WINDOW = 32 * 1024


@attrs.frozen(kw_only=True)
class ArqSettings:
    """Sizes in bytes, times in seconds, rates in bytes per second.

    The two ends may have different settings. Raises `ConfigurationError` for values out of range.
    """

    #: Longest contents of a datagram. 1350 fits, with IPv6, into the 1400 bytes that tunnels leave
    #: of Ethernet.
    datagram_bytes: int = 1350
    #: Most datagrams received and not yet read by the user: then the sender waits.
    window: int = 1024
    #: Bytes submitted and not yet acknowledged: above a half `writable_changed(False)` is reported,
    #: below a quarter `writable_changed(True)`.
    send_buffer_bytes: int = 4 * 1024 * 1024
    #: First sending rate; loss and delay move it within the bounds.
    start_rate: float = 8e6
    least_rate: float = 250e3
    most_rate: float = 125e6
    #: Share of the datagrams of one round that may be lost without a lower rate: radio links lose
    #: more than this without being full.
    tolerated_loss: float = 0.3
    #: Wait before a missing number is requested; it grows when requests were too early.
    reorder_delay: float = 0.002
    #: Feedback is sent after this many datagrams, or this long after one.
    ack_every: int = 32
    ack_delay: float = 0.01
    #: An end polls after `poll` without a datagram, and gives the connection up after `liveness`
    #: (M6).
    poll: float = 2.0
    liveness: float = 10.0
    #: Limit of the handshake.
    handshake_timeout: float = 5.0
    #: Most accepted connections whose other end has not yet proven the key; the oldest is dropped.
    half_open: int = 128
    #: Most connections of one port; more are refused.
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


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ConfigurationError(f"arq {name}: {value} is not in {least} to {most}")
