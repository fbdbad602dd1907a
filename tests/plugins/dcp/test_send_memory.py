"""Send buffers of a mesh within the memory of all queues of their node."""

from __future__ import annotations

from typing import Final

from broker.queue_memory import HeldBytes, QueueMemory
from broker.streams.queue_policy import DROP_OLDEST
from plugins.dcp.event_range import ENTRY
from plugins.dcp.packet import NACK
from plugins.dcp.settings import DcpSettings
from tests.plugins.dcp.connection_pipe import make_range
from tests.plugins.dcp.sending_buffer import MTU, Sending

#: Bytes of an event in a buffer.
EVENT: Final = 101
DOCUMENT: Final = bytes(83)


def make_sending(memory: QueueMemory) -> Sending:
    return Sending(DcpSettings(mtu=MTU, memory=memory))


def send(sending: Sending, first: int, last: int) -> None:
    for an in range(first, last + 1):
        sending.send(make_range(an - 1, an, an, document=DOCUMENT))


def test_unacknowledged_events_count_until_they_are_acknowledged() -> None:
    memory = QueueMemory(100_000)
    one, other = make_sending(memory), make_sending(memory)
    send(one, 1, 10)
    send(other, 1, 5)
    assert (memory.used, memory.holders) == (15 * EVENT, 2)
    one.core.acknowledge(1, 8)
    one.flush()
    assert memory.used == 7 * EVENT
    other.core.held.close()
    one.core.acknowledge(1, 10)
    one.flush()
    assert (memory.used, memory.holders) == (0, 0)


def test_many_children_that_acknowledge_nothing_stay_within_the_bound() -> None:
    memory = QueueMemory(20_000)
    children = [make_sending(memory) for _ in range(10)]
    for an in range(1, 101):
        for each in children:
            send(each, an, an)
            assert memory.used <= 20_000
    # They share the half, rather than to have 4 MiB each.
    kept = [each.sequence.sender.kept_count for each in children]
    assert sum(kept) * EVENT == memory.used <= 10_000 + 10 * EVENT and min(kept) > 0
    # What is gone is stated as unavailable: the log of the origin has it.
    first, *_ = children[0].repair(1.0)
    assert first.flags & NACK and (first.previous, first.an) == (0, 100 - kept[0])


def test_waiting_events_are_left_to_the_log_when_other_queues_are_full() -> None:
    memory = QueueMemory(40_000)
    other = HeldBytes(memory)
    other.resize(39_000)
    sending = make_sending(memory)
    # A group sends for it, and waits.
    sending.core.is_carried = True
    send(sending, 1, 100)
    assert sending.core.waiting_bytes <= 1_000 and memory.used <= 40_000
    assert sending.core.dropped_bytes >= 90 * EVENT
    other.close()
    send(sending, 101, 200)
    assert sending.core.waiting_bytes >= 100 * EVENT


def test_a_queue_policy_drops_events_when_other_queues_are_full() -> None:
    memory = QueueMemory(40_000)
    sending = make_sending(memory)
    sending.core.policy = DROP_OLDEST
    other = HeldBytes(memory)
    other.resize(39_500)
    for an in range(1, 101):
        sending.core.append(sending.sequence, make_range(an - 1, an, an, document=DOCUMENT))
    assert 0 < sending.core.waiting_bytes <= 4 * EVENT + 100 * ENTRY.size
