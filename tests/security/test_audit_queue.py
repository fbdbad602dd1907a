"""Audit records of a node whose disk stands still."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest

from broker.audit.audit_log import MAX_QUEUED
from broker.client.asyncio_face import AsyncioClient, connect
from tests.security.account_settings import (
    ADMINISTRATOR,
    BASE,
    BYSTANDER,
    account_toml,
    identity_of,
)
from tests.security.bystander import measured_bystander
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

#: No write ends until the test opens the pipe.
_STILL = """
from broker.audit.audit_file import AuditFile

append = AuditFile.append

def append_later(file, lines):
    open({pipe!r}).close()
    append(file, lines)

AuditFile.append = append_later
"""
AT_ONCE, FURTHER = 100, 7


@pytest.mark.limit("audit records", "node")
def test_records_beyond_the_queue_are_lost_and_counted(tmp_path: Path) -> None:
    pipe, audit = tmp_path / "pipe", tmp_path / "audit.jsonl"
    os.mkfifo(pipe)
    configuration = (
        BASE
        + account_toml("bad", subscribe=["bad"])
        + f'[log]\nsync = false\n[audit]\nfile = "{audit}"\n'
    )

    async def limit_of(admin: AsyncioClient) -> tuple[int, int]:
        limits = (await admin.ask("status"))["limits"]
        (limit,) = (each for each in limits if each["name"] == "audit-queue")
        return limit["used"], limit["reached"]

    async def work(node: NodeProcess) -> None:
        async with (
            measured_bystander(node.endpoint, **BYSTANDER) as bystander,
            connect(node.endpoint, **ADMINISTRATOR) as admin,
            connect(node.endpoint, **identity_of("bad"), state=tmp_path / "state") as bad,
        ):
            await bad.subscribe("true()", "bad", durable="one")

            async def record(count: int) -> None:
                for begin in range(0, count, AT_ONCE):
                    pauses = (
                        bad.ask("durable-pause", client="bad-0", name="one")
                        for _ in range(min(AT_ONCE, count - begin))
                    )
                    await asyncio.gather(*pauses)

            used, _ = await limit_of(admin)
            recording = asyncio.ensure_future(record(MAX_QUEUED - used))
            await bystander.measure()
            await recording
            assert await limit_of(admin) == (MAX_QUEUED, 0)
            await record(FURTHER)
            await bystander.measure()
            assert await limit_of(admin) == (MAX_QUEUED, FURTHER)

    with NodeProcess(tmp_path, configuration, prelude=_STILL.format(pipe=str(pipe))) as node:
        run_within(work(node), 2 * PATIENCE)
        # The disk goes on. The end of the node waits for all records.
        with pipe.open("w"):
            node.stop()
        records = [json.loads(line) for line in audit.read_text().splitlines()]
        lost = [each["repeated"] for each in records if each["action"] == "records-lost"]
        assert sum(lost) == FURTHER and len(records) > MAX_QUEUED
