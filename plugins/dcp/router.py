"""One node of a mesh: it takes events of its parents, or as a root of the node itself, and forwards
them to its children (DCP D1-D6, D18-D21).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random

from broker.errors import BadName, ProtocolError
from broker.event.flow import check_flow, origin_of, pattern_of
from broker.event.place import Mark
from broker.streams.contract import CarriedInterest, FlowBatch
from broker.transport.arq.handshake import Entropy
from plugins.dcp.alarm_reports import AlarmReports
from plugins.dcp.children import Children, QueryRefusedError
from plugins.dcp.connection import Connection
from plugins.dcp.control import (
    ControlMessage,
    InForce,
    Interest,
    LateEvent,
    Refused,
    SequenceStart,
    to_query,
)
from plugins.dcp.copy_alarms import CopyAlarms
from plugins.dcp.endpoint import Endpoint
from plugins.dcp.event_range import (
    Description,
    EventRange,
    SequenceKey,
    make_omissions,
    merge_ranges,
)
from plugins.dcp.group_host import IGroupHost
from plugins.dcp.groups import Groups
from plugins.dcp.late_events import LateEvents, read_late_event
from plugins.dcp.mesh.leaf_gate import LeafGate
from plugins.dcp.mesh.membership import Membership
from plugins.dcp.omission import dropped_count
from plugins.dcp.parents import Parents
from plugins.dcp.recent_ranges import RecentRanges
from plugins.dcp.requested_queries import RequestedQueries
from plugins.dcp.router_host import IRouterHost
from plugins.dcp.sequences import Sequences, SequenceState
from plugins.dcp.settings import DcpSettings


class Router:
    def __init__(
        self,
        host: IRouterHost,
        settings: DcpSettings,
        entropy: Entropy,
        roots: Sequence[Hashable],
        random: Random,
        wall_clock: Callable[[], int],
        now: float,
        *,
        is_root: bool,
        group_host: IGroupHost | None = None,
    ) -> None:
        """`entropy` returns random bytes for ids and nonces, `wall_clock` ms since 1970. With
        `group_host` and `settings.multicast`, children share IP multicast groups."""
        self.rejected = 0
        """Control messages and sequences that were not accepted."""
        self.early = 0
        """Ranges of parents whose query is not known to be in force."""
        self._host = host
        self.settings = settings
        self.is_root = is_root
        self.sequences = Sequences()
        self.endpoint = Endpoint(
            *(settings, self, host.send, entropy, host.open_peer), is_client=host.ticket is not None
        )
        self.parents = Parents(
            *(self.sequences, settings, self._take_ranges), is_root=is_root, first_epoch=0
        )
        self.children = Children(
            self.sequences, host.set_link_interest, self._update_queries, self.parents.when_covered
        )
        self.groups: Groups | None = None
        if group_host is not None and settings.multicast:
            self.groups = Groups(group_host, settings, self.children, entropy)
        self.membership = Membership(
            *(host, settings, self.endpoint, self.parents, self.children, roots, random),
            *(wall_clock, now),
            is_root=is_root,
        )
        self.recent_ranges = RecentRanges()
        self.requested = RequestedQueries(host.patterns, is_static=settings.is_static)
        self.gate = LeafGate(host.tickets, settings.leaves, self.endpoint, wall_clock)
        self._outgoing: dict[SequenceState, None] = {}
        """Sequences with ranges that leave with the next flush."""
        self.alarms = AlarmReports(host.report, now)
        self.copy_alarms = CopyAlarms(self.parents, self.alarms, host.has_interest)
        self._late = LateEvents(host, self.copy_alarms, self.children)
        self.host_alarms: list[str] = []
        """Alarms of the node around the router."""
        self._now = now
        self._update_queries()

    # ------------------------------------------------------------------ for the node

    def announce(
        self, key: str, interest: CarriedInterest, on_active: Callable[[dict[str, Mark]], object]
    ) -> None:
        """Request events for a subscription of this node.

        `on_active` gets the marks behind which all of them come.
        """
        self.requested.own[key] = to_query(interest)
        self.requested.queues[key] = interest.queue
        self._update_queries()
        self.parents.when_covered(lambda: on_active(self.sequences.marks()))

    def withdraw(self, key: str) -> None:
        self.requested.queues.pop(key, None)
        if self.requested.own.pop(key, None) is not None:
            self._update_queries()

    def publish(self, batch: FlowBatch) -> None:
        """At a root, take a range of a flow, and forward it. Elsewhere it comes from the roots."""
        if not self.is_root:
            return
        for state, range_ in self.sequences.split_batch(batch):
            self._forward(state, range_)

    def receive(self, peer: Hashable, packets: Iterable[bytes], now: float) -> None:
        self._now = now
        for data in packets:
            self.endpoint.receive(peer, data, now)

    def flush(self, now: float) -> None:
        """Deliver and send waiting ranges. Call it after each other call, or after several."""
        self._now = now
        while self._outgoing:
            # An earlier epoch of a flow comes before the next one.
            state = next(iter(self._outgoing))
            del self._outgoing[state]
            ranges, state.outgoing = merge_ranges(state.outgoing), []
            for range_ in ranges:
                self._pass_on(state, range_)
        self._late.flush()
        if self.groups is None:
            self.endpoint.flush(now)
        else:
            self.groups.flush(self.endpoint, now)

    def next_timeout(self) -> float | None:
        times = (
            *(self.endpoint.next_timeout(), self.parents.next_timeout()),
            *(self.membership.next_timeout(), self.gate.next_timeout()),
            None if self.groups is None else self.groups.next_timeout(),
        )
        return min((each for each in times if each is not None), default=None)

    def handle_timeout(self, now: float) -> None:
        self._now = now
        self._check_alarms(now)
        self.endpoint.handle_timeout(now)
        self.parents.handle_timeout(now)
        self.membership.handle_timeout(now)
        self.gate.handle_timeout(now)

    def stop(self, now: float) -> None:
        self.membership.search.stop()
        for connection in self.endpoint:
            self.endpoint.close(connection, "leaving", now)

    # ------------------------------------------------------------------ events

    def _take_ranges(self, state: SequenceState, ranges: Iterable[EventRange]) -> None:
        receiver = state.receiver
        if receiver is not None and receiver.dropped_events:
            # They were passed between the ranges.
            found = make_omissions(state.description.epoch, receiver.dropped_events)
            receiver.dropped_events.clear()
            ranges = sorted([*ranges, *found], key=lambda each: each.previous)
        for range_ in ranges:
            self._forward(state, range_)
        self.parents.watch(state)
        current = 0 if receiver is None else receiver.current or 0
        if state.end is not None and current > state.end:
            # The end so far is missing at all parents: the node asks the log for it.
            self._forward(state, EventRange(current, current))
        self.copy_alarms.report_disagreements(state, self._now)

    def _forward(self, state: SequenceState, range_: EventRange) -> None:
        state.end = range_.upto
        state.outgoing.append(range_)
        self._outgoing[state] = None

    def _pass_on(self, state: SequenceState, range_: EventRange) -> None:
        for part in range_.split_omissions():
            batch = state.make_batch(part)
            links: Sequence[frozenset[Hashable]] = [frozenset()] * len(part.events)
            if len(self.children):
                if batch.events:
                    links = self._host.match(batch)
                self.children.forward(state, part, links)
            self.recent_ranges.add(state.description.key, part, links, self._now)
            if not self.is_root and origin_of(batch.flow) != self._host.origin:
                self._host.deliver(batch)

    def range_received(
        self,
        connection: Connection,
        description: Description,
        range_: EventRange,
        now: float,
        *,
        is_repeated: bool,
    ) -> None:
        state = self.sequences.get(description.key)
        if connection not in self.parents.paths or state is None or state.receiver is None:
            self.early += 1
            return
        self._receive_parts(connection, state, range_.split_omissions(), now, is_repeated)
        if len(self.parents.paths) > 1:
            self.parents.probe_silent(now)
            for parent in self.parents:
                if parent.connection is not connection:
                    parent.connection.acknowledge_ahead(description.key, now)

    def _receive_parts(
        self,
        connection: Connection,
        state: SequenceState,
        parts: Iterable[EventRange],
        now: float,
        is_repeated: bool,
    ) -> None:
        receiver = state.receiver
        assert receiver is not None
        for part in parts:
            left_out = part.omission
            if left_out is None:
                ranges = receiver.receive(connection, part, now, is_repeated=is_repeated)
                self._late.pass_on(state, part, now)
            else:
                ranges = receiver.receive_unavailable(
                    *(connection, part.previous, part.upto, now), dropped_count(left_out)
                )
            self._take_ranges(state, ranges)

    def end_received(self, connection: Connection, key: SequenceKey, an: int, now: float) -> None:
        state = self.sequences.get(key)
        if connection in self.parents.paths and state is not None and state.receiver is not None:
            self._take_ranges(state, state.receiver.receive_end(connection, an, now))

    def part_received(
        self, connection: Connection, key: SequenceKey, previous: int, upto: int, now: float
    ) -> None:
        state = self.sequences.get(key)
        if connection in self.parents.paths and state is not None and state.receiver is not None:
            state.receiver.note_part(previous, upto, now)
            self.parents.watch(state)

    def unavailable_received(
        self, connection: Connection, key: SequenceKey, after: int, upto: int, now: float
    ) -> None:
        state = self.sequences.get(key)
        if connection in self.parents.paths and state is not None and state.receiver is not None:
            ranges = state.receiver.receive_unavailable(connection, after, upto, now)
            self._take_ranges(state, ranges)

    def sequence_opened(self, connection: Connection, start: SequenceStart, now: float) -> None:
        flow = start.description.flow
        try:
            check_flow(flow)
        except BadName:
            flow = ""
        if pattern_of(flow) not in self._host.patterns:
            self.rejected += 1
            return
        self.parents.open_sequence(connection, start, now)

    def current_of(self, key: SequenceKey) -> int | None:
        state = self.sequences.get(key)
        return None if state is None or state.receiver is None else state.receiver.current

    def acknowledged(self, connection: Connection, key: SequenceKey) -> None:
        state = self.sequences.get(key)
        if state is not None:
            state.acknowledge_to(connection)

    # ------------------------------------------------------------------ interest

    def _update_queries(self) -> None:
        queue = self.requested.merge_queues(self.children.queues)
        wanted = self.requested.combine(self.children.queries)
        self.parents.set_queries(wanted, self._now, queue)

    # ------------------------------------------------------------------ connections

    def connected(self, connection: Connection, now: float) -> None:
        if not connection.is_dialled:
            self._host.keep_peer(connection.peer)
            self.gate.connected(connection, now)
        self.membership.connected(connection, now)

    def dial_failed(self, peer: Hashable, now: float) -> None:
        self.membership.search.failed(peer, now)
        self._close_unused(peer)

    def _close_unused(self, peer: Hashable) -> None:
        if not self.endpoint.uses(peer):
            self._host.close_peer(peer)

    def disconnected(self, connection: Connection, now: float) -> None:
        self.gate.remove(connection)
        self._leave_group(connection)
        self.children.remove(connection)
        parent = self.parents.get(connection)
        if parent is not None and connection.error.startswith("rejected"):
            name = parent.candidate.name
            text = f"the parent {name} has ended the connection: {connection.error}"
            self.alarms.note_event("rejection", text, now)
        self.parents.remove(connection, now)
        self.membership.disconnected(connection, now)
        if parent is not None:
            # One that does not accept this node's interest would be found again at once.
            self.membership.search.begin_pass(now, waits=parent.epoch < 0)
        elif connection.is_dialled:
            self.membership.search.failed(connection.peer, now)
        self._close_unused(connection.peer)

    def control_received(self, connection: Connection, message: ControlMessage, now: float) -> None:
        try:
            self._handle_control(connection, message, now)
        except ProtocolError as error:
            self.rejected += 1
            self.endpoint.close(connection, f"rejected: {error.code}", now)
        except QueryRefusedError as refusal:
            self.rejected += 1
            if not self.children.refuse(connection, refusal):
                self.endpoint.close(connection, f"rejected: {refusal.error.code}", now)

    def _handle_control(self, connection: Connection, message: ControlMessage, now: float) -> None:
        checked = self.gate.check(connection, message, now)
        if checked is None:
            return
        if isinstance(checked, Refused) and connection in self.parents:
            self._take_refusal(connection, checked, now)
            return
        if self.membership.receive(connection, checked, now):
            return
        if isinstance(message, Interest) and connection in self.children:
            self.children.set_interest(*(connection, message.epoch, message.queries, message.queue))
        elif isinstance(message, InForce) and connection in self.parents:
            self._leave_group(connection)
            self.parents.put_in_force(connection, message, now)
            self.membership.search.report_success()
        elif isinstance(message, LateEvent) and connection in self.parents.paths:
            state = self.sequences.get(SequenceKey(message.flow, message.epoch))
            if state is not None and state.receiver is not None:
                self._receive_parts(connection, state, read_late_event(message), now, True)
        elif self.groups is None or not self.groups.take_message(connection, message, now):
            raise ProtocolError(f"an unexpected message: {type(message).__name__}")

    def _leave_group(self, connection: Connection) -> None:
        if self.groups is not None:
            self.groups.receiver.leave(connection)

    def _take_refusal(self, connection: Connection, refusal: Refused, now: float) -> None:
        """Request more than a refused query, or look for another parent."""
        query, name = refusal.query, self.parents.name_of(connection)
        if query is not None and self.requested.refuse(query, name, refusal.reason):
            self._update_queries()
        else:
            self.endpoint.close(connection, "refused", now)

    def _check_alarms(self, now: float) -> None:
        if self.alarms.is_due(now):
            own = [*self.membership.find_alarms(now), *self.host_alarms]
            self.alarms.check([*own, *self.requested.find_alarms()], now)

    @property
    def nacks(self) -> int:
        """Requests for missing ranges."""
        return sum(each.receiver.nacks for each in self.sequences if each.receiver is not None)
