"""What can be set about a group over multicast."""

from __future__ import annotations

import attrs

from broker.errors import ConfigurationError
from broker.transport.arq.settings import (
    MAX_DATAGRAM,
    MAX_WINDOW,
    MIN_DATAGRAM,
    ArqSettings,
)


@attrs.frozen(kw_only=True)
class GroupSettings:
    """Sizes in bytes, times in seconds. Raises `ConfigurationError` for what can not be."""

    #: A datagram's contents, at most.
    datagram_bytes: int = 1350
    #: Bytes per second to the group, whatever receivers can take: nobody can slow a group down.
    rate: float = 12.5e6
    #: And to those who missed something, in all: they must not starve the others.
    repair_rate: float = 6e6
    #: Given by the user and not yet sent: beyond it `Overloaded`; above a half
    #: `writable_changed(False)`, below a quarter `writable_changed(True)`.
    send_buffer_bytes: int = 4 * 1024 * 1024
    #: Sent, and kept for those who missed it; the oldest goes.
    history_bytes: int = 16 * 1024 * 1024
    #: Datagrams of one sender that wait behind a hole; when it is full the hole is given up.
    window: int = 4096
    #: A number that is missing is asked for after so long, and later where that was too early.
    reorder_delay: float = 0.002
    #: A hole is given up, and told, after so long.
    patience: float = 3.0
    #: Who sends nothing announces itself so often (M6); who is silent for `liveness` is forgotten.
    announce: float = 1.0
    liveness: float = 5.0
    #: Senders of one group; more are ignored and counted.
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

    def pacer_settings(self, rate: float) -> ArqSettings:
        """For a bucket whose rate does not change."""
        return ArqSettings(
            datagram_bytes=self.datagram_bytes, start_rate=rate, least_rate=rate, most_rate=rate
        )
