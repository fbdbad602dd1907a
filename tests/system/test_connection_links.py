"""Nodes in processes, with a transport's links over connections: TCP with a key or TLS, or UDP."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import AsyncioClient
from examples.free_ports import free_port
from tests.system.certificates import make_certificate
from tests.system.network_nodes import LogTail, run_nodes
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.test_start_errors import fail_to_start
from tests.system.test_two_stacks import clients, publish
from tests.system.traffic import Inbox, ask_status, run_within

pytestmark = pytest.mark.system

NAMES = ("root", "leaf")
LINKED = "linked to leaf at .* for the stack radar two_parents 1 mspaces 1"


class Pair:
    """A root, and a node below it, whose links are made by the link stack `mspaces`."""

    def __init__(
        self,
        folder: Path,
        network: Callable[[str], str] = lambda name: "",
        *,
        channel: str = "",
        clusters: tuple[str, str] = ("alps", "alps"),
    ) -> None:
        """`network` returns further lines of `[network]` of a node."""
        ports = [free_port() for _ in NAMES]
        self.radar = [free_port() for _ in NAMES]
        self.nodes = []
        for number, name in enumerate(NAMES):
            joined = clusters[number] in clusters[:number]
            seeds = [f"127.0.0.1:{ports[0]}"] if joined else []
            parents = [f"127.0.0.1:{each}" for each in self.radar[:number]]
            configuration = (
                f'[network]\ncluster = "{clusters[number]}"\n'
                f'listen = ["tcp:port={ports[number]}:interface=127.0.0.1"]\n'
                f"join = {seeds}\n{network(name)}\n"
                '[streams."radar.>"]\nstack = "radar"\n'
                '[stacks.radar]\nuse = "two_parents"\nlinks = "mspaces"\nkeepalive = "500 ms"\n'
                f'channel = "{channel}"\nlisten = "127.0.0.1:{self.radar[number]}"\n'
                f"parents = {parents}\n"
            )
            self.nodes.append(NodeProcess(folder / name, configuration, name=name))
        self.root, self.leaf = self.nodes

    def replace_setting(self, node: NodeProcess, old: str, new: str) -> None:
        text = node.settings.read_text()
        assert old in text
        node.settings.write_text(text.replace(old, new))


async def radar_stack(node: NodeProcess) -> dict[str, Any]:
    stacks: list[dict[str, Any]] = (await ask_status(node.endpoint))["stacks"]
    (found,) = [each for each in stacks if each["name"] == "radar"]
    return found


async def publish_until_carried(
    publisher: AsyncioClient, inbox: Inbox, leaf: NodeProcess, before: int = 0
) -> dict[str, Any]:
    """Publish until events come over the links, and return the state of the stack.

    The interest of the leaf has to arrive before.
    """
    for number in itertools.count():
        await publish(publisher, inbox, [number])
        found = await radar_stack(leaf)
        assert found["error"] == ""
        if found["received"] > before:
            break
    return found


def write_key(folder: Path, key: str) -> str:
    path = folder / f"{key}.key"
    path.write_text(f"the key {key} of these nodes")
    return f'key_file = "{path}"'


@pytest.mark.parametrize("channel", ["", "udp"])
def test_links_continue_after_a_node_was_killed(tmp_path: Path, channel: str) -> None:
    key = write_key(tmp_path, "a")
    pair = Pair(tmp_path, lambda name: key, channel=channel)
    root, leaf = pair.nodes

    async def work() -> None:
        async with clients(root, leaf) as (publisher, inbox):
            await asyncio.to_thread(root.await_log, LINKED)
            at_leaf = await publish_until_carried(publisher, inbox, leaf)
            place = f"127.0.0.1:{pair.radar[0]}"
            peers = [{"address": place, "node": "root", "linked": True}]
            assert [each["peers"] for each in at_leaf["links"]] == [peers]
            tail = LogTail(leaf)
            root.kill()
            await tail.wait_for("the link to root for the stack radar .* is down")
            root.start()
            await tail.wait_for("linked to root at .* for the stack radar")
            before = at_leaf["received"]
            await publish_until_carried(publisher, inbox, leaf, before)

    with run_nodes(pair.nodes, [(0, 1), (1, 0)]):
        run_within(work(), 3 * PATIENCE)


def test_links_over_tls_need_no_key(tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority")

    def network(name: str) -> str:
        shown = make_certificate(tmp_path, name, authority).write_combined()
        return f'certificate = "{shown}"\nauthority = "{authority.certificate}"'

    pair = Pair(tmp_path, network)
    root, leaf = pair.nodes

    async def work() -> None:
        async with clients(root, leaf) as (publisher, inbox):
            await asyncio.to_thread(root.await_log, LINKED)
            await publish_until_carried(publisher, inbox, leaf)

    with run_nodes(pair.nodes, [(0, 1), (1, 0)]):
        run_within(work(), 2 * PATIENCE)


def test_a_node_with_another_key_is_refused(tmp_path: Path) -> None:
    pair = Pair(tmp_path, lambda name: write_key(tmp_path, name), clusters=("alps", "sea"))
    with run_nodes(pair.nodes, []):
        reason = "the nodes have different keys in network.key_file"
        place = f"127.0.0.1:{pair.radar[0]}"
        pair.leaf.await_log(f"no link to {place} for the stack radar .*, retrying: {reason}")
        pair.root.await_log(f"no link with 127.0.0.1:.*: {reason}")

        async def check_status() -> None:
            for node in pair.nodes:
                (links,) = (await radar_stack(node))["links"]
                assert links["refused"]["authentication-failed"]

        run_within(check_status(), PATIENCE)


def test_a_node_with_another_instance_is_refused(tmp_path: Path) -> None:
    pair = Pair(tmp_path, clusters=("alps", "sea"))
    for old, new in (("[stacks.radar]", "[stacks.boats]"), ('"radar"\n', '"boats"\n')):
        pair.replace_setting(pair.leaf, old, new)
    with run_nodes(pair.nodes, []):
        reason = (
            "this address has links of radar two_parents 1 mspaces 1, not links of boats "
            "two_parents 1 mspaces 1"
        )
        pair.leaf.await_log(f"no link to .* for the stack boats .*, retrying: {reason}")
        pair.root.await_log(f"no link with 127.0.0.1:.*: {reason}")


def test_a_channel_that_can_not_be_used_stops_the_node_with_one_line(tmp_path: Path) -> None:
    node = Pair(tmp_path).root
    valid = node.settings.read_text()
    for old, new, line in (
        (
            'channel = ""',
            'channel = "datagram"',
            "not run over datagram: it supports tcp",
        ),
        (
            'links = "mspaces"\nkeepalive = "500 ms"\nchannel = ""',
            'channel = "tcp"',
            "stacks.radar.channel: the link stack 'stop_and_wait' does not run over tcp",
        ),
        ('listen = "127.0.0.1:', 'listen = "10.0.0.7:', "without network.key_file it must be"),
        ('listen = "127.0.0.1:', 'listen = "localhost:', "localhost is not an IP address"),
        ("parents = []", 'parents = ["somewhere:1"]', "somewhere is not an IP address"),
        ("parents = []", 'parents = ["[::1]:1"]', "::1 is not of the family of 127.0.0.1"),
    ):
        assert old in valid
        before, stack, after = valid.partition("[stacks.radar]")
        node.settings.write_text(before + stack + after.replace(old, new))
        assert line in fail_to_start(node)


@pytest.mark.parametrize("kind", ["garbage", "silence"])
def test_a_stranger_does_not_disturb_links(tmp_path: Path, kind: str) -> None:
    pair = Pair(tmp_path)
    root, leaf = pair.nodes

    async def work() -> None:
        async with clients(root, leaf) as (publisher, inbox):
            await asyncio.to_thread(root.await_log, LINKED)
            strangers = [
                socket.create_connection(("127.0.0.1", pair.radar[0]), PATIENCE) for _ in range(30)
            ]
            if kind == "garbage":
                for stranger in strangers:
                    stranger.sendall(b"\0\0\0\5hello" * 10)
            await publish_until_carried(publisher, inbox, leaf)
            for stranger in strangers:
                stranger.close()

    with run_nodes(pair.nodes, [(0, 1), (1, 0)]):
        run_within(work(), 2 * PATIENCE)
