"""A member of a network that sends something else than it should.

Its cores are those of every node; an attack changes its messages on their way out. Attacks decode
and encode as nodes do, so that they depend on no bytes of a format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

import attrs
import msgspec

from broker.cluster import messages
from broker.cluster.replicas.messages import REPLICA_EVENTS
from broker.cluster.traffic import frame as frames
from broker.cluster.traffic.frame import Frame, decode_frame, encode_mark_runs
from broker.cluster.traffic.frame_content import PLAIN
from broker.cluster.traffic.messages import RoutedMessage
from broker.event.flow import origin_of
from broker.event.record import proof_of, split_record, with_proof
from broker.order_certificates.signing_key import SigningKey
from broker.recovery.messages import PageFetched, pack_events, unpack_events
from broker.signatures.batch_signer import BatchSigner
from broker.signatures.node_key import load_node_key
from broker.streams.contract import CarriedEvent
from broker.testing.simulated_network import NetworkWorld
from broker.transport.message import Outcome
from tests.signatures.placed_event import PlacedEvent

FRAME = bytes([frames.KIND])
#: Earlier messages that may be sent again.
MOST_RECORDED = 200


def change_document(document: bytes) -> bytes:
    return document.replace(b"<id>F<", b"<id>X<")


@attrs.define
class Attack:
    """Changes of the messages of one node; this one makes none."""

    random: Random
    key: SigningKey = attrs.field(factory=SigningKey.generate)
    """Of the adversary."""
    count: int = 0
    """Changes made."""

    def alter_events(self, origin: str, events: Sequence[CarriedEvent]) -> Sequence[CarriedEvent]:
        """Return the events of another node's log that are sent in place of these."""
        return events

    def sign_second(self, origin: str, events: Sequence[CarriedEvent]) -> Sequence[CarriedEvent]:
        """Return events that go over other neighbours, for the places of own ones."""
        return ()

    def alter_sending(self, data: bytes, is_event: bool) -> Sequence[bytes]:
        """Return the messages that are sent in place of one. `is_event`: it has events of other
        nodes."""
        return [data]


class WrongSignatures(Attack):
    """Sends events that their origin has not signed."""

    def alter_events(self, origin: str, events: Sequence[CarriedEvent]) -> Sequence[CarriedEvent]:
        return [self._forge(origin, each, self.random.choice(events)) for each in events]

    def _forge(self, origin: str, event: CarriedEvent, other: CarriedEvent) -> CarriedEvent:
        kind = self.random.randrange(5)
        if kind == 0:
            return event
        self.count += 1
        forged = event._replace(document=change_document(event.document))
        if kind == 1:
            return forged
        if kind == 2:
            return forged._replace(record=with_proof(event.record, b""))
        if kind == 3:
            return forged._replace(record=with_proof(event.record, proof_of(other.record)))
        return sign(self.key, origin, forged)


@attrs.define
class Replays(Attack):
    """Sends earlier messages again, and earlier events under later places."""

    recorded: list[bytes] = attrs.field(factory=list)
    events: list[CarriedEvent] = attrs.field(factory=list)

    def alter_events(self, origin: str, events: Sequence[CarriedEvent]) -> Sequence[CarriedEvent]:
        sent = []
        for event in events:
            self.events = [*self.events[-MOST_RECORDED:], event]
            earlier = self.random.choice(self.events)
            if self.random.random() < 0.3 and earlier is not event:
                self.count += 1
                event = earlier._replace(mark=event.mark)
            sent.append(event)
        return sent

    def alter_sending(self, data: bytes, is_event: bool) -> Sequence[bytes]:
        self.recorded = [*self.recorded[-MOST_RECORDED:], data]
        self.count += 1
        return [data, *self.random.choices(self.recorded, k=2)]


class Drops(Attack):
    """Drops messages with events of other nodes."""

    def alter_sending(self, data: bytes, is_event: bool) -> Sequence[bytes]:
        if not is_event or self.random.random() < 0.3:
            return [data]
        self.count += 1
        return []


class Silence(Attack):
    """Drops all frames and messages about the events of other nodes, and no control messages."""

    def alter_sending(self, data: bytes, is_event: bool) -> Sequence[bytes]:
        decoded = None if data[:1] == FRAME else messages.decode(data)
        if isinstance(decoded, messages.Message) and not isinstance(decoded, RoutedMessage):
            return [data]
        self.count += 1
        return []


class Omissions(Attack):
    """Removes events of other nodes from their ranges."""

    def alter_events(self, origin: str, events: Sequence[CarriedEvent]) -> Sequence[CarriedEvent]:
        sent = [each for each in events if self.random.random() < 0.5]
        self.count += len(events) - len(sent)
        return sent


class SecondEvents(Attack):
    """Signs a second event for each place of its own log."""

    def sign_second(self, origin: str, events: Sequence[CarriedEvent]) -> Sequence[CarriedEvent]:
        self.count += len(events)
        return [
            sign(self.key, origin, each._replace(document=change_document(each.document)))
            for each in events
        ]


def sign(key: SigningKey, origin: str, event: CarriedEvent) -> CarriedEvent:
    plain, _, _ = split_record(event.record)
    (proof,) = BatchSigner(key, origin).sign([PlacedEvent.of(event.mark, plain, event.document)])
    return event._replace(record=with_proof(event.record, proof))


def with_events(frame: Frame, events: Sequence[CarriedEvent]) -> Frame:
    """Return a frame with other events at its places, some of which may be absent."""
    places = {each.mark: each for each in events}
    kept = [index for index, mark in enumerate(frame.marks()) if mark in places]
    frame = frame.uncompressed().with_only_events(kept)
    chosen = [places[mark] for mark in frame.marks()]
    return attrs.evolve(
        frame,
        encoding=PLAIN,
        mark_runs=encode_mark_runs([each.mark for each in chosen]),
        record_lengths=[len(each.record) for each in chosen],
        document_lengths=[len(each.document) for each in chosen],
        records=b"".join([each.record for each in chosen]),
        body=b"".join([each.document for each in chosen]),
    )


class Adversary:
    """A node whose messages to its neighbours an attack changes, while `is_active`."""

    def __init__(self, world: NetworkWorld, name: str, attack: Attack) -> None:
        self.attack = attack
        self.is_active = True
        self._origin = world[name].event_log.origin
        neighbours: Any = world.network_of(name).neighbours
        attack.key = load_node_key(world[name].settings.node.data)
        self._wrap_sending(neighbours)

    def _wrap_sending(self, neighbours: Any) -> None:
        send: Callable[..., Any] = neighbours.send

        def send_altered(message: bytes, names: Iterable[str], **named: Any) -> Any:
            outcomes: dict[str, Any] = {}
            for name in names:
                # It counts as sent, also if nothing is.
                outcomes[name] = Outcome.SENT
                for each in self._alter(message):
                    outcomes.update(send(each, (name,), **named))
                for each in self._second_frames(message):
                    others = [other.name for other in neighbours if other.name != name]
                    send(each, others, **named)
            return outcomes

        neighbours.send = send_altered

    def _second_frames(self, message: bytes) -> Sequence[bytes]:
        if message[:1] != FRAME or not self.is_active:
            return []
        frame = decode_frame(message)
        if origin_of(frame.origin) != self._origin:
            return []
        events = self.attack.sign_second(self._origin, frame.events_at(range(frame.event_count)))
        return [with_events(frame, events).encode()] if events else []

    def _alter(self, message: bytes) -> Sequence[bytes]:
        if not self.is_active:
            return [message]
        is_event = False
        kind = message[:1]
        if kind == FRAME:
            frame = decode_frame(message)
            events = frame.events_at(range(frame.event_count))
            if events:
                is_event = origin_of(frame.origin) != self._origin
                message = with_events(frame, self._alter_events(frame.origin, events)).encode()
        elif kind != bytes([REPLICA_EVENTS]):
            decoded = messages.decode(message)
            if isinstance(decoded, PageFetched) and decoded.chunks:
                is_event = True
                message = messages.encode(self._alter_page(decoded))
        return self.attack.alter_sending(message, is_event)

    def _alter_events(self, flow: str, events: Sequence[CarriedEvent]) -> Sequence[CarriedEvent]:
        origin = origin_of(flow)
        return events if origin == self._origin else self.attack.alter_events(origin, events)

    def _alter_page(self, page: PageFetched) -> PageFetched:
        sent = []
        for event in unpack_events(page.chunks):
            carried = CarriedEvent(event.mark, event.record, event.document, event.level)
            for each in self._alter_events(event.origin, [carried]):
                sent.append(attrs.evolve(event, record=each.record, document=each.document))
        return msgspec.structs.replace(page, chunks=pack_events(sent))
