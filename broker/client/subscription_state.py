"""State of one subscription through sessions and nodes.

A position is *complete* when no matching event is missing up to it. Before `Flowing` a node's
deliveries may skip events, which it sends or reports as gaps later. So items are held until
`Flowing`. If the session is lost before, they are dropped, and come again from the complete
position. After `Flowing` the complete position follows each origin's events and gaps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, get_args

import attrs

from broker.client.duplicate_filter import DuplicateFilter
from broker.client.effects import (
    EventBatch,
    Item,
    PositionMoved,
    ResumePoint,
    SharedDelivery,
    SubscriptionAccepted,
    SubscriptionEnded,
)
from broker.client.mesh_splice import MeshSplice, SpliceState, SpliceStep
from broker.client.received import FlowStarted, Gap, ReceivedEvent, Start, TypeChanged
from broker.client.subscription_request import SubscriptionRequest
from broker.errors import from_wire
from broker.event.envelope import Liveness
from broker.event.gap_reason import LEFT_OUT
from broker.event.place import Mark, Place, Position
from broker.event.site_notice import MissingMessages, MovedMessages
from broker.wire import messages
from broker.wire.codec import WireTimes
from broker.wire.held_flows import HeldBack
from broker.wire.messages import Ended, Flowing, Subscribe, Subscribed
from broker.wire.site_notice import NoticeMessage, notice_from_message

_BEFORE_FIRST: Mark = (0, 0)
_EMPTY = Position()
#: For a held message without events.
_ITEM_BYTES = 200

AboutSubscription: TypeAlias = (
    Subscribed | Flowing | Ended | messages.Gap | messages.TypeChanged | HeldBack | NoticeMessage
)
ABOUT_SUBSCRIPTIONS = get_args(AboutSubscription)


@attrs.define(eq=False)
class SubscriptionState:
    number: int
    request: SubscriptionRequest
    max_held_bytes: int
    """Bytes held until `Flowing`. Beyond that items are released as they come: none comes twice,
    but after a lost session some may come out of order.
    """
    resume_point: ResumePoint = ResumePoint(Position())
    complete_position: Position = Position()
    """Resume position after a lost session; empty until `has_begun`."""
    processed_position: Position = Position()
    acknowledged_position: Position = Position()
    events_since_acknowledged: int = 0
    has_begun: bool = False
    """True once the complete position, not the start, defines where it continues."""
    is_flowing: bool = False
    previous_node: str = ""
    """Address of the node at which it last flowed."""
    duplicates_dropped: int = 0
    splice: MeshSplice | None = None
    """With the mesh that brings some of its flows; None without one."""
    _duplicates: DuplicateFilter = attrs.field(factory=DuplicateFilter)
    _held: list[tuple[Item, Mapping[str, Mark]]] = attrs.field(factory=list)
    """With batches, the newest mark of each origin."""
    _held_bytes: int = 0
    _is_holding: bool = True
    _last_n_cut: Position = _EMPTY
    """First cut of a start at the last N events, counted back from it."""
    _is_recounting: bool = False
    """True if this session requested the last N events up to that cut only."""
    _cut: Position = _EMPTY
    """Furthest cuts of all sessions: a later node may not know some origin yet."""
    _pending_cuts: dict[str, Mark] = attrs.field(factory=dict)
    """Cuts of the origins that sent nothing beyond them in this session."""

    # ------------------------------------------------------------------ sessions

    def begin_session(self) -> Subscribe:
        """Return the message for a new session. Held batches must be dropped before."""
        self._is_holding = True
        self.is_flowing = False
        if self.splice is not None:
            self.splice.session_begun()
        self._is_recounting = self._must_recount()
        self._pending_cuts = {}
        request, start = self.request, self._session_start()
        return Subscribe(
            number=self.number,
            pattern=request.pattern,
            query=request.query,
            namespaces=request.namespaces,
            durable=request.durable,
            start=start.kind,
            position=start.position.to_wire(),
            time=start.time_ms,
            previous_address=self.previous_node or self.resume_point.node,
            until_ms=request.until_ms,
            until=self._session_end().to_wire(),
            last=start.last,
            pace=request.pace,
            rate=request.rate,
            # Unprocessed events must come again if this process ends.
            processed=self.processed_position.to_wire()
            if request.durable and self.has_begun
            else None,
            times=request.stream_times,
            queue=request.queue,
            event_times=request.event_times,
            paced_by_time=request.paced_by_time,
        )

    def _session_start(self) -> Start:
        start = self.request.start
        if self.has_begun and (self.complete_position.marks or start.kind not in ("all", "time")):
            # The time still applies to origins that have sent nothing.
            return Start("position", position=self.complete_position, time_ms=start.time_ms)
        if start.kind == "stored":
            return attrs.evolve(start, position=self.resume_point.position)
        return start

    def _session_end(self) -> Position:
        """Newer events would take the place of the last N, which are requested again."""
        return self._last_n_cut if self._must_recount() else self.request.until

    def _must_recount(self) -> bool:
        endless = not (self.request.until.marks or self.request.until_ms)
        return endless and not self.has_begun and bool(self._last_n_cut.marks)

    def continue_after_end(self, message: Ended) -> list[Item] | None:
        """Return the items released when the last N events are complete, or none if the mesh has
        lost events; None if it is over.

        The caller then requests the subscription from the complete position.
        """
        if self._is_restarting and not message.error[0]:
            return []
        if message.error[0] or not (self._is_recounting and self._must_recount()):
            return None
        self.has_begun = True
        self.complete_position = self.complete_position.merged(self._last_n_cut)
        return [*self._release_held(), PositionMoved(self._last_n_cut)]

    def drop_held(self) -> list[EventBatch]:
        """Return the dropped batches to free their credit. Missing and moved messages are not sent
        again, and stay."""
        dropped = [item for item, _ in self._take_held()]
        kept = MissingMessages | MovedMessages
        self._held = [(item, {}) for item in dropped if isinstance(item, kept)]
        self._held_bytes = len(self._held) * _ITEM_BYTES
        return [item for item in dropped if isinstance(item, EventBatch)]

    # ------------------------------------------------------------------ messages of the node

    def receive_message(self, message: AboutSubscription, node: str) -> list[Item]:
        """Return the items of any message but `Ended`. `node` is the address of its sender."""
        match message:
            case Subscribed():
                return self.receive_subscribed(message)
            case Flowing():
                return self.receive_flowing(message, node)
            case messages.TypeChanged():
                return [TypeChanged.from_message(message)]
            case messages.Gap():
                return self.receive_gap(message)
            case HeldBack():
                return self.receive_held_back(message)
            case Ended():
                return self.receive_ended(message)
        return self.receive_notice(message)

    def receive_subscribed(self, message: Subscribed) -> list[Item]:
        stored = None if message.position is None else Position.from_wire(message.position)
        if self.request.start.kind == "stored" and (
            stored is not None or self.resume_point.position.marks
        ):
            self._begin_at((stored or Position()).merged(self.resume_point.position))
        return [SubscriptionAccepted(message.warnings, stored)]

    def receive_flowing(self, message: Flowing, node: str) -> list[Item]:
        """Release the held items: nothing is missing after the cut."""
        cut = Position.from_wire(message.cut)
        start = self.request.start
        if start.kind in ("new", "stored"):
            self._begin_at(cut)
        elif start.kind == "last":
            self._last_n_cut = self._last_n_cut if self._last_n_cut.marks else cut
        else:
            self._begin_at(start.position)
        self.previous_node = node
        items: list[Item] = [FlowStarted(cut)]
        before = self.complete_position.marks
        self._cut = self._cut.merged(cut)
        self._pending_cuts = dict(self._cut.marks)
        for item, marks in self._take_held():
            if isinstance(item, EventBatch):
                item = attrs.evolve(item, events=self._with_effective_liveness(item.events))
            # An origin that was complete up to the cut is so after it.
            complete = {
                origin: mark
                for origin, mark in marks.items()
                if before.get(origin, _BEFORE_FIRST) >= cut.marks.get(origin, _BEFORE_FIRST)
            }
            items += self._release_item(item, complete)
        self.is_flowing = True
        return items

    def receive_events(self, events: Sequence[ReceivedEvent], share: SharedDelivery) -> list[Item]:
        if self.splice is not None:
            events = [event for event in events if not self._ignores(event.place.origin)]
            if not events:
                # Its credit returns when it is processed.
                return [EventBatch((), share)]
        newest = {event.place.origin: event.place for event in events}
        marks = {origin: place.mark for origin, place in newest.items()}
        if not self.is_flowing:
            return self._hold_item(EventBatch(events, share), share.size, marks)
        if self._pending_cuts:
            events = self._with_effective_liveness(events)
        items = [] if self.has_begun else self._begin_after_last_n(marks)
        return [*items, self._make_batch(events, share, marks)]

    def receive_progress(self, position: Position, times: WireTimes = ()) -> list[Item]:
        if self.splice is not None:
            left = {flow: m for flow, m in position.marks.items() if not self._ignores(flow)}
            position = Position(left)
        return self._receive_item(PositionMoved(position, times))

    def receive_gap(self, message: messages.Gap) -> list[Item]:
        first = Place(message.origin, *message.first)
        last = Place(message.origin, *message.last)
        gap = Gap(first, last, message.count, message.reason)
        # The mesh may still bring these events.
        return [gap] if self._ignores(message.origin) else self._receive_item(gap)

    def receive_notice(self, message: NoticeMessage) -> list[Item]:
        return self._receive_item(notice_from_message(message))

    def receive_ended(self, message: Ended) -> list[Item]:
        items = self._release_held()
        error = from_wire(message.error) if message.error[0] else None
        return [*items, SubscriptionEnded(error, self.processed_position)]

    # ------------------------------------------------------------------ a mesh

    def _ignores(self, flow: str) -> bool:
        return self.splice is not None and self.splice.ignores(flow)

    @property
    def _is_restarting(self) -> bool:
        return self.splice is not None and self.splice.state is SpliceState.RESTARTING

    def receive_held_back(self, message: HeldBack) -> list[Item]:
        if self.splice is not None:
            self.splice.note_held_back(Position.from_wire(message.newest).marks)
        return []

    def receive_left_out(self, events: Sequence[ReceivedEvent]) -> list[Item]:
        """Return gaps for new events whose places the mesh has passed without them."""
        marks = self.complete_position.marks if self.has_begun else {}
        lost = [
            event
            for event in events
            if self._ignores(event.place.origin)
            and event.place.mark <= marks.get(event.place.origin, _BEFORE_FIRST)
        ]
        places = [event.place for event in self._duplicates.drop_duplicates(lost)]
        gaps = [Gap(place, place, 1, LEFT_OUT) for place in places]
        return [item for gap in gaps for item in self._receive_item(gap)]

    def receive_contiguous(self) -> list[Item]:
        """Return the events of the mesh that continue the complete position."""
        if self.splice is None or not self.has_begun:
            return []
        items: list[Item] = []
        for each in self.splice.take_contiguous(self.complete_position.marks):
            marks = {each.flow: each.upto}
            if each.events:
                events = self._with_effective_liveness(each.events)
                items.append(self._make_batch(events, SharedDelivery(1, each.size), marks))
            else:
                self.complete_position = self.complete_position.merged(Position(marks))
                items.append(PositionMoved(Position(marks)))
        return items

    def take_splice_step(self, now: float, *, can_hold: bool) -> SpliceStep | None:
        """`can_hold` is False without a session with a node that can hold flows back."""
        if self.splice is None or not self.has_begun:
            return None
        marks = self.complete_position.marks
        return self.splice.take_step(marks, now, can_hold=can_hold and self.is_flowing)

    # ------------------------------------------------------------------ inside

    def _receive_item(self, item: Item) -> list[Item]:
        """Items without events are in sequence with the events."""
        if self.is_flowing:
            return self._release_item(item, {})
        return self._hold_item(item, _ITEM_BYTES, {})

    def _begin_at(self, position: Position) -> None:
        if not self.has_begun:
            self.has_begun = True
            self.complete_position = self.complete_position.merged(position)
            self.processed_position = self.processed_position.merged(position)

    def _with_effective_liveness(self, events: Sequence[ReceivedEvent]) -> Sequence[ReceivedEvent]:
        """Events up to the cut were published before the subscription flowed: they are recovery."""
        found = []
        for event in events:
            cut = self._pending_cuts.get(event.place.origin)
            if cut is not None and event.place.mark > cut:
                # Events of one origin come in order.
                del self._pending_cuts[event.place.origin]
            elif cut is not None and event.liveness is Liveness.LIVE:
                event = attrs.evolve(event, liveness=Liveness.RECOVERY)
            found.append(event)
        return found

    def _begin_after_last_n(self, marks: Mapping[str, Mark]) -> list[Item]:
        """The first event beyond the cut shows that the last N events are complete."""
        cut = self._last_n_cut
        if all(mark <= cut.marks.get(origin, _BEFORE_FIRST) for origin, mark in marks.items()):
            return []
        self.has_begun = True
        self.complete_position = self.complete_position.merged(cut)
        return [PositionMoved(cut)]

    def _hold_item(self, item: Item, size: int, marks: Mapping[str, Mark]) -> list[Item]:
        """Return the items to release if too much is held."""
        self._held.append((item, marks))
        self._held_bytes += size
        self._is_holding = self._is_holding and self._held_bytes <= self.max_held_bytes
        return [] if self._is_holding else self._release_held()

    def _release_held(self) -> list[Item]:
        return [given for item, _ in self._take_held() for given in self._release_item(item, {})]

    def _take_held(self) -> list[tuple[Item, Mapping[str, Mark]]]:
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def _release_item(self, item: Item, marks: Mapping[str, Mark]) -> list[Item]:
        """Up to `marks` nothing is missing."""
        if isinstance(item, EventBatch):
            return [self._make_batch(item.events, item.delivery, marks)]
        if isinstance(item, Gap):
            next_offset = self.complete_position.marks.get(item.first.origin, _BEFORE_FIRST)[1] + 1
            if self.has_begun and (self.is_flowing or item.first.offset <= next_offset):
                moved = PositionMoved(Position().advanced([item.last]))
                self.complete_position = self.complete_position.merged(moved.position)
                return [item, moved]
            return [item]
        if isinstance(item, PositionMoved):
            if not self.has_begun:
                return []
            self.complete_position = self.complete_position.merged(item.position)
        return [item]

    def _make_batch(
        self, events: Sequence[ReceivedEvent], share: SharedDelivery, marks: Mapping[str, Mark]
    ) -> EventBatch:
        position = _EMPTY
        if self.has_begun and marks:
            position = Position(marks)
            self.complete_position = self.complete_position.merged(position)
        fresh = self._duplicates.drop_duplicates(events)
        self.duplicates_dropped += len(events) - len(fresh)
        return EventBatch(fresh, share, position)
