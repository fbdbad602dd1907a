"""Children on one segment get events by real IP multicast, between network namespaces."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from tests.system.namespaces import need_namespaces
from tests.system.network_nodes import MEMBERS, make_node, run_nodes
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.segment import Segment
from tests.system.test_mesh_namespaces import mesh_state, wait_for_parents
from tests.system.traffic import FLIGHT, Inbox, flight, run_within

pytestmark = [pytest.mark.system, pytest.mark.soak]

MESH, STREAM = 8770, "mesh.flights"
NAMES = ("a1", "b1", "b2", "b3", "b4")
EVENTS = 400
SECONDS = 4 * PATIENCE


@pytest.fixture
def segment() -> Iterator[Segment]:
    need_namespaces()
    with Segment(len(NAMES)) as found:
        yield found


def make_nodes(segment: Segment, folder: Path) -> list[NodeProcess]:
    """One root with four children."""
    hosts = segment.hosts
    mesh = [f"{host.address}:{MESH}" for host in hosts]
    return [
        make_node(
            *(host, name, folder),
            'cluster = "alps"\n'
            f"join = {[f'{hosts[0].address}:{MEMBERS}'] if number else []}\n"
            '[streams."mesh.>"]\nstack = "tested"\n'
            f'[stacks.tested]\nuse = "dcp"\nfeed = "mspaces"\nudp = "{mesh[number]}"\n'
            f'roots = {mesh[:1]}\nparents = 1\nmulticast = "239.77.0.1:8771"\n',
        )
        for number, (host, name) in enumerate(zip(hosts, NAMES, strict=True))
    ]


async def check_groups(nodes: list[NodeProcess]) -> None:
    root, *children = nodes
    for node in children:
        await wait_for_parents(node, "a1")
    async with contextlib.AsyncExitStack() as stack:
        publisher = await stack.enter_async_context(connect(root.endpoint, client_id="publisher"))
        inboxes = []
        for node in children:
            reader = await stack.enter_async_context(connect(node.endpoint, client_id="reader"))
            inboxes.append(Inbox(await reader.subscribe()))
        receipts = []
        for number in range(EVENTS):
            receipts.append(await publisher.publish(STREAM, flight(number), FLIGHT))
            await asyncio.sleep(0.01)
        for inbox in inboxes:
            await inbox.wait_for_receipts(receipts)
            assert inbox.ids == [each.event_id for each in receipts]
            assert not inbox.subscription.gaps
        groups: dict[str, Any] = (await mesh_state(root))["groups"]
        heard = [(await mesh_state(node))["groups"] for node in children]
    print(groups, *heard)
    (group,) = groups["sent_to"]
    assert (group["members"], group["carried"]) == (4, 4)
    assert group["sent"] <= 2 * EVENTS
    assert all(each["received"] > EVENTS // 2 and not each["malformed"] for each in heard)


def test_four_children_get_each_event_once_by_multicast_while_datagrams_are_lost(
    segment: Segment, tmp_path_factory: pytest.TempPathFactory
) -> None:
    segment.lose_datagrams(10)
    nodes = make_nodes(segment, tmp_path_factory.mktemp("net"))
    with run_nodes(nodes, [(number, 0) for number in range(1, len(nodes))]):
        run_within(check_groups(nodes), SECONDS)
