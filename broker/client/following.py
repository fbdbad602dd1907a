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

from broker.client.effects import Accepted, Item, Left, Moved, Over, Portion, Share
from broker.client.received import Flow, Gap, ReceivedEvent, Start
from broker.client.seen import Seen
from broker.client.wish import Wish
from broker.errors import from_wire
from broker.event.envelope import Liveness
from broker.event.place import Mark, Place, Position
from broker.wire import messages
from broker.wire.codec import WireTimes
from broker.wire.messages import Ended, Flowing, Subscribe, Subscribed

_NOWHERE: Mark = (0, 0)
_START = Position()
#: What a message without events counts for while it is held back, in bytes.
_SMALL = 200


@attrs.define(eq=False)
class Following:
    """What was asked, what the node has said of it, and how far it has got."""

    number: int
    wish: Wish
    most_held: int
    """Bytes that may be held back before `Flowing`. When there are more, they are given out as
    they come: none comes twice, but after a lost session some may come later than their place."""
    left: Left = Left(Position())
    """Where the last process of this client left it, if it knows."""
    solid: Position = Position()
    """Where to go on after the node lost the session. Empty as long as only the start says that."""
    processed: Position = Position()
    acknowledged: Position = Position()
    since_acknowledged: int = 0
    begun: bool = False
    """The solid position says where it goes on; before, only the start does."""
    flowing: bool = False
    """In this session."""
    former: str = ""
    """Address of the node at which it flowed last."""
    duplicates_dropped: int = 0
    _seen: Seen = attrs.field(factory=Seen)
    _held: list[tuple[Item, Mapping[str, Mark]]] = attrs.field(factory=list)
    """What came before `Flowing`; with portions, the newest marks of their origins."""
    _held_bytes: int = 0
    _holds: bool = True
    _counted_from: Position = _START
    """The first cut of one that begins with the last so many: from there they are counted back."""
    _counting: bool = False
    """In this session it is asked for up to there only."""
    _cut: Position = _START
    """The furthest cuts of all sessions. The node of a later one may not know some origin yet."""
    _missed_up_to: dict[str, Mark] = attrs.field(factory=dict)
    """These cuts, of origins of which nothing behind them has come in this session."""

    # ------------------------------------------------------------------ sessions

    def subscribe(self) -> Subscribe:
        """The message that begins it in a session. What is held of a former one is to be dropped
        before."""
        assert not self._held
        self._holds = True
        self.flowing = False
        self._counting = self._counts_again()
        self._missed_up_to = {}
        wish, start = self.wish, self._start()
        return Subscribe(
            number=self.number,
            pattern=wish.pattern,
            query=wish.query,
            namespaces=wish.namespaces,
            durable=wish.durable,
            start=start.kind,
            position=start.position.to_wire(),
            time=start.time_ms,
            former=self.former or self.left.node,
            until_ms=wish.until_ms,
            until=self._until().to_wire(),
            last=start.last,
            pace=wish.pace,
            rate=wish.rate,
            # What has arrived and is not processed has to come again if this process ends.
            processed=self.processed.to_wire() if wish.durable and self.begun else None,
            times=wish.times,
        )

    def _start(self) -> Start:
        start = self.wish.start
        if self.begun and (self.solid.marks or start.kind not in ("all", "time")):
            # The time still holds for origins of which nothing has come.
            return Start("position", position=self.solid, time_ms=start.time_ms)
        if start.kind == "stored":
            return attrs.evolve(start, position=self.left.position)
        return start

    def _until(self) -> Position:
        """Where it ends in this session: the last so many are asked for again up to where they were
        counted from, or newer ones would take their place."""
        return self._counted_from if self._counts_again() else self.wish.until

    def _counts_again(self) -> bool:
        endless = not (self.wish.until.marks or self.wish.until_ms)
        return endless and not self.begun and bool(self._counted_from.marks)

    def goes_on(self, message: Ended) -> list[Item] | None:
        """What comes of an end that is not the user's: the last so many are all there, and it is to
        be asked for once more, from behind them. None where it is over."""
        if message.error[0] or not (self._counting and self._counts_again()):
            return None
        self.begun = True
        self.solid = self.solid.merged(self._counted_from)
        return [*self._give_all(), Moved(self._counted_from)]

    def drop_held(self) -> list[Portion]:
        """What was held back and does not count any more, since it comes again or is not wanted."""
        return [item for item, _ in self._take_held() if isinstance(item, Portion)]

    # ------------------------------------------------------------------ what the node says

    def accepted(self, message: Subscribed) -> list[Item]:
        """The node took it, and told where it had stored a durable one."""
        stored = None if message.position is None else Position.from_wire(message.position)
        if self.wish.start.kind == "stored" and (stored is not None or self.left.position.marks):
            self._begin((stored or Position()).merged(self.left.position))
        return [Accepted(message.warnings, stored)]

    def flows(self, message: Flowing, node: str) -> list[Item]:
        """Nothing is missed after the cut: what was held back is given out."""
        cut = Position.from_wire(message.cut)
        start = self.wish.start
        if start.kind in ("new", "stored"):
            self._begin(cut)
        elif start.kind == "last":
            self._counted_from = self._counted_from if self._counted_from.marks else cut
        else:
            self._begin(start.position)
        self.former = node
        items: list[Item] = [Flow(cut)]
        base = self.solid.marks
        self._cut = self._cut.merged(cut)
        self._missed_up_to = dict(self._cut.marks)
        for item, marks in self._take_held():
            if isinstance(item, Portion):
                item = attrs.evolve(item, events=self._with_liveness(item.events))
            # An origin of which it had got up to the cut lacks nothing of what came since.
            whole = {
                origin: mark
                for origin, mark in marks.items()
                if base.get(origin, _NOWHERE) >= cut.marks.get(origin, _NOWHERE)
            }
            items += self._give(item, whole)
        self.flowing = True
        return items

    def arrives(self, events: Sequence[ReceivedEvent], share: Share) -> list[Item]:
        """Events came for it."""
        newest = {event.place.origin: event.place for event in events}
        marks = {origin: place.mark for origin, place in newest.items()}
        if not self.flowing:
            return self._hold(Portion(events, share), share.size, marks)
        if self._missed_up_to:
            events = self._with_liveness(events)
        begins = [] if self.begun else self._begin_behind_last(marks)
        return [*begins, self._portion(events, share, marks)]

    def progresses(self, position: Position, times: WireTimes = ()) -> list[Item]:
        """Nothing is left to deliver up to this position, nor before these stream times."""
        moved = Moved(position, times)
        return self._give(moved, {}) if self.flowing else self._hold(moved, _SMALL, {})

    def misses(self, message: messages.Gap) -> list[Item]:
        """Events that may have matched are gone."""
        first = Place(message.origin, *message.first)
        last = Place(message.origin, *message.last)
        gap = Gap(first, last, message.count, message.reason)
        return self._give(gap, {}) if self.flowing else self._hold(gap, _SMALL, {})

    def ends(self, message: Ended) -> list[Item]:
        """It is over; what was held back is given out."""
        items = self._give_all()
        error = from_wire(message.error) if message.error[0] else None
        return [*items, Over(error, self.processed)]

    # ------------------------------------------------------------------ inside

    def _begin(self, position: Position) -> None:
        """It begins after `position`, unless it has begun."""
        if not self.begun:
            self.begun = True
            self.solid = self.solid.merged(position)
            self.processed = self.processed.merged(position)

    def _with_liveness(self, events: Sequence[ReceivedEvent]) -> Sequence[ReceivedEvent]:
        """Events up to the cut were published before the subscription was flowing: they are
        recovery events, though the node may have got them, and sent them, as live ones."""
        found = []
        for event in events:
            cut = self._missed_up_to.get(event.place.origin)
            if cut is not None and event.place.mark > cut:
                # Of each origin events come in order.
                del self._missed_up_to[event.place.origin]
            elif cut is not None and event.liveness is Liveness.LIVE:
                event = attrs.evolve(event, liveness=Liveness.RECOVERY)
            found.append(event)
        return found

    def _begin_behind_last(self, marks: Mapping[str, Mark]) -> list[Item]:
        """The last events come before all that follow the cut: with those they are complete."""
        cut = self._counted_from
        if all(mark <= cut.marks.get(origin, _NOWHERE) for origin, mark in marks.items()):
            return []
        self.begun = True
        self.solid = self.solid.merged(cut)
        return [Moved(cut)]

    def _hold(self, item: Item, size: int, marks: Mapping[str, Mark]) -> list[Item]:
        """Hold something back; what has to be given out, since it is too much."""
        self._held.append((item, marks))
        self._held_bytes += size
        self._holds = self._holds and self._held_bytes <= self.most_held
        return [] if self._holds else self._give_all()

    def _give_all(self) -> list[Item]:
        return [given for item, _ in self._take_held() for given in self._give(item, {})]

    def _take_held(self) -> list[tuple[Item, Mapping[str, Mark]]]:
        held, self._held, self._held_bytes = self._held, [], 0
        return held

    def _give(self, item: Item, marks: Mapping[str, Mark]) -> list[Item]:
        """Give something to the user; where `marks` are, nothing is missing up to them."""
        if isinstance(item, Portion):
            return [self._portion(item.events, item.share, marks)]
        if isinstance(item, Gap):
            behind = self.solid.marks.get(item.first.origin, _NOWHERE)[1] + 1
            if self.begun and (self.flowing or item.first.offset <= behind):
                moved = Moved(Position().advanced([item.last]))
                self.solid = self.solid.merged(moved.position)
                return [item, moved]
            return [item]
        if isinstance(item, Moved):
            if not self.begun:
                return []
            self.solid = self.solid.merged(item.position)
        return [item]

    def _portion(
        self, events: Sequence[ReceivedEvent], share: Share, marks: Mapping[str, Mark]
    ) -> Portion:
        position = _START
        if self.begun and marks:
            position = Position(marks)
            self.solid = self.solid.merged(position)
        fresh = self._seen.fresh(events)
        self.duplicates_dropped += len(events) - len(fresh)
        return Portion(fresh, share, position)
