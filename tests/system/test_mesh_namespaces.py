"""A mesh over UDP between network namespaces: loss, delay and rate, and a killed router."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from tests.capability import need
from tests.system.mixed_traffic import LongestPause
from tests.system.namespaces import need_namespaces
from tests.system.network_nodes import MEMBERS, make_node, run_nodes
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.segment import Segment
from tests.system.traffic import FLIGHT, POLL_SECONDS, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

MESH, STREAM = 8770, "mesh.flights"
ROOT, OTHER_ROOT, ROUTER, LEAF = range(4)
NAMES = ("a1", "a2", "b1", "c1")
#: Of the leaf's cable, one way.
DELAY = 0.02
RATE_MBIT = 8
SECONDS = 5 * PATIENCE


@pytest.fixture
def segment() -> Iterator[Segment]:
    need_namespaces()
    need("traffic-shaping")
    with Segment(len(NAMES), {LEAF + 1: DELAY}) as found:
        yield found


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a Unix socket has at most 100 bytes."""
    return tmp_path_factory.mktemp("net")


def make_nodes(segment: Segment, folder: Path) -> list[NodeProcess]:
    """The leaf has a root and a router as parents."""
    hosts = segment.hosts
    mesh = [f"{host.address}:{MESH}" for host in hosts]
    parents = {LEAF: f"parent_nodes = {[mesh[ROUTER], mesh[ROOT]]}\nchildren = 0\n"}
    return [
        make_node(
            *(host, name, folder),
            'cluster = "alps"\n'
            f"join = {[f'{hosts[0].address}:{MEMBERS}'] if number else []}\n"
            '[streams."mesh.>"]\nstack = "tested"\n'
            f'[stacks.tested]\nuse = "dcp"\nfeed = "mspaces"\nudp = "{mesh[number]}"\n'
            f"roots = {mesh[:2]}\n{parents.get(number, '')}",
        )
        for number, (host, name) in enumerate(zip(hosts, NAMES, strict=True))
    ]


async def mesh_state(node: NodeProcess) -> dict[str, Any]:
    stacks = (await ask_status(node.endpoint))["stacks"]
    return next(each for each in stacks if each["name"] == "tested")


async def wait_for_parents(node: NodeProcess, *names: str) -> dict[str, Any]:
    while True:
        state = await mesh_state(node)
        if {each["name"] for each in state["parents"]} == set(names):
            return state
        await asyncio.sleep(POLL_SECONDS)


async def check_mesh(nodes: list[NodeProcess], events: int) -> None:
    leaf = nodes[LEAF]
    # A node answers while its connections begin.
    await wait_for_parents(leaf, "a1", "b1")
    async with (
        connect(nodes[OTHER_ROOT].endpoint, client_id="publisher") as publisher,
        connect(leaf.endpoint, client_id="reader") as reader,
    ):
        inbox = Inbox(await reader.subscribe())
        pauses = LongestPause(inbox, "publisher")
        receipts = []
        for number in range(events):
            receipts.append(await publisher.publish(STREAM, flight(number), FLIGHT))
            if number == events // 2:
                before = await mesh_state(leaf)
                nodes[ROUTER].kill()
        await inbox.wait_for_receipts(receipts)
        longest = await pauses.stop()
        after = await wait_for_parents(leaf, "a1")
        # A repeated event would have come before these.
        receipts.append(await publisher.publish(STREAM, flight(events), FLIGHT))
        await inbox.wait_for_receipts(receipts)
    assert inbox.ids == [each.event_id for each in receipts]
    assert not inbox.subscription.gaps
    came = {each["name"]: each["first"] + each["duplicate"] for each in before["parents"]}
    print(f"longest pause {longest:.2f} s; by parent {came}; requests {after['nacks']}")
    assert min(came.values()) > 0, "both parents bring events"


@pytest.mark.parametrize(
    ("percent", "events"),
    [(10, 200), *(pytest.param(each, 3_000, marks=pytest.mark.soak) for each in (1, 10, 20))],
)
def test_a_leaf_gets_each_event_once_while_datagrams_are_lost_and_a_router_dies(
    segment: Segment, folder: Path, percent: int, events: int
) -> None:
    segment.lose_datagrams(percent)
    segment.limit_rate(RATE_MBIT)
    nodes = make_nodes(segment, folder)
    with run_nodes(nodes, [(number, ROOT) for number in range(1, len(nodes))]):
        run_within(check_mesh(nodes, events), SECONDS)
