from __future__ import annotations

import asyncio
import json
import struct
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from broker.cli import main
from broker.client.asyncio_face import connect
from broker.errors import IncarnationAhead, IncarnationRefused
from broker.log.commit import Commit, Retention
from broker.log.log_file import LogFile
from broker.sessions.incarnations import MAX_AHEAD
from broker.wire import messages
from broker.wire.messages import Welcome
from tests.security.bystander import measured_bystander
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.raw_session import connect_and_read_refusal, frame, hello, read_frame
from tests.system.traffic import run_within

HIGHEST = 2**63 - 1
#: In microseconds.
MINUTE = 60_000_000


@pytest.mark.limit("incarnation of a client", "client")
def test_nobody_claims_a_client_for_ever_and_an_old_claim_is_reset(tmp_path: Path) -> None:
    async def claim(node: NodeProcess, incarnation: int) -> object:
        packet = messages.encode(hello("victim", incarnation))
        return await connect_and_read_refusal(node.port, [packet])

    async def log_in(node: NodeProcess) -> None:
        async with connect(node.endpoint, client_id="victim") as victim:
            await victim.when_connected(PATIENCE)

    async def claim_and_log_in(node: NodeProcess) -> None:
        async with measured_bystander(node.endpoint) as bystander:
            # The node's clock has whole milliseconds.
            bound = time.time_ns() // 1_000_000 * 1_000 + MAX_AHEAD
            reader, writer = await asyncio.open_connection("127.0.0.1", node.port)
            writer.write(frame(messages.encode(hello("near", bound))))
            assert isinstance(messages.decode(await read_frame(reader)), Welcome)
            writer.transport.abort()
            assert isinstance(await claim(node, bound + MINUTE), IncarnationAhead)
            assert isinstance(await claim(node, HIGHEST), IncarnationAhead)
            await bystander.measure()
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
