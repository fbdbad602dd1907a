"""Options of the `rcm` transport."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import attrs

from broker.config import value_kind
from broker.config.endpoints import is_ip_address, tcp_address
from broker.config.setting import ValueKind, required_setting, setting
from broker.errors import ConfigurationError

#: RCM R2 has ten. A message has a bit for each.
MOST_SITES = 32
#: The longest time for which a site waits for another one's clock, beside a few round trips.
MOST_DELTA = 10.0
_VARIANTS = ("logical", "sequencer", "real-time", "hybrid")
#: Variants whose stamps are times.
TIMED = frozenset({"real-time", "hybrid"})
_KEY_LIST: Final = value_kind.list_of(value_kind.PUBLIC_KEY, least=1, most=8)


def _write_keys(keys: tuple[str, ...]) -> str:
    return value_kind.PUBLIC_KEY.write(keys[0]) if len(keys) == 1 else _KEY_LIST.write(keys)


_PUBLIC_KEYS: Final[ValueKind[tuple[str, ...]]] = ValueKind(
    f"{value_kind.PUBLIC_KEY.allowed}, or a list of them",
    lambda value: _KEY_LIST.read(value if isinstance(value, list) else [value]),
    _write_keys,
)


@attrs.frozen(kw_only=True)
class RcmOptions:
    """Times are in seconds."""

    removed_settings: ClassVar[Mapping[str, str]] = {
        "signing_key": "is removed: the node signs with node.key of its data folder. Replace "
        "site_keys by the output of `xmlbroker order key`, or keep the earlier key as node.key"
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
    site_keys: dict[str, tuple[str, ...]] = setting(
        value_kind.table_of(_PUBLIC_KEYS, most=MOST_SITES),
        {},
        "Public keys of the sites' nodes (`xmlbroker order key`). With them the node signs order "
        "certificates and checks those of other sites.",
        shown='{ a = "XljK6nKTGUwEdXaLJc7ecWFgwDYcavuAOsbowSPE/bI=" }',
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
