"""Frames and routed messages that start at, arrive at or cross a node.

The driver does the slow work: matching events that enter a unit, and reading pages of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial

import attrs
import msgspec

from broker.cluster.address import Address
from broker.cluster.network_state import NetworkState
from broker.cluster.traffic.claims import Claims
from broker.cluster.traffic.effects import (
    CoverOrigin,
    DeliverMessage,
    EnterUnit,
    ReadPage,
    SendFrame,
    SendMessage,
    TrafficCounts,
    TrafficEffect,
    TrafficSnapshot,
)
from broker.cluster.traffic.forwarding import FrameRoutes, frames_by_hop, pack_contents, route_frame
from broker.cluster.traffic.frame import MAX_HOPS, Frame
from broker.cluster.traffic.frame_merge import merge_frames
from broker.cluster.traffic.frame_range import Range
from broker.cluster.traffic.ingress import Ingress
from broker.cluster.traffic.known_histories import KnownHistories
from broker.cluster.traffic.lost_logs import GoneLogs, LostLogs, NoGoneLogs
from broker.cluster.traffic.messages import LogLost, PageRequest, RoutedMessage
from broker.cluster.traffic.own_senders import OwnSenders
from broker.cluster.traffic.page_readers import PageReaders
from broker.cluster.traffic.received_range import ReceivedRange, ReceiverEffect, RequestPage
from broker.cluster.traffic.receiver import Receiver
from broker.cluster.traffic.sender import OutgoingEvent, progress_attempt
from broker.event.flow import NO_FLOWS, FlowInterval, is_default_flow, origin_of
from broker.event.place import Mark
from broker.streams.contract import CarriedEvent


class Traffic:
    def __init__(
        self,
        state: NetworkState,
        origin: str,
        newest_own_mark: Callable[[], Mark],
        log_coverage: Callable[[str], Mark | None],
        *,
        compress: bool = False,
        patience: float = float("inf"),
        start_of: Callable[[str, Mark], Mark] = lambda _, mark: mark,
        group_members: Callable[[int], Collection[str]] = lambda _: (),
        complete_own: Callable[[Frame], object] = lambda _: None,
        histories: KnownHistories | None = None,
        own_flows: Mapping[str, Sequence[FlowInterval]] = NO_FLOWS,
        end_of_flow: Callable[[str, Mark], Mark] = lambda _, mark: mark,
        may_drop: Callable[[str], bool] = lambda _: False,
        claims: Claims | None = None,
        gone: GoneLogs | None = None,
        begins_after: Callable[[str], Mark] = lambda _: (0, 0),
    ) -> None:
        """`newest_own_mark` returns the newest own place, durable or not. `group_members`
        returns the neighbours that multicast reaches with events of a rank. `complete_own` adds
        to a frame of the own log what only its node can add (`own_frames`). `own_flows` and
        `end_of_flow` are those of `OwnSenders`, `gone` that of `LostLogs`, the others those of
        `Receiver`."""
        self._state = state
        self._own = state.address
        self._compress = compress
        self._complete_own = complete_own
        self._group_members = group_members
        self._own_origin = origin
        self.senders = OwnSenders(
            *(origin, self._own, newest_own_mark, self._is_cleared), own_flows, end_of_flow
        )
        self._ingress = Ingress(state.destinations_inside)
        self._readers = PageReaders()
        self._incarnations: dict[str, int] = {}
        self._progress_turns = 0
        self._cuts: dict[str, Mark] = {}
        self._newest_cuts: dict[str, Mark] = {}
        self.receiver = Receiver(
            *(log_coverage, patience, start_of, histories, may_drop, claims, begins_after)
        )
        self._lost = LostLogs(state, self.receiver, gone or NoGoneLogs())
        self.counts = TrafficCounts()

    @property
    def denied(self) -> int:
        """Events without a cleared route to an interested destination."""
        entering = sum(each.denied for each in self._ingress)
        own = sum(each.denied for each in self.senders)
        return own + entering + self.counts.denied

    def snapshot(self) -> TrafficSnapshot:
        entering = [len(each.destinations) for each in self._ingress]
        return TrafficSnapshot(
            destinations=sum(len(each.destinations) for each in self.senders) + sum(entering),
            unit_entries=len(self._ingress),
            readers=len(self._readers),
            incomplete_origins=self.receiver.incomplete_origins,
        )

    def send_own_events(
        self,
        after: Mark,
        upto: Mark,
        events: Sequence[OutgoingEvent],
        flow: str = "",
    ) -> list[TrafficEffect]:
        """Send own durable events of a flow, all of (after, upto]; else of the default one."""
        frame = self.senders.event_frame(flow or self._own_origin, after, upto, events)
        return [] if frame is None else self.send_frame(frame)

    def receive_range(self, received: ReceivedRange, now: float) -> list[TrafficEffect]:
        """Take a range for this node, from this transport or another one."""
        if origin_of(received.frame.origin) == self._own_origin:
            return []
        return self._as_traffic_effects(self.receiver.receive_range(received, now))

    def send_progress(self, now: float) -> list[TrafficEffect]:
        """Send positions to idle destinations. Call once a second."""
        frames = self.senders.progress_frames()
        self._progress_turns += 1
        attempt = progress_attempt(self._progress_turns)
        effects = [effect for frame in frames for effect in self.send_frame(frame, attempt)]
        for each in self._ingress:
            frame = each.progress_frame()
            if frame is not None:
                # This node may be one of the destinations.
                effects += self._forward(frame, False, now)
        return effects

    def update_destinations(self, now: float) -> None:
        """Call this when the map changed, or nodes restarted."""
        self._lost.record_start(now)
        restarted = self._restarted_members()
        self.senders.set_destinations(self._state.destinations(), restarted)
        self._ingress.update_destinations(restarted)
        self.receiver.request_now(now)

    def pause_receiving(self) -> None:
        """Hold received ranges: own interest is not active yet."""
        self.receiver.pause()

    def record_cuts(self, cuts: Mapping[str, Mark], now: float) -> list[TrafficEffect]:
        """Record the cuts of active interest: all its events behind them are sent here."""
        if cuts == self._newest_cuts:
            # Interest that became active together has equal cuts.
            return []
        self._newest_cuts = dict(cuts)
        for origin, cut in cuts.items():
            self._cuts[origin] = max(cut, self._cuts.get(origin, cut))
        return [
            CoverOrigin(origin, cut)
            for origin, cut in cuts.items()
            if origin_of(origin) != self._own_origin and self.receiver.start_origin(origin, cut)
        ]

    def unreached_cuts(self) -> dict[str, Mark]:
        """Return the cuts ahead of this node's position.

        New interest that active interest covers becomes active behind them, in other origins at the
        log's position.
        """
        for origin in list(self._cuts):
            position = self.receiver.position_of(origin)
            if position is not None and position >= self._cuts[origin]:
                del self._cuts[origin]
        return dict(self._cuts)

    def resume_receiving(self, now: float) -> list[TrafficEffect]:
        """Append held ranges: all interest from before the pause is active."""
        return self._as_traffic_effects(self.receiver.resume(now))

    def restart_destination(self, destination: Address) -> None:
        """Restart a destination after its first interest arrived."""
        self.senders.restart_destination(destination)

    def receive_frame(self, frame: Frame, now: float) -> list[TrafficEffect]:
        return self._forward(frame, self._ingress.is_holding(frame.origin), now)

    def _forward(self, frame: Frame, is_behind_entering: bool, now: float) -> list[TrafficEffect]:
        division = self._route(frame)
        effects: list[TrafficEffect] = []
        local = division.local
        if local and self._state.is_outside_map(frame.origin_node):
            # They come again when the node is in the map.
            self.counts.unknown += 1
            local = ()
        for index in self.receiver.select_acceptable(frame, local):
            effects += self.receive_range(ReceivedRange(frame.ranges[index], frame, index), now)
        onward: Mapping[str, Frame] = {}
        if division.by_hop:
            self.counts.transit += 1
            parts = frames_by_hop(frame, division.by_hop, self._group_of(frame))
            onward = pack_contents(parts, documents=self._compress)
        for index in division.entering:
            received = ReceivedRange(frame.ranges[index], frame, index)
            self._ingress.sender_for(received)
            effects.append(self._hold_onward(EnterUnit(frame, received, onward)))
            onward = {}
        if onward and is_behind_entering:
            effects.append(self._hold_onward(EnterUnit(frame, None, onward)))
        else:
            effects += [SendFrame(hop, part) for hop, part in onward.items()]
        return effects

    def _hold_onward(self, enter: EnterUnit) -> EnterUnit:
        if enter.onward:
            self._ingress.hold_onward(enter)
        return enter

    def receive_group_frame(self, frame: Frame, now: float) -> list[TrafficEffect]:
        """Take this node's range from a multicast frame, which is not forwarded."""
        effects: list[TrafficEffect] = []
        if self._state.is_outside_map(frame.origin_node):
            self.counts.unknown += 1
            return effects
        for index, span in enumerate(frame.ranges):
            if span.destination == self._own:
                effects += self.receive_range(ReceivedRange(span, frame, index), now)
        return effects

    def send_into_unit(
        self, enter: EnterUnit, events: Sequence[OutgoingEvent], now: float
    ) -> list[TrafficEffect]:
        """Send matched events, merged with the held onward frames."""
        assert enter.received is not None
        span = enter.received.range
        inside = self._ingress.sender_for(enter.received).event_frame(
            span.after, span.upto, events, self._is_cleared
        )
        effects = [] if inside is None else self._forward(inside, False, now)
        onward = dict(enter.onward) if self._ingress.release_onward(enter) else {}
        merged_effects: list[TrafficEffect] = []
        for effect in effects:
            if isinstance(effect, SendFrame) and effect.neighbour in onward:
                merged = merge_frames(onward[effect.neighbour], effect.frame)
                if merged is not None:
                    del onward[effect.neighbour]
                    effect = SendFrame(effect.neighbour, merged)
            merged_effects.append(effect)
        return [*(SendFrame(hop, part) for hop, part in onward.items()), *merged_effects]

    def release_onward(self, enter: EnterUnit) -> list[TrafficEffect]:
        """Send the onward frames without waiting for the match."""
        if not self._ingress.release_onward(enter):
            return []
        return [SendFrame(hop, part) for hop, part in enter.onward.items()]

    def receive_message(self, message: RoutedMessage, now: float) -> list[TrafficEffect]:
        if message.target != self._own:
            if isinstance(message, PageRequest) and message.source != self._own:
                message = self._lost.answer_for_gone(message) or message
            return self.send_message(message)
        if isinstance(message, PageRequest):
            if message.origin not in self.senders:
                self.counts.unknown += 1
                answer = self._lost.answer_unknown_origin(message, now)
                return [] if answer is None else self.send_message(answer)
            return self._accept_request(message, now)
        if isinstance(message, LogLost):
            return self._as_traffic_effects(self._lost.receive_report(message, now))
        return [DeliverMessage(message)]

    def send_page(
        self,
        resume: PageRequest,
        page: Sequence[tuple[Range, Sequence[CarriedEvent]]],
        now: float,
    ) -> list[TrafficEffect]:
        """Send a page that was read: consecutive ranges, with all matching events of each."""
        key, sender = (resume.source, resume.origin), self.senders[resume.origin]
        reader = self._readers.get(key)
        destination = self._state.destination_of(resume.source)
        if reader is None or destination not in sender.destinations:
            return []
        if self._readers.is_repeating(key):
            page = [(span, self._on_common_route(events, resume.source)) for span, events in page]
        last = page[-1][0]
        if last.upto < reader.sent_upto:
            last = last._replace(has_more=True)
        elif last.upto >= sender.sent_upto:
            sender.finish_reading(resume.source)
        else:
            last = last._replace(has_more=last.has_more or sender.is_reading(resume.source))
        frame_events = [event for _, events in page for event in events]
        levels = [each.level for each in frame_events]
        runs = [(len(events), (index,)) for index, (_, events) in enumerate(page) if events]
        ranges = [*(span for span, _ in page[:-1]), last]
        frame = sender.make_frame(ranges, frame_events, levels, runs)
        return self.send_frame(frame, self._readers.repeats(key))

    def skip_lost_range(
        self, origin: str, after: Mark, upto: Mark, reason: str, now: float
    ) -> list[TrafficEffect]:
        """Log that this node does not wait for the events in (after, upto]."""
        return self._as_traffic_effects(self._lost.skip_range(origin, after, upto, reason, now))

    def _on_common_route(
        self, frame_events: Sequence[CarriedEvent], reader: Address
    ) -> list[CarriedEvent]:
        # A route for a higher level can loop where a unit is not connected for that level.
        common = self._state.next_hop(reader, 0)
        passing = [
            each for each in frame_events if self._state.next_hop(reader, each.level) == common
        ]
        self.counts.denied += len(frame_events) - len(passing)
        return passing

    def _accept_request(self, message: PageRequest, now: float) -> list[TrafficEffect]:
        source, sender = message.source, self.senders[message.origin]
        key, upto = (source, message.origin), sender.sent_upto
        is_known = self._state.destination_of(source) in sender.destinations
        if not is_known or not self._readers.add_request(key, message.after, upto, now):
            self.counts.unknown += 1
            return []
        sender.start_reading(source, message.after)
        self.counts.served += 1
        return [ReadPage(message)]

    def confirm_durable(self, origin: str, now: float) -> list[TrafficEffect]:
        return self._as_traffic_effects(self.receiver.confirm_durable(origin, now))

    def next_timeout(self) -> float | None:
        times = (self.receiver.next_timeout(), self._readers.next_timeout())
        return min((time for time in times if time is not None), default=None)

    def handle_timeout(self, now: float) -> list[TrafficEffect]:
        for address, flow in self._readers.remove_expired(now):
            self.senders[flow].finish_reading(address)
        expired = self._lost.skip_expired(now)
        return self._as_traffic_effects([*expired, *self.receiver.handle_timeout(now)])

    def _is_cleared(self, destination: Address, rank: int) -> bool:
        if destination == self._own:
            return True
        return self._state.next_hop(destination, rank) is not None

    def _restarted_members(self) -> frozenset[Address]:
        """Nodes with a changed incarnation."""
        unit = self._own.unit
        members = self._state.map.members()
        now = {name: node.incarnation for name, node in members.items()}
        before, self._incarnations = self._incarnations, now
        return frozenset(
            Address(unit, name)
            for name, incarnation in now.items()
            if before.get(name, incarnation) != incarnation
        )

    def _route(self, frame: Frame, attempt: int = 0) -> FrameRoutes:
        next_hop = self._state.next_hop
        if attempt:
            next_hop = partial(next_hop, attempt=attempt)
        division = route_frame(frame, self._own, next_hop)
        self.counts.stuck += division.unroutable
        self.counts.denied += division.denied
        return division

    def send_frame(self, frame: Frame, attempt: int = 0) -> list[TrafficEffect]:
        """Attempts to send the same take different routes."""
        self.counts.begun += 1
        self._complete_own(frame)
        onward = frames_by_hop(frame, self._route(frame, attempt).by_hop, self._group_of(frame))
        packed = pack_contents(onward, documents=self._compress)
        return [SendFrame(hop, part) for hop, part in packed.items()]

    def _group_of(self, frame: Frame) -> Collection[str]:
        # Some members of the group may not know flows.
        return self._group_members(frame.highest_rank) if is_default_flow(frame.origin) else ()

    def _as_traffic_effects(self, effects: Sequence[ReceiverEffect]) -> list[TrafficEffect]:
        translated: list[TrafficEffect] = []
        for effect in effects:
            if isinstance(effect, RequestPage):
                target, *request, attempt = attrs.astuple(effect, recurse=False)
                if attempt:
                    self.counts.record_unanswered(self._state.next_hop(target, 0, attempt - 1))
                message = PageRequest(target, self._own, MAX_HOPS, *request)
                translated += self.send_message(message, attempt)
            else:
                translated.append(effect)
        return translated

    def send_message(self, message: RoutedMessage, attempt: int = 0) -> list[TrafficEffect]:
        hop = self._state.next_hop(message.target, message.level, attempt)
        if hop is None or not message.hops:
            self.counts.stuck += 1
            return []
        return [SendMessage(hop, msgspec.structs.replace(message, hops=message.hops - 1))]
