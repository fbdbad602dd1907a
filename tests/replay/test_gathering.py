from __future__ import annotations

from broker.replay.replay_entry import GATHER_SECONDS, MAX_GATHER_SECONDS
from tests.replay.simulated_replayer import Process


def test_steady_requests_do_not_delay_the_first_one_without_bound() -> None:
    process = Process()
    number = 0
    while process.job is None:
        number += 1
        process.ask(number)
        process.wait(GATHER_SECONDS / 2)
    assert MAX_GATHER_SECONDS <= number * GATHER_SECONDS / 2 < MAX_GATHER_SECONDS + GATHER_SECONDS
