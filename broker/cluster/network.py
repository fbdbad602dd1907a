"""A node's part in the network: membership, links, interest, and its own events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from twisted.internet.defer import gatherResults
from twisted.logger import Logger

from broker.cluster import messages
from broker.cluster.address import Address, UnitPath
from broker.cluster.admission import AdmissionContext, surplus_members
from broker.cluster.admission_context import build_admission_context
from broker.cluster.clone_detection import CloneConfirmation, find_earlier_clones
from broker.cluster.driver import ClusterDriver
from broker.cluster.dtd_exchange import DtdExchange
from broker.cluster.flow_exchange import FlowExchange
from broker.cluster.gone_origins import KIND, GoneOrigins
from broker.cluster.handshake_core import Accepted
from broker.cluster.interest_announcer import InterestAnnouncer
from broker.cluster.link_policy import LinkPolicy
from broker.cluster.log_page_server import LogPageServer
from broker.cluster.map.name_bindings import NameBindings
from broker.cluster.membership import Membership
from broker.cluster.multicast_group import ClusterGroup
from broker.cluster.neighbours import Neighbour, Neighbours
from broker.cluster.network_state import NetworkState
from broker.cluster.relay_ingest import RelayIngest
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.replicas.messages import REPLICA_EVENTS
from broker.cluster.replicas.replicator import Replicator
from broker.cluster.replicas.service import Replicas
from broker.cluster.signature_check import SignatureCheck
from broker.cluster.stack_tables import OwnStack
from broker.cluster.timer_lag import TimerLag
from broker.cluster.traffic import frame as frames
from broker.cluster.traffic.core import Traffic
from broker.cluster.traffic.forwarding import has_transit_ranges
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.messages import PageRequest, ReplicaAck, RoutedMessage
from broker.cluster.traffic.own_frames import OwnFrames
from broker.cluster.traffic.sender import OutgoingEvent
from broker.cluster.types.network_types import NetworkTypes
from broker.errors import BrokerError, Cloned, Closed, ProtocolError, ShuttingDown
from broker.log.event_log import EventLog
from broker.log.logged_event import LoggedEvent
from broker.streams.contract import FlowBatch
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel

_FRAME = bytes([frames.KIND])
_KEEP = bytes([REPLICA_EVENTS])


class Network:
    """A node's part in the network: membership, links, interest, and its own events.

    It has no state of other nodes before `cluster_joined`.
    """

    log = Logger()
    membership: Membership
    neighbours: Neighbours
    group: ClusterGroup

    def __init__(
        self,
        *,
        event_log: EventLog,
        remote_interest: RemoteInterest,
        relay_ingest: RelayIngest,
        make_pages: Callable[[Network], LogPageServer],
        dtds: DtdExchange,
        types: NetworkTypes,
        replicator: Replicator,
        clock: IClock,
        wall_clock: Callable[[], int],
        link_policy: LinkPolicy,
        signatures: SignatureCheck,
        bindings: NameBindings,
        gone: GoneOrigins,
        most_nodes: int,
        compress: bool,
        patience: float,
        stacks: Mapping[str, OwnStack],
    ) -> None:
        self.event_log = event_log
        self.remote_interest = remote_interest
        self.wall_clock = wall_clock
        self._clone_confirmation = CloneConfirmation()
        self._link_policy = link_policy
        self.signatures = signatures
        self._bindings = bindings
        self.gone = gone
        self.timer_lag = TimerLag(clock)
        self._most_nodes = most_nodes
        self._compress, self._patience = compress, patience
        self._stacks = stacks
        driver = self.driver = ClusterDriver(
            event_log=event_log,
            remote_interest=remote_interest,
            relay_ingest=relay_ingest,
            dtds=dtds,
            types=types,
            clock=clock,
            wall_clock=wall_clock,
            on_map_changed=self._map_changed,
        )
        self.interest = InterestAnnouncer(driver)
        self.flows = FlowExchange(driver, event_log, remote_interest)
        self.replicas = driver.replicas = Replicas(
            event_log,
            replicator,
            send_to_neighbour=lambda name, message: self.neighbours.send_reliable(
                messages.encode(message), name
            ),
            send_message=driver.send_routed,
            own_address=lambda: None if self.state is None else self.state.address,
            send_frame=driver.send_frame,
            has_other_log=lambda address, origin: (
                self.state is not None and self.state.has_other_log(address, origin)
            ),
            gone=gone,
        )
        driver.page_server, driver.on_clone = make_pages(self), self.clone_detected
        self.types = types
        dtds.set_sender(driver.send_routed)

    @property
    def state(self) -> NetworkState | None:
        """None while the node is in no cluster."""
        return self.driver.state

    @property
    def traffic(self) -> Traffic | None:
        return self.driver.traffic

    def connect_parts(
        self, membership: Membership, neighbours: Neighbours, group: ClusterGroup
    ) -> None:
        self.membership = membership
        self.neighbours = self.driver.neighbours = neighbours
        self.group = self.driver.group = group

    def start(self) -> None:
        unit = self.membership.node.address.unit
        if unit:
            self.cluster_joined(unit, 0)
        else:
            self.membership.start_joining()

    def publish_committed(
        self, events: list[LoggedEvent], matches: Sequence[tuple[int, ...]]
    ) -> None:
        if events and self.traffic is not None:
            self.replicas.replicate_committed(events)
        self.flows.publish_committed(events, matches)

    def send_frames(self, batch: FlowBatch, targets: Sequence[frozenset[Address]]) -> None:
        """Send own events in frames, each to its targets."""
        if self.traffic is not None:
            outgoing = [
                OutgoingEvent(event, event.level, to)
                for event, to in zip(batch.events, targets, strict=True)
            ]
            effects = self.traffic.send_own_events(batch.after, batch.upto, outgoing, batch.flow)
            self.driver.apply_effects(effects)

    def announce_lost_events(self) -> None:
        """Announce lost own events (`broker.log.history`): others ask for events after the last
        place."""
        mark = self.event_log.coverage[self.event_log.origin]
        self.flows.start_after(mark)
        if self.traffic is not None:
            self.traffic.senders.start_after(mark)

    def tick(self) -> None:
        """Announce progress, and expire old state. Call each second."""
        self.remote_interest.expire_removed()
        self.timer_lag.start_probe()
        self.membership.set_slow(self.timer_lag.is_slow)
        if self.traffic is None or self.state is None:
            return
        changes = self.gone.tick(self.state, self.driver.now())
        self.driver.call(self.state.publish_in_cluster, KIND, changes)
        self.driver.call(self.traffic.send_progress)
        self.flows.report_disagreements(self.state)
        self.replicas.read_for_this_node(self.state.is_origin_in_cluster, self.driver.wanted_after)
        for frame in self.replicas.announce_replicas(
            self.state.is_origin_in_cluster, self.state.destinations()
        ):
            self.driver.call(self.traffic.receive_frame, frame)

    def cluster_joined(self, cluster: UnitPath, admitted: int) -> None:
        """Become a member of a cluster, possibly of another one than before."""
        address = Address(cluster, self.membership.node.name)
        node = self.membership.node._replace(address=address, admitted=admitted)
        if self.state is not None and self.state.address == address:
            self.membership.node = node
            self.driver.call(self.state.publish_descriptor, node)
            return
        self.leave_cluster(Closed(f"{node.name} is a member of another cluster"))
        self.membership.node = node
        log = self.event_log
        state = NetworkState(
            *(node, self.flows.own_cuts),
            stacks=self._stacks,
            key=log.signing_key,
            bindings=self._bindings,
        )
        traffic = Traffic(
            state,
            log.origin,
            lambda: log.own_end,
            lambda origin: log.coverage[origin] if origin in log.coverage else None,
            compress=self._compress,
            patience=self._patience,
            start_of=self.driver.start_of,
            group_members=self._group_receivers,
            complete_own=OwnFrames(log, self.neighbours).complete,
            histories=KnownHistories(log.histories_of),
            own_flows={flow: log.flows.intervals_of(flow) for flow in log.flows.own},
            end_of_flow=log.flows.limit,
            may_drop=self.driver.may_drop,
            claims=self.driver.claims,
            gone=self.gone,
            begins_after=lambda origin: log.begins_after.get(origin, (0, 0)),
        )
        self.driver.start(state, traffic)
        self.flows.start_after(log.own_end)
        self.log.info("{address} is a member of its cluster", address=str(address))
        # Other nodes may have an outdated interest of this node, so their ranges may lack events.
        self.driver.local_interest.deactivate_announced()
        if self.driver.local_interest.is_reactivating:
            traffic.pause_receiving()
        self.driver.call(state.publish_descriptor, node)
        self.driver.call(state.request_feed, self.flows.fed_patterns)
        self.driver.announce(self.driver.local_interest.announced())

    async def stop(self) -> None:
        """Leave gracefully (Q17): other nodes route around this node and have all its events."""
        self.membership.stop()
        state, traffic = self.state, self.traffic
        if state is None or traffic is None:
            return
        leaving = self.membership.node._replace(draining=True)
        self.driver.call(state.publish_descriptor, leaving)
        self.driver.call(traffic.send_progress)
        self.driver.stop()
        # Their links end with those of the network.
        await gatherResults([each.flush_all() for each in self.membership.instance_links.values()])
        await self.neighbours.flush_all()

    def leave_cluster(self, error: BrokerError) -> None:
        self.neighbours.close_all(error)
        self.driver.stop()

    def connection_accepted(
        self, accepted: Accepted, channel: ISocketChannel, transport: str, initiated: bool
    ) -> None:
        if self.state is None:
            channel.abort(ShuttingDown("this node is in no cluster"))
            return
        neighbour = Neighbour.from_handshake(accepted, channel, transport, initiated)
        self.neighbours.attach_connection(neighbour, channel)
        known = self.neighbours.get(accepted.peer.name)
        if known is not None and known.up:
            # Also for a second connection, or a replacement.
            self.membership.link_up(known.name)

    def clone_detected(self, error: Cloned) -> None:
        """Disable the log once a later process on a copy of it is confirmed."""
        if self._clone_confirmation.record_sign(self.driver.now()):
            self.log.error("this node accepts no more events: {error}", error=error)
            self.event_log.disown(error)
            self.membership.stop()
            self.leave_cluster(error)

    def admission_context(self) -> AdmissionContext | None:
        if self.state is None:
            return None
        is_overloaded = self.driver.relay_ingest.is_overloaded() or self.timer_lag.is_slow
        return build_admission_context(
            self.membership.node, self.state, self.neighbours, is_overloaded=is_overloaded
        )

    def link_up(self, neighbour: Neighbour) -> None:
        if self.state is None:
            return
        policy = self._link_policy
        clearance = policy.clearance_of(neighbour)
        cost = policy.cost_of(self.state.address.unit, neighbour.node.address.unit)
        self.log.info("linked to {address}", address=str(neighbour.node.address))
        if neighbour.certified_name == neighbour.name:
            self.driver.call(self.state.bind_certified, neighbour.name, neighbour.node.origin)
        self.driver.call(self.state.link_up, neighbour.node, neighbour.transport, cost, clearance)
        self.membership.link_up(neighbour.name)
        self.types.fetcher.retry_now()
        self._update_member_links()

    def link_resumed(self, neighbour: Neighbour) -> None:
        """No message is lost."""

    def link_broken(self, neighbour: Neighbour) -> None:
        self.membership.link_broken(neighbour.name)

    def link_down(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        if self.state is None:
            return
        self.log.info(
            "the link to {address} is down: {error}",
            address=str(neighbour.node.address),
            error=error or "closed",
        )
        self.replicas.remove_neighbour(neighbour.name)
        self.driver.call(self.state.link_down, neighbour.name)
        self.membership.link_down(neighbour.name)
        self._update_member_links()

    def link_failed(self, neighbour: Neighbour) -> None:
        self.membership.link_down(neighbour.name)

    def messages_received(self, neighbour: Neighbour, batch: Sequence[bytes]) -> None:
        """Raises `ProtocolError` for a forbidden message."""
        for data in batch:
            if self.state is None or self.traffic is None:
                return
            if data[:1] == _FRAME:
                self._receive_frame(frames.decode_frame(data), neighbour)
                continue
            if data[:1] == _KEEP:
                self.replicas.store.append_replica(neighbour.node.address, data)
                continue
            message = messages.decode(data)
            if isinstance(message, ReplicaAck) and message.source != neighbour.node.address:
                # It acknowledges events to publishers: only the replicating node may send it.
                raise ProtocolError("a replica acknowledgement in the name of another node")
            if isinstance(message, PageRequest) and self._is_replica_request(message):
                self.replicas.send_page(message)
            elif isinstance(message, RoutedMessage):
                if self.gone.accepts(message, self.state.address, neighbour.name):
                    self.driver.call(self.traffic.receive_message, message)
            elif not self.replicas.receive_message(neighbour, message):
                self.driver.call(self.state.receive_message, neighbour.name, message)

    def _receive_frame(self, frame: Frame, neighbour: Neighbour) -> None:
        assert self.state is not None
        sender, version = neighbour.node.address, neighbour.version
        if not self.signatures.accepts_frame(frame, sender, self.state, version):
            return
        if frame.intervals:
            self.event_log.put_flow(frame.origin, tuple(frame.intervals))
        validates = self._link_policy.validate_always or not neighbour.trusted
        if validates and frame.event_count and has_transit_ranges(frame, self.state.address):
            self.driver.relay_ingest.validate_frame(frame, self.driver.send_frame)
        else:
            self.driver.send_frame(frame)

    def _is_replica_request(self, request: PageRequest) -> bool:
        assert self.state is not None
        return request.target == self.state.address and self.replicas.has_replica_for(request)

    def receive_group_frame(self, data: bytes) -> None:
        """Raises `ProtocolError`."""
        frame, state, traffic = frames.decode_frame(data), self.state, self.traffic
        if state is None or traffic is None:
            return
        if self.signatures.accepts_frame(frame, Address(state.address.unit, "the group"), state):
            self.driver.call(traffic.receive_group_frame, frame)

    def _group_receivers(self, rank: int) -> Collection[str]:
        return self.group.receivers if rank <= self._link_policy.group_clearance else ()

    def _update_member_links(self) -> None:
        assert self.state is not None
        unit = self.state.address.unit
        members = sum(each.up and each.node.address.unit == unit for each in self.neighbours)
        self.membership.set_member_links(members)
        self.replicas.update_links(self.neighbours, self.state.address)

    def _map_changed(self) -> None:
        state = self.state
        assert state is not None
        members = state.map.members()
        if state.address.node in surplus_members(members, self._most_nodes):
            self.log.warn("the cluster is overfull: this node was admitted last, and leaves it")
            self.leave_cluster(Closed("this node has left the cluster"))
            self.membership.rejoin()
            return
        for name, error in find_earlier_clones(self.neighbours, members):
            self.neighbours.close_link(name, error)
        self.membership.set_members(members)

    def is_cleared(self, reader: Address, rank: int) -> bool:
        return self.state is not None and self.state.next_hop(reader, rank) is not None
