"""Memory for the last events that a recovery holds."""

from __future__ import annotations

from twisted.python.failure import Failure

from broker.errors import ReplayTooLarge
from broker.queue_memory import QueueMemory
from tests.recovery.test_subscription_recovery import EVENTS, OWN, Log, offsets, recovered


def test_last_events_count_as_queued_until_they_are_sent() -> None:
    memory = QueueMemory()
    sizes = [event.size for event in EVENTS[OWN]]
    recovery = recovered(None, Log([]), {OWN: ((0, 0), (1, 3))}, last=2, memory=memory)
    assert offsets(recovery.next_events()) == [2, 3]
    assert memory.used == sum(sizes[1:])
    assert offsets(recovery.next_events()) == []
    assert memory.used == memory.holders == 0
    recovery = recovered(None, Log([]), {OWN: ((0, 0), (1, 3))}, last=2, memory=memory)
    assert offsets(recovery.next_events()) == [2, 3]
    recovery.cancel()
    assert memory.used == memory.holders == 0


def test_last_events_beyond_the_memory_are_refused() -> None:
    memory = QueueMemory(EVENTS[OWN][0].size)
    recovery = recovered(None, Log([]), {OWN: ((0, 0), (1, 3))}, last=2, memory=memory)
    failed: list[Failure] = []
    recovery.next_events().addErrback(failed.append)
    (failure,) = failed
    assert isinstance(failure.value, ReplayTooLarge)
    assert memory.used == memory.holders == 0
