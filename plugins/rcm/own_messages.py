"""Messages of a site on their way to the others: events by their commits, and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from broker.event.place import Mark
from broker.streams.contract import CarriedEvent, FlowBatch
from broker.transport.message import Message as TransportMessage
from broker.transport.order import Instant, IOrderCore, MessageId
from plugins.rcm.addressing import MOST_MESSAGE_BYTES, send_addressed
from plugins.rcm.conversion import Conversion
from plugins.rcm.effects import GroupEffect
from plugins.rcm.entries import Entries
from plugins.rcm.held_events import Held, HeldEvents, HeldMessage
from plugins.rcm.losses import Losses
from plugins.rcm.payload import MOST_EVENTS, Channel, ChannelMessage, encode_payload

#: Messages that are sent together; the order has a bound.
MOST_RELEASED = 1_000


class _Stamped(NamedTuple):
    """An own event that is being committed."""

    number: int
    time: int
    """Of its stamp; 0 if it has none."""
    record: bytes
    """Without the entry."""


class OwnMessages:
    """Messages of this site: the events of a commit are runs, of one flow each.

    A run ends where another message or flow stands between two events.
    """

    def __init__(
        self,
        site: str,
        incarnation: int,
        core: IOrderCore,
        entries: Entries,
        losses: Losses,
        conversion: Conversion,
    ) -> None:
        self._site = site
        self._incarnation = incarnation
        self._core = core
        self._entries = entries
        self._losses = losses
        self._conversion = conversion
        self._stamped: dict[Mark, _Stamped] = {}
        self._committed: dict[int, tuple[Held, bytes]] = {}
        """Own messages and payloads by number, behind events that are being committed."""
        self._released = 0
        """Number of the last released message."""
        self._sends_messages = False
        """True if some are no events."""

    def stamp(self, events: Sequence[CarriedEvent], at: Instant) -> list[bytes]:
        """Return the entries of own events, before their commit."""
        if not events:
            return []
        number, stamp, count = self._core.stamp(len(events), at)
        first = 0 if stamp is None else stamp.time
        for index, event in enumerate(events):
            self._stamped[event.mark] = _Stamped(number + index, first + index, event.record)
        id = MessageId(self._site, self._incarnation, number)
        return self._entries.encode(id, stamp, self._entries.bound_of(self._site), count)

    def revoke(self, at: Instant) -> list[GroupEffect]:
        """Drop the stamps of events whose commit has failed."""
        self._stamped.clear()
        waiting = [held for _, (held, _) in sorted(self._committed.items())]
        self._committed.clear()
        effects = self._conversion.convert(self._core.revoke(at))
        for held in waiting:
            if isinstance(held, HeldMessage):
                # It was stamped behind the events.
                effects += self.send_copies(held.channel, held.data, held.copies, at)
        return effects

    def publish(self, batch: FlowBatch, at: Instant) -> list[GroupEffect]:
        """Send committed own events."""
        run: list[CarriedEvent] = []
        stamped: list[_Stamped] = []
        begin = after = batch.after
        size = 0
        for event in batch.events:
            found = self._stamped.pop(event.mark, None)
            if run and not (found and self._may_follow(found, stamped, size)):
                self._add_run(batch, begin, after, run, stamped)
                run, stamped, size = [], [], 0
            if not run:
                begin = after
            if found is not None:
                run.append(event)
                stamped.append(found)
                size += len(event.document) + len(found.record)
            after = event.mark
        if run:
            self._add_run(batch, begin, batch.upto, run, stamped)
        return self._release(at)

    def _may_follow(self, next: _Stamped, stamped: Sequence[_Stamped], size: int) -> bool:
        """Return whether an event continues a run of this size in bytes."""
        last = stamped[-1]
        is_next = next.number == last.number + 1 and next.time == last.time + 1
        is_small = size < MOST_MESSAGE_BYTES // 2 and len(stamped) < MOST_EVENTS
        return self._core.has_runs and is_next and is_small

    def _add_run(
        self,
        batch: FlowBatch,
        after: Mark,
        upto: Mark,
        events: list[CarriedEvent],
        stamped: Sequence[_Stamped],
    ) -> None:
        held = HeldEvents(batch.flow, batch.origin_node, after, upto, events, has_entry=True)
        payload = held.to_payload([each.record for each in stamped])
        self._committed[stamped[0].number] = held, encode_payload(payload)

    def send(self, channel: Channel, data: bytes, at: Instant) -> list[GroupEffect]:
        """Send a message that is no event to all sites."""
        return self.send_copies(channel, data, None, at)

    def send_copies(
        self, channel: Channel, data: bytes, copies: Sequence[TransportMessage] | None, at: Instant
    ) -> list[GroupEffect]:
        """Send a message that is no event, behind the events that are being committed.

        This site gets the data, and others the copies that are for them, or only the place; all get
        the data without copies. It is in no log: sites that lose it are told that it is missing.
        """
        number = self._core.stamp(1, at).number
        self._sends_messages = True
        held = HeldMessage(channel, data, copies=copies)
        self._committed[number] = held, encode_payload(ChannelMessage(channel, data))
        return self._release(at)

    def _release(self, at: Instant) -> list[GroupEffect]:
        """Send the messages before which none is being committed."""
        payloads: list[bytes] = []
        released: list[Held] = []
        conversion = self._conversion
        while (committed := self._committed.pop(self._released + 1, None)) is not None:
            held, payload = committed
            id = MessageId(self._site, self._incarnation, self._released + 1)
            conversion.held.add(id, held)
            self._released += len(held)
            payloads.append(payload)
            released.append(held)
            mark = held.events[-1].mark if isinstance(held, HeldEvents) else None
            self._losses.record_released(self._incarnation, self._released, mark)
        effects: list[GroupEffect] = []
        for first in range(0, len(payloads), MOST_RELEASED):
            part = slice(first, first + MOST_RELEASED)
            found = self._core.release(payloads[part], at, [*map(len, released[part])])
            if self._sends_messages:
                codec, others = conversion.codec, conversion.others
                sends = send_addressed(found.pop(0), released[part], others, codec)
                effects += conversion.announce_names(sends)
            effects += conversion.convert(found)
        return effects
