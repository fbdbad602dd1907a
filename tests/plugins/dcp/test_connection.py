"""Two ends of a connection, joined by a lossy pipe in virtual time."""

from __future__ import annotations

from random import Random

import pytest
from pytest import approx

from broker.transport.arq.settings import constant_rate
from plugins.dcp.connection import Connection
from plugins.dcp.control import ControlMessage, Interest, Join, Leaving, ParentState
from plugins.dcp.event_range import Description
from plugins.dcp.feedback import decode_ends
from plugins.dcp.nack_timer import NackSettings
from plugins.dcp.packet import ACK, KEEPALIVE, NACK, RETX, SYN, Packet
from plugins.dcp.receiver import ReceiverSettings
from plugins.dcp.router_snapshot import describe_connection
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import DESCRIPTION, KEY, Pipe, make_range, read

#: No range is left to the log.
PATIENT = ReceiverSettings(nack=NackSettings(patience=1e6))
SMALL = DcpSettings(mtu=300, receiver=PATIENT)


def make_messages(random: Random, count: int) -> list[ControlMessage]:
    """Return messages, some of which need several packets."""
    found: list[ControlMessage] = []
    for number in range(count):
        query = "ops.>", "x" * random.choice([1, 300, 5_000]), ()
        kinds: list[ControlMessage] = [
            *(Join(f"n{number}", 3), Interest(number, (query,))),
            *(ParentState(2, number, ("n1", "n2")), Leaving()),
        ]
        found.append(random.choice(kinds))
    return found


def make_document(size: int) -> bytes:
    return Random(size).randbytes(size)


# ------------------------------------------------------------------ control messages


@pytest.mark.parametrize("seed", range(10))
def test_control_messages_come_in_order_through_loss(seed: int) -> None:
    pipe, random = Pipe(SMALL, seed=seed, loss=0.3, jitter=0.02), Random(seed)
    sent = [make_messages(random, 60) for _ in range(2)]
    for pair in zip(*sent, strict=True):
        for connection, message in zip((pipe.parent, pipe.child), pair, strict=True):
            connection.send_control(message)
        pipe.run(random.choice([0.0, 0.01, 0.2]))
    pipe.run(10.0)
    assert [pipe.child_owner.messages, pipe.parent_owner.messages] == sent
    assert pipe.child.buffer.control.is_acknowledged and pipe.parent.buffer.control.is_acknowledged
    assert pipe.child.error == pipe.parent.error == ""


def test_a_lost_message_comes_without_a_later_one() -> None:
    pipe = Pipe()
    pipe.run(60.0)
    lost: list[Packet] = []

    def drop_first(source: Connection, packet: Packet) -> bool:
        if lost or source is not pipe.child or packet.flags & (ACK | KEEPALIVE):
            return False
        lost.append(packet)
        return True

    pipe.drops = drop_first
    pipe.child.send_control(Leaving())
    pipe.run(0.3)
    assert lost and pipe.parent_owner.messages == [Leaving()]


def test_both_ends_measure_round_trips_and_loss() -> None:
    pipe = Pipe(seed=1, loss=0.3, delay=0.05)
    for _ in range(400):
        pipe.child.send_control(Leaving())
        pipe.parent.send_control(Leaving())
        pipe.run(0.05)
    for connection in (pipe.child, pipe.parent):
        assert connection.path.round_trip.smoothed == approx(0.1)
        assert 0.2 < connection.liveness.loss < 0.4


# ------------------------------------------------------------------ events


@pytest.mark.parametrize("seed", range(10))
def test_events_come_in_order_through_loss(seed: int) -> None:
    pipe, random = Pipe(SMALL, seed=seed, loss=0.3, jitter=0.02), Random(seed)
    pipe.open_sequence()
    ans, an = [], 0
    for _ in range(100):
        previous, an = an, an + random.randint(1, 4)
        pipe.append(make_range(previous, an, an, document=make_document(random.randint(1, 900))))
        ans.append(an)
        pipe.run(random.choice([0.0, 0.01, 0.1]))
    pipe.run(30.0)
    assert pipe.child_owner.ans == ans
    assert [start.description for start in pipe.child_owner.opened] == [DESCRIPTION]
    assert pipe.sequence.sender.is_acknowledged and pipe.sequence.sender.kept_count == 0
    assert pipe.parent.buffer.repaired > 0 and pipe.child_owner.receivers[KEY].passed == 0


@pytest.mark.parametrize("loss", [0.0, 0.3])
@pytest.mark.parametrize("seed", range(5))
def test_a_large_event_in_parts_comes(seed: int, loss: float) -> None:
    pipe = Pipe(SMALL, seed=seed, loss=loss, jitter=0.01)
    pipe.open_sequence()
    document = make_document(60_000)
    pipe.append(make_range(0, 5, 3, document=document))
    pipe.append(make_range(5, 9, 7))
    pipe.run(20.0)
    assert [event.document for event in pipe.child_owner.events] == [document, b"<e/>"]
    assert (pipe.parent.buffer.repaired > 0) == (loss > 0)
    assert all(len(data) <= SMALL.mtu for _, data in pipe.carried)


def test_only_missing_parts_are_sent_again() -> None:
    pipe = Pipe(SMALL)
    pipe.open_sequence()
    pipe.append(make_range(0, 5, 3))
    pipe.run(1.0)
    sent: list[Packet] = []

    def drop_tenth(source: Connection, packet: Packet) -> bool:
        if source is not pipe.parent or packet.flags & (ACK | KEEPALIVE):
            return False
        sent.append(packet)
        return len(sent) == 10

    pipe.drops = drop_tenth
    document = make_document(5_000)
    pipe.append(make_range(5, 9, 7, document=document))
    pipe.run(2.0)
    assert pipe.child_owner.events[-1].document == document
    assert [packet.body for packet in sent if packet.flags & RETX] == [sent[9].body]


def test_sequences_of_one_connection_take_turns() -> None:
    settings = DcpSettings(pacing=constant_rate(20_000.0, 1_400))
    pipe = Pipe(settings)
    second = Description("0b/ops.>", 4, "n2")
    pipe.open_sequence()
    pipe.open_sequence(70, second)
    other = pipe.parent.buffer.find(second.key)
    assert other is not None
    for an in range(20):
        pipe.append(make_range(an, an + 1, an + 1, document=bytes(1_000)))
        pipe.parent.buffer.append(other, make_range(70 + an, 71 + an, 71 + an))
    pipe.run(1.0)
    assert set(range(71, 91)) <= set(pipe.child_owner.ans)
    pipe.run(2.0)
    assert sorted(pipe.child_owner.ans) == [*range(1, 21), *range(71, 91)]


# ------------------------------------------------------------------ unavailable ranges


def test_an_unavailable_range_describes_its_unknown_sequence() -> None:
    pipe = Pipe()
    pipe.open_sequence()
    pipe.parent.buffer.pass_missing(pipe.sequence, 10)
    pipe.run(0.1)
    assert [start.description for start in pipe.child_owner.opened] == [DESCRIPTION]
    # The first keep-alive repeats it, since it is not acknowledged yet.
    assert set(pipe.child_owner.unavailable) == {(KEY, 0, 10)}
    assert pipe.child_owner.current_of(KEY) == 10 and pipe.child.malformed == 0
    packets = [read(data) for receiver, data in pipe.carried if receiver is pipe.child]
    assert {each.flags & SYN for each in packets if each.flags & NACK} == {SYN}
    assert pipe.sequence.is_known
    answers = [read(data) for receiver, data in pipe.carried if receiver is pipe.parent]
    assert [decode_ends(each.body) for each in answers if each.sequence == 1] == [[(1, 10)]] * 2


def test_an_unavailable_range_of_a_known_sequence_needs_no_description() -> None:
    pipe = Pipe()
    pipe.open_sequence()
    pipe.append(make_range(0, 5, 3))
    pipe.run(0.1)
    pipe.parent.buffer.pass_missing(pipe.sequence, 10)
    pipe.append(make_range(10, 12, 11))
    pipe.run(0.1)
    assert pipe.child_owner.unavailable == [(KEY, 5, 10)] and pipe.child_owner.ans == [3, 11]
    packets = [read(data) for receiver, data in pipe.carried if receiver is pipe.child]
    assert [(each.flags & SYN, each.body) for each in packets if each.flags & NACK] == [(0, b"")]


# ------------------------------------------------------------------ lost first packets


def drop_data(pipe: Pipe, count: int) -> list[Packet]:
    """Let the pipe lose the first packets of sequences, and return them as they come."""
    lost: list[Packet] = []

    def drop(source: Connection, packet: Packet) -> bool:
        if len(lost) == count or not packet.sequence or packet.flags & (ACK | KEEPALIVE):
            return False
        lost.append(packet)
        return True

    pipe.drops = drop
    return lost


@pytest.mark.parametrize("count", [1, 3])
def test_the_only_packet_of_a_sequence_comes_although_it_is_lost(count: int) -> None:
    pipe = Pipe()
    pipe.run(20.0)
    pipe.open_sequence()
    lost = drop_data(pipe, count)
    pipe.append(make_range(0, 5, 3))
    # Keep-alives come each 5 s by now.
    pipe.run(5.0 * count + 0.1)
    assert len(lost) == count and pipe.child_owner.ans == [3] and pipe.sequence.is_known
    sent = pipe.parent.buffer.repaired
    pipe.run(60.0)
    assert pipe.parent.buffer.repaired == sent == count


def test_a_lone_unavailable_range_comes_although_it_is_lost() -> None:
    pipe = Pipe()
    pipe.open_sequence()
    lost = drop_data(pipe, 3)
    pipe.parent.buffer.pass_missing(pipe.sequence, 10)
    pipe.run(3.0)
    assert len(lost) == 3 and all(each.flags & NACK for each in lost)
    assert pipe.child_owner.current_of(KEY) == 10 and pipe.sequence.is_known
    assert pipe.parent.buffer.unacknowledged_ends() == []
    count = len(pipe.child_owner.unavailable)
    pipe.run(60.0)
    assert len(pipe.child_owner.unavailable) == count


# ------------------------------------------------------------------ acknowledgements ahead


def make_slow_pipe() -> Pipe:
    """Return a pipe with 100 events for a child, of which the first 16 were sent."""
    pipe = Pipe(DcpSettings(pacing=constant_rate(10_000.0, 1_400)))
    pipe.open_sequence()
    for an in range(100):
        pipe.append(make_range(an, an + 1, an + 1, document=bytes(1_000)))
    pipe.run(0.1)
    assert 10 <= len(pipe.child_owner.ans) < 30
    return pipe


def bring_otherwise(pipe: Pipe, upto: int) -> None:
    """Let the child have events from another parent."""
    receiver = pipe.child_owner.receivers[KEY]
    assert receiver.current is not None
    ans = range(receiver.current + 1, upto + 1)
    pipe.child_owner.range_received(
        *(pipe.child, DESCRIPTION, make_range(receiver.current, upto, *ans), pipe.now),
        is_repeated=False,
    )


def test_an_acknowledgement_ahead_lets_a_lagging_parent_skip() -> None:
    pipe = make_slow_pipe()
    bring_otherwise(pipe, 80)
    pipe.child.path.skew.add_sample(0.5)
    pipe.child.acknowledge_ahead(KEY, pipe.now)
    pipe.run(3.0)
    assert pipe.child_owner.ans == list(range(1, 101))
    assert describe_connection(pipe.parent)["skipped_bytes"] == pipe.sequence.sender.skipped_bytes
    assert pipe.sequence.sender.skipped_bytes > 50_000
    packets = [read(data) for receiver, data in pipe.carried if receiver is pipe.child]
    assert sum(each.sequence == 1 for each in packets) < 50


def test_a_parent_in_time_gets_no_acknowledgement_ahead() -> None:
    pipe = make_slow_pipe()
    sent = pipe.child.writer.sent
    pipe.child.acknowledge_ahead(KEY, pipe.now)
    pipe.child.path.skew.add_sample(0.01)
    pipe.child.acknowledge_ahead(KEY, pipe.now)
    assert pipe.child.writer.sent == sent


def test_acknowledgements_ahead_are_limited() -> None:
    pipe = make_slow_pipe()
    pipe.child.path.skew.add_sample(0.5)
    sent = pipe.child.writer.sent
    for step in range(1_000):
        pipe.child.acknowledge_ahead(KEY, pipe.now + step / 10_000)
    assert 8 <= pipe.child.writer.sent - sent <= 10
