from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.security.attacker import open_many
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

#: More than the hundredth of the events of a measurement that the percentile leaves out.
STOPS = 2
#: Seconds. A measurement takes longer than those between the stops.
STOP, BETWEEN = 0.8, 0.005


def test_bystander_finds_delays_and_only_delays(tmp_path: Path) -> None:
    async def attack(node: NodeProcess, stops: int) -> None:
        loop = asyncio.get_running_loop()
        async with measured_bystander(node.endpoint) as bystander, open_many(node.port, 10):
            for number in range(stops):
                began = number * (STOP + BETWEEN)
                loop.call_later(began, node.process.send_signal, signal.SIGSTOP)
                loop.call_later(began + STOP, node.process.send_signal, signal.SIGCONT)
            await bystander.measure()

    with NodeProcess(tmp_path, "[log]\nsync = false\n") as node:
        run_within(attack(node, 0))
        with pytest.raises(AssertionError, match="99th percentiles"):
            run_within(attack(node, STOPS))
