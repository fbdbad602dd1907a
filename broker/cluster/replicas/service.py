"""Both sides of replication, for a node's network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from broker.cluster.address import Address
from broker.cluster.messages import Message
from broker.cluster.neighbours import Neighbour
from broker.cluster.replicas.messages import ReplicaRequest, ReplicaState
from broker.cluster.replicas.page_frame import make_page_frame
from broker.cluster.replicas.replicator import Replicator
from broker.cluster.replicas.store import ReplicaStore
from broker.cluster.traffic.frame import MAX_HOPS, Frame
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.lost_logs import GoneLogs
from broker.cluster.traffic.messages import LogLost, PageRequest, ReplicaAck, RoutedMessage
from broker.cluster.traffic.range_claim import claims_nothing
from broker.errors import ProtocolError
from broker.event.flow import origin_of
from broker.event.origin import is_signed_origin
from broker.event.place import Mark
from broker.log.damage import Damage, DamageFound
from broker.log.event_log import EventLog
from broker.log.known_flows import with_origin
from broker.log.logged_event import LoggedEvent

PAGE_EVENTS = 512
PAGE_BYTES = 512 << 10


class Replicas:
    """The replica of this node, and the replicas stored for others."""

    log = Logger()

    def __init__(
        self,
        event_log: EventLog,
        replicator: Replicator,
        send_to_neighbour: Callable[[str, Message], object],
        send_message: Callable[[RoutedMessage], object],
        own_address: Callable[[], Address | None],
        send_frame: Callable[[Frame], object],
        has_other_log: Callable[[Address, str], bool],
        gone: GoneLogs,
    ) -> None:
        """`has_other_log` returns True if the node at an address has a log with another origin."""
        self.replicator = replicator
        self.store = ReplicaStore(
            event_log,
            send_to_neighbour,
            lambda ack: send_to_neighbour(ack.target.node, ack),
            own_address,
        )
        self._log = event_log
        self._own_address = own_address
        self._send_message = send_message
        self._send_frame = send_frame
        self._has_other_log = has_other_log
        self._gone = gone
        self._is_reading = False
        self._links: dict[str, str] = {}

    def update_links(self, neighbours: Iterable[Neighbour], own: Address) -> None:
        """Choose a neighbour for the own replica: of the own cluster, then trusted, by name."""
        up = [each for each in neighbours if each.up]
        self._links = {each.name: each.node.origin for each in up}
        for name, origin in self._links.items():
            self.store.record_link(name, origin)
        order = sorted(
            up, key=lambda each: (each.node.address.unit != own.unit, not each.trusted, each.name)
        )
        self.replicator.choose_neighbour([each.name for each in order])

    def remove_neighbour(self, name: str) -> None:
        self.store.remove_neighbour(name)

    def receive_message(self, neighbour: Neighbour, message: Message) -> bool:
        """Return False if the message is not about replicas."""
        match message:
            case ReplicaRequest(origin):
                if origin != neighbour.node.origin:
                    raise ProtocolError("ReplicaRequest for the log of another node")
                self.store.accept_request(neighbour.node.address, message)
            case ReplicaState():
                self.replicator.receive_state(neighbour.name, message)
            case _:
                return False
        return True

    def receive_ack(self, message: ReplicaAck) -> None:
        if message.origin == self._log.origin:
            self.replicator.receive_ack(message.source.node, message.upto)

    def replicate_committed(self, events: list[LoggedEvent]) -> None:
        if self._log.flows.own:
            events = list(with_origin(events, self._log.origin))
        self.replicator.replicate_committed(events)

    def announce_replicas(
        self, is_reachable: Callable[[str], bool], destinations: Iterable[Address]
    ) -> Iterator[Frame]:
        """Yield an empty range at the end of each replica: destinations request missing events
        here."""
        own = self._own_address()
        targets = list(destinations)
        if own is None or not targets:
            return
        for flow, upto in self._flow_ends(self.unreachable_origins(is_reachable)):
            yield make_page_frame(flow, own, [Range(each, upto, upto) for each in targets], [])

    def _flow_ends(self, origins: Iterable[str]) -> Iterator[tuple[str, Mark]]:
        """Yield the flows of these origins' replicas, with their ends."""
        flows = self._log.flows
        for origin in origins:
            upto = self._log.replica_spans[origin].upto
            for flow in flows.of_origin(origin):
                if flows.since(flow) < upto:
                    yield flow, flows.limit(flow, upto)

    def read_for_this_node(
        self, is_reachable: Callable[[str], bool], needed_after: Callable[[str], Mark | None]
    ) -> None:
        own = self._own_address()
        for flow, upto in self._flow_ends(self.unreachable_origins(is_reachable)):
            after = needed_after(flow)
            if own is not None and after is not None and after < upto:
                self.send_page(PageRequest(own, own, MAX_HOPS, flow, after, is_unfiltered=True))

    def unreachable_origins(self, is_reachable: Callable[[str], bool]) -> list[str]:
        own, addresses = self._own_address(), self.store.origin_nodes
        found = []
        for origin in self._log.replica_spans:
            address = addresses.get(origin)
            # A route into another cluster does not prove that its node is up. A link does.
            far = own is not None and address is not None and address.unit != own.unit
            linked = address is not None and self._links.get(address.node) == origin
            if not (linked if far else is_reachable(origin)):
                found.append(origin)
        return found

    def has_replica_for(self, request: PageRequest) -> bool:
        return origin_of(request.origin) in self._log.replica_spans

    def send_page(self, request: PageRequest) -> None:
        """Send a page of a replica. Events before it are lost if the origin's disk is."""
        flow, flows = request.origin, self._log.flows
        span = self._log.replica_spans[origin_of(flow)]
        upto = flows.limit(flow, span.upto)
        if request.after < span.after and flows.since(flow) < span.after:
            self._report_lost(request, flows.limit(flow, span.after))
            return
        if self._is_reading or request.after >= upto:
            return
        self._is_reading = True
        Deferred.fromCoroutine(self._read_page(request, upto)).addErrback(
            lambda failure: self.log.failure("reading a replica failed", failure)
        )

    def _report_lost(self, request: PageRequest, upto: Mark) -> None:
        origin = origin_of(request.origin)
        origin_node, own = self.store.origin_nodes.get(origin), self._own_address()
        replaced = origin in self.store.replaced_origins or (
            origin_node is not None and self._has_other_log(origin_node, origin)
        )
        certificate = self._gone.certificate_of(origin)
        may_report = bool(certificate) or self._gone.may_report(origin)
        if own is not None and replaced and may_report:
            self._send_message(
                LogLost(request.source, own, MAX_HOPS, request.origin, upto, certificate)
            )

    async def _read_page(self, request: PageRequest, upto: Mark) -> None:
        flows, origin = self._log.flows, origin_of(request.origin)
        damage: Damage | None = None
        try:
            events = await self._log.read_replica(
                origin, request.after, PAGE_EVENTS, PAGE_BYTES, wait=False
            )
        except DamageFound as found:
            events, damage = [], found.damage
        finally:
            self._is_reading = False
        if damage is not None:
            self._pass_damage(request, damage)
            return
        own, span = self._own_address(), self._log.replica_spans.get(origin)
        start = max(request.after, flows.since(request.origin))
        if own is None or span is None or start < span.after:
            # Retention may have removed some events: the reader repeats its request.
            return
        is_full = len(events) >= PAGE_EVENTS or sum([each.size for each in events]) >= PAGE_BYTES
        # An origin's places are consecutive: an earlier end is the start of damage.
        is_full = is_full or bool(events and events[-1].offset < upto[1])
        end = min(events[-1].mark, upto) if is_full else upto
        events = flows.select_flow(events, request.origin)
        page = Range(request.source, request.after, end, has_more=end < upto, is_unfiltered=True)
        self._send_range(request.origin, own, page, events)

    def _pass_damage(self, request: PageRequest, damage: Damage) -> None:
        """Send what follows events whose repair was given up; else the reader repeats its request.

        Only the origin can sign that they are lost: the reader waits for them, if it must.
        """
        own, span = self._own_address(), self._log.replica_spans.get(origin_of(request.origin))
        if own is None or span is None or not self._log.repairs.is_given_up(damage):
            return
        upto = damage.upto
        if is_signed_origin(origin_of(request.origin)):
            self.send_page(msgspec.structs.replace(request, after=upto))
            return
        page = Range(
            request.source, request.after, upto, upto, has_more=upto < span.upto, is_unfiltered=True
        )
        self._send_range(request.origin, own, page, [])

    def _send_range(
        self, flow: str, own: Address, page: Range, events: Sequence[LoggedEvent]
    ) -> None:
        """Send a page, unless another cluster would reject it, since only the origin could sign it:
        recovery reads such events."""
        is_inside = page.destination.unit == own.unit
        is_evident = claims_nothing(page, [each.mark for each in events])
        if is_inside or is_evident or not is_signed_origin(origin_of(flow)):
            self._send_frame(make_page_frame(flow, own, [page], events))
