"""The settings of a node's place in the network of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from broker.config import kinds
from broker.config.setting import setting
from broker.event.envelope import SecurityLevel

MINUTE: Final = 60.0
DAY: Final = 86400.0


@attrs.frozen
class NetworkSettings:
    """The network of nodes. A node without `listen`, `join` and `gateways` is alone."""

    name: str = setting(
        kinds.NODE_NAME, "xmlbroker", "The network's name: nodes of others are refused."
    )
    cluster: str = setting(
        kinds.OPTIONAL_UNIT,
        "",
        "The cluster that it is in, by the units from the largest down; empty: it asks for one.",
    )
    listen: tuple[str, ...] = setting(
        kinds.list_of(kinds.ENDPOINT, most=16),
        (),
        "Where other nodes connect. Without key_file only loopback endpoints are accepted.",
    )
    advertise: str = setting(
        kinds.OPTIONAL_PLACE,
        "",
        "Where others find the first of these, where that is not what it says itself.",
    )
    udp: str = setting(
        kinds.OPTIONAL_PLACE,
        "",
        "Where it listens for other nodes by UDP; off when empty.",
    )
    group: str = setting(
        kinds.OPTIONAL_PLACE,
        "",
        "The IP multicast group of the cluster, for events to several members; off when empty.",
    )
    group_interface: str = setting(
        kinds.INTERFACE,
        "",
        "The network interface of the group, and of one in discover: by its name or, for IPv4, its "
        "address.",
    )
    transport: str = setting(
        kinds.choice("tcp", "udp"),
        "tcp",
        "How it links itself to members of its cluster; the places in join are of this kind.",
    )
    join: tuple[str, ...] = setting(
        kinds.list_of(kinds.PLACE, most=64), (), "Members to be asked to be let into a cluster."
    )
    discover: str = setting(
        kinds.OPTIONAL_DISCOVERY,
        "",
        "Where such members are found: a service of the DNS, a host's name and a port, or a "
        "multicast group and a port.",
    )
    gateways: tuple[str, ...] = setting(
        kinds.list_of(kinds.CLIENT_ENDPOINT, most=64),
        (),
        "Nodes of other clusters to be linked to, as endpoint strings of Twisted.",
    )
    key_file: Path | None = setting(
        kinds.OPTIONAL_FILE,
        None,
        "A file with the key that all nodes of the network share; empty: nodes prove nothing.",
    )
    certificate: Path | None = setting(
        kinds.OPTIONAL_FILE,
        None,
        "A PEM file with the node's private key and its certificate, whose common name is the "
        "node's; all links over TCP are TLS then, and both ends show theirs.",
    )
    authority: Path | None = setting(
        kinds.OPTIONAL_FILE,
        None,
        "A PEM file with the certificates of those who have issued the nodes' certificates.",
    )
    clearance: SecurityLevel = setting(
        kinds.CLEARANCE,
        SecurityLevel.HIGH,
        "The highest security level of an event that may pass over a link that is trusted and "
        "encrypted.",
    )
    cleartext_clearance: SecurityLevel = setting(
        kinds.CLEARANCE,
        SecurityLevel.MED,
        "The same for a link that is trusted and not encrypted, and for the group.",
    )
    untrusted_clearance: SecurityLevel = setting(
        kinds.CLEARANCE, SecurityLevel.MED, "The same for a link whose node has proven nothing."
    )
    validate: str = setting(
        kinds.choice("untrusted", "every-hop"),
        "untrusted",
        "What is validated of events that only pass through: those of nodes that have proven "
        "nothing, or all. Whatever comes to stay is validated in any case.",
    )
    max_nodes: int = setting(
        kinds.count(1, 1024), 32, "Nodes of its cluster; the same at all of them."
    )
    max_tcp_links: int = setting(kinds.count(0, 1024), 64, "Links over TCP.")
    max_udp_links: int = setting(kinds.count(0, 1024), 64, "Links over UDP.")
    allow: tuple[str, ...] = setting(
        kinds.list_of(kinds.ADDRESSES),
        (),
        "IP addresses that a member may have; empty: any. A node with another one founds a cluster "
        "of its own, linked to this one.",
    )
    deny: tuple[str, ...] = setting(
        kinds.list_of(kinds.ADDRESSES), (), "IP addresses that no member may have."
    )
    segment: str = setting(
        kinds.choice("any", "same"),
        "any",
        "Where members may be: anywhere, or on a network of this node's own interfaces only.",
    )
    link_costs: tuple[int, ...] = setting(
        kinds.list_of(kinds.count(1, 1 << 20), least=1, most=8),
        (1,),
        "What a link costs: to a member of its cluster, to another cluster of the same unit, of "
        "the unit above, and so on; the last one counts for all further. Events take the cheapest "
        "way, and a link costs what the dearer of its ends says.",
    )
    compress: bool = setting(
        kinds.BOOLEAN, True, "Whether bodies are compressed, with zstd, for links that know it."
    )
    suspect: float = setting(
        kinds.duration(0.0, MINUTE),
        1.0,
        "How long a link whose connection broke may come again before others are told.",
    )
    patience: float = setting(
        kinds.duration(1.0, 30 * DAY),
        10 * MINUTE,
        "How long events wait behind one that is missing and that nobody answers for; then that is "
        "told as a gap.",
    )

    @property
    def alone(self) -> bool:
        """Whether there are to be no links to other nodes."""
        return not (self.listen or self.udp or self.join or self.discover or self.gateways)
