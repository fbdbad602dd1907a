"""Certificates of sites in processes, verified from a shell."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.order_certificates.signing_key import SigningKey
from broker.signatures.node_key import FILE_NAME
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.test_cli import start_command
from tests.system.test_rcm import MESH, NAMES, make_sites, open_sites, wait_until_connected
from tests.system.traffic import POLL_SECONDS, ask_status, run_within

pytestmark = pytest.mark.system


async def verify(node: NodeProcess, *arguments: str) -> tuple[int, list[dict[str, Any]]]:
    process = await asyncio.to_thread(start_command, node, "order", "verify", *arguments)
    output, _ = await asyncio.to_thread(process.communicate)
    assert process.returncode is not None
    return process.returncode, [json.loads(line) for line in output.splitlines()]


async def agree(nodes: Sequence[NodeProcess]) -> bool:
    """Return whether each site has equal certificates of all others."""
    for node in nodes:
        stacks = (await ask_status(node.endpoint))["stacks"]
        (found,) = [each for each in stacks if each["name"] == "ops-order"]
        for row in found["peers"]:
            if not row["certificates"] or row["equal"] != row["certificates"]:
                return False
    return True


def test_three_sites_prove_an_event_and_a_range_to_a_client(tmp_path: Path) -> None:
    keys = {name: SigningKey.generate() for name in NAMES}
    for name, key in keys.items():
        data = tmp_path / name / "data"
        data.mkdir(parents=True)
        key.store(data / FILE_NAME)
    public = ", ".join(f'{name} = "{key.public}"' for name, key in keys.items())
    pinned = tmp_path / "keys.toml"
    pinned.write_text(f"site_keys = {{ {public} }}\n")
    named = [f"{name}:{key.public}" for name, key in keys.items()]
    nodes = make_sites(
        tmp_path,
        options=lambda name: "certificates = true\n",
        network=f"public_keys = {named}\n",
    )

    async def work() -> None:
        await wait_until_connected(nodes)
        async with open_sites(nodes) as sites:
            await asyncio.gather(*(site.publish(20) for site in sites))
            for site in sites:
                await site.wait_for(60)
            async with asyncio.timeout(PATIENCE):
                while not await agree(nodes):
                    await asyncio.sleep(POLL_SECONDS)
            event = sites[0].inbox.events[7]
            document = tmp_path / "event.xml"
            document.write_bytes(event.document)
            _, _, number, incarnation = event.header.event_id
            identity = f"{event.header.event_id.client_id}/{incarnation}/{number}"
            asked = ("--keys", str(pinned), "--least", "3")
            for node in nodes:
                status, (found,) = await verify(node, identity, *asked, "--document", str(document))
                assert (status, found["result"]) == (0, "proved"), found
                assert event.order is not None
                assert found["events"][0]["stamp"] == event.order.stamp
            stamps = [entry.stamp for entry in sites[0].entries]
            since, until = str(min(map(int, filter(None, stamps)))), str(stamps[-1])
            status = 2
            async with asyncio.timeout(PATIENCE):
                # On a busy machine the last of several blocks is proven later.
                while status == 2:
                    status, blocks = await verify(
                        nodes[1], "--since", since, "--until", until, *asked
                    )
            assert status == 0, blocks
            assert [each["stamp"] for block in blocks for each in block["events"]] == stamps

    with run_nodes(nodes, MESH):
        run_within(work(), 4 * PATIENCE)
