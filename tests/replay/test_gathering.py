"""How long requests are waited for that may become one job."""

from __future__ import annotations

from broker.replay.replay_entry import GATHER_SECONDS, MAX_GATHER_SECONDS
from tests.replay.test_replayer_core import Process


def test_requests_that_keep_coming_do_not_keep_the_first_one_waiting() -> None:
    process = Process()
    number = 0
    while process.job is None:
        number += 1
        process.ask(1, number)
        process.wait(GATHER_SECONDS / 2)
    assert MAX_GATHER_SECONDS <= number * GATHER_SECONDS / 2 < MAX_GATHER_SECONDS + GATHER_SECONDS
