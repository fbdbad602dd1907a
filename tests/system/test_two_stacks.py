"""Nodes in processes, in which two stacks carry the streams: `mspaces`, and one of a package."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from examples.free_ports import free_port
from tests.system.fork_server import EXAMPLE
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.test_start_errors import fail_to_start
from tests.system.traffic import FLIGHT, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

RADAR, BOATS, OTHER = "radar.zbw", "boats.zbw", "other.zbw"
FAILING = """
from two_parents.transport import TwoParents
def receive(self, message, peer):
    raise RuntimeError("can not go on")
TwoParents._receive = receive
"""


def make_nodes(folder: Path, failing: str = "") -> list[NodeProcess]:
    """A root, a node below it, and one below both."""
    links = [free_port() for _ in range(3)]
    radar = [f"127.0.0.1:{free_port()}" for _ in range(3)]
    nodes = []
    for number, name in enumerate(("root", "left", "leaf")):
        configuration = (
            f'[network]\ncluster = "alps"\n'
            f'listen = ["tcp:port={links[number]}:interface=127.0.0.1"]\n'
            f"join = {[f'127.0.0.1:{port}' for port in links[:number]]}\n"
            '[streams."radar.>"]\nstack = "radar"\n'
            f'[stacks.radar]\nuse = "two_parents"\nlisten = "{radar[number]}"\n'
            f"parents = {radar[:number]}\n"
            '[streams."boats.>"]\nstack = "boats"\n[stacks.boats]\nuse = "mspaces"\n'
        )
        prelude = FAILING if name == failing else ""
        nodes.append(NodeProcess(folder / name, configuration, name=name, prelude=prelude))
    return nodes


@asynccontextmanager
async def clients(
    publisher: NodeProcess, subscriber: NodeProcess
) -> AsyncIterator[tuple[AsyncioClient, Inbox]]:
    async with (
        connect(publisher.endpoint, client_id="publisher") as at_publisher,
        connect(subscriber.endpoint, client_id="subscriber") as at_subscriber,
    ):
        await at_publisher.when_connected(PATIENCE)
        inbox = Inbox(await at_subscriber.subscribe("true()", ">"))
        yield at_publisher, inbox
        await inbox.close()


async def publish(client: AsyncioClient, inbox: Inbox, numbers: Sequence[int]) -> None:
    """Publish to the streams, and wait until the subscriber has all."""
    async with asyncio.timeout(PATIENCE):
        receipts = [
            await client.publish(stream, flight(number), FLIGHT)
            for number in numbers
            for stream in (RADAR, BOATS, OTHER)
        ]
    await inbox.wait_for_receipts(receipts)
    assert max(inbox.counts().values()) == 1


async def state_of(node: NodeProcess, stack: str = "radar") -> dict[str, object]:
    stacks: list[dict[str, object]] = (await ask_status(node.endpoint))["stacks"]
    (found,) = [each for each in stacks if each["name"] == stack]
    return found


def test_two_stacks_and_an_instance_of_one_carry_streams_of_one_network(tmp_path: Path) -> None:
    nodes = root, left, leaf = make_nodes(tmp_path)

    async def work() -> None:
        async with clients(root, leaf) as (publisher, inbox):
            await publish(publisher, inbox, range(20))
            assert (await state_of(root))["published"] == 20
            at_leaf = await state_of(leaf)
            assert at_leaf["received"] and at_leaf["error"] == ""
            assert (await state_of(leaf, "boats"))["received"] == 20
            left.kill()
            await publish(publisher, inbox, range(20, 40))
            left.start()
            await publish(publisher, inbox, range(40, 60))

    with run_nodes(nodes, [(0, 1), (0, 2), (1, 2)]):
        run_within(work(), 3 * PATIENCE)


def test_a_stack_that_fails_stops_alone_with_its_reason(tmp_path: Path) -> None:
    nodes = root, left, leaf = make_nodes(tmp_path, failing="leaf")

    async def work() -> None:
        async with clients(root, leaf) as (publisher, inbox):
            # The leaf requests the events from the root's log.
            await publish(publisher, inbox, range(10))
            assert (await state_of(leaf))["error"] == "RuntimeError: can not go on"
            assert (await state_of(left))["error"] == ""
            mspaces = (await ask_status(leaf.endpoint))["stacks"][0]
            assert (mspaces["name"], mspaces["error"]) == ("mspaces", "")

    with run_nodes(nodes, [(0, 1), (0, 2), (1, 2)]):
        run_within(work(), 2 * PATIENCE)
        leaf.await_log("the stack radar has stopped; its events come from the logs")


def test_nodes_that_disagree_say_so_and_lose_nothing(tmp_path: Path) -> None:
    nodes = root, _, leaf = make_nodes(tmp_path)
    text = leaf.settings.read_text()
    leaf.settings.write_text(text[: text.index("[streams.")] + "[archive]\nenabled = false\n")

    async def work() -> None:
        async with clients(root, leaf) as (publisher, inbox):
            await publish(publisher, inbox, range(10))

    with run_nodes(nodes, [(0, 1), (0, 2), (1, 2)]):
        run_within(work(), 2 * PATIENCE)
        root.await_log(r'nodes disagree: streams."radar.>": leaf has the stack of the next wider')
        leaf.await_log(r'nodes disagree: streams."radar.>": root has the stack two_parents 1')


def test_a_stack_that_can_not_work_stops_the_node_with_one_line(tmp_path: Path) -> None:
    (node, *_) = make_nodes(tmp_path)
    valid = node.settings.read_text()
    for old, new, line in (
        ('use = "two_parents"', 'use = "two_parent"', "no stack 'two_parent' is installed, did"),
        ("parents = []", "parent = []", "did you mean stacks.radar.parents?"),
        ('listen = "127.0.0.1:', 'listen = "10.0.0.7:', "without network.key_file it must be"),
        ("parents = []", 'parents = ["somewhere:1"]', "stacks.radar: somewhere: somewhere is not"),
    ):
        assert old in valid
        before, stack, after = valid.partition("[stacks.radar]")
        node.settings.write_text(before + stack + after.replace(old, new))
        assert line in fail_to_start(node)


def test_the_stacks_of_an_installed_package_are_listed() -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "broker.cli", "stacks"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(EXAMPLE)},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    ).stdout
    assert '"kind":"stream transport","name":"two_parents"' in listed
    assert '"kind":"link stack","name":"stop_and_wait"' in listed
    assert '"guarantees":["redundancy"],"links":"stop_and_wait"' in listed
