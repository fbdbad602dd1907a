"""Received messages and runs, from their arrival until the node has their events."""

from __future__ import annotations

from collections.abc import Mapping

from broker.event.place import Mark
from broker.streams.contract import FlowBatch
from broker.transport.order import Message, MessageId
from plugins.rcm.held_events import Held, HeldEvents, HeldTable
from plugins.rcm.inbox import Inbox


class ReceivedRuns:
    """The runs of other sites.

    The node may have only a part of a run without a missing event before it, or get events of it
    from a log. Then the run is cut: here, among the held events, and in the inbox.
    """

    def __init__(self, held: HeldTable, inboxes: Mapping[str, Inbox]) -> None:
        self._held = held
        self._inboxes = inboxes
        self._arrived: dict[tuple[str, Mark], MessageId] = {}
        """Ids of messages and runs that the node has not passed back, by their first events."""

    def add_new(self, message: Message, held: Held, now: float) -> list[HeldEvents]:
        """Put the new parts of a message or run into the inbox, and return those with events.

        Other events come from a log, or have come from there.
        """
        added: list[HeldEvents] = []
        inbox = self._inboxes[message.id.site]
        for part in [] if inbox.is_full else inbox.find_new(message):
            waiting = _part_of(held, message, part)
            self._held.add(part.id, waiting)
            if isinstance(waiting, HeldEvents):
                self._arrived[waiting.flow, waiting.mark] = part.id
                added.append(waiting)
            else:
                inbox.add_ready(part.id, now)
            inbox.add_packet(part)
        return added

    def complete(
        self, batch: FlowBatch, index: int, after: Mark, now: float
    ) -> tuple[MessageId | None, int]:
        """Record that the node has the events of the run that begins with an event of a batch.

        `after` is the place before it. Return the id of the run, and the number of its events in
        the batch; None and one event if there is no such run.
        """
        events = batch.events
        id = self._arrived.pop((batch.flow, events[index].mark), None)
        held = None if id is None else self._held.get(id)
        if id is None or not isinstance(held, HeldEvents):
            return None, 1
        count = held.count_equal(events[index : index + len(held)])
        if count < len(held):
            self._cut(id, count)
            held = self._held[id]
            assert isinstance(held, HeldEvents)
        is_last = index + count == len(events)
        held.after, held.origin_node = after, batch.origin_node
        held.upto = batch.upto if is_last else events[index + count - 1].mark
        self._inboxes[id.site].add_ready(id, now)
        return id, count

    def isolate(self, id: MessageId) -> Held | None:
        """Return a message that is held, cut out of its run; None if it is not held."""
        first = self._held.find_run(id)
        if first is None:
            return None
        if id != first:
            self._cut(first, id.number - first.number)
        if len(self._held[id]) > 1:
            self._cut(id, 1)
        held = self._held[id]
        if isinstance(held, HeldEvents):
            self._arrived.pop((held.flow, held.mark), None)
        return held

    def drop(self, message: Message) -> None:
        """Drop a message or run that the order must not get."""
        for _, held in self._held.take(message.id, message.length):
            if isinstance(held, HeldEvents):
                self._arrived.pop((held.flow, held.mark), None)

    def _cut(self, first: MessageId, count: int) -> None:
        """Let the first messages of a run, and the others, wait as two runs."""
        self._held.cut(first, count)
        self._inboxes[first.site].cut_run(first, count)
        rest = self._held[first.after(count)]
        if isinstance(rest, HeldEvents):
            self._arrived[rest.flow, rest.mark] = first.after(count)


def _part_of(held: Held, run: Message, part: Message) -> Held:
    """Return what a site holds of a part of a run."""
    if part.length == run.length or not isinstance(held, HeldEvents):
        return held
    index = part.id.number - run.id.number
    if index:
        _, held = held.cut(index)
    return held if len(held) == part.length else held.cut(part.length)[0]
