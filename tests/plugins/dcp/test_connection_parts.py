"""Large events over a connection: parts that come slowly, and ranges without room."""

from __future__ import annotations

from random import Random

from broker.transport.arq.settings import constant_rate
from plugins.dcp.connection import Connection
from plugins.dcp.packet import ACK, KEEPALIVE, NACK, RETX, Packet
from plugins.dcp.parts import MOST_RANGE_BYTES
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import DESCRIPTION, KEY, Pipe, make_range, read

#: Bytes of an event that needs 4 s at the slow pace.
LARGE = 60_000
SLOW = DcpSettings(pacing=constant_rate(10_000.0, 1_400))


def make_known_pipe(settings: DcpSettings | None = None) -> Pipe:
    """Return a pipe with a sequence that the child knows, up to AN 5."""
    pipe = Pipe(settings)
    pipe.open_sequence()
    pipe.append(make_range(0, 5, 3))
    pipe.run(1.0)
    return pipe


def nacks_of(pipe: Pipe) -> list[Packet]:
    packets = [read(data) for receiver, data in pipe.carried if receiver is pipe.parent]
    return [each for each in packets if each.flags & NACK]


def test_a_range_in_parts_is_not_requested_while_they_wait() -> None:
    pipe = make_known_pipe(SLOW)
    pipe.append(make_range(5, 9, 7, document=Random(1).randbytes(LARGE)))
    pipe.run(3.0)
    assert pipe.child_owner.ans == [3] and pipe.sequence.sender.sent_upto == 9
    pipe.run(3.0)
    assert pipe.child_owner.ans == [3, 7]
    assert nacks_of(pipe) == [] and pipe.parent.buffer.repaired == 0


def test_a_range_is_awaited_for_as_long_as_its_parts_come() -> None:
    pipe = make_known_pipe(SLOW)
    pipe.append(make_range(5, 9, 7, document=Random(1).randbytes(LARGE)))
    # Another parent, which the child has lost since, has brought the next range.
    pipe.child_owner.range_received(
        pipe.child, DESCRIPTION, make_range(9, 12, 11), pipe.now, is_repeated=False
    )
    pipe.run(3.0)
    receiver = pipe.child_owner.receivers[KEY]
    # The patience is 2 s.
    assert receiver.is_incomplete and receiver.passed == 0
    pipe.run(10.0)
    assert pipe.child_owner.ans == [3, 7, 11] and receiver.passed == 0


def test_the_last_part_is_requested_after_it_is_lost() -> None:
    pipe = make_known_pipe()
    sent: list[Packet] = []

    def drop_last(source: Connection, packet: Packet) -> bool:
        if source is not pipe.parent or packet.flags & (ACK | KEEPALIVE):
            return False
        sent.append(packet)
        # It is shorter than the others, and lost twice.
        return len(packet.body) < len(sent[0].body) and len(sent) < 50

    pipe.drops = drop_last
    document = Random(1).randbytes(LARGE)
    pipe.append(make_range(5, 9, 7, document=document))
    pipe.run(5.0)
    assert pipe.child_owner.events[-1].document == document
    repeated = [packet for packet in sent if packet.flags & RETX]
    assert repeated and {packet.body for packet in repeated} == {sent[44].body}


def test_an_event_above_the_most_bytes_is_stated_and_the_next_one_comes() -> None:
    pipe = make_known_pipe()
    pipe.append(make_range(5, 9, 7, document=bytes(MOST_RANGE_BYTES)))
    pipe.append(make_range(9, 12, 11))
    pipe.run(1.0)
    assert pipe.child_owner.ans == [3, 11] and pipe.child_owner.unavailable == [(KEY, 5, 9)]
    assert pipe.parent.buffer.dropped_bytes > MOST_RANGE_BYTES
    assert pipe.sequence.sender.is_acknowledged
