"""An adapter around `joining`, `meshing`, `acceptor` and `handshake`.

It passes accepted connections to its listener.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

import attrs
from twisted.internet.defer import Deferred

from broker.cluster.acceptor import Acceptor
from broker.cluster.address import UnitPath
from broker.cluster.admission import AdmissionContext, AdmissionRules
from broker.cluster.clone_detection import is_proven
from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import Accepted, Initiator, Refused
from broker.cluster.handshake_messages import GATEWAY, MEMBER, PURPOSES, NodeHello
from broker.cluster.handshakes import Handshakes
from broker.cluster.instance_links import InstanceLinks
from broker.cluster.joining import AskNode, Founded, Joined, Joining, JoiningState, RoundFailed
from broker.cluster.joining import Effect as JoiningEffect
from broker.cluster.known_peers import KnownPeers
from broker.cluster.membership_listener import MembershipListener
from broker.cluster.meshing import Dial, Meshing, Target
from broker.cluster.neighbours import Neighbour
from broker.errors import (
    AddressNotAllowed,
    BrokerError,
    Cloned,
    Closed,
    NotConnected,
    ShuttingDown,
    StackMismatch,
)
from broker.transport.clock import IClock
from broker.transport.core_runner import CoreRunner
from broker.transport.socket import ISocketChannel

#: Values of the setting `network.transport`.
TCP, UDP = "tcp", "udp"
_GATEWAY = "gateway "
_SEED = "seed "
_OUTSIDE = "this node is in no cluster at the moment"


class Dialler(Protocol):
    def dial(self, endpoint: Endpoint, transport: str) -> Deferred[ISocketChannel]:
        """Connect over `tcp` or `udp`."""

    def dial_string(self, endpoint: str) -> Deferred[ISocketChannel]:
        """Connect to an endpoint string of Twisted."""


@attrs.frozen
class MembershipSettings:
    """See the section `[network]` of the configuration."""

    network: str
    transport: str
    seeds: tuple[Endpoint, ...]
    gateways: tuple[str, ...]
    key: bytes | None = attrs.field(repr=False)
    rules: AdmissionRules


class Membership:
    def __init__(
        self,
        node: NodeDescriptor,
        settings: MembershipSettings,
        listener: MembershipListener,
        dialler: Dialler,
        clock: IClock,
        wall_clock: Callable[[], int],
        rng: random.Random,
    ) -> None:
        self.node = node
        self._settings = settings
        self._listener = listener
        self._dialler = dialler
        self._clock = clock
        most = settings.rules.most_links.get(settings.transport, 0)
        self._joining = Joining(node.name, settings.seeds, rng)
        self._meshing = Meshing(most, rng)
        self.acceptor: Acceptor[ISocketChannel] = Acceptor(settings.rules, self._admission_context)
        self._handshakes = Handshakes(
            *(settings.network, settings.key, self.acceptor, clock, wall_clock)
        )
        self._gateways = {_GATEWAY + text: text for text in settings.gateways}
        self._founding_gateways: dict[str, Endpoint] = {}
        self._seeds = settings.seeds
        self._members: Mapping[str, NodeDescriptor] | None = None
        self._keys: dict[str, str] = {}
        """The meshing key under which a neighbour was dialled."""
        self._linked: set[str] = set()
        self._known_peers = KnownPeers(node.name)
        self._runner: CoreRunner[JoiningEffect | Dial] = CoreRunner(
            clock, self._apply, self._joining, self._meshing
        )
        self.link_log = self._handshakes.link_log
        self.failed_handshakes = self._handshakes.failures
        """By error code."""
        self.instance_links: dict[str, InstanceLinks] = {}
        """By the purpose of their handshakes."""

    def start_joining(self) -> None:
        self._runner.call(self._joining.start)

    def rejoin(self) -> None:
        self._runner.call(self._joining.rejoin)

    def set_member_links(self, members: int) -> None:
        self._joining.set_member_links(members, self._clock.seconds())
        self._runner.apply_effects()

    def set_seeds(self, seeds: Sequence[Endpoint]) -> None:
        known = dict.fromkeys((*self._settings.seeds, *seeds))
        self._runner.call(self._joining.set_seeds, known)
        if self._joining.state is JoiningState.NOT_STARTED and self._members is not None:
            # A configured member does not join, but still has to meet the others.
            self._seeds = tuple(known)
            self.set_members(self._members)

    def set_members(self, members: Mapping[str, NodeDescriptor]) -> None:
        self._members = members
        targets: dict[str, Target] = {}
        for key in self._gateways:
            targets[key] = Target(Endpoint(self._gateways[key], 0), GATEWAY, ())
        for key, endpoint in self._founding_gateways.items():
            targets[key] = Target(endpoint, GATEWAY, ())
        own = self.node.address
        known = {self._listening_endpoint(self.node)}
        now = self._clock.seconds()
        self._known_peers.update(members, now)
        absent = self._known_peers.list_absent(members)
        for name, node in [*sorted(members.items()), *absent.items()]:
            listens = self._listening_endpoint(node)
            if name in members:
                known.add(listens)
            if name != own.node and listens is not None:
                targets[name] = Target(listens, MEMBER, own.unit, name)
        # A silent member is on no map, but may be a seed.
        for seed in self._seeds:
            if seed not in known:
                targets[_seed(seed)] = Target(seed, MEMBER, own.unit)
        linked = {key for each in self._linked for key in self._keys_of(each)}
        self._runner.apply_effects(self._meshing.set_targets(targets, now, linked))

    @property
    def absent_members(self) -> Collection[str]:
        return self._known_peers.list_absent(self._members or {}).keys()

    def link_up(self, name: str) -> None:
        self._linked.add(name)
        for key in self._keys_of(name):
            self.link_log.reset_link(key)
            self._runner.call(self._meshing.link_up, key)
        for links in self.instance_links.values():
            links.network_link_up()

    def link_broken(self, name: str) -> None:
        self._linked.discard(name)
        for key in self._keys_of(name):
            self._runner.call(self._meshing.link_down, key)

    def link_down(self, name: str) -> None:
        """Also called for a connection that led to no link."""
        self.link_broken(name)
        self._keys.pop(name, None)
        for links in self.instance_links.values():
            links.network_link_down(name)

    def set_slow(self, is_slow: bool) -> None:
        """A slow machine dials fewer nodes at once (M7)."""
        self._meshing.is_slow = is_slow

    def stop(self) -> None:
        self._runner.stop()
        for links in self.instance_links.values():
            links.stop()

    def accept_connection(self, channel: ISocketChannel, transport: str) -> None:
        if self._is_outside:
            self._handshakes.reject_connection(channel, ShuttingDown(_OUTSIDE))
            return

        def find_error(hello: NodeHello, host: str) -> BrokerError | None:
            if self._is_outside:
                # The node has left its cluster since the handshake began.
                return ShuttingDown(_OUTSIDE)
            links = self.instance_links.get(hello.purpose)
            if links is not None:
                return self._find_host_error(hello.node.address.unit, host) or links.find_error(
                    hello.node
                )
            if hello.purpose not in PURPOSES:
                return StackMismatch(
                    f"this address is one of network.listen, and has no {hello.purpose}"
                )
            return None

        def accepted(result: Accepted, channel: ISocketChannel) -> None:
            links = self.instance_links.get(result.purpose)
            if links is None:
                self._listener.connection_accepted(result, channel, transport, False)
            else:
                links.attach_connection(result, channel, transport, is_dialled=False)

        self._handshakes.accept(channel, self.node, transport, find_error, accepted)

    def _apply(self, effect: JoiningEffect | Dial) -> None:
        match effect:
            case AskNode(endpoint):
                self._dial(
                    self._dialler.dial(endpoint, self._settings.transport),
                    self._initiator(MEMBER, (), ""),
                    self._settings.transport,
                    partial(self._join_accepted, endpoint),
                    lambda refused: self._runner.call(self._joining.join_refused, refused),
                    lambda error: self._runner.call(self._joining.dial_failed, error),
                )
            case Joined(cluster, admitted):
                self._listener.cluster_joined(cluster, admitted)
            case Founded(cluster, gateway):
                self._founding_gateways = {f"{_GATEWAY}{gateway.host}:{gateway.port}": gateway}
                self._listener.cluster_joined(cluster, 0)
            case RoundFailed():
                self.link_log.log_failed_round(effect.asked, effect.error)
            case Dial():
                self._dial_target(effect)

    def _join_accepted(
        self, endpoint: Endpoint, accepted: Accepted, channel: ISocketChannel
    ) -> None:
        joined = self._joining.join_accepted(accepted, self._clock.seconds())
        if not joined and accepted.peer.address.unit != self.node.address.unit:
            channel.abort(Closed("this node has a link to its cluster again"))
            return
        self.link_log.reset_joining()
        # `cluster_joined` sets the dialling targets, without this link.
        self._linked.add(accepted.peer.name)
        self._keys[accepted.peer.name] = _seed(endpoint)
        self._runner.apply_effects(joined)
        self._listener.connection_accepted(accepted, channel, self._settings.transport, True)

    def _dial_target(self, dial: Dial) -> None:
        key, target = dial.key, dial.target
        if key in self._gateways:
            transport = TCP
            connection = self._dialler.dial_string(self._gateways[key])
        else:
            # Links between clusters use TCP only (issue 4, 4).
            transport = self._settings.transport if target.purpose == MEMBER else TCP
            connection = self._dialler.dial(target.endpoint, transport)

        description = self._describe_target(dial)

        def accepted(result: Accepted, channel: ISocketChannel) -> None:
            self._keys[result.peer.name] = key
            self._listener.connection_accepted(result, channel, transport, True)

        def failed(result: Refused | BrokerError) -> None:
            error = result.error if isinstance(result, Refused) else result
            if not self._runner.is_stopped:
                self.link_log.log_failed_link(key, description, error)
            if isinstance(result, Refused):
                self._known_peers.record_refusal(target.name, result.error)
            self._runner.call(self._meshing.dial_failed, key)

        core = self._initiator(target.purpose, target.cluster, target.name)
        self._dial(connection, core, transport, accepted, failed, failed)

    def dial_neighbour(
        self,
        neighbour: Neighbour,
        purpose: str,
        accepted: Callable[[Accepted, ISocketChannel], None],
        failed: Callable[[Refused | BrokerError], None],
    ) -> None:
        """Connect to a neighbour again, as the node was dialled for its link (`DialNeighbour`)."""
        name, node, transport = neighbour.name, neighbour.node, neighbour.transport
        gateway = self._gateways.get(self._keys.get(name, ""))
        endpoint = node.udp if transport == UDP else node.tcp
        if gateway is not None:
            connection = self._dialler.dial_string(gateway)
        elif endpoint is not None:
            connection = self._dialler.dial(endpoint, transport)
        else:
            failed(NotConnected(f"{name} names no address over {transport}"))
            return
        core = self._initiator(purpose, node.address.unit, name)
        self._dial(connection, core, transport, accepted, failed, failed)

    def _initiator(self, purpose: str, cluster: UnitPath, expected: str) -> Initiator:
        core = self._handshakes.initiate(self.node, purpose)
        core.cluster, core.expected_name = cluster, expected
        return core

    def _dial(
        self,
        connection: Deferred[ISocketChannel],
        core: Initiator,
        transport: str,
        accepted: Callable[[Accepted, ISocketChannel], None],
        refused: Callable[[Refused], None],
        failed: Callable[[BrokerError], None],
    ) -> None:
        def handshake_refused(result: Refused) -> None:
            error = result.error
            if isinstance(error, Cloned) and result.by_peer and is_proven(self.node, result.later):
                self._listener.clone_detected(error)
            refused(result)

        def find_error(host: str) -> BrokerError | None:
            if core.purpose == MEMBER:
                return self._find_host_error(self.node.address.unit, host)
            return self._find_host_error(core.cluster, host)

        self._handshakes.dial(connection, core, accepted, handshake_refused, failed, find_error)

    def _find_host_error(self, unit: UnitPath, host: str) -> BrokerError | None:
        if unit != self.node.address.unit or self._settings.rules.is_address_allowed(host):
            return None
        return AddressNotAllowed(f"by this node's settings no member may be at {host[:80]}")

    def _listening_endpoint(self, node: NodeDescriptor) -> Endpoint | None:
        return node.udp if self._settings.transport == UDP else node.tcp

    def _describe_target(self, dial: Dial) -> str:
        key, target = dial.key, dial.target
        if key in self._gateways:
            return f'network.gateways "{self._gateways[key]}"'
        place = f"{target.endpoint.host}:{target.endpoint.port}"
        if target.name:
            return f"the member {target.name} at {place}"
        return f"{place} in another cluster" if target.purpose == GATEWAY else f"the seed {place}"

    def _keys_of(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((name, self._keys.get(name, name))))

    @property
    def _is_outside(self) -> bool:
        return self._runner.is_stopped or self._listener.admission_context() is None

    def _admission_context(self) -> AdmissionContext:
        context = self._listener.admission_context()
        assert context is not None
        return context


def _seed(place: Endpoint) -> str:
    return f"{_SEED}{place.host}:{place.port}"
