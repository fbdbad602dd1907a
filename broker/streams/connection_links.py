"""Links of a transport over connections: TCP, or UDP with error correction."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from random import Random

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from zope.interface import implementer

from broker.cluster.descriptor import Endpoint, NodeDescriptor
from broker.cluster.handshake_core import Accepted
from broker.cluster.handshake_messages import LINKS
from broker.cluster.link_stacks import LinkStacks
from broker.cluster.meshing import Dial, Meshing, Target
from broker.cluster.neighbours import Neighbour, Neighbours
from broker.errors import (
    BrokerError,
    Closed,
    ConfigurationError,
    NameTaken,
    NotConnected,
    Overloaded,
    TooManyLinks,
)
from broker.streams.connection_port import ConnectionPort, OpenGroup
from broker.streams.contract import MOST_PEERS, ILinkReceiver, ILinks
from broker.streams.link_snapshot import describe_link
from broker.streams.peer_names import PeerNames
from broker.transport.clock import IClock
from broker.transport.core_runner import CoreRunner
from broker.transport.layer import ClockOffset
from broker.transport.message import Outcome
from broker.transport.monitor import ILinkOwners
from broker.transport.socket.contract import ISocketChannel
from broker.transport.socket.udp import format_address as _key
from broker.transport.stack import Stack
from broker.transport.stacks import Transport
from broker.transport.view import LinkState, View

#: Bytes of a frame for the headers of layers.
_HEADERS = 1024
#: Of the number of a link, in the incarnation of its stack.
_LINK_BITS = 24
_ENDED = Closed("the transport has ended the link")


class _Attempt:
    """A connection on its way to a peer, with its handshake."""

    def __init__(self) -> None:
        self.is_given_up = False
        self.abort: Callable[[BrokerError], object] = lambda error: None


@implementer(ILinks)
class ConnectionLinks:
    """Links of one transport instance over connections, at most one to each node.

    A peer is the address at which a node listens for links: its host, and the port that its
    handshake names. If a node has connected from another host than the added one, the added address
    is its peer. Added peers are dialled until they are removed, also once if they have connected
    before: an added address belongs to the node that answers there. There are at most `MOST_PEERS`
    of them, and as many links; more are refused.
    """

    log = Logger()

    def __init__(
        self,
        name: str,
        port: ConnectionPort,
        transport: Transport,
        receiver: ILinkReceiver,
        clock: IClock,
        random: Random,
        stacks: LinkStacks,
        max_frame: int,
        open_group: OpenGroup,
        on_close: Callable[[], object],
    ) -> None:
        """`name` is the same at all nodes. Raises `ConfigurationError` for an unusable group."""
        self.dropped = 0
        """Messages for links without room, or without a peer, and those that are too large."""
        self._name = name
        self._port = port
        self._transport = transport.value
        self._receiver = receiver
        self._owners = receiver if ILinkOwners.providedBy(receiver) else None
        self._stacks = stacks
        policy = stacks.policy
        self._is_monitored = policy is not None
        self._created = 0
        self._max_message = max_frame - _HEADERS
        self._on_close = on_close
        self._clock = clock
        self._neighbours = Neighbours(
            port.node.name,
            clock,
            self,
            stacks.build(transport.value),
            self._create_stack,
            max_frame=max_frame,
            keep=0.0 if policy is None else policy.keep,
        )
        if stacks.group is not None:
            self._neighbours.driver.join_group(open_group(stacks.group))
        self._added: dict[str, Endpoint] = {}
        """By text."""
        self._names = PeerNames()
        """Peers with a link, and added ones that had one. Others are forgotten with the next."""
        self._answered: set[str] = set()
        """Texts of added peers where the node answered that they are bound to."""
        self._meshing = Meshing(MOST_PEERS, random, policy)
        self._dials: dict[str, _Attempt] = {}
        self._runner: CoreRunner[Dial] = CoreRunner(clock, self._dial, self._meshing)
        port.add_user(name, self)

    # ------------------------------------------------------------------ for the transport

    def add_peer(self, address: tuple[str, int]) -> Hashable:
        try:
            peer = Endpoint(*self._port.socket.resolve(*address))
        except OSError as error:
            raise ConfigurationError(f"{address[0]}: {error}") from None
        key = _key(peer)
        if key not in self._added and len(self._added) >= MOST_PEERS:
            raise Overloaded(f"there are {MOST_PEERS} peers")
        self._added[key] = peer
        self._set_targets()
        return peer

    def resolve(self, host: str) -> Deferred[str]:
        return self._port.socket.resolve_name(host)

    def remove_peer(self, peer: Hashable) -> None:
        self._answered.discard(_key(peer))
        if self._added.pop(_key(peer), None) is not None:
            self._cancel_dial(_key(peer), _ENDED)
            self._set_targets()
        name = self._names.node_at(peer)
        if name is not None:
            self._names.unbind(name)
            self._neighbours.close_link(name, _ENDED)

    def send(
        self, messages: Sequence[bytes], peers: Sequence[Hashable]
    ) -> Sequence[Mapping[Hashable, Outcome]]:
        closed: dict[Hashable, Outcome] = {}
        open_links: dict[Hashable, str] = {}
        for peer in peers:
            name = self._names.node_at(peer)
            if name is None:
                closed[peer] = Outcome.ABSENT
            elif self._neighbours.is_writable(name):
                open_links[peer] = name
            else:
                closed[peer] = Outcome.FULL
        outcomes = [closed | self._send_one(each, open_links) for each in messages]
        self.dropped += sum(each is not Outcome.SENT for one in outcomes for each in one.values())
        return outcomes

    def _send_one(self, message: bytes, names: Mapping[Hashable, str]) -> dict[Hashable, Outcome]:
        if len(message) > self._max_message:
            return dict.fromkeys(names, Outcome.FULL)
        outcomes = self._neighbours.send(message, names.values())
        return {peer: outcomes[name] for peer, name in names.items()}

    def close(self) -> None:
        if self._runner.is_stopped:
            return
        self._runner.stop()
        for key in list(self._dials):
            self._cancel_dial(key, _ENDED)
        self._port.remove_user(self._name)
        self._neighbours.close_all(Closed("the links of the stack are closed"))
        self._on_close()

    def view_of(self, peer: Hashable) -> View:
        neighbour = self._neighbours.get(self.node_of(peer))
        return View(LinkState.DISCONNECTED) if neighbour is None else neighbour.view

    def node_of(self, peer: Hashable) -> str:
        return self._names.node_at(peer) or ""

    def clock_of(self, peer: Hashable) -> ClockOffset | None:
        monitor = self._neighbours.monitor_of(self.node_of(peer))
        return None if monitor is None else monitor.clock_offset

    def suspect(self, peer: Hashable, reason: str) -> None:
        self._neighbours.suspect(self.node_of(peer), reason)

    def drop_unsent(self, peer: Hashable) -> None:
        self._neighbours.drop_unsent(self.node_of(peer))

    def snapshot(self) -> Mapping[str, object]:
        peers = dict.fromkeys([*self._added.values(), *(peer for _, peer in self._names)])
        return {
            "dropped": self.dropped,
            "refused": dict(self._port.failures),
            **self._neighbours.driver.counts,
            "peers": [
                {"address": _key(peer), "node": name, "linked": self._is_up(name)}
                | (self._describe(peer, name) if self._is_monitored else {})
                for peer in peers
                for name in [self._names.node_at(peer) or ""]
            ],
        }

    def _describe(self, peer: Hashable, name: str) -> dict[str, object]:
        now = self._clock.seconds()
        return describe_link(self.view_of(peer), self._neighbours.monitor_of(name), now)

    def _is_up(self, name: str) -> bool:
        neighbour = self._neighbours.get(name)
        return neighbour is not None and neighbour.up

    # ------------------------------------------------------------------ for the port

    @property
    def nodes(self) -> Mapping[str, NodeDescriptor]:
        # The name of a disconnected node is free.
        return {each.name: each.node for each in self._neighbours if each.removal is None}

    def find_error(self, node: str, peer: Endpoint) -> BrokerError | None:
        self._forget_gone()
        known = self._names.node_at(self._names.peer_of(node, peer))
        if known not in (None, node):
            return NameTaken(f"{_key(peer)} is the address of {known}")
        nodes = self.nodes
        if node not in nodes and len(nodes) >= MOST_PEERS:
            return TooManyLinks(f"this node has {MOST_PEERS} links of the stack {self._name}")
        return self._find_owner_error(node)

    def _find_owner_error(self, node: str) -> BrokerError | None:
        if self._owners is not None and self._neighbours.get(node) is None:
            try:
                self._owners.own_link(node)
            except BrokerError as error:
                return error
        return None

    def connection_accepted(
        self, accepted: Accepted, channel: ISocketChannel, peer: Endpoint
    ) -> None:
        name = accepted.peer.name
        self._names.bind(name, self._names.peer_of(name, peer))
        self._attach(accepted, channel, is_dialled=False)

    # ------------------------------------------------------------------ dialling

    def _set_targets(self) -> None:
        targets = {key: Target(peer, LINKS, ()) for key, peer in self._added.items()}
        attached = filter(self._neighbours.is_attached, self.nodes)
        linked = self._answered.intersection(map(self._key_of, attached))
        now = self._clock.seconds()
        self._runner.apply_effects(self._meshing.set_targets(targets, now, linked))

    def _dial(self, dial: Dial) -> None:
        key, peer = dial.key, dial.target.endpoint
        self._cancel_dial(key, NotConnected("the attempt took too long"))
        attempt = self._dials[key] = _Attempt()

        def accepted(result: Accepted, channel: ISocketChannel) -> None:
            self._dials.pop(key, None)
            error = self._bind_dialled(result.peer.name, peer)
            if error is None:
                self._attach(result, channel, is_dialled=True)
            else:
                channel.abort(error)
                failed(error)

        def failed(error: BrokerError) -> None:
            if attempt.is_given_up:
                return
            self._dials.pop(key, None)
            if not self._runner.is_stopped and key in self._added:
                target = f"{key} for the stack {self._name}"
                self._port.link_log.log_failed_link(key, target, error)
            self._runner.call(self._meshing.dial_failed, key)

        connection = self._port.socket.dial(peer)
        attempt.abort = self._port.begin_handshake(connection, self._name, accepted, failed)

    def _bind_dialled(self, name: str, peer: Endpoint) -> BrokerError | None:
        """Record that a node has answered at an address. Its earlier link there is kept."""
        if self._runner.is_stopped or _key(peer) not in self._added:
            return _ENDED
        if error := self._find_owner_error(name):
            return error
        self._forget_gone()
        other = self._names.peer_of(name, peer)
        if other != peer:
            if _key(other) in self._added and self._neighbours.get(name) is not None:
                return NameTaken(f"{name} answers there and at {_key(other)}")
            # It has moved, or has connected from another host.
            self._end_link(name, f"{name} answers at {_key(peer)}")
        earlier = self._names.node_at(peer)
        if earlier not in (None, name):
            self._end_link(earlier, f"{name} answers at {_key(peer)}")
        self._names.bind(name, peer)
        self._answered.add(_key(peer))
        return None

    def _cancel_dial(self, key: str, error: BrokerError) -> None:
        attempt = self._dials.pop(key, None)
        if attempt is not None:
            attempt.is_given_up = True
            attempt.abort(error)

    # ------------------------------------------------------------------ links

    def _create_stack(self, name: str, transport: str, incarnation: int) -> Stack:
        """Raises `BrokerError` if the owner refuses the node."""
        owner = None if self._owners is None else self._owners.own_link(name)
        if self._is_monitored:
            # It rises with each start, and with each link.
            self._created += 1
            incarnation = self._port.node.incarnation + self._created
        if self._owners is not None:
            incarnation = (self._owners.incarnation << _LINK_BITS) + self._created
        return self._stacks.create(name, transport, incarnation, owner)

    def _attach(self, accepted: Accepted, channel: ISocketChannel, *, is_dialled: bool) -> None:
        neighbour = Neighbour.from_handshake(accepted, channel, self._transport, is_dialled)
        self._neighbours.attach_connection(neighbour, channel)
        known = self._neighbours.get(neighbour.name)
        if known is None:
            self.link_failed(neighbour)
        elif known.up or self._is_monitored:
            # Also for a second connection, or a replacement.
            self._report_up(known.name)

    def _end_link(self, name: str, reason: str) -> None:
        self._neighbours.close_link(name, Closed(reason))
        self._names.unbind(name)

    def _forget_gone(self) -> None:
        """Forget the addresses of nodes without a link, except the added ones."""
        for name, peer in self._names:
            if self._neighbours.get(name) is None and _key(peer) not in self._added:
                self._names.unbind(name)

    def _key_of(self, name: str) -> str:
        return _key(self._names.peer_of(name, Endpoint("", 0)))

    def link_up(self, neighbour: Neighbour) -> None:
        key = self._key_of(neighbour.name)
        self.log.info(
            "linked to {name} at {key} for the stack {stack}",
            name=neighbour.name,
            key=key,
            stack=self._name,
        )
        self._report_up(neighbour.name)
        self._report_state(neighbour, LinkState.CONNECTED)

    def link_resumed(self, neighbour: Neighbour) -> None:
        self._report_state(neighbour, LinkState.CONNECTED)

    def _report_state(self, neighbour: Neighbour, state: LinkState) -> None:
        peer = self._names.peer_of(neighbour.name, None)
        if peer is not None and not self._runner.is_stopped:
            self._receiver.link_changed(peer, state)

    def _report_up(self, name: str) -> None:
        key = self._key_of(name)
        if key in self._answered:
            self._port.link_log.reset_link(key)
            self._runner.call(self._meshing.link_up, key)

    def link_broken(self, neighbour: Neighbour) -> None:
        # An owner counts the peer as connected before the link is up.
        if neighbour.up or self._owners is not None:
            self._report_state(neighbour, LinkState.SUSPECTED)
        self._redial(neighbour)

    def _redial(self, neighbour: Neighbour) -> None:
        if not (self._is_monitored and self._neighbours.is_attached(neighbour.name)):
            self._runner.call(self._meshing.link_down, self._key_of(neighbour.name))

    def link_down(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        if not self._runner.is_stopped:
            self.log.info(
                "the link to {name} for the stack {stack} is down: {error}",
                name=neighbour.name,
                stack=self._name,
                error=error or neighbour.view.reason or "closed",
            )
        self._report_state(neighbour, LinkState.DISCONNECTED)
        self._redial(neighbour)

    def link_failed(self, neighbour: Neighbour) -> None:
        if self._owners is not None:
            self._report_state(neighbour, LinkState.DISCONNECTED)
        self._redial(neighbour)

    def messages_received(self, neighbour: Neighbour, batch: Sequence[bytes]) -> None:
        self._receiver.messages_received(self._names.peer_of(neighbour.name, None), batch)
