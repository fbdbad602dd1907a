"""Queue policies in a network with nodes of the previous version."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from broker.errors import VersionMismatch
from tests.capability import PREVIOUS
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE, ROOT
from tests.system.previous_version import previous_tree
from tests.system.test_rolling_upgrade import LINKS, line_of_nodes
from tests.system.traffic import STREAM, Inbox, publish, run_within

pytestmark = [pytest.mark.system, pytest.mark.slow]


def test_nodes_of_the_previous_version_ignore_policies(tmp_path: Path) -> None:
    """Between two new nodes is an old one. Each gets the interest, not the policies."""
    old = previous_tree(tmp_path / "old", PREVIOUS)
    nodes = line_of_nodes(tmp_path, [ROOT, old, ROOT])

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            first, middle, last = [
                await stack.enter_async_context(connect(node.endpoint, client_id=f"c-{node.name}"))
                for node in nodes
            ]
            inboxes = [
                Inbox(await client.subscribe("/flight", STREAM, queue=queue))
                for client in (first, last)
                for queue in ("coalesce:/flight/id", "drop-newest", "block", "")
            ]
            with pytest.raises(VersionMismatch, match="too old for the queue policy coalesce"):
                await middle.subscribe("/flight", STREAM, queue="coalesce")
            inboxes.append(Inbox(await middle.subscribe("/flight", STREAM)))
            receipts = []
            for number, client in enumerate((first, middle, last)):
                receipts += await publish(client, 10 * number, 10 * number + 10)
            for inbox in inboxes:
                await inbox.wait_for_receipts(receipts)
                await inbox.close()

    with run_nodes(nodes, LINKS):
        run_within(work(), 4 * PATIENCE)
        for node in nodes:
            assert "Traceback" not in node.log() and "malformed interest" not in node.log()
