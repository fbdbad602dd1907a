"""Settings of a group over multicast."""

from __future__ import annotations

import attrs

from broker.errors import ConfigurationError
from broker.transport.arq.settings import MAX_WINDOW, MIN_DATAGRAM
from broker.transport.socket.datagram_transport import DEFAULT_DATAGRAM, MAX_DATAGRAM


@attrs.frozen(kw_only=True)
class GroupSettings:
    """Settings of a group: sizes in bytes, times in seconds. Raises `ConfigurationError`."""

    datagram_bytes: int = DEFAULT_DATAGRAM
    #: Bytes per second to the group. Receivers can not slow it down.
    rate: float = 12.5e6
    #: Bytes per second: repairs must not starve other traffic.
    repair_rate: float = 6e6
    #: Unsent bytes: beyond it `Overloaded`; above a half `writable_changed(False)`, below a quarter
    #: `writable_changed(True)`.
    send_buffer_bytes: int = 4 * 1024 * 1024
    #: For repairs; the oldest datagrams are dropped.
    history_bytes: int = 16 * 1024 * 1024
    #: Datagrams of one sender behind a missing one, which is given up when this is full.
    window: int = 4096
    #: Before a missing number is requested; early requests raise it.
    reorder_delay: float = 0.002
    #: Then a missing number is given up, and reported.
    patience: float = 3.0
    #: Interval without traffic (M6); after `liveness` a silent sender is removed.
    announce: float = 1.0
    liveness: float = 5.0
    #: More are ignored and counted.
    senders: int = 256

    def __attrs_post_init__(self) -> None:
        if not MIN_DATAGRAM <= self.datagram_bytes <= MAX_DATAGRAM:
            raise ConfigurationError(
                f"group datagram_bytes: not in {MIN_DATAGRAM} to {MAX_DATAGRAM}"
            )
        if not 4 <= self.window <= MAX_WINDOW:
            raise ConfigurationError(f"group window: not in 4 to {MAX_WINDOW}")
        for name in (
            *("rate", "repair_rate", "send_buffer_bytes", "history_bytes"),
            *("reorder_delay", "patience", "announce", "senders"),
        ):
            if getattr(self, name) <= 0:
                raise ConfigurationError(f"group {name}: must be more than 0")
        if self.liveness <= self.announce:
            raise ConfigurationError("group liveness: must be more than announce")
