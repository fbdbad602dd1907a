"""Settings of the network of nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import attrs

from broker.config import value_kind
from broker.config.named_key import NAMED_KEY, NamedKey
from broker.config.setting import setting
from broker.event.envelope import CLEARTEXT_LEVEL, SecurityLevel
from broker.event.place import Place
from broker.transport.socket.loopback import LOOPBACK_INTERFACES

MINUTE: Final = 60.0
DAY: Final = 86400.0


@attrs.frozen
class NetworkSettings:
    """The network of nodes. A node without listen, udp, join, discover and gateways is
    standalone."""

    name: str = setting(
        value_kind.NODE_NAME,
        "xmlbroker",
        "Name of the network; nodes of other networks are rejected.",
    )
    cluster: str = setting(
        value_kind.OPTIONAL_UNIT,
        "",
        "Cluster of the node, as a path of units from the largest down; empty: the node asks "
        "another node for a cluster.",
    )
    listen: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.ENDPOINT, most=16),
        (),
        "Endpoints for other nodes. Without key_file only loopback endpoints are accepted.",
    )
    advertise: str = setting(
        value_kind.OPTIONAL_HOST_PORT,
        "",
        "Address of the first listen endpoint for other nodes, if it differs from the "
        "endpoint's own.",
    )
    udp: str = setting(
        value_kind.OPTIONAL_HOST_PORT,
        "",
        "Address that receives datagrams of other nodes; off when empty.",
    )
    group: str = setting(
        value_kind.OPTIONAL_HOST_PORT,
        "",
        "IP multicast group of the cluster, for events to several members; off when empty.",
    )
    group_interface: str = setting(
        value_kind.INTERFACE,
        "",
        "Network interface of the multicast groups in group and discover: its name or, for "
        "IPv4, its address.",
    )
    transport: str = setting(
        value_kind.choice("tcp", "udp"),
        "tcp",
        "Transport of links to members of the cluster; the addresses in join are for this "
        "transport.",
    )
    join: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.HOST_PORT, most=64),
        (),
        "Members that the node asks to admit it to a cluster.",
    )
    discover: str = setting(
        value_kind.OPTIONAL_DISCOVERY,
        "",
        "Discovery of such members: a DNS service, a host name with a port, or a multicast "
        "group with a port.",
    )
    gateways: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.CLIENT_ENDPOINT, most=64),
        (),
        "Nodes of other clusters to connect to, as endpoint strings of Twisted.",
    )
    key_file: Path | None = setting(
        value_kind.OPTIONAL_FILE,
        None,
        "File with the key that all nodes of the network share; empty: no shared key.",
    )
    allow_unauthenticated_udp: bool = setting(
        value_kind.BOOLEAN,
        False,
        "While nodes are upgraded: also link over UDP with nodes of earlier versions. Their "
        "datagrams can be forged from any place on the path.",
    )
    certificate: Path | None = setting(
        value_kind.OPTIONAL_FILE,
        None,
        "PEM file with the node's private key and its certificate, whose common name is the "
        "node's name. With it all TCP links use TLS, and both ends present certificates.",
    )
    authority: Path | None = setting(
        value_kind.OPTIONAL_FILE,
        None,
        "PEM file with the certificates of the authorities that issue the nodes' certificates.",
    )
    clearance: SecurityLevel = setting(
        value_kind.CLEARANCE,
        SecurityLevel.HIGH,
        "Highest security level of events on a trusted and encrypted link.",
    )
    cleartext_clearance: SecurityLevel = setting(
        value_kind.CLEARANCE,
        SecurityLevel.MED,
        "Highest security level of events on a trusted link without encryption, and in the group. "
        "Events of the level high never leave this machine without encryption.",
    )
    untrusted_clearance: SecurityLevel = setting(
        value_kind.CLEARANCE,
        SecurityLevel.MED,
        "Highest security level of events on a link to an unauthenticated node.",
    )
    sign_earlier_log: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether the own log takes a new name at the next start, if it began in a version without "
        "signatures: then its events are signed.",
    )
    require_signatures: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether live events of logs that began without signatures are rejected. Implies "
        "sign_earlier_log.",
    )
    revoked_logs: tuple[Place, ...] = setting(
        value_kind.list_of(value_kind.PLACE, most=1_000),
        (),
        "Logs whose key was stolen, each with its last trusted place. Later events are rejected.",
    )
    public_keys: tuple[NamedKey, ...] = setting(
        value_kind.list_of(NAMED_KEY),
        (),
        "Public keys of nodes, as `xmlbroker order key` and `status` show them. Another key under "
        "such a name is rejected. A name can have several, while its node changes its key.",
    )
    keep_keys: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Whether a name that has no certificate and is not in public_keys keeps the first key with "
        "which this node sees it, also after restarts. Another key is rejected until public_keys "
        "has it: so is a node that has lost its data folder.",
    )
    verify: str = setting(
        value_kind.choice("edge", "always"),
        "edge",
        "Where signatures of events are checked: only where events enter a cluster that needs "
        "them and in recovery, or also on links inside it and where they only pass.",
    )
    validate: str = setting(
        value_kind.choice("untrusted", "every-hop"),
        "untrusted",
        "Validation of events in transit: only those from unauthenticated nodes, or all. "
        "Events that this node logs are always validated.",
    )
    max_nodes: int = setting(
        value_kind.count(1, 1024), 32, "Nodes of the cluster; the same value at all of them."
    )
    max_tcp_links: int = setting(value_kind.count(0, 1024), 64, "Links over TCP.")
    max_udp_links: int = setting(value_kind.count(0, 1024), 64, "Links over UDP.")
    allow: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.IP_NETWORK),
        (),
        "IP addresses of admitted members; empty: any. A node with another address founds a "
        "cluster of its own, linked to this one.",
    )
    deny: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.IP_NETWORK), (), "IP addresses that are never admitted."
    )
    segment: str = setting(
        value_kind.choice("any", "same"),
        "any",
        "Location of admitted members: anywhere, or only on the networks of this node's own "
        "interfaces.",
    )
    link_costs: tuple[int, ...] = setting(
        value_kind.list_of(value_kind.count(1, 1 << 20), least=1, most=8),
        (1,),
        "Cost of a link: to a member of the cluster, to another cluster of the same unit, of "
        "the unit above, and so on; the last value counts for all further ones. Events take "
        "the cheapest path. Of a link's two ends, the higher cost counts.",
    )
    compress: bool = setting(
        value_kind.BOOLEAN,
        True,
        "Whether event bodies are compressed with zstd on links that support it.",
    )
    suspect: float = setting(
        value_kind.duration(0.0, MINUTE),
        1.0,
        "Time for a broken link to reconnect before other nodes are informed.",
    )
    gap_timeout: float = setting(
        value_kind.duration(1.0, 30 * DAY),
        10 * MINUTE,
        "Time for which events wait behind a missing one that no node supplies; then it is "
        "reported as a gap.",
        previous="patience",
    )

    @property
    def group_clearance(self) -> SecurityLevel:
        """Highest level of events in the group, whose packets are not encrypted."""
        if self.key_file is None:
            # Then the group is on a loopback interface.
            return self.untrusted_clearance
        if self.group_interface in LOOPBACK_INTERFACES:
            return self.cleartext_clearance
        return min(self.cleartext_clearance, CLEARTEXT_LEVEL)

    @property
    def is_standalone(self) -> bool:
        return not (self.listen or self.udp or self.join or self.discover or self.gateways)
