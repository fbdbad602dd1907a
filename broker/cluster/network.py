"""A node's part in the network: its place in it, its links, what it wants, and its own events."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from twisted.logger import Logger

from broker.cluster import messages
from broker.cluster.address import Address, UnitPath, is_within
from broker.cluster.admission import AdmissionContext, surplus_members
from broker.cluster.admission_context import build_admission_context
from broker.cluster.clone_detection import CloneConfirmation, find_earlier_clones
from broker.cluster.descriptor import NodeDescriptor
from broker.cluster.driver import ClusterDriver
from broker.cluster.dtd_exchange import DtdExchange
from broker.cluster.handshake_core import Accepted
from broker.cluster.interest_announcer import InterestAnnouncer
from broker.cluster.link_policy import LinkPolicy
from broker.cluster.log_page_server import LogPageServer
from broker.cluster.membership import Membership
from broker.cluster.multicast_group import ClusterGroup
from broker.cluster.neighbours import Neighbour, Neighbours
from broker.cluster.network_state import NetworkState
from broker.cluster.relay_ingest import RelayIngest
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.replicas.messages import REPLICA_EVENTS
from broker.cluster.replicas.replicator import Replicator
from broker.cluster.replicas.service import Replicas
from broker.cluster.timer_lag import TimerLag
from broker.cluster.traffic import frame as frames
from broker.cluster.traffic.core import Traffic
from broker.cluster.traffic.frame import Frame, FrameEvent, Range
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.messages import PageRequest, ReplicaAck, RoutedMessage
from broker.cluster.traffic.sender import OutgoingEvent
from broker.cluster.types.network_types import NetworkTypes
from broker.errors import BrokerError, Cloned, Closed, ProtocolError, ShuttingDown
from broker.log.event_log import EventLog
from broker.log.records import LoggedEvent
from broker.transport.clock import IClock
from broker.transport.socket import ISocketChannel

_FRAME = bytes([frames.KIND])
_KEEP = bytes([REPLICA_EVENTS])


class Network:
    """One node's. Not before `joined` does it know anything of others."""

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
        owner: Replicator,
        clock: IClock,
        wall_clock: Callable[[], int],
        link_policy: LinkPolicy,
        most_nodes: int,
        compress: bool,
        patience: float,
    ) -> None:
        self.event_log = event_log
        self.remote_interest = remote_interest
        self.wall_clock = wall_clock
        self._clone_confirmation = CloneConfirmation()
        self._link_policy = link_policy
        self.timer_lag = TimerLag(clock)
        self._most_nodes = most_nodes
        self._compress, self._patience = compress, patience
        self._sent = event_log.coverage[event_log.origin]
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
        """What the subscriptions of this node want of others."""
        self.replicas = driver.replicas = Replicas(
            event_log,
            owner,
            send_to_neighbour=lambda name, message: self.neighbours.send_reliable(
                messages.encode(message), name
            ),
            send_message=driver.send_routed,
            own_address=lambda: None if self.state is None else self.state.address,
            send_frame=driver.send_frame,
            has_other_log=lambda whose, origin: (
                self.state is not None and self.state.has_other_log(whose, origin)
            ),
        )
        driver.page_server, driver.on_clone = make_pages(self), self.clone_detected
        self.types = types
        dtds.set_sender(driver.send_routed)

    @property
    def state(self) -> NetworkState | None:
        """What is known of others; None while the node is in no cluster."""
        return self.driver.state

    @property
    def traffic(self) -> Traffic | None:
        """Events between nodes; None while the node is in no cluster."""
        return self.driver.traffic

    def connect_parts(
        self, membership: Membership, neighbours: Neighbours, group: ClusterGroup
    ) -> None:
        """Who makes connections, who has the links, and the cluster's IP multicast group."""
        self.membership = membership
        self.neighbours = self.driver.neighbours = neighbours
        self.group = self.driver.group = group

    def start(self) -> None:
        """Take the place that the settings give the node, or ask for one."""
        unit = self.membership.node.address.unit
        if unit:
            self.cluster_joined(unit, 0)
        else:
            self.membership.start_joining()

    # ------------------------------------------------------------------ own events

    def send_committed(self, events: list[LoggedEvent], matches: Sequence[tuple[int, ...]]) -> None:
        """Events of this node have become durable: send them to who wants them."""
        if self.traffic is None or not events:
            return
        self.replicas.replicate_committed(events)
        after, self._sent = self._sent, events[-1].mark
        destinations = self.remote_interest.destinations
        departing = [
            OutgoingEvent(
                FrameEvent(event.mark, event.record, event.document), event.level, targets
            )
            for event, numbers in zip(events, matches, strict=True)
            if (targets := destinations(numbers))
        ]
        self.driver.apply_effects(self.traffic.send_own_events(after, self._sent, departing))

    def announce_lost_events(self) -> None:
        """Own events were lost (`broker.log.histories`): everybody asks what follows the last
        own place, and is told."""
        self._sent = self.event_log.coverage[self.event_log.origin]
        if self.traffic is not None:
            self.driver.apply_effects(self.traffic.send_own_events(self._sent, self._sent, []))

    def tick(self) -> None:
        """Tell others how far events have got: to be called each second."""
        self.remote_interest.expire_removed()
        self.timer_lag.start_probe()
        self.membership.set_slow(self.timer_lag.is_slow)
        if self.traffic is None or self.state is None:
            return
        self.driver.apply_effects(self.traffic.send_progress(self.driver.now()))
        self.replicas.read_for_this_node(self.state.is_origin_in_cluster, self.driver.wanted_after)
        for frame in self.replicas.announce_replicas(
            self.state.is_origin_in_cluster, self.state.destinations()
        ):
            self.driver.apply_effects(self.traffic.receive_frame(frame, self.driver.now()))

    # ------------------------------------------------------------------ membership (Home)

    def cluster_joined(self, cluster: UnitPath, admitted: int) -> None:
        """The node is a member of a cluster from now on; of another one than before, maybe."""
        node = self.membership.node
        address = Address(cluster, node.name)
        node = node._replace(address=address, admitted=admitted)
        if self.state is not None and self.state.address == address:
            self.membership.node = node
            self.driver.apply_effects(self.state.publish_descriptor(node, self.driver.now()))
            return
        self.leave_cluster(Closed(f"{node.name} is a member of another cluster"))
        self.membership.node = node
        log = self.event_log
        state = NetworkState(node, lambda: (log.origin, *log.cut))
        traffic = Traffic(
            state,
            log.origin,
            lambda: log.cut,
            lambda origin: log.coverage[origin] if origin in log.coverage else None,
            compress=self._compress,
            patience=self._patience,
            start_of=self.driver.local_interest.start_positions.start_of,
            group_members=self._group_receivers,
            own_history=lambda: log.history,
            histories=KnownHistories(log.histories_of),
        )
        self.driver.start(state, traffic)
        self._sent = log.cut
        self.log.info("{address} is a member of its cluster", address=str(address))
        now = self.driver.now()
        # Others may know what an earlier process wanted, or nothing at all: until they have been
        # told, what they say is for this node is not all that it wants.
        self.driver.local_interest.deactivate_all()
        if self.driver.local_interest.is_reactivating:
            traffic.pause_receiving()
        self.driver.apply_effects(state.publish_descriptor(node, now))
        for key, pattern, query in self.driver.local_interest:
            self.driver.apply_effects(state.announce_interest(key, pattern, query, now))

    async def stop(self) -> None:
        """Leave in good order (Q17): others find ways around this node, and have what it sent."""
        self.membership.stop()
        state, traffic = self.state, self.traffic
        if state is None or traffic is None:
            return
        leaving = self.membership.node._replace(draining=True)
        self.driver.apply_effects(state.publish_descriptor(leaving, self.driver.now()))
        self.driver.apply_effects(traffic.send_progress(self.driver.now()))
        self.driver.stop()
        await self.neighbours.flush_all()

    def leave_cluster(self, error: BrokerError) -> None:
        """End all links, and forget what was known of others."""
        self.neighbours.close_all(error)
        self.driver.stop()

    def connection_accepted(
        self, accepted: Accepted, channel: ISocketChannel, transport: str, initiated: bool
    ) -> None:
        """A connection was accepted."""
        if self.state is None:
            channel.abort(ShuttingDown("this node is in no cluster"))
            return
        neighbour = Neighbour(
            node=accepted.peer,
            trusted=accepted.trusted,
            secure=channel.secure,
            transport=transport,
            purpose=accepted.purpose,
            initiated=initiated,
            peer=channel.peer_description,
            version=accepted.version,
        )
        self.neighbours.attach_connection(neighbour, channel)
        known = self.neighbours.get(accepted.peer.name)
        if known is not None and known.up:
            # A connection beside another one, or in its place: whoever dialled is to rest.
            self.membership.link_up(known.name)

    def clone_detected(self, error: Cloned) -> None:
        """Another process on a copy of this log has this node's place: give no more places, once
        that is no mistake about a process that has just ended."""
        if self._clone_confirmation.record_sign(self.driver.now()):
            self.log.error("this node takes no more events: {error}", error=error)
            self.event_log.disown(error)
            self.membership.stop()
            self.leave_cluster(error)

    def admission_context(self) -> AdmissionContext | None:
        """What is known of the cluster."""
        if self.state is None:
            return None
        is_overloaded = self.driver.relay_ingest.is_overloaded() or self.timer_lag.is_slow
        return build_admission_context(
            self.membership.node, self.state, self.neighbours, is_overloaded=is_overloaded
        )

    def describe_for_discovery(self) -> tuple[NodeDescriptor, bool] | None:
        """How the node describes itself to who looks for a cluster, and whether there is room."""
        if self.state is None:
            return None
        room = len(self.state.map.members()) < self._most_nodes
        return self.membership.node, room

    # ------------------------------------------------------------------ links (LinkListener)

    def link_up(self, neighbour: Neighbour) -> None:
        """There is a link to a node."""
        if self.state is None:
            return
        policy = self._link_policy
        clearance = policy.clearance_of(neighbour)
        cost = policy.cost_of(self.state.address.unit, neighbour.node.address.unit)
        self.log.info("linked to {address}", address=str(neighbour.node.address))
        self.driver.apply_effects(
            self.state.link_up(
                neighbour.node, neighbour.transport, cost, clearance, self.driver.now()
            )
        )
        self.membership.link_up(neighbour.name)
        self.types.fetcher.retry_now()
        self._update_member_links()

    def link_broken(self, neighbour: Neighbour) -> None:
        """A link's connection broke."""
        self.membership.link_broken(neighbour.name)

    def link_down(self, neighbour: Neighbour, error: BrokerError | None) -> None:
        """A link is down."""
        if self.state is None:
            return
        self.log.info(
            "the link to {address} is down: {error}",
            address=str(neighbour.node.address),
            error=error or "closed",
        )
        self.replicas.remove_neighbour(neighbour.name)
        self.driver.apply_effects(self.state.link_down(neighbour.name, self.driver.now()))
        self.membership.link_down(neighbour.name)
        self._update_member_links()

    def link_failed(self, neighbour: Neighbour) -> None:
        """No link came of a connection."""
        self.membership.link_down(neighbour.name)

    def messages_received(self, neighbour: Neighbour, batch: Sequence[bytes]) -> None:
        """Messages of a neighbour. Raises `ProtocolError` for what it must not say."""
        for data in batch:
            if self.state is None or self.traffic is None:
                return
            now = self.driver.now()
            if data[:1] == _FRAME:
                self._receive_frame(frames.decode_frame(data), neighbour)
                continue
            if data[:1] == _KEEP:
                self.replicas.store.append_replica(neighbour.node.address, data)
                continue
            message = messages.decode(data)
            if isinstance(message, ReplicaAck) and message.source != neighbour.node.address:
                # Publishers are told that their events are safe: that is a keeper's own word.
                raise ProtocolError("Kept in the name of another node")
            if isinstance(message, PageRequest) and self._is_replica_request(message):
                self.replicas.send_page(message)
            elif isinstance(message, RoutedMessage):
                self.driver.apply_effects(self.traffic.receive_message(message, now))
            elif not self.replicas.receive_message(neighbour, message):
                self.driver.apply_effects(self.state.receive_message(neighbour.name, message, now))

    def _receive_frame(self, frame: Frame, neighbour: Neighbour) -> None:
        validates = self._link_policy.validate_always or not neighbour.trusted
        if validates and frame.event_count and self._has_transit_ranges(frame):
            self.driver.relay_ingest.validate_frame(frame, self.driver.send_frame)
        else:
            self.driver.send_frame(frame)

    def _has_transit_ranges(self, frame: Frame) -> bool:
        """Whether something of a frame is for nobody here: all else is validated here anyway."""
        assert self.state is not None
        own = self.state.address
        return any(
            told.destination != own
            and (told.destination.node or not is_within(own.unit, told.destination.unit))
            for told in frame.ranges
        )

    def _is_replica_request(self, resume: PageRequest) -> bool:
        assert self.state is not None
        return resume.target == self.state.address and self.replicas.has_replica_for(resume)

    def receive_group_frame(self, data: bytes) -> None:
        """What a member sent to all of the group. Raises `ProtocolError` if that is no frame."""
        if self.traffic is not None:
            self.driver.apply_effects(
                self.traffic.receive_group_frame(frames.decode_frame(data), self.driver.now())
            )

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
            self.log.warn("there is no room in the cluster: this node came last, and leaves")
            self.leave_cluster(Closed("this node has left the cluster"))
            self.membership.rejoin()
            return
        for name, error in find_earlier_clones(self.neighbours, members):
            self.neighbours.close_link(name, error)
        self.membership.set_members(members)

    # ------------------------------------------------------------------ for pages

    def interest_destination(self, reader: Address) -> Address:
        """Whose wants a reader's are part of."""
        assert self.state is not None
        return self.state.destination_of(reader)

    def is_cleared(self, reader: Address, rank: int) -> bool:
        """Whether events of a rank may go to a reader."""
        return self.state is not None and self.state.next_hop(reader, rank) is not None

    def send_page(self, resume: PageRequest, page: Range, carried: Sequence[FrameEvent]) -> None:
        """A page was read."""
        if self.traffic is not None:
            self.driver.apply_effects(
                self.traffic.send_page(resume, page, carried, self.driver.now())
            )
