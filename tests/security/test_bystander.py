from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.security.attacker import open_many
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import checked_bystander, run_within

pytestmark = pytest.mark.system

#: More than the hundredth of the events of a measurement that the percentile leaves out.
STOPS = 2
#: Seconds of each.
STOP = 0.8


def test_bystander_finds_delays_and_only_delays(tmp_path: Path) -> None:
    async def attack(node: NodeProcess, stops: int) -> None:
        async with (
            measured_bystander(node.endpoint) as bystander,
            checked_bystander(node.endpoint) as other,
            open_many(node.port, 10),
        ):
            measuring = asyncio.ensure_future(bystander.measure())
            for _ in range(stops):
                node.process.send_signal(signal.SIGSTOP)
                loop = asyncio.get_running_loop()
                loop.call_later(STOP, node.process.send_signal, signal.SIGCONT)
                # The first event is answered behind the one that is late, which a further stop must
                # not delay once more.
                await other.time_event()
                await other.time_event()
            await measuring

    with NodeProcess(tmp_path, "[log]\nsync = false\n") as node:
        run_within(attack(node, 0))
        with pytest.raises(AssertionError, match="99th percentiles"):
            run_within(attack(node, STOPS))
