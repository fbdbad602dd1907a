"""Options of the `rcm` link stack."""

from __future__ import annotations

import attrs

from broker.config import value_kind
from broker.config.endpoints import is_multicast_address
from broker.config.setting import setting
from broker.errors import ConfigurationError
from broker.transport.monitor import MonitorSettings

KIB = 2**10
MIB = 2**20
GIB = 2**30
_HOUR = 3600.0


@attrs.frozen(kw_only=True)
class RcmLinkSettings:
    """Sizes are in bytes, times in seconds, on monotonic time."""

    p2p: str = setting(
        value_kind.choice("robust-p2p", "tcp", "tcp-suspected"),
        "robust-p2p",
        "Layer of messages: the others are for comparison, and lose messages.",
    )
    fan_out: str = setting(
        value_kind.choice("copies", "tree", "group"),
        "copies",
        "Way of a message to several sites, the same at all: a copy for each, a tree on which "
        "sites pass it on, or an IP multicast group.",
    )
    group: str = setting(
        value_kind.OPTIONAL_HOST_PORT,
        "",
        "IP multicast group of the sites, for that fan_out.",
    )
    group_interface: str = setting(
        value_kind.INTERFACE,
        "",
        "Network interface of the group: its name or, for IPv4, its address.",
    )
    window_bytes: int = setting(
        value_kind.size(64 * KIB, GIB), 4 * MIB, "Bytes received on a link and not yet handled."
    )
    send_buffer_bytes: int = setting(
        value_kind.size(64 * KIB, GIB),
        8 * MIB,
        "Bytes sent on a link and not yet acknowledged; above a half of it messages are refused.",
    )
    heartbeat: float = setting(
        value_kind.duration(0.01, _HOUR), 1.0, "Time between two heartbeats on a link."
    )
    liveness: float = setting(
        value_kind.duration(0.02, _HOUR), 5.0, "Silence after which a site is suspected."
    )
    silence: float = setting(
        value_kind.duration(0.01, _HOUR), 1.0, "Further silence after which its link is closed."
    )
    suspect: float = setting(
        value_kind.duration(0.0, 24 * _HOUR), 60.0, "Suspicion after which it is disconnected."
    )
    reconnect: float = setting(
        value_kind.duration(0.01, _HOUR), 3.0, "Time between two attempts to connect."
    )
    most_round_trip: float = setting(
        value_kind.duration(0.0, _HOUR), 5.0, "Round trip beyond which it is suspected; 0: any."
    )
    most_age: float = setting(
        value_kind.duration(0.0, _HOUR),
        10.0,
        "Age of unacknowledged data beyond which it is suspected; 0: any.",
    )
    most_clock_offset: float = setting(
        value_kind.duration(0.0, _HOUR),
        1.0,
        "Difference of the site clocks beyond which it is suspected; 0: any.",
    )
    keep: float = setting(
        value_kind.duration(0.0, 24 * _HOUR),
        600.0,
        "Time after a disconnection for which unsent messages are kept.",
    )

    def __attrs_post_init__(self) -> None:
        """Raises `ConfigurationError` for values that do not fit together."""
        _ = self.monitor
        if self.fan_out != "copies" and self.p2p != "robust-p2p":
            raise ConfigurationError(f'fan_out = "{self.fan_out}" needs p2p = "robust-p2p"')
        if self.fan_out == "group" and not (
            is_multicast_address(self.group) and self.group_interface
        ):
            raise ConfigurationError(
                'fan_out = "group" needs group, an IP multicast address with a port, and '
                "group_interface"
            )

    @property
    def monitor(self) -> MonitorSettings:
        return MonitorSettings(
            **{each.name: getattr(self, each.name) for each in attrs.fields(MonitorSettings)}
        )
