from __future__ import annotations

import asyncio
import json
import struct
from pathlib import Path

from click.testing import CliRunner

from broker.cli import main
from broker.client.asyncio_face import connect
from broker.errors import IncarnationAhead, IncarnationRefused
from broker.log.commit import Commit, Retention
from broker.log.log_file import LogFile
from broker.wire import messages
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.raw_session import connect_and_read_refusal, hello
from tests.system.traffic import run_within

HIGHEST = 2**63 - 1


def test_nobody_claims_a_client_for_ever_and_an_old_claim_is_reset(tmp_path: Path) -> None:
    async def claim(node: NodeProcess, incarnation: int) -> object:
        packet = messages.encode(hello("victim", incarnation))
        return await connect_and_read_refusal(node.port, [packet])

    async def log_in(node: NodeProcess) -> None:
        async with connect(node.endpoint, client_id="victim") as victim:
            await victim.when_connected(PATIENCE)

    async def claim_and_log_in(node: NodeProcess) -> None:
        assert isinstance(await claim(node, HIGHEST), IncarnationAhead)
        await log_in(node)

    async def refused_and_reset(node: NodeProcess) -> None:
        async with connect(node.endpoint, client_id="admin") as admin:
            status = await admin.ask("status")
            assert status["incarnations_ahead"] == {"count": 1, "clients": ["victim"]}
        assert isinstance(await claim(node, 0), IncarnationRefused)
        command = ["client", "reset", "victim", "--node", node.endpoint]
        result = await asyncio.to_thread(CliRunner().invoke, main, command)
        answer = {"client": "victim", "incarnation": HIGHEST, "session_ended": False}
        answer |= {"owner_deleted": False}
        assert json.loads(result.output) == answer
        await log_in(node)

    node = NodeProcess(tmp_path)
    with node:
        run_within(claim_and_log_in(node))
        node.stop()
        log = LogFile(node.data / "log", Retention())
        claimed = struct.pack(">Q16s", HIGHEST, b"the thief's own ")
        log.commit(Commit(clients=[("victim", claimed)]), log.bounds.epoch, 0)
        log.close()
        node.start()
        node.await_log("1 clients have used incarnations more than 10 minutes ahead")
        run_within(refused_and_reset(node))
        node.stop()
        assert "Traceback" not in node.log()
