"""Options of the `rcm` transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import attrs

from broker.config import value_kind
from broker.config.endpoints import is_ip_address, tcp_address
from broker.config.setting import required_setting, setting
from broker.errors import ConfigurationError

#: RCM R2 has ten. A message has a bit for each.
MOST_SITES = 32
#: The longest time for which a site waits for another one's clock, beside a few round trips.
MOST_DELTA = 10.0
_VARIANTS = ("logical", "sequencer", "real-time", "hybrid")
#: Variants whose stamps are times.
TIMED = frozenset({"real-time", "hybrid"})


@attrs.frozen(kw_only=True)
class RcmOptions:
    """Times are in seconds."""

    removed_settings: ClassVar[Mapping[str, str]] = {
        "signing_key": "is removed: the node signs with node.key of its data folder. Name the "
        "output of `xmlbroker order key` in network.public_keys, or keep the earlier key as "
        "node.key",
        "site_keys": "is removed: set certificates = true, and name each key in "
        'network.public_keys, as "SITE:KEY"',
    }

    sites: dict[str, str] = required_setting(
        value_kind.table_of(value_kind.SITE_ADDRESS, least=1, most=MOST_SITES),
        "Nodes of the group, each with the address at which it listens for the others. They count "
        "at the first start; then the stored list does (`xmlbroker order admit`).",
        shown='{ a = "tcp:host=a.example:port=8770", b = "tcp:host=b.example:port=8770" }',
    )
    order: str = setting(
        value_kind.choice(*_VARIANTS),
        "hybrid",
        "Variant of the order; the same at all sites.",
    )
    delta: float = setting(
        value_kind.duration(0.001, MOST_DELTA),
        0.25,
        "Real-time and hybrid: age at which a message is delivered; the same at all sites.",
    )
    clock_delay: float = setting(
        value_kind.duration(0.001, MOST_DELTA),
        0.05,
        "A site without messages answers one with its clock after this time.",
    )
    compare: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.choice(*_VARIANTS), most=len(_VARIANTS)),
        (),
        "Variants that run beside `order` on the same messages, and deliver nothing: "
        "`xmlbroker order compare` shows them.",
    )
    certificates: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether the node signs order certificates, and checks those of other sites by "
        "`network.public_keys`.",
    )
    listen: str = setting(
        value_kind.OPTIONAL_HOST_PORT,
        "",
        "Address at which this node listens for the other sites; empty: the one in sites, and all "
        "IPv4 addresses for a host name there.",
    )

    def listening_address(self, node: str) -> str:
        """Raises `ConfigurationError` for a node that is no site."""
        if node not in self.sites:
            names = ", ".join(sorted(self.sites))
            raise ConfigurationError(f"this node, {node}, is not one of the sites: {names}")
        host, port = tcp_address(self.sites[node])
        if not is_ip_address(host):
            host = "127.0.0.1" if host == "localhost" else "0.0.0.0"
        return self.listen or f"{host}:{port}"
