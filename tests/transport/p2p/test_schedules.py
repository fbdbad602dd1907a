from __future__ import annotations

import pytest

from tests.seeds import seeds
from tests.transport.p2p.schedule import Run

CHUNKS = 20
SEEDS = 1000


@pytest.mark.parametrize("chunk", seeds(3, CHUNKS))
def test_every_message_arrives_once_and_in_order_on_a_bad_network(chunk: int) -> None:
    size = SEEDS // CHUNKS
    for seed in range(chunk * size, (chunk + 1) * size):
        try:
            Run(seed).play()
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
