"""The `dcp` transport: a router of a mesh, on the datagram links of its node."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import attrs
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.config.value_kind import split_host_port
from broker.errors import BrokerError, Closed, NoMesh
from broker.event.flow import origin_of
from broker.event.place import Mark
from broker.streams.contract import (
    CarriedInterest,
    FlowBatch,
    ILinkReceiver,
    ILinks,
    ITransportContext,
)
from broker.streams.interest_transport import IInterestTransport, Marks
from broker.streams.leaf_contract import ILeafServices, ILeafTransport
from broker.streams.operation import IOperatedTransport
from broker.streams.ticket import ClientTicket
from broker.streams.tracing_transport import ITracingTransport, NodePart
from broker.transport.deadline_timer import DeadlineTimer
from broker.transport.socket.udp import format_address
from broker.transport.view import LinkState
from plugins.dcp.control import MOST_CANDIDATES
from plugins.dcp.event_trace import trace_event
from plugins.dcp.group_sockets import GroupSockets
from plugins.dcp.leaf_peer import LeafPeer
from plugins.dcp.mesh.leaf_gate import TicketRules
from plugins.dcp.operation import operate
from plugins.dcp.options import DcpOptions
from plugins.dcp.peer_addresses import PeerAddresses
from plugins.dcp.root_lookup import RootLookup
from plugins.dcp.router import Router
from plugins.dcp.router_host import IRouterHost
from plugins.dcp.router_snapshot import make_snapshot

OnActive = Callable[[Marks], object]


class _Host(PeerAddresses):
    """The node, as its router sees it (`IRouterHost`)."""

    log = Logger()

    def __init__(self, context: ITransportContext, fail: Callable[[Failure], object]) -> None:
        self.name, self.origin = context.node, context.origin
        self.patterns = [pattern.text for pattern in context.patterns]
        self.match, self.has_interest = context.match, context.has_interest
        self.deliver = context.receive
        self.ticket: ClientTicket | None = None
        self.tickets = TicketRules(context.instance)
        self.links: ILinks | None = None
        self.leaf_links: ILinks | None = None
        """Links to clients; None if there are none."""
        self.uses: Callable[[Hashable], bool] = lambda peer: False
        """Tells whether the router has a connection to a peer."""
        self._context = context
        self._fail = fail

    def _links_of(self, peer: Hashable) -> tuple[ILinks | None, Any]:
        """Return the links over which a peer is reached, and its name there."""
        if isinstance(peer, LeafPeer):
            return self.leaf_links, peer.address
        return self.links, peer

    def send(self, peer: Hashable, packets: list[bytes]) -> None:
        links, name = self._links_of(peer)
        if links is not None:
            links.send(packets, [name])

    def set_link_interest(
        self, link: Hashable, key: str, interest: CarriedInterest | None, on_active: OnActive
    ) -> None:
        active = self._context.set_link_interest(link, key, interest)
        active.addCallback(on_active).addErrback(self._fail)

    def report(self, alarm: str) -> None:
        self.log.warn("{instance}: {alarm}", instance=self._context.instance, alarm=alarm)

    def open_peer(self, peer: Hashable) -> None:
        """Let a peer have a link of its own, whatever strangers send."""
        links, name = self._links_of(peer)
        if links is not None:
            try:
                links.add_peer(name[:2])
            except BrokerError as error:
                self.log.warn("{peer}: {error}", peer=self.describe_peer(peer), error=error)

    def keep_peer(self, peer: Hashable) -> None:
        # Its link is just passing a packet on.
        self._context.clock.callLater(0, self._keep_peer, peer)

    def _keep_peer(self, peer: Hashable) -> None:
        if self.uses(peer):
            self.open_peer(peer)

    def close_peer(self, peer: Hashable) -> None:
        self._context.clock.callLater(0, self._close_peer, peer)

    def _close_peer(self, peer: Hashable) -> None:
        links, name = self._links_of(peer)
        if links is not None and not self.uses(peer):
            links.remove_peer(name)


@implementer(ILinkReceiver)
class _LeafReceiver:
    """Receiver of the links to clients."""

    def __init__(self, receive: Callable[[Hashable, Sequence[bytes]], object]) -> None:
        self._receive = receive

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        self._receive(LeafPeer(peer), messages)

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        """Keep-alives show that a client has gone."""


@implementer(
    ILinkReceiver, IInterestTransport, ITracingTransport, IOperatedTransport, ILeafTransport
)
class DcpTransport:
    def __init__(self, context: ITransportContext) -> None:
        options = context.options
        assert isinstance(options, DcpOptions)
        self._context = context
        self._options = options
        self._is_fed = False
        self._host = _Host(context, self._failed)
        self._router: Router | None = None
        self._announced: set[Deferred[Marks]] = set()
        """Of interest that does not count yet."""
        self._timer = DeadlineTimer(context.clock, self._handle_timeout)
        self._groups: GroupSockets | None = None
        self._lookup: RootLookup | None = None
        self._knows_roots = bool(options.roots)
        self._roots: Sequence[str] = options.roots
        """Their addresses, as far as they are known."""

    # ------------------------------------------------------------------ of the node

    def listen(self) -> None:
        context, options = self._context, self._options
        self._host.links = context.open_links(options.udp, self)
        if options.root_name:
            self._lookup = RootLookup(context, options, self._set_roots)
        if options.multicast:
            interface = split_host_port(options.udp)[0]
            self._groups = GroupSockets(
                context, options.multicast, interface, self._receive_from_groups
            )
        # Before DNS answers, it is a node that finds no parent.
        self._open_router(options.roots, is_root=options.udp in options.roots)

    def _open_router(self, addresses: Sequence[str], *, is_root: bool) -> None:
        context = self._context
        if is_root:
            self._is_fed = context.request_feed()
        host: IRouterHost = self._host
        settings = self._options.make_settings(context.clearance.rank)
        self._router = Router(
            *(host, attrs.evolve(settings, memory=context.queue_memory)),
            lambda size: secrets.token_bytes(size),
            *(self._find_roots(addresses, is_root), context.random),
            *(context.wall_clock, context.clock.seconds()),
            is_root=is_root,
            group_host=self._groups,
        )
        self._host.uses = self._router.endpoint.uses

    def _find_roots(self, addresses: Sequence[str], is_root: bool) -> list[Hashable]:
        """Return the peers at which the search for parents begins."""
        if is_root:
            # Only their number counts.
            return list(addresses)
        own = self._options.udp
        others = [each for each in self._options.parent_nodes or addresses if each != own]
        peers = [self._host.find_peer(each) for each in others]
        return [each for each in peers if each is not None]

    def _set_roots(self, addresses: Sequence[str]) -> None:
        """Handle new addresses of `root_name`. The first ones decide whether this node is a root
        until its end."""
        if self._router is None:
            return
        options, now = self._options, self._context.clock.seconds()
        is_root = self._host.find_peer(options.udp) in map(self._host.find_peer, addresses)
        if is_root and not self._knows_roots:
            self._router.stop(now)
            self._router.flush(now)
            self._open_router(addresses, is_root=True)
            self._activate_announced()
        self._knows_roots, self._roots = True, addresses
        self._router.membership.set_roots(self._find_roots(addresses, self._router.is_root), now)
        self._router.host_alarms = []
        if is_root != self._router.is_root:
            verb, role = ("names", "no root") if is_root else ("lacks", "a root")
            text = f"{options.root_name} {verb} {options.udp}, and this node runs as {role}"
            self._router.host_alarms = [f"{text}: restart it"]
        self._changed()

    def accept_leaves(self, services: ILeafServices) -> None:
        tickets = self._host.tickets
        tickets.key, tickets.policy = services.ticket_key, services.ticket_policy
        if self._options.leaves:
            receiver = _LeafReceiver(self.messages_received)
            self._host.leaf_links = services.open_links(self._options.udp, receiver)

    def describe_leaf(self) -> Mapping[str, object]:
        if self._router is None:
            raise NoMesh(f"the mesh {self._context.instance} does not run at this node")
        near = [each.connection.peer for each in (*self._router.parents, *self._router.children)]
        nodes = [format_address(each) for each in near if not isinstance(each, LeafPeer)]
        options = self._options
        own = [] if self._host.leaf_links is None else [options.udp]
        addresses = list(dict.fromkeys((*self._roots, *own, *nodes)))
        return {
            "addresses": addresses[:MOST_CANDIDATES],
            "mtu": options.mtu,
            "confirm": options.confirm,
        }

    def start(self) -> None:
        if self._lookup is not None:
            self._lookup.start()
        self._changed()

    def stop(self) -> Deferred[None]:
        self._timer.arm(None)
        if self._lookup is not None:
            self._lookup.stop()
        if self._router is not None:
            self._router.stop(self._context.clock.seconds())
        opened = self._host.links, self._host.leaf_links
        self._host.links = self._host.leaf_links = self._router = None
        for links in opened:
            if links is not None:
                links.close()
        if self._groups is not None:
            self._groups.close()
        self._activate_announced()
        return succeed(None)

    def _activate_announced(self) -> None:
        while self._announced:
            self._announced.pop().callback({})

    def announce(self, key: str, interest: CarriedInterest) -> Deferred[Marks]:
        """Return the marks behind which all events of the interest come."""
        if self._router is None or self._router.is_root:
            # The feeder brings the events of a root, and states from where on.
            return succeed({})
        active: Deferred[Marks] = Deferred()
        self._announced.add(active)

        def activate(marks: Marks) -> None:
            # The node's own events are in its log.
            others = {f: m for f, m in marks.items() if origin_of(f) != self._context.origin}
            if active in self._announced:
                self._announced.remove(active)
                active.callback(others)

        self._router.announce(key, interest, activate)
        self._changed()
        return active

    def withdraw(self, key: str) -> None:
        if self._router is not None:
            self._router.withdraw(key)
            self._changed()

    def publish(self, batch: FlowBatch) -> None:
        if self._router is not None:
            self._router.publish(batch)
            self._changed()

    def recovered(self, batch: FlowBatch) -> None:
        if self._is_fed:
            self.publish(batch)

    def snapshot(self) -> Mapping[str, object]:
        return {} if self._router is None else make_snapshot(self._router)

    def trace(self, flow: str, mark: Mark) -> NodePart | None:
        if self._router is None:
            return None
        return trace_event(self._router, self._host.name, flow, mark)

    def operate(self, action: str) -> Mapping[str, object]:
        if self._router is None:
            raise Closed(f"the stack {self._context.instance} has stopped")
        found = operate(self._router, action, self._context.clock.seconds())
        self._changed()
        return found

    # ------------------------------------------------------------------ of the links

    def messages_received(self, peer: Hashable, messages: Sequence[bytes]) -> None:
        if self._router is not None:
            self._router.receive(peer, messages, self._context.clock.seconds())
            self._changed()

    def _receive_from_groups(self, packets: Sequence[bytes]) -> None:
        if self._router is not None and self._router.groups is not None:
            self._router.groups.receive(packets, self._context.clock.seconds())
            self._changed()

    def link_changed(self, peer: Hashable, state: LinkState) -> None:
        """Keep-alives show that a peer has gone."""

    def _handle_timeout(self) -> None:
        if self._router is not None:
            self._router.handle_timeout(self._context.clock.seconds())
            self._changed()

    def _changed(self) -> None:
        """Send the packets of the router, and set its timer."""
        if self._router is not None:
            self._router.flush(self._context.clock.seconds())
            self._timer.arm(self._router.next_timeout())
            if self._lookup is not None and self._router.membership.search.is_unanswered:
                self._lookup.hasten()

    def _failed(self, failure: Failure) -> None:
        assert isinstance(failure.value, Exception)
        self._context.fail(failure.value)
