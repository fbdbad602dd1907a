from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from broker.errors import AuthenticationFailed, NotAllowed
from broker.event.envelope import EventType
from broker.identity import hash_secret
from broker.wire import messages
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.raw_session import connect_and_read_refusal, hello
from tests.system.traffic import run_within

NOTE = EventType("note", "1.0")


def read_audit(folder: Path) -> list[dict[str, Any]]:
    lines = (folder / "audit.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_the_audit_log_names_account_address_action_and_result(tmp_path: Path) -> None:
    configuration = f"""
[audit]
file = "{tmp_path}/audit.jsonl"

[types]
undescribed = "accept"

[accounts.feed]
secret = "{hash_secret("feed's secret")}"
client_ids = ["feed", "feed-*"]
publish = ["open.>"]
subscribe = ["open.>"]

[accounts.admin]
secret = "{hash_secret("admin's secret")}"
administer = true
"""
    feed: dict[str, Any] = {"account": "feed", "secret": "feed's secret"}

    async def work(node: NodeProcess) -> None:
        forged = hello('eve"}\n{"action": "reload"}', secret="guess")
        await connect_and_read_refusal(node.port, [messages.encode(forged)])
        for _ in range(3):
            guessing = connect(node.endpoint, account="admin", secret="guess")
            with pytest.raises(AuthenticationFailed):
                await guessing.when_connected(PATIENCE)
            await guessing.close()
        async with (
            connect(node.endpoint, client_id="feed", **feed) as client,
            connect(node.endpoint, account="admin", secret="admin's secret") as admin,
        ):
            await client.subscribe("true()", "open.a", durable="d1")
            for number in range(20):
                with pytest.raises(NotAllowed):
                    await client.publish("closed", b"<note>%d</note>" % number, NOTE)
            with pytest.raises(NotAllowed):
                await client.subscribe("true()", "closed")
            with pytest.raises(NotAllowed):
                await client.ask("status")
            await admin.ask("durable-pause", client="feed", name="d1")
            await admin.ask("status")

    with NodeProcess(tmp_path, configuration) as node:
        run_within(work(node))
        node.stop()
        assert "Traceback" not in node.log()
        first = read_audit(tmp_path)
        node.start()
        node.stop()
        assert read_audit(tmp_path)[: len(first)] == first
    found = [
        (each["action"], each.get("account"), each["result"], each.get("repeated"))
        for each in first
    ]
    expected = [
        ("login", 'eve"}\n{"action": "reload"}', "bad-name", None),
        ("login", "admin", "authentication-failed", None),
        ("login", "feed", "ok", None),
        ("login", "admin", "ok", None),
        ("durable-create", "feed", "ok", None),
        ("publish", "feed", "not-allowed", None),
        ("subscribe", "feed", "not-allowed", None),
        ("status", "feed", "not-allowed", None),
        ("durable-pause", "admin", "ok", None),
        ("login", "admin", "authentication-failed", 2),
        ("publish", "feed", "not-allowed", 19),
    ]
    assert sorted(found, key=str) == sorted(expected, key=str)
    assert all(each["address"].startswith("127.0.0.1:") for each in first)
    by_action = {each["action"]: each for each in first if each["result"] == "ok"}
    assert by_action["durable-create"]["subject"] == "d1"
    assert by_action["durable-pause"]["subject"] == "client=feed name=d1"
    assert stat.S_IMODE((tmp_path / "audit.jsonl").stat().st_mode) == 0o600
