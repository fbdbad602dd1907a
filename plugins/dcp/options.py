"""Options of the `dcp` transport."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import attrs

from broker.config import value_kind
from broker.config.setting import ValueKind, required_setting, setting
from broker.config.value_kind import split_host_port
from broker.errors import ConfigurationError, StackError
from broker.transport.stacks import find_plugin
from plugins.dcp.control import MOST_DIVERSITY, MOST_GROUPS
from plugins.dcp.mesh.parent_count import FIRST_PARENTS, MOST_PARENTS
from plugins.dcp.mesh.selection import IParentSelector, diverse_selector
from plugins.dcp.nack_timer import NackSettings
from plugins.dcp.receiver import ReceiverSettings
from plugins.dcp.settings import DEFAULT_MTU, DcpSettings

#: A datagram on Ethernet has room for this and for the tags of the links.
MOST_MTU = 1_432
#: It has room for the description of each sequence, with an event beside it.
LEAST_MTU = 1_000
MIB = 2**20


def _is_ipv4(address: str) -> bool:
    try:
        IPv4Address(split_host_port(address)[0])
    except ValueError:
        return False
    return True


_AUTO = "auto"
_LOSS_TARGET = 1e-6


def _read_parents(value: object) -> int | str:
    return _AUTO if value == _AUTO else _COUNT.read(value)


def _read_multicast(value: object) -> str:
    """Return the address of the first of `MOST_GROUPS` groups, with a port."""
    if not isinstance(value, str):
        raise ValueError
    if value:
        host, port = split_host_port(value)
        first = IPv4Address(host)
        if not 0 < port < 1 << 16:
            raise ValueError
        if first not in _GROUPS or first + (MOST_GROUPS - 1) not in _GROUPS:
            raise ValueError(f"{host} to the 15th address behind it are not in {_GROUPS}")
    return value


_GROUPS = IPv4Network("239.0.0.0/8")
_MULTICAST: ValueKind[str] = ValueKind(
    'an address in 239.0.0.0/8 and a port such as "239.77.0.1:8771", or ""',
    _read_multicast,
    lambda value: f'"{value}"',
)
_COUNT = value_kind.count(1, MOST_PARENTS)
_PARENTS: ValueKind[int | str] = ValueKind(
    f'{_COUNT.allowed}, or "{_AUTO}"',
    _read_parents,
    lambda value: f'"{value}"' if isinstance(value, str) else str(value),
)


@attrs.frozen(kw_only=True)
class DcpOptions:
    """Times are in seconds, sizes in bytes."""

    udp: str = required_setting(
        value_kind.HOST_PORT,
        "IP address and port at which this node sends and receives; the roots list it.",
        shown='"10.0.0.7:8770"',
    )
    roots: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.HOST_PORT, most=64),
        (),
        "Addresses of the roots, the same at all nodes. A node whose own address is one of them is "
        "a root.",
        shown='["10.0.0.1:8770", "10.0.0.2:8770"]',
    )
    root_name: str = setting(
        value_kind.OPTIONAL_DNS_NAME,
        "",
        "Instead of roots: a DNS name with an address record (A or AAAA) for each root.",
    )
    root_port: int = setting(
        value_kind.count(0, 65_535), 0, "Port of the roots of root_name; 0: that of udp."
    )
    parents: int | str = setting(
        _PARENTS,
        2,
        "Nodes from which this node gets each event; auto: so many that they lose less than "
        "loss_target together.",
    )
    loss_target: float = setting(
        value_kind.fraction(1e-9, 0.1),
        _LOSS_TARGET,
        'With parents = "auto": share of the events that all parents may lose at first.',
    )
    parent_nodes: tuple[str, ...] = setting(
        value_kind.list_of(value_kind.HOST_PORT, most=64),
        (),
        "Addresses at which this node seeks parents, instead of the roots and their descendants.",
    )
    children: int = setting(
        value_kind.count(0, 1_000), 100, "Most nodes that this node forwards events to."
    )
    leaves: int = setting(
        value_kind.count(0, 1_000), 100, "Most clients that this node forwards events to."
    )
    diversity: dict[str, str] = setting(
        value_kind.table_of(value_kind.NODE_NAME, most=MOST_DIVERSITY),
        {},
        "Things that fail together with this node, by kind. Nodes prefer parents that differ in "
        "them.",
    )
    selector: str = setting(
        value_kind.NODE_NAME,
        diverse_selector.name,
        "Plug-in that chooses parents among the nodes with room. diverse: new diversity keys "
        "first, then a low level, then a quick answer.",
    )
    content: str = setting(
        value_kind.choice("dynamic", "static"),
        "dynamic",
        "dynamic: this node requests the interest of its subscriptions and children; static: "
        "everything, so that a new child waits for nothing.",
    )
    widen_on_join: str = setting(
        value_kind.choice("push", "refuse"),
        "push",
        "push: a child may have interest that this node must request of its own parents first; "
        "refuse: it is refused.",
    )
    nack_targets: str = setting(
        value_kind.choice("all", "first-then-all"),
        "all",
        "Parents of which a missing range is requested: all; or first the one that answers "
        "soonest, which costs fewer bytes and, if it has lost the range too, time.",
    )
    mtu: int = setting(
        value_kind.count(LEAST_MTU, MOST_MTU),
        DEFAULT_MTU,
        "Bytes of a packet, without those of UDP.",
    )
    send_buffer: int = setting(
        value_kind.size(64 * 2**10, 1024 * MIB),
        4 * MIB,
        "Events sent to a child and not yet acknowledged; as many may wait.",
    )
    multicast: str = setting(
        _MULTICAST,
        "",
        "First of 16 IP multicast groups, with a port. Children with equal queries share one, if "
        "they have the same setting and are on the segment of udp; empty: none is used.",
        shown='"239.77.0.1:8771"',
    )
    confirm: bool = setting(
        value_kind.BOOLEAN,
        False,
        "Skip no place because of one parent alone: wait until all parents have stated that it "
        "has no event for this node. Set it at all nodes of the mesh.",
    )
    patience: float = setting(
        value_kind.duration(0.1, 60.0),
        2.0,
        "Time after which a missing range is left to the log of its origin.",
    )
    nack_delay: float = setting(
        value_kind.duration(0.0, 10.0),
        0.0,
        "Time after which a missing range is requested while a parent may still bring it; 0: it "
        "follows round trips, gaps and the delay of the slowest parent.",
    )
    fast_nack_delay: float = setting(
        value_kind.duration(0.0, 10.0),
        0.0,
        "The same when no parent can bring it; 0: it follows the reordering.",
    )

    def __attrs_post_init__(self) -> None:
        if bool(self.roots) == bool(self.root_name):
            both = "both are set" if self.roots else "neither is set"
            raise ConfigurationError(
                f"either roots or root_name names the roots of the mesh; {both}"
            )
        if self.root_port and not self.root_name:
            raise ConfigurationError("root_port has no meaning without root_name")
        if self.loss_target != _LOSS_TARGET and self.parents != _AUTO:
            raise ConfigurationError(f'loss_target has no meaning without parents = "{_AUTO}"')
        if self.confirm and self.parents == 1:
            raise ConfigurationError("confirm has no meaning with one parent")
        if self.multicast and not _is_ipv4(self.udp):
            raise ConfigurationError(f"multicast needs an IPv4 address in udp, found {self.udp}")
        self._find_selector()

    def _find_selector(self) -> IParentSelector:
        if self.selector == diverse_selector.name:
            return diverse_selector
        try:
            return find_plugin(IParentSelector, self.selector, "parent selector")
        except StackError as error:
            raise ConfigurationError(f"selector: {error.text}") from None

    def make_settings(self, clearance: int) -> DcpSettings:
        """`clearance` is the rank of the instance's."""
        return DcpSettings(
            mtu=self.mtu,
            parents=FIRST_PARENTS if isinstance(self.parents, str) else self.parents,
            loss_target=self.loss_target if self.parents == _AUTO else 0.0,
            children=self.children,
            leaves=self.leaves,
            receiver=ReceiverSettings(
                nack=NackSettings(
                    patience=self.patience,
                    fixed_slow=self.nack_delay,
                    fixed_fast=self.fast_nack_delay,
                )
            ),
            send_bytes=self.send_buffer,
            diversity=self.diversity,
            selector=self._find_selector(),
            clearance=clearance,
            is_static=self.content == "static",
            widens=self.widen_on_join == "push",
            multicast=self.multicast,
            confirms=self.confirm,
            asks_all=self.nack_targets == "all",
        )
