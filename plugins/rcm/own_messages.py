"""Messages of a site on their way to the others: events by their commits, and others."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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

#: Of a payload: two runs fit into one message of a link. A single event may be larger.
MOST_RUN_BYTES = MOST_MESSAGE_BYTES // 2
#: About the bytes of an event in a payload, beside record and document.
EVENT_BYTES = 32
#: Messages that are sent together; the order has a bound.
MOST_RELEASED = 1_000


class _Stamped(NamedTuple):
    """Own events that are being committed, with numbers and stamps that follow each other."""

    number: int
    time: int
    """Of the first stamp; 0 if that is not known."""
    marks: list[Mark]

    def ends_before(self, number: int, time: int) -> bool:
        """Return whether another event follows at once."""
        count = len(self.marks)
        return (self.number + count, self.time + count) == (number, time)

    def cut(self, count: int) -> tuple[_Stamped, _Stamped]:
        """Return the first events, and the others."""
        number, time, marks = self
        first = _Stamped(number, time, marks[:count])
        return first, _Stamped(number + count, time + count, marks[count:])


def _first_mark(stamped: _Stamped) -> Mark:
    return stamped.marks[0]


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
        self._stamped: list[_Stamped] = []
        """By their places."""
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
        time = 0 if stamp is None else stamp.time
        marks = [event.mark for event in events]
        newest = self._stamped[-1] if self._stamped else None
        if not self._core.has_runs:
            self._stamped += [
                _Stamped(number + index, 0, [mark]) for index, mark in enumerate(marks)
            ]
        elif newest is not None and newest.ends_before(number, time):
            newest.marks.extend(marks)
        else:
            self._stamped.append(_Stamped(number, time, marks))
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
        events, after, begin = batch.events, batch.after, 0
        while begin < len(events):
            stamped = self._take_stamped(events, begin)
            end = begin + (len(stamped.marks) if stamped else 1)
            upto = batch.upto if end == len(events) else events[end - 1].mark
            if stamped is not None:
                run = list(events[begin:end])
                held = HeldEvents(batch.flow, batch.origin_node, after, upto, run, has_entry=True)
                payload = encode_payload(held.to_payload())
                self._committed[stamped.number] = held, payload
            after, begin = upto, end
        return self._release(at)

    def _take_stamped(self, events: Sequence[CarriedEvent], begin: int) -> _Stamped | None:
        """Remove and return what makes a run of committed events, from one of them on; None if that
        has no stamp."""
        mark = events[begin].mark
        place = bisect_right(self._stamped, mark, key=_first_mark) - 1
        if place < 0:
            return None
        stamped = self._stamped[place]
        index = bisect_left(stamped.marks, mark)
        if stamped.marks[index : index + 1] != [mark]:
            return None
        before, stamped = stamped.cut(index)
        count = size = 0
        for event, other in zip(events[begin : begin + MOST_EVENTS], stamped.marks, strict=False):
            size += len(event.document) + len(event.record) + EVENT_BYTES
            if event.mark != other or (count and size > MOST_RUN_BYTES):
                break
            count += 1
        taken, rest = stamped.cut(count)
        self._stamped[place : place + 1] = [each for each in (before, rest) if each.marks]
        return taken

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
