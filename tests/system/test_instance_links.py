"""Nodes in processes, with an instance of `mspaces` that has links of its own."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from examples.free_ports import free_port
from tests.capability import PREVIOUS
from tests.system.certificates import make_certificate
from tests.system.network_nodes import LogTail, run_nodes
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.previous_version import previous_tree
from tests.system.test_two_stacks import OTHER, clients, publish
from tests.system.traffic import POLL_SECONDS, Inbox, ask_status, run_within

pytestmark = pytest.mark.system

RADAR = """
[streams."radar.>"]
stack = "radar"

[stacks.radar]
use = "mspaces"
links = "mspaces"
window_bytes = "4 MiB"
"""
NAMES = ("n0", "n1", "n2")
MESH = [(1, 0), (2, 0), (2, 1)]


def make_nodes(
    folder: Path, network: Callable[[str], str], *, transport: str = "tcp"
) -> list[NodeProcess]:
    """`network` returns further lines of `[network]` of a node."""
    ports = [free_port() for _ in NAMES]
    nodes = []
    for number, name in enumerate(NAMES):
        seeds = [f"127.0.0.1:{port}" for port in ports[:number]]
        listen = f'listen = ["tcp:port={ports[number]}:interface=127.0.0.1"]\n'
        if transport == "udp":
            listen += f'udp = "127.0.0.1:{ports[number]}"\ntransport = "udp"\n'
        configuration = f'[network]\ncluster = "alps"\n{listen}join = {seeds}\n{network(name)}\n'
        nodes.append(NodeProcess(folder / name, configuration + RADAR, name=name))
    return nodes


def write_key(folder: Path) -> str:
    path = folder / "network.key"
    path.write_text("the key of these nodes")
    return f'key_file = "{path}"'


async def peers_of(node: NodeProcess) -> dict[str, dict[str, Any]]:
    """Return the connected links of the instance, by node."""
    stacks: list[dict[str, Any]] = (await ask_status(node.endpoint))["stacks"]
    (found,) = [each for each in stacks if each["name"] == "radar"]
    assert found["error"] == ""
    (links,) = found["links"]
    return {each["node"]: each for each in links["peers"] if each["linked"]}


async def wait_for_peers(node: NodeProcess, *names: str) -> dict[str, dict[str, Any]]:
    """A busy machine may break a link, which comes about again."""
    async with asyncio.timeout(PATIENCE):
        while set(peers := await peers_of(node)) != set(names):
            await asyncio.sleep(POLL_SECONDS)
    return peers


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_an_instance_has_links_of_its_own_through_a_kill(tmp_path: Path, transport: str) -> None:
    key = write_key(tmp_path)
    nodes = first, second, third = make_nodes(tmp_path, lambda _: key, transport=transport)

    async def work() -> None:
        async with clients(first, third) as (publisher, inbox):
            await publish(publisher, inbox, range(20))
            at_first = await wait_for_peers(first, "n1", "n2")
            assert at_first["n2"]["sent"] >= 10
            assert (await peers_of(third))["n0"]["received"] >= 10
            links = (await ask_status(first.endpoint))["network"]["links"]
            assert {each["transport"] for each in links} == {transport} and len(links) == 2
            tail = LogTail(first)
            second.kill()
            await tail.wait_for("the link to n1 for the stack radar is down")
            await publish(publisher, inbox, range(20, 40))
            second.start()
            await tail.wait_for("linked to n1 for the stack radar")
            await publish(publisher, inbox, range(40, 60))
            await wait_for_peers(first, "n1", "n2")

    with run_nodes(nodes, MESH):
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.await_log(f"linked to {other.name} for the stack radar")
        run_within(work(), 3 * PATIENCE)


def test_links_of_an_instance_are_encrypted_as_those_of_the_network(tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority")

    def network(name: str) -> str:
        shown = make_certificate(tmp_path, name, authority).write_combined()
        return f'certificate = "{shown}"\nauthority = "{authority.certificate}"'

    nodes = first, _, third = make_nodes(tmp_path, network)

    async def work() -> None:
        async with clients(first, third) as (publisher, inbox):
            await publish(publisher, inbox, range(20))
            assert (await peers_of(third))["n0"]["received"] >= 10

    with run_nodes(nodes, MESH):
        first.await_log("linked to n2 for the stack radar")
        third.await_log("linked to n0 for the stack radar")
        run_within(work(), 2 * PATIENCE)


def test_a_node_without_the_instance_is_served_by_the_network(tmp_path: Path) -> None:
    nodes = first, _, third = make_nodes(tmp_path, lambda _: "")
    text = third.settings.read_text()
    assert RADAR in text
    third.settings.write_text(text.replace(RADAR, ""))

    async def work() -> None:
        async with clients(first, third) as (publisher, inbox):
            await publish(publisher, inbox, range(20))
            await wait_for_peers(first, "n1")

    with run_nodes(nodes, MESH):
        first.await_log("linked to n1 for the stack radar")
        run_within(work(), 2 * PATIENCE)


def test_a_node_of_the_previous_version_stays_in_the_network(tmp_path: Path) -> None:
    old, first, second = make_nodes(tmp_path, lambda _: "")
    (tree := tmp_path / "previous").mkdir()
    old.code = previous_tree(tree, PREVIOUS)
    old.settings.write_text(old.settings.read_text().replace(RADAR, ""))

    async def work() -> None:
        async with (
            clients(first, second) as (publisher, inbox),
            connect(old.endpoint, client_id="old") as at_old,
        ):
            at_old_inbox = Inbox(await at_old.subscribe("true()", OTHER))
            await publish(publisher, inbox, range(20))
            await at_old_inbox.wait_until(lambda: len(at_old_inbox.events) == 20)
            await at_old_inbox.close()
            await wait_for_peers(first, "n2")

    with run_nodes([old], []), run_nodes([first], []):
        first.await_log("n0 has no links of radar, which uses those of the network")
        with run_nodes([second], []):
            first.await_log("linked to n2 for the stack radar")
            first.await_log("linked to alps/n0")
            run_within(work(), 2 * PATIENCE)


def test_the_configuration_is_accepted(tmp_path: Path) -> None:
    (node, *_) = make_nodes(tmp_path, lambda _: "")
    check = [sys.executable, "-m", "broker.cli", "config", "--check", str(node.settings)]
    subprocess.run(check, cwd=ROOT, check=True, timeout=PATIENCE)
