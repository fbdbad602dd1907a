from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from tests.system.archived_nodes import (
    FILLING,
    ids_of,
    resume,
    two_nodes,
    wait_for_all,
    wait_until_archived,
)
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE
from tests.system.traffic import publish, run_within

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_reader_gets_all_events_of_a_dead_node_from_the_archive(tmp_path: Path) -> None:
    """The reader's node was paused for longer than the link timeout."""
    nodes = a, b = two_nodes(tmp_path, more='gap_timeout = "1s"\n', log="64MiB")

    async def work() -> None:
        async with (
            connect(a.endpoint, client_id="publisher") as at_a,
            connect(b.endpoint, client_id="rover") as at_b,
        ):
            await at_a.when_connected(PATIENCE)
            inbox = await resume(at_b)
            published = await publish(at_a, 0, 20)
            await wait_for_all(inbox, published)
            os.kill(b.process.pid, signal.SIGSTOP)
            try:
                for first in range(20, 3_020, 100):
                    published += await publish(at_a, first, first + 100, FILLING)
                await wait_until_archived(tmp_path / "archive", published[-1:])
                a.kill()
                shutil.rmtree(a.data)
            finally:
                os.kill(b.process.pid, signal.SIGCONT)
            await wait_for_all(inbox, published, 4 * PATIENCE)
            assert inbox.ids == ids_of(published)
            assert not inbox.subscription.gaps
            status = (await at_b.ask("status"))["recovery"]
            assert status["recoveries"]["stood_in"] > 0
            await inbox.close()

    with run_nodes(nodes, [(1, 0)]):
        run_within(work(), 8 * PATIENCE)
        assert "Traceback" not in b.log()
