"""What can be set about connections and groups over datagrams."""

from __future__ import annotations

import attrs

from broker.errors import ConfigurationError

#: The longest datagram that is read: a jumbo frame's worth.
MAX_DATAGRAM = 9000
#: The shortest that a datagram may be set to: every kind but DATA fits in.
MIN_DATAGRAM = 256
#: Numbers of a window are told as 16-bit distances.
MAX_WINDOW = 32 * 1024


@attrs.frozen(kw_only=True)
class ArqSettings:
    """Sizes in bytes, times in seconds, rates in bytes per second.

    The two ends may differ in all of them. Raises `ConfigurationError` for what can not be.
    """

    #: A datagram's contents, at most. 1350 fits with IPv6 into 1400, as tunnels leave of Ethernet.
    datagram_bytes: int = 1350
    #: Datagrams received and not yet taken by the user, at most: the sender waits.
    window: int = 1024
    #: Given by the user and not yet acknowledged: above a half `writable_changed(False)` is told,
    #: below a quarter `writable_changed(True)`.
    send_buffer_bytes: int = 4 * 1024 * 1024
    #: What was sent goes at this rate at first; loss and delay move it within the bounds.
    start_rate: float = 8e6
    least_rate: float = 250e3
    most_rate: float = 125e6
    #: The part of the datagrams of one round that may get lost without the rate being lowered:
    #: radio links lose more than this without being full.
    tolerated_loss: float = 0.3
    #: A number that is missing is asked for after so long, and later where that was too early.
    reorder_delay: float = 0.002
    #: Feedback goes after so many datagrams, or so long after one.
    ack_every: int = 32
    ack_delay: float = 0.01
    #: An end that has heard nothing for `poll` asks; one that has heard nothing for `liveness`
    #: gives the connection up (M6).
    poll: float = 2.0
    liveness: float = 10.0
    #: A connection must be there after so long.
    handshake_timeout: float = 5.0
    #: Connections that have not proven yet that their other end knows the key; the oldest goes.
    half_open: int = 128
    #: Connections of one port; more are refused.
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
                raise ConfigurationError(f"correction {name}: must be more than 0")
        if not self.least_rate <= self.start_rate <= self.most_rate:
            raise ConfigurationError("correction start_rate: must be in least_rate to most_rate")
        if self.liveness <= self.poll:
            raise ConfigurationError("correction liveness: must be more than poll")


def _check_range(name: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise ConfigurationError(f"correction {name}: {value} is not in {least} to {most}")
