"""Links over UDP between nodes of this version and of an earlier one."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from examples.free_ports import free_port
from tests.capability import PREVIOUS
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.previous_version import previous_tree
from tests.system.traffic import POLL_SECONDS, STREAM, Inbox, ask_status, publish, run_within

pytestmark = [pytest.mark.system, pytest.mark.slow]


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return previous_tree(tmp_path_factory.mktemp("earlier"), PREVIOUS)


def make_line(folder: Path, trees: list[Path], more: str) -> list[NodeProcess]:
    """Return members of a cluster that joins over UDP, not started; those of this version have
    more settings."""
    key = folder / "key"
    key.write_text("a key of all the nodes")
    ports = [free_port() for _ in trees]
    nodes = []
    for number, tree in enumerate(trees):
        network = f'[network]\ncluster = "alps"\nkey_file = "{key}"\ntransport = "udp"\n'
        network += f'udp = "127.0.0.1:{ports[number]}"\n'
        network += f'listen = ["tcp:port={free_port()}:interface=127.0.0.1"]\n'
        if number:
            network += f'join = ["127.0.0.1:{ports[number - 1]}"]\n'
        if tree == ROOT:
            network += more
        nodes.append(NodeProcess(folder / f"n{number}", network, name=f"n{number}", code=tree))
    return nodes


async def exchange(nodes: list[NodeProcess]) -> None:
    """Events of each node reach the subscribers of all."""
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(connect(node.endpoint, client_id=f"c-{node.name}"))
            for node in nodes
        ]
        inboxes = [Inbox(await client.subscribe("/flight", STREAM)) for client in clients]
        receipts = []
        for number, client in enumerate(clients):
            receipts += await publish(client, 10 * number, 10 * number + 10)
        for inbox in inboxes:
            await inbox.wait_for_receipts(receipts)
            await inbox.close()


async def counts_of(node: NodeProcess) -> dict[str, Any]:
    counts: dict[str, Any] = (await ask_status(node.endpoint))["network"]["udp"]
    return counts


def test_events_pass_nodes_of_both_versions_over_udp(tmp_path: Path, earlier: Path) -> None:
    """Between the two nodes of this version one link has keys, the others have none."""
    nodes = make_line(tmp_path, [ROOT, earlier, ROOT], "allow_unauthenticated_udp = true\n")

    async def work() -> None:
        await exchange(nodes)
        assert (await counts_of(nodes[0]))["old_versions"] >= 1

    with run_nodes(nodes, [(1, 0), (2, 1)]):
        run_within(work(), 4 * PATIENCE)
        # The upgrade of the last one ends the links without keys.
        nodes[1].stop()
        nodes[1].code = ROOT
        seen = len(nodes[1].log().splitlines())
        nodes[1].launch()
        nodes[1].await_log(r"linked to \w+/n0", seen)
        run_within(exchange(nodes), 4 * PATIENCE)
        for node in nodes:
            assert "Traceback" not in node.log()


def test_an_earlier_node_is_refused_over_udp_by_default(tmp_path: Path, earlier: Path) -> None:
    nodes = make_line(tmp_path, [ROOT, earlier], "")

    async def work() -> None:
        while not (counts := await counts_of(nodes[0]))["refused"]:
            await asyncio.sleep(POLL_SECONDS)
        assert counts["old_versions"] == 0

    with run_nodes(nodes, []):
        nodes[0].await_log("is ready")
        run_within(work())
        assert "linked to" not in nodes[0].log()
