"""A real node restored from a copy that was made while it ran."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from broker.client.asyncio_face import connect
from examples.free_ports import free_port
from tests.system.archived_nodes import ids_of, resume, wait_for_all
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import publish, run_within

pytestmark = [pytest.mark.system, pytest.mark.slow]


def two_clusters(folder: Path) -> list[NodeProcess]:
    ports = [free_port(), free_port()]
    dialled = f'gateways = ["tcp:host=127.0.0.1:port={ports[0]}"]\n'
    return [
        NodeProcess(
            folder / name,
            f'[network]\nname = "restored"\ncluster = "c{name}"\n{gateways}'
            f'listen = ["tcp:port={port}:interface=127.0.0.1"]\n',
            name=name,
        )
        for name, port, gateways in zip("ab", ports, ("", dialled), strict=True)
    ]


def restore(node: NodeProcess, copy: Path) -> None:
    node.kill()
    shutil.rmtree(node.data)
    shutil.copytree(copy, node.data)
    seen = len(node.log().splitlines())
    node.launch()
    node.await_log(r"they are fetched", seen)


def test_lost_events_come_back_from_the_other_node(tmp_path: Path) -> None:
    nodes = a, b = two_clusters(tmp_path)

    async def work() -> None:
        async with (
            connect(a.endpoint, client_id="publisher") as publisher,
            connect(a.endpoint, client_id="at-a") as at_a,
            connect(b.endpoint, client_id="at-b") as at_b,
        ):
            await publisher.when_connected(PATIENCE)
            inboxes = [await resume(client) for client in (at_a, at_b)]
            published = await publish(publisher, 0, 100)
            await asyncio.to_thread(shutil.copytree, a.data, tmp_path / "copy")
            published += await publish(publisher, 100, 200)
            for inbox in inboxes:
                await wait_for_all(inbox, published)
            await asyncio.to_thread(restore, a, tmp_path / "copy")
            await publisher.when_connected(PATIENCE)
            published += await publish(publisher, 200, 300)
            for inbox in inboxes:
                await wait_for_all(inbox, published)
                assert sorted(inbox.ids) == sorted(ids_of(published))
                assert not inbox.subscription.gaps
            places = [receipt.place for receipt in published]
            assert len(set(places)) == 300
            # The restored node answers.
            async with connect(a.endpoint, client_id="new") as new:
                await new.when_connected(PATIENCE)
                found = (await new.ask("status"))["recovery"]["recoveries"]
                assert (found["returned"], found["lost_on_branches"]) == (100, 0)
            for inbox in inboxes:
                await inbox.close()

    with run_nodes(nodes, [(1, 0)]):
        run_within(work(), 6 * PATIENCE)
        assert "Traceback" not in a.log() + b.log()
