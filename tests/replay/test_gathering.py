"""How long requests are waited for that may become one job."""

from __future__ import annotations

from broker.replay.replays import GATHERING, LONGEST_GATHERING
from tests.replay.test_replayer_core import Process


def test_requests_that_keep_coming_do_not_keep_the_first_one_waiting() -> None:
    process = Process()
    number = 0
    while process.job is None:
        number += 1
        process.ask(1, number)
        process.wait(GATHERING / 2)
    assert LONGEST_GATHERING <= number * GATHERING / 2 < LONGEST_GATHERING + GATHERING
