"""One subscription as the client's core follows it through sessions and nodes.

A position is *solid* when nothing that matches is missing up to it. What a node sends before it
has said `Flowing` may have holes, which are told, or filled, only after that. So it is held back,
and dropped if the session is lost before: then the subscription goes on from its solid position,
and all of it comes again, in order. After `Flowing` each origin's events come in order, and gaps
are told: so the solid position follows them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from broker.client.received import FlowStarted, Gap, ReceivedEvent, Start
from broker.client.subscription_request import SubscriptionRequest
from broker.errors import from_wire
from broker.event.envelope import Liveness
from broker.event.place import Mark, Place, Position
from broker.wire import messages
from broker.wire.fields import WireTimes
from broker.wire.messages import Ended, Flowing, Subscribe, Subscribed

_BEFORE_FIRST: Mark = (0, 0)
_EMPTY = Position()
#: What a message without events counts for while it is held back, in bytes.
_ITEM_BYTES = 200


@attrs.define(eq=False)
class SubscriptionState:
    """What was asked, what the node has said of it, and how far it has got."""

    number: int
    request: SubscriptionRequest
    max_held_bytes: int
    """Bytes that may be held back before `Flowing`. When there are more, they are given out as
    they come: none comes twice, but after a lost session some may come later than their place."""
    resume_point: ResumePoint = ResumePoint(Position())
    """Where the last process of this client left it, if it knows."""
    complete_position: Position = Position()
    """Where to go on after the node lost the session. Empty as long as only the start says that."""
    processed_position: Position = Position()
    acknowledged_position: Position = Position()
    events_since_acknowledged: int = 0
    has_begun: bool = False
    """The solid position says where it goes on; before, only the start does."""
    is_flowing: bool = False
    """In this session."""
    previous_node: str = ""
    """Address of the node at which it flowed last."""
    duplicates_dropped: int = 0
    _duplicates: DuplicateFilter = attrs.field(factory=DuplicateFilter)
    _held: list[tuple[Item, Mapping[str, Mark]]] = attrs.field(factory=list)
    """What came before `Flowing`; with portions, the newest marks of their origins."""
    _held_bytes: int = 0
    _is_holding: bool = True
    _last_n_cut: Position = _EMPTY
    """The first cut of one that begins with the last so many: from there they are counted back."""
    _is_recounting: bool = False
    """In this session it is asked for up to there only."""
    _cut: Position = _EMPTY
    """The furthest cuts of all sessions. The node of a later one may not know some origin yet."""
    _pending_cuts: dict[str, Mark] = attrs.field(factory=dict)
    """These cuts, of origins of which nothing behind them has come in this session."""

    # ------------------------------------------------------------------ sessions

    def begin_session(self) -> Subscribe:
        """The message that begins it in a session. What is held of a former one is to be dropped
        before."""
        assert not self._held
        self._is_holding = True
        self.is_flowing = False
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
            former=self.previous_node or self.resume_point.node,
            until_ms=request.until_ms,
            until=self._session_end().to_wire(),
            last=start.last,
            pace=request.pace,
            rate=request.rate,
            # What has arrived and is not processed has to come again if this process ends.
            processed=self.processed_position.to_wire()
            if request.durable and self.has_begun
            else None,
            times=request.stream_times,
        )

    def _session_start(self) -> Start:
        start = self.request.start
        if self.has_begun and (self.complete_position.marks or start.kind not in ("all", "time")):
            # The time still holds for origins of which nothing has come.
            return Start("position", position=self.complete_position, time_ms=start.time_ms)
        if start.kind == "stored":
            return attrs.evolve(start, position=self.resume_point.position)
        return start

    def _session_end(self) -> Position:
        """Where it ends in this session: the last so many are asked for again up to where they were
        counted from, or newer ones would take their place."""
        return self._last_n_cut if self._must_recount() else self.request.until

    def _must_recount(self) -> bool:
        endless = not (self.request.until.marks or self.request.until_ms)
        return endless and not self.has_begun and bool(self._last_n_cut.marks)

    def continue_after_recount(self, message: Ended) -> list[Item] | None:
        """What comes of an end that is not the user's: the last so many are all there, and it is to
        be asked for once more, from behind them. None where it is over."""
        if message.error[0] or not (self._is_recounting and self._must_recount()):
            return None
        self.has_begun = True
        self.complete_position = self.complete_position.merged(self._last_n_cut)
        return [*self._release_held(), PositionMoved(self._last_n_cut)]

    def drop_held(self) -> list[EventBatch]:
        """What was held back and does not count any more, since it comes again or is not wanted."""
        return [item for item, _ in self._take_held() if isinstance(item, EventBatch)]

    # ------------------------------------------------------------------ what the node says

    def receive_subscribed(self, message: Subscribed) -> list[Item]:
        """The node took it, and told where it had stored a durable one."""
        stored = None if message.position is None else Position.from_wire(message.position)
        if self.request.start.kind == "stored" and (
            stored is not None or self.resume_point.position.marks
        ):
            self._begin_at((stored or Position()).merged(self.resume_point.position))
        return [SubscriptionAccepted(message.warnings, stored)]

    def receive_flowing(self, message: Flowing, node: str) -> list[Item]:
        """Nothing is missed after the cut: what was held back is given out."""
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
        base = self.complete_position.marks
        self._cut = self._cut.merged(cut)
        self._pending_cuts = dict(self._cut.marks)
        for item, marks in self._take_held():
            if isinstance(item, EventBatch):
                item = attrs.evolve(item, events=self._with_effective_liveness(item.events))
            # An origin of which it had got up to the cut lacks nothing of what came since.
            whole = {
                origin: mark
                for origin, mark in marks.items()
                if base.get(origin, _BEFORE_FIRST) >= cut.marks.get(origin, _BEFORE_FIRST)
            }
            items += self._release_item(item, whole)
        self.is_flowing = True
        return items

    def receive_events(self, events: Sequence[ReceivedEvent], share: SharedDelivery) -> list[Item]:
        """Events came for it."""
        newest = {event.place.origin: event.place for event in events}
        marks = {origin: place.mark for origin, place in newest.items()}
        if not self.is_flowing:
            return self._hold_item(EventBatch(events, share), share.size, marks)
        if self._pending_cuts:
            events = self._with_effective_liveness(events)
        begins = [] if self.has_begun else self._begin_after_last_n(marks)
        return [*begins, self._make_batch(events, share, marks)]

    def receive_progress(self, position: Position, times: WireTimes = ()) -> list[Item]:
        """Nothing is left to deliver up to this position, nor before these stream times."""
        moved = PositionMoved(position, times)
        return (
            self._release_item(moved, {})
            if self.is_flowing
            else self._hold_item(moved, _ITEM_BYTES, {})
        )

    def receive_gap(self, message: messages.Gap) -> list[Item]:
        """Events that may have matched are gone."""
        first = Place(message.origin, *message.first)
        last = Place(message.origin, *message.last)
        gap = Gap(first, last, message.count, message.reason)
        return (
            self._release_item(gap, {})
            if self.is_flowing
            else self._hold_item(gap, _ITEM_BYTES, {})
        )

    def receive_ended(self, message: Ended) -> list[Item]:
        """It is over; what was held back is given out."""
        items = self._release_held()
        error = from_wire(message.error) if message.error[0] else None
        return [*items, SubscriptionEnded(error, self.processed_position)]

    # ------------------------------------------------------------------ inside

    def _begin_at(self, position: Position) -> None:
        """It begins after `position`, unless it has begun."""
        if not self.has_begun:
            self.has_begun = True
            self.complete_position = self.complete_position.merged(position)
            self.processed_position = self.processed_position.merged(position)

    def _with_effective_liveness(self, events: Sequence[ReceivedEvent]) -> Sequence[ReceivedEvent]:
        """Events up to the cut were published before the subscription was flowing: they are
        recovery events, though the node may have got them, and sent them, as live ones."""
        found = []
        for event in events:
            cut = self._pending_cuts.get(event.place.origin)
            if cut is not None and event.place.mark > cut:
                # Of each origin events come in order.
                del self._pending_cuts[event.place.origin]
            elif cut is not None and event.liveness is Liveness.LIVE:
                event = attrs.evolve(event, liveness=Liveness.RECOVERY)
            found.append(event)
        return found

    def _begin_after_last_n(self, marks: Mapping[str, Mark]) -> list[Item]:
        """The last events come before all that follow the cut: with those they are complete."""
        cut = self._last_n_cut
        if all(mark <= cut.marks.get(origin, _BEFORE_FIRST) for origin, mark in marks.items()):
            return []
        self.has_begun = True
        self.complete_position = self.complete_position.merged(cut)
        return [PositionMoved(cut)]

    def _hold_item(self, item: Item, size: int, marks: Mapping[str, Mark]) -> list[Item]:
        """Hold something back; what has to be given out, since it is too much."""
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
        """Give something to the user; where `marks` are, nothing is missing up to them."""
        if isinstance(item, EventBatch):
            return [self._make_batch(item.events, item.delivery, marks)]
        if isinstance(item, Gap):
            behind = self.complete_position.marks.get(item.first.origin, _BEFORE_FIRST)[1] + 1
            if self.has_begun and (self.is_flowing or item.first.offset <= behind):
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
