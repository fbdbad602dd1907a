"""Driver of the two cores of a node's network: applies effects in order, and owns the timer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

from twisted.logger import Logger

from broker.cluster import messages
from broker.cluster.address import Address
from broker.cluster.clone_detection import find_later_process
from broker.cluster.dtd_exchange import DtdExchange
from broker.cluster.ingest_job import IngestJob
from broker.cluster.instance_links import InstanceLinks
from broker.cluster.interest.effects import (
    BadInterest,
    InterestActive,
    InterestAdded,
    InterestRemoved,
    QueuePoliciesChanged,
)
from broker.cluster.local_interest import KeyedInterest, LocalInterest
from broker.cluster.log_page_server import LogPageServer
from broker.cluster.multicast_group import ClusterGroup
from broker.cluster.neighbours import Neighbours
from broker.cluster.network_state import MapChanged, NetworkState, NetworkStateEffect
from broker.cluster.ordered_ranges import OrderedRanges
from broker.cluster.relay_ingest import RelayIngest
from broker.cluster.remote_interest import RemoteInterest
from broker.cluster.replicas.service import Replicas
from broker.cluster.tables.effects import NameConflict, Send
from broker.cluster.traffic.claims import Claims
from broker.cluster.traffic.core import Traffic
from broker.cluster.traffic.effects import (
    CoverOrigin,
    DeliverMessage,
    EnterUnit,
    ReadPage,
    SendFrame,
    SendMessage,
    TrafficEffect,
)
from broker.cluster.traffic.forwarding import GROUP
from broker.cluster.traffic.frame import Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.messages import (
    DtdAnswer,
    DtdRequest,
    PageRequest,
    ReplicaAck,
    RoutedMessage,
)
from broker.cluster.traffic.received_range import AppendRange, ReceivedRange, StoreHistories
from broker.cluster.types.core import TypeAnnounced
from broker.cluster.types.network_types import NetworkTypes
from broker.cluster.withheld_events import WithheldEvents
from broker.errors import BrokerError, Cloned, LogUnavailable
from broker.event.flow import is_default_flow, is_flow, origin_of, pattern_of
from broker.event.place import Mark
from broker.log.event_log import EventLog
from broker.log.pending_commit import RelayedEvents
from broker.streams.contract import CarriedEvent
from broker.streams.queue_policy import BLOCK
from broker.transport.clock import IClock
from broker.transport.core_runner import CoreRunner


class ClusterDriver:
    """Runs the cores `network_state` and `traffic` while the node is in a cluster."""

    log = Logger()
    neighbours: Neighbours
    group: ClusterGroup
    replicas: Replicas
    page_server: LogPageServer
    withheld: WithheldEvents

    def __init__(
        self,
        *,
        event_log: EventLog,
        remote_interest: RemoteInterest,
        relay_ingest: RelayIngest,
        dtds: DtdExchange,
        types: NetworkTypes,
        clock: IClock,
        wall_clock: Callable[[], int],
        on_map_changed: Callable[[], object],
    ) -> None:
        self.remote_interest = remote_interest
        self.relay_ingest = relay_ingest
        self.ordered = OrderedRanges(relay_ingest)
        self.local_interest = LocalInterest(wall_clock)
        self.claims = Claims(
            self.local_interest.unclaimed_upto, lambda flow: self.ordered.orders(flow)
        )
        self.state: NetworkState | None = None
        self.traffic: Traffic | None = None
        self._event_log = event_log
        self._dtds = dtds
        self.types = types
        self._clock = clock
        self._on_map_changed = on_map_changed
        self._runner: CoreRunner[TrafficEffect | NetworkStateEffect] = CoreRunner(
            clock, self._apply
        )
        self.call = self._runner.call
        self.apply_effects = self._runner.apply_effects

        self.instance_links: dict[str, InstanceLinks] = {}
        """By carrying pattern, of instances with links of their own."""

        self.on_other_message: Callable[[RoutedMessage], object] = lambda _: None

        self.on_clone: Callable[[Cloned], object] = lambda _: None
        """Called when a later process runs on a copy of this node's log."""

        self.on_flow_recovered: Callable[[ReceivedRange], object] = lambda _: None
        """Called before events of another transport's flow that came from a log are logged."""

        self.has_lagging_subscription: Callable[[str], bool] = lambda _: False
        """Returns whether a subscription to a flow is not live, so that it needs the log."""

        self.must_delay_page: Callable[[PageRequest], bool] = lambda _: False
        """Returns whether a page request is answered later, by `serve_page`."""

    def release_overdue(self) -> None:
        """Release ordered events that no transport delivers. Call each second."""
        self.withheld.release_overdue()
        self.ordered.release_overdue()

    def serve_page(self, resume: PageRequest) -> None:
        if self.traffic is not None:
            self.page_server.serve_page(resume)

    def start(self, state: NetworkState, traffic: Traffic) -> None:
        self.state, self.traffic = state, traffic
        self._runner.start(state, traffic)
        self._set_start_positions(self.local_interest.start_positions.resume_marks)
        self.types.start(state, self.apply_effects)

    def announce(self, interest: Iterable[KeyedInterest]) -> None:
        """Announce interest to other nodes, if there is a cluster."""
        for key, pattern, query, policy in interest:
            if self.state is not None:
                self.call(self.state.announce_interest, key, pattern, query)
                self.call(self.state.set_interest_policy, key, policy)

    def resume_from(self, key: Hashable, position: Mapping[str, Mark]) -> None:
        """Set the resume position of a key of `local_interest`.

        It is also the start for unknown origins. Their events may exist only at a replica.
        """
        coverage = self._event_log.coverage
        unknown = {o: mark for o, mark in position.items() if o not in coverage}
        self.local_interest.start_positions.add_key(key, unknown)
        self._set_start_positions(unknown)

    def may_drop(self, flow: str) -> bool:
        """Return whether queue policies may drop a flow's events on their way to this node.

        The transport of an ordered flow needs all of them.
        """
        if self._event_log.flows.is_ordered(flow):
            return False
        policy = self.local_interest.queue_policy(flow)
        return policy != BLOCK and not self.has_lagging_subscription(flow)

    def needs_all(self, flow: str) -> bool:
        """Return whether there is interest in a flow of which nothing may be dropped."""
        return self.local_interest.has_interest(flow) and not self.may_drop(flow)

    def position_of(self, flow: str) -> Mark | None:
        """Return the place up to which this node has a flow, with events being committed."""
        return None if self.traffic is None else self.traffic.receiver.position_of(flow)

    def wanted_after(self, origin: str) -> Mark | None:
        """Return the mark after which a dead origin is of interest; None: it is not."""
        known = self.position_of(origin)
        return known or self.local_interest.start_positions.start_of_dead(origin)

    def start_of(self, flow: str, mark: Mark) -> Mark:
        """Return the start mark of an unknown flow (see `Receiver`).

        A flow of a known origin may have begun later than this node's events of that origin. Then
        it is read from its first event.
        """
        if self.ordered.orders(flow):
            # A group's sites have all its events, also those before their first start.
            return (0, 0)
        log, origin = self._event_log, origin_of(flow)
        if flow != origin and origin in log.coverage:
            begun, since = log.begins_after.get(origin, (0, 0)), log.flows.since(flow)
            mark = (0, 0) if since == (0, 0) or begun < since else min(mark, begun)
        return self.local_interest.start_positions.start_of(flow, mark)

    def _set_start_positions(self, marks: Mapping[str, Mark]) -> None:
        arrivals = None if self.traffic is None else self.traffic.receiver
        if arrivals is not None:
            for origin, mark in {**arrivals.start_marks, **marks}.items():
                arrivals.start_origin(origin, mark)

    def stop(self) -> None:
        self.state = self.traffic = None
        self.remote_interest.clear()
        self.types.stop()
        self._runner.stop()

    def now(self) -> float:
        return float(self._clock.seconds())

    def send_routed(self, message: RoutedMessage, attempt: int = 0) -> None:
        """Send a message, or deliver it here. Further attempts take other routes."""
        if self.traffic is None:
            return
        if attempt:
            self.apply_effects(self.traffic.send_message(message, attempt))
        else:
            self.call(self.traffic.receive_message, message)

    def send_frame(self, frame: Frame) -> None:
        if self.traffic is not None:
            self.call(self.traffic.receive_frame, frame)

    def send_page(
        self, request: PageRequest, page: Sequence[tuple[Range, Sequence[CarriedEvent]]]
    ) -> None:
        if self.traffic is not None:
            self.call(self.traffic.send_page, request, page)

    def interest_destination(self, reader: Address) -> Address:
        assert self.state is not None
        return self.state.destination_of(reader)

    def give_up_range(self, origin: str, after: Mark, upto: Mark, reason: str) -> None:
        if self.traffic is not None:
            self.call(self.traffic.skip_lost_range, origin, after, upto, reason)

    def open_if_active(self) -> None:
        if self.traffic is not None and not self.local_interest.is_reactivating:
            self.call(self.traffic.resume_receiving)

    def _apply(self, effect: TrafficEffect | NetworkStateEffect) -> None:
        state, traffic = self.state, self.traffic
        if state is None or traffic is None:
            return
        match effect:
            case SendFrame(neighbour, frame) if self.version_of(neighbour) < frame.least_version:
                traffic.counts.stuck += 1
            case SendFrame(neighbour, frame):
                self._send_frame(neighbour, frame)
            case SendMessage(neighbour, message) if (
                self.version_of(neighbour) < message.least_version
            ):
                traffic.counts.stuck += 1
            case SendMessage(neighbour, message):
                data = messages.encode(message.at_version(self.version_of(neighbour)))
                if message.is_droppable:
                    self.neighbours.send_droppable(data, (neighbour,))
                else:
                    self.neighbours.send_reliable(data, neighbour)
            case Send(neighbour, message):
                self.neighbours.send_reliable(messages.encode(message), neighbour)
            case StoreHistories(origin, histories):
                self._event_log.put_histories(origin, histories)
            case AppendRange():
                self._log_range(effect)
            case CoverOrigin():
                self._record_start(effect)
            case EnterUnit():
                self._match_entering(effect)
            case ReadPage(resume):
                if not self.must_delay_page(resume):
                    self.page_server.serve_page(resume)
            case InterestAdded(destination, id, interest):
                target = state.to_frame_destination(destination)
                if self.remote_interest.install(target, id, interest):
                    traffic.restart_destination(target)
            case InterestRemoved(destination, id):
                self.remote_interest.remove(state.to_frame_destination(destination), id)
            case QueuePoliciesChanged(destination, policies):
                target = state.to_frame_destination(destination)
                self.remote_interest.set_queue_policies(target, policies)
            case InterestActive(key, cuts):
                self.activate_interest(key, cuts)
            case BadInterest():
                self.log.warn(
                    "malformed interest of {author} is widened to whole streams: {reason}",
                    author=effect.author,
                    reason=effect.reason,
                )
            case MapChanged():
                traffic.update_destinations(self.now())
                self._on_map_changed()
            case TypeAnnounced():
                self.types.receive_announcement(effect)
            case NameConflict(tables):
                error = find_later_process(state.node, tables)
                if error is not None:
                    self.on_clone(error)
            case DeliverMessage(message):
                self._deliver_message(message)

    def version_of(self, name: str) -> int:
        neighbour = self.neighbours.get(name)
        return 1 if neighbour is None else neighbour.version

    def _deliver_message(self, message: RoutedMessage) -> None:
        if isinstance(message, ReplicaAck):
            self.replicas.receive_ack(message)
        elif isinstance(message, DtdRequest | DtdAnswer):
            self._dtds.receive_message(message)
        else:
            self.on_other_message(message)

    def activate_interest(self, key: Hashable, cuts: Mapping[str, Mark]) -> None:
        cuts = {origin: cut for origin, cut in cuts.items() if is_flow(origin)}
        if self.traffic is not None and key in self.local_interest:
            self.call(self.traffic.record_cuts, cuts)
            start_marks = dict(cuts or self.traffic.unreached_cuts())
            # Events received so far were selected before other nodes had this interest.
            for origin, mark in self.traffic.receiver.pending_upto.items():
                start_marks[origin] = max(mark, start_marks.get(origin, mark))
            self.local_interest.activate(key, start_marks)
            self.open_if_active()

    def _record_start(self, effect: CoverOrigin) -> None:
        def done(result: object) -> None:
            if not isinstance(result, BrokerError):
                self.relay_ingest.report_start(effect.origin, effect.upto)
            if self.traffic is not None:
                self.call(self.traffic.confirm_durable, effect.origin)

        try:
            nothing = RelayedEvents(effect.origin, effect.upto, effect.upto, [])
            self._event_log.append_relayed(nothing, done)
        except LogUnavailable:
            # The core keeps the start until the first range of the origin is logged.
            return

    def _log_range(self, effect: AppendRange) -> None:
        received = effect.received
        origin, origin_node = received.frame.origin, received.frame.origin_node

        def settled(error: BrokerError | None) -> None:
            traffic, state = self.traffic, self.state
            if traffic is None or state is None:
                return
            if error is not None:
                traffic.receiver.retry_after_failure(origin, origin_node, self.now())
                self.apply_effects()
                return
            self.call(traffic.confirm_durable, origin)

        if self.ordered.orders(origin):
            self.ordered.add_range(effect, settled)
            return
        if not received.is_carried and not is_default_flow(origin) and received.frame.event_count:
            self.on_flow_recovered(received)
        self.relay_ingest.log_range(received, effect.cursor, settled)

    def _match_entering(self, effect: EnterUnit) -> None:
        def on_late() -> None:
            if self.traffic is not None:
                self.apply_effects(self.traffic.release_onward(effect))

        def entered(job: IngestJob) -> None:
            if self.traffic is not None and self.state is not None:
                outgoing = self.remote_interest.events_with_destinations(job, self.state.address)
                self.call(self.traffic.send_into_unit, effect, outgoing)

        if effect.received is None:
            self.relay_ingest.wait_for_earlier(effect.frame, on_late)
        else:
            self.relay_ingest.match_range(effect.received, entered, on_late)

    def _send_frame(self, name: str, frame: Frame) -> None:
        if name == GROUP:
            version = min(map(self.version_of, self.group.receivers), default=1)
            self.group.send(frame.encode(version))
            return
        neighbour = self.neighbours.get(name)
        if neighbour is not None and "zstd" not in neighbour.node.compressions:
            frame = frame.uncompressed()
        data = frame.encode(self.version_of(name))
        if self.instance_links:
            links = self.instance_links.get(pattern_of(frame.origin))
            if links is not None and links.can_carry(name, frame.highest_rank):
                links.send_droppable(data, (name,))
                return
        self.neighbours.send_droppable(data, (name,))
