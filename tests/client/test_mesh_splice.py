"""The splice of session and mesh: each step, and random schedules with a node and a mesh."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random

import pytest

from broker.client.core import ClientCore
from broker.client.effects import EventBatch, ItemArrived, PositionMoved, Send
from broker.client.mesh_splice import PATIENCE, MeshRange, MeshSplice, SpliceState, SpliceStep
from broker.client.outbox import Outbox
from broker.client.received import ReceivedEvent
from broker.client.subscription_request import SubscriptionRequest
from broker.event.envelope import Header, Liveness, SecurityLevel
from broker.event.event_id import EventId
from broker.event.place import Mark, Place
from broker.log.logged_event import LoggedEvent, encode_header
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.event_batch import encode_delivery, encode_events
from broker.wire.held_flows import HeldBack, Hold
from broker.wire.messages import (
    NO_ERROR,
    Ended,
    Flowing,
    Progress,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from tests.seeds import seeds

PATTERN = "radar.>"
FLOWS = ("n/radar.>", "m/radar.>")
OTHER = "n"


def event_at(flow: str, offset: int) -> ReceivedEvent:
    event_id = EventId(flow.replace("/", "-").replace(".>", ""), 1, offset, 1)
    header = Header(event_id, "s", "t", "1.0", SecurityLevel.MED, Liveness.LIVE)
    return ReceivedEvent(Place(flow, 1, offset), header, Liveness.LIVE, b"<e/>")


def range_of(after: int, upto: int, flow: str = FLOWS[0], size: int = 1) -> MeshRange:
    events = [event_at(flow, offset) for offset in range(after + 1, upto + 1)]
    return MeshRange(flow, (1, after), (1, upto), events, size)


def held_splice(position: dict[str, Mark]) -> MeshSplice:
    splice = MeshSplice([PATTERN], 1_000)
    splice.mesh_joined({})
    assert splice.take_step(position, 0.0, can_hold=True) is SpliceStep.HOLD
    splice.note_held_back({})
    return splice


# ------------------------------------------------------------------ single steps


def test_the_part_of_a_range_behind_the_position_is_taken() -> None:
    splice = MeshSplice([PATTERN], 1_000)
    splice.add_range(range_of(0, 5))
    splice.add_range(range_of(5, 7))
    splice.add_range(range_of(9, 10))
    found = splice.take_contiguous({FLOWS[0]: (1, 3)})
    assert [[each.place.offset for each in one.events] for one in found] == [[4, 5], [6, 7]]
    assert splice.take_contiguous({FLOWS[0]: (1, 7)}) == []
    assert splice.events == 4
    assert [one.upto for one in splice.take_contiguous({FLOWS[0]: (1, 9)})] == [(1, 10)]


def test_the_session_is_held_when_the_mesh_is_even_with_the_position() -> None:
    splice = MeshSplice([PATTERN], 1_000)
    position = {FLOWS[0]: (1, 5)}
    assert splice.take_step(position, 0.0, can_hold=True) is None
    splice.mesh_joined({FLOWS[0]: (1, 6)})
    assert splice.take_step(position, 0.0, can_hold=True) is None
    position = {FLOWS[0]: (1, 6)}
    assert splice.take_step(position, 0.0, can_hold=False) is None
    assert splice.take_step(position, 0.0, can_hold=True) is SpliceStep.HOLD
    # Until the node confirms it, the session brings all.
    assert not splice.ignores(FLOWS[1])
    splice.note_held_back({})
    assert splice.ignores(FLOWS[1]) and not splice.ignores(OTHER)


def test_a_missing_range_and_the_loss_of_the_mesh_restart_the_session() -> None:
    harms: list[Callable[[MeshSplice], object]] = [
        lambda splice: splice.add_range(range_of(7, 8)),
        lambda splice: splice.add_range(range_of(5, 6), has_room=False),
        lambda splice: splice.add_range(range_of(5, 6, size=1_001)),
        lambda splice: splice.mesh_lost(),
    ]
    for harm in harms:
        splice = held_splice({FLOWS[0]: (1, 5)})
        harm(splice)
        assert splice.take_step({FLOWS[0]: (1, 5)}, 1.0, can_hold=True) is SpliceStep.RESTART
        assert splice.ignores(FLOWS[0])
        splice.session_begun()
        assert splice.state is SpliceState.SESSION and not splice.ignores(FLOWS[0])


def test_events_that_the_node_has_held_back_are_missed_after_a_time() -> None:
    position = {FLOWS[0]: (1, 5)}
    splice = held_splice(position)
    splice.note_held_back({FLOWS[0]: (1, 6), FLOWS[1]: (1, 1)})
    assert splice.take_step(position, 1.0, can_hold=True) is None
    assert splice.next_timeout() == 1.0 + PATIENCE
    # Newer events begin no new time.
    splice.note_held_back({FLOWS[0]: (1, 9)})
    position = {FLOWS[0]: (1, 5), FLOWS[1]: (1, 1)}
    assert splice.take_step(position, 3.0, can_hold=True) is None
    assert splice.take_step(position, 1.0 + PATIENCE, can_hold=True) is SpliceStep.RESTART


def test_restarts_in_a_row_wait_longer_before_the_next_hold() -> None:
    splice = held_splice({})
    now, waits = 0.0, []
    for _ in range(9):
        splice.add_range(range_of(5, 6), has_room=False)
        assert splice.take_step({}, now, can_hold=True) is SpliceStep.RESTART
        splice.session_begun()
        began = now
        assert splice.take_step({}, now, can_hold=True) is None
        due = splice.next_timeout()
        assert due is not None
        now = due
        assert splice.take_step({}, now, can_hold=True) is SpliceStep.HOLD
        splice.note_held_back({})
        waits.append(now - began)
    assert waits == [0.5, 1, 2, 4, 8, 16, 32, 60, 60]


# ------------------------------------------------------------------ random schedules


class Node:
    """A node with the logs of all flows, and one session whose messages take their time."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.logs: dict[str, int] = {**dict.fromkeys(FLOWS, 0), OTHER: 0}
        self.to_client: deque[bytes] = deque()
        self.to_node: deque[bytes] = deque()
        self.number = 0
        """Of the subscription; 0: there is none."""
        self.sent: dict[str, int] = {}
        self.held = False
        self.newest: dict[str, int] = {}
        self._previous: tuple[str, int, int] | None = None

    def begin_session(self) -> None:
        self.to_client.clear()
        self.to_node.clear()
        self.number, self.held, self._previous = 0, False, None

    def send(self, message: Message) -> None:
        self.to_client.append(messages.encode(message))

    def receive(self, data: bytes) -> None:
        message = messages.decode(data)
        if isinstance(message, Subscribe):
            self.number, self.held, self.newest = message.number, False, {}
            found = {flow: offset for flow, _, offset in message.position}
            new = message.start == "new"
            self.sent = {f: end if new else found.get(f, 0) for f, end in self.logs.items()}
            self.send(Subscribed(message.number, None, ()))
            cut = tuple((flow, 1, end) for flow, end in sorted(self.logs.items()))
            self.send(Flowing(message.number, cut))
        elif isinstance(message, Unsubscribe):
            assert message.number == self.number
            self.number = 0
            self.send(Ended(message.number, NO_ERROR))
        elif isinstance(message, Hold):
            assert message.patterns == (PATTERN,)
            self.held = True
            self.send(HeldBack(message.number, ()))

    def deliver(self) -> None:
        """Deliver some of the events that the client has not got, if it subscribes."""
        for flow, end in self.logs.items() if self.number else ():
            first = self.sent[flow] + 1
            last = min(end, self.sent[flow] + self.random.randint(1, 5))
            if first > last:
                continue
            self.sent[flow] = last
            if self.held and flow != OTHER:
                self.newest[flow] = last
                continue
            if self.random.random() < 0.2 and flow == OTHER:
                continue  # filtered
            events = [to_logged(event_at(flow, n)) for n in range(first, last + 1)]
            runs = [(len(events), [self.number])]
            data = encode_delivery(encode_events(events), runs, Liveness.LIVE, self._previous)
            self._previous = flow, 1, last
            self.to_client.append(data)

    def tick(self) -> None:
        if self.number and not self.held:
            marks = tuple((flow, 1, n) for flow, n in sorted(self.sent.items()))
            self.send(Progress(((self.number, marks),)))
        if self.number and self.newest:
            newest = tuple((flow, 1, n) for flow, n in sorted(self.newest.items()))
            self.newest = {}
            self.send(HeldBack(self.number, newest))


def to_logged(event: ReceivedEvent) -> LoggedEvent:
    record = encode_header(event.header)
    place = event.place
    return LoggedEvent(1, place.offset, 0, 1, record, b"<e/>", place.origin, place.offset)


class Schedule:
    """A client between a node and a mesh that loses ranges, ends and comes back."""

    def __init__(self, seed: int) -> None:
        self.random = random = Random(seed)
        self.node = Node(random)
        # A third of the clients take events too slowly.
        self.has_room = seed % 3 != 0
        self.core = ClientCore(Outbox(100, 100_000), 100_000 if self.has_room else 2_000)
        self.now = 0.0
        self.got: dict[str, list[int]] = {}
        self.unread: deque[object] = deque()
        self.mesh_sent: dict[str, int] | None = None
        """None: the mesh has no parent."""
        self.apply(self.core.session_up(False, version=messages.HOLD_VERSION))
        self.number, effects = self.core.subscribe(SubscriptionRequest(pattern=">"))
        self.apply(effects)
        self.splice = self.core.meshes.add(self.number, [PATTERN])
        self.is_lossy = True

    def apply(self, effects: Sequence[object]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                self.node.to_node.append(effect.data)
            elif isinstance(effect, ItemArrived):
                self.unread.append(effect.item)

    def read(self) -> None:
        while self.unread:
            item = self.unread.popleft()
            if isinstance(item, EventBatch):
                for event in item.events:
                    self.got.setdefault(event.place.origin, []).append(event.place.offset)
            if isinstance(item, EventBatch | PositionMoved):
                self.apply(self.core.mark_processed(self.number, item, self.now))

    def run_mesh(self) -> None:
        if self.mesh_sent is None:
            return
        for flow in FLOWS:
            after, end = self.mesh_sent[flow], self.node.logs[flow]
            upto = min(end, after + self.random.randint(1, 6))
            if upto == after:
                continue
            self.mesh_sent[flow] = upto
            if self.is_lossy and self.random.random() < 0.05:
                continue
            range_ = range_of(after, upto, flow, size=20 * (upto - after))
            self.apply(self.core.meshes.receive_range(self.number, range_, self.now))

    def step(self) -> None:
        random, node, core = self.random, self.node, self.core
        self.now += random.choice((0.0, 0.01, 0.2))
        chance = random.random()
        if chance < 0.3:
            node.logs[random.choice((*FLOWS, OTHER))] += random.randint(1, 3)
        elif chance < 0.5:
            self.run_mesh()
        elif chance < 0.65:
            node.deliver()
        elif chance < 0.75 and node.to_node:
            node.receive(node.to_node.popleft())
        elif chance < 0.9 and node.to_client:
            self.apply(core.receive_message(node.to_client.popleft(), self.now))
        elif chance < 0.93:
            node.tick()
        elif chance < 0.95:
            self.read()
        elif chance < 0.96 and self.is_lossy:
            self.mesh_sent = None
            self.apply(core.meshes.mesh_lost(self.number, self.now))
        elif chance < 0.98 and self.mesh_sent is None:
            self.join()
        elif chance < 0.985 and self.is_lossy:
            core.session_down()
            node.begin_session()
            self.apply(core.session_up(False, version=messages.HOLD_VERSION))
        self.apply(core.handle_timeout(self.now))

    @property
    def is_even(self) -> bool:
        return all(self.got.get(f, [0])[-1] == self.node.logs[f] for f in FLOWS)

    def join(self) -> None:
        ends = self.node.logs
        self.mesh_sent = {f: max(0, ends[f] - self.random.randint(0, 3)) for f in FLOWS}
        marks = {flow: (1, offset) for flow, offset in self.mesh_sent.items()}
        self.apply(self.core.meshes.mesh_joined(self.number, marks, self.now))

    def settle(self) -> None:
        self.is_lossy = False
        for _ in range(3_000):
            self.step()
            self.now += 0.02
            if self.random.random() < 0.2:
                self.read()
        for _ in range(2_000):
            if self.is_even and self.splice.state is SpliceState.HELD:
                break
            self.run_mesh()
            self.node.deliver()
            self.node.tick()
            while self.node.to_node or self.node.to_client:
                if self.node.to_node:
                    self.node.receive(self.node.to_node.popleft())
                if self.node.to_client:
                    self.apply(self.core.receive_message(self.node.to_client.popleft(), self.now))
            self.now += 0.5
            self.apply(self.core.handle_timeout(self.now))
            self.read()


@pytest.mark.parametrize("seed", seeds(12, 400))
def test_each_event_comes_once_and_in_the_order_of_its_flow(seed: int) -> None:
    schedule = Schedule(seed)
    for _ in range(2_000):
        schedule.step()
    schedule.settle()
    for flow in FLOWS:
        got, end = schedule.got.get(flow, []), schedule.node.logs[flow]
        first = got[0] if got else end + 1
        assert got == list(range(first, end + 1)), flow
        assert first <= 40
    others = schedule.got[OTHER]
    assert others == sorted(set(others))
    assert not schedule.has_room or schedule.splice.events > 100
    # The mesh goes on alone in the end.
    assert schedule.splice.state is SpliceState.HELD
