"""Services of a node for its stream transports (`broker.streams.node_services.NodeServices`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Hashable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Protocol

from twisted.internet.defer import Deferred

from broker.cluster.address import Address
from broker.cluster.carried_event import as_carried_event
from broker.cluster.handshake_messages import LINKS
from broker.cluster.instance_links import InstanceLinks
from broker.cluster.known_verdicts import KnownVerdicts
from broker.cluster.left_out_events import LeftOutEvents
from broker.cluster.network import Network
from broker.cluster.ordered_notices import OrderedNotices
from broker.cluster.ordered_ranges import FoundPart
from broker.cluster.relayed_entry import claimed_header
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.traffic.received_range import ReceivedRange
from broker.config import Settings
from broker.config.stacks import FindPlugins, StackInstance
from broker.delivery.output import Output
from broker.errors import BadName, ProtocolError
from broker.event.flow import pattern_of
from broker.event.place import Mark
from broker.event.site_notice import MovedMessages, SiteNotice
from broker.event.stream import StreamPattern
from broker.ingest.claimed_validation import match_as_validated
from broker.matching.contract import Accepted, IMatcher
from broker.matching.covering.stream_interest import StreamInterest
from broker.matching.query.query import Query
from broker.node.cluster_transport import ClusterTransport
from broker.node.ticket_policy import build_ticket_policy
from broker.queue_memory import QueueMemory
from broker.recovery.lost_range import read_lost_range
from broker.recovery.node_recovery import NodeRecovery
from broker.signatures.node_key import load_node_key, read_public_keys
from broker.streams.connection_port import NodeIdentity
from broker.streams.contract import (
    CarriedEvent,
    ClusterFactory,
    FlowBatch,
)
from broker.streams.interest import CarriedInterests
from broker.streams.link_key import Unmatched
from broker.streams.link_sockets import LinkSockets
from broker.streams.links import LinkOpener, name_links
from broker.streams.ticket import derive_ticket_key
from broker.streams.transports import StreamTransports, carrying_patterns
from broker.subscriptions.interest import Interest, StandaloneInterest
from broker.transport.clock import IClock

#: Events at the end of the log in which a transport finds what it delivered last.
END_EVENTS = 2_000
END_PAGE_BYTES = 512 << 10


class INode(Protocol):
    """Parts of the node."""

    @property
    def settings(self) -> Settings: ...
    @property
    def network(self) -> Network | None: ...
    @property
    def transports(self) -> StreamTransports | None: ...
    @property
    def matcher(self) -> IMatcher: ...
    @property
    def queue_memory(self) -> QueueMemory: ...
    @property
    def output(self) -> Output: ...
    @property
    def recovery(self) -> NodeRecovery: ...

    def parse_query(self, text: str, namespaces: Mapping[str, str]) -> Query: ...


def build_transports(
    node: INode,
    clock: IClock,
    random: Random,
    wall_clock: Callable[[], int],
    sockets: LinkSockets,
    find_plugins: FindPlugins,
) -> StreamTransports | None:
    """Return the transports of a node; None without a network. Raises `ConfigurationError`."""
    if node.network is None:
        return None
    network, settings = node.network, node.settings
    identity = NodeIdentity.from_settings(
        settings.network, lambda: network.membership.node, network.admission_context
    )
    opener = LinkOpener(
        *(settings, identity, clock, wall_clock, random, sockets, find_plugins),
        memory=node.queue_memory,
    )
    services = StreamServices(node, network, clock, random, opener, wall_clock)
    services.ticket_key = derive_ticket_key(identity.key or b"")
    transports = StreamTransports(node.settings, services, find_plugins)
    services.connect(transports)
    for instance in transports:
        stack = settings.stack(instance.instance)
        if stack.has_own_links:
            links = _make_instance_links(node, network, stack, find_plugins, clock, random)
            network.driver.instance_links |= {each.text: links for each in instance.patterns}
    return transports


def _make_instance_links(
    node: INode,
    network: Network,
    stack: StackInstance,
    find_plugins: FindPlugins,
    clock: IClock,
    random: Random,
) -> InstanceLinks:
    transport, plugin = find_plugins(stack)
    assert plugin is not None
    membership = network.membership
    purpose = LINKS + name_links(stack.name, transport, plugin)
    links = membership.instance_links[purpose] = InstanceLinks(
        *(stack, plugin, purpose, node.settings, network.neighbours, network.messages_received),
        *(membership.dial_neighbour, clock, random, membership.link_log, node.queue_memory),
    )
    return links


def build_interest(node: INode) -> Interest:
    """Return the announcer of interest to the network, and to other transports if there are any."""
    if node.network is None or node.transports is None:
        return StandaloneInterest()
    if not carrying_patterns(node.settings):
        return node.network.interest
    return CarriedInterests(node.network.interest, node.transports)


class StreamServices:
    """Implements `broker.streams.node_services.NodeServices`."""

    def __init__(
        self,
        node: INode,
        network: Network,
        clock: IClock,
        random: Random,
        opener: LinkOpener,
        wall_clock: Callable[[], int],
    ) -> None:
        self.wall_clock = wall_clock
        self.folder = node.settings.node.data / "stacks"
        self.node = node.settings.node.name
        self.origin = network.event_log.origin
        self.signing_key = load_node_key(node.settings.node.data)
        self.public_keys = read_public_keys(
            node.settings.network.public_keys, self.node, self.signing_key
        )
        self.clock, self.random = clock, random
        self.cluster: ClusterFactory = partial(ClusterTransport, network)
        self.link_interest: RemoteInterest = network.remote_interest
        self.open_links, self.find_addresses = opener.open, opener.find_addresses
        self.open_client_links, self.open_group = opener.open_to_clients, opener.open_group
        self.ticket_key, self.queue_memory = b"", node.queue_memory
        self.ticket_policy = build_ticket_policy(node.settings.network, network)
        self.parse_query = node.parse_query
        self._network = network
        self._matcher = node.matcher
        self._output = node.output
        self._recovery = lambda: node.recovery
        self._notices = OrderedNotices(network.driver.relay_ingest, network.event_log)
        self._left_out = LeftOutEvents(
            *(network.driver.relay_ingest, network.event_log, network.driver.position_of),
            receive_range=partial(network.flows.receive_range, is_unfiltered=True),
            has_local_match=network.remote_interest.has_local_match,
            report=node.output.handle_left_out,
        )

    @property
    def own_end(self) -> Mark:
        return self._network.event_log.own_end

    def connect(self, transports: StreamTransports) -> None:
        """Let the network publish and recover flows through the transports."""

        def publish(
            flow: str,
            after: Mark,
            upto: Mark,
            events: Sequence[CarriedEvent],
            targets: Sequence[Collection[Hashable]],
        ) -> None:
            state = self._network.state
            if state is not None:
                address = str(state.address)
                transports.publish(FlowBatch(flow, address, after, upto, events), targets)

        def recovered(received: ReceivedRange) -> None:
            frame, span = received.frame, received.range
            events = frame.events_for(received.index)
            batch = FlowBatch(frame.origin, str(frame.origin_node), span.after, span.upto, events)
            transports.recovered(batch)

        driver = self._network.driver
        for part in (driver.ordered, driver.withheld):
            part.orders, part.place = transports.orders, transports.place
            part.take_back = transports.take_back
        self._network.event_log.on_rollback.append(lambda _: transports.revoke())
        driver.ordered.order = transports.order
        driver.ordered.type_waits.stack_of = transports.stack_of
        driver.ordered.read_lost = self._read_lost
        self._output.find_statuses = transports.find_statuses
        self._network.flows.publish_flow = publish
        self._network.flows.on_disagreement = self._network.interest.announce_all
        self._network.driver.on_flow_recovered = recovered

    def _read_lost(self, flow: str, after: Mark, upto: Mark) -> AsyncIterator[FoundPart]:
        return read_lost_range(self._recovery(), self.parse_query("true()", {}), flow, after, upto)

    def receive(self, batch: FlowBatch) -> bool:
        """Validate, log and deliver a batch, as far as subscriptions of this node want it.

        A batch of an own ordered flow releases withheld events. Return False for an invalid batch.
        """
        if self._network.driver.withheld.release(batch.flow, batch.after, batch.upto):
            return True
        if not self._accepts_signatures(batch):
            return False
        try:
            origin_node = Address.parse(batch.origin_node)
            if batch.is_late:
                self._left_out.take(batch, origin_node)
                return True
            self._network.flows.receive_range(
                *(batch.flow, batch.after, batch.upto, batch.events),
                origin_node,
                is_unfiltered=True,
                dropped=batch.dropped,
            )
        except (BadName, ProtocolError):
            return False
        return True

    def _accepts_signatures(self, batch: FlowBatch) -> bool:
        state = self._network.state
        is_inside = state is not None and state.is_origin_in_cluster(batch.flow)
        return self._network.signatures.accepts_carried(
            batch.flow, batch.events, batch.sender, is_inside=is_inside
        )

    def deliver(self, batch: FlowBatch) -> bool:
        driver = self._network.driver
        return driver.withheld.deliver(batch) or driver.ordered.deliver(batch)

    def release_ordered(self, patterns: Sequence[str]) -> None:
        self._network.driver.ordered.release_all(patterns)

    def read_log_end(self, patterns: Sequence[str]) -> Deferred[Sequence[CarriedEvent]]:
        return Deferred.fromCoroutine(self._read_log_end(patterns))

    async def _read_log_end(self, patterns: Sequence[str]) -> list[CarriedEvent]:
        log = self._network.event_log
        serial, end = max(log.bounds.first, log.bounds.last - END_EVENTS), log.bounds.last
        found: list[CarriedEvent] = []
        while serial <= end:
            page = await log.read(serial, END_EVENTS, END_PAGE_BYTES)
            found += [
                as_carried_event(event)
                for event in page
                if pattern_of(event.origin) in patterns and not event.is_withheld
            ]
            if not page:
                break
            serial = page[-1].serial + 1
        return found

    def coverage_of(self, flow: str) -> Mark:
        return self._network.event_log.coverage[flow]

    def may_have_log(self, node: str, origin: str) -> bool:
        if origin == self.origin or node == self.node:
            return (origin, node) == (self.origin, self.node)
        state = self._network.state
        if state is None:
            return True
        owner, member = state.map.node_of_origin(origin), state.map.members().get(node)
        if owner is not None:
            return owner.node == node
        return member is None or member.origin == origin

    def must_prove_log(self, node: str, origin: str) -> bool:
        """Return True if no map shows that the named node has a log, and signatures are required.

        Nodes of earlier versions have no proof.
        """
        state, check = self._network.state, self._network.signatures
        owner = None if state is None else state.map.node_of_origin(origin)
        return check.must_sign and (owner is None or owner.node != node)

    def release_earlier(self, patterns: Sequence[str]) -> Deferred[None]:
        return self._network.driver.withheld.release_earlier(patterns)

    def pass_notice(
        self,
        notice: SiteNotice,
        patterns: Sequence[StreamPattern],
        on_passed: Callable[[], object],
    ) -> None:
        def deliver(serial: int) -> None:
            on_passed()
            if isinstance(notice, MovedMessages):
                self._network.event_log.move_messages(notice)
            self._output.deliver_notice(notice, patterns, serial)

        self._notices.call_in_order(deliver)

    def find_group(self, pattern: StreamPattern) -> Sequence[str]:
        state = self._network.state
        return () if state is None else state.stacks.groups.find_sites(pattern)

    def carriage_version(self) -> int:
        state = self._network.state
        return 0 if state is None else state.stacks.groups.version

    def request_feed(self, patterns: Sequence[str]) -> None:
        self._network.flows.request_feed(patterns)

    def announce_interest(
        self,
        key: Hashable,
        interest: StreamInterest,
        on_active: Callable[[Mapping[str, Mark]], object],
    ) -> None:
        announcer = self._network.interest
        if not announcer.is_announced(key, interest.pattern, interest.query):
            announcer.withdraw(key)
        announcer.announce(key, interest.pattern, interest.query, on_active)

    def withdraw_interest(self, key: Hashable) -> None:
        self._network.interest.withdraw(key)

    def announce_all(self, patterns: Sequence[StreamPattern]) -> None:
        self._network.interest.announce_all(patterns)

    def is_agreed(self, patterns: Sequence[str]) -> bool:
        return self._network.flows.is_agreed(patterns)

    def match(self, batch: FlowBatch) -> Sequence[Collection[Hashable]]:
        interest = self.link_interest
        last_number = self._matcher.last_number
        verdicts = match_as_validated(self._matcher, batch.events)
        known = KnownVerdicts.of_pass(last_number, batch.flow, batch.events, verdicts)
        self._network.driver.relay_ingest.last_pass = known
        return [
            interest.targets(verdict.subscriptions)
            if isinstance(verdict, Accepted)
            else Unmatched(interest.links_for(claimed_header(event).stream))
            for event, verdict in zip(batch.events, verdicts, strict=True)
        ]

    def has_interest(self, instance: str, batch: FlowBatch) -> Sequence[bool]:
        if not self._accepts_signatures(batch):
            return [False for _ in batch.events]
        verdicts = match_as_validated(self._matcher, batch.events)
        has_match = self.link_interest.has_match_at
        return [isinstance(v, Accepted) and has_match(v.subscriptions, instance) for v in verdicts]
