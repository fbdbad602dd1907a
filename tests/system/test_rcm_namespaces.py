"""Sites in network namespaces that are killed before and after commits, and cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.system.namespaces import Host, need_namespaces
from tests.system.network_nodes import MEMBERS, run_nodes
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.segment import Segment
from tests.system.test_rcm import MESH, NAMES, Site, open_sites, wait_until_connected
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

SITES = 8770
#: Kills its process before or after a commit: the file `kill` has which one, and its number.
KILLER = """
import os, pathlib, signal
from broker.log.event_log import EventLog
plan = pathlib.Path("kill")
if plan.exists():
    when, number = plan.read_text().split()
    name = {"before": "_commit_now", "after": "_commit_succeeded"}[when]
    method, left = getattr(EventLog, name), [int(number)]
    def counted(*arguments):
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return method(*arguments)
    setattr(EventLog, name, counted)
"""


@pytest.fixture
def segment() -> Iterator[Segment]:
    need_namespaces()
    with Segment(len(NAMES)) as found:
        yield found


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a Unix socket has at most 100 bytes."""
    return tmp_path_factory.mktemp("net")


def make_site(hosts: tuple[Host, ...], number: int, folder: Path, order: str) -> NodeProcess:
    host, name = hosts[number], NAMES[number]
    folder = folder / name
    folder.mkdir()
    (folder / "key").write_text("a key of all the sites")
    seeds = [f"{other.address}:{MEMBERS}" for other in hosts[:number]]
    sites = ", ".join(
        f'{name} = "tcp:host={host.address}:port={SITES}"'
        for name, host in zip(NAMES, hosts, strict=True)
    )
    return NodeProcess(
        folder,
        f'[network]\ncluster = "alps"\nkey_file = "{folder / "key"}"\n'
        f'listen = ["tcp:port={MEMBERS}:interface={host.address}"]\njoin = {seeds}\n'
        '[streams."ops.>"]\nstack = "ops-order"\n'
        f'[stacks.ops-order]\nuse = "rcm"\norder = "{order}"\nsites = {{ {sites} }}\n',
        endpoint=f"unix:{folder / 'clients'}",
        name=name,
        namespace=host.namespace,
        prelude=KILLER,
    )


async def publish_through_a_kill(node: NodeProcess, sites: list[Site], plan_text: str) -> None:
    """Start a node that kills itself at one of its commits, and start it again then."""
    plan = node.folder / "kill"
    plan.write_text(plan_text)
    await asyncio.to_thread(node.stop)
    await asyncio.to_thread(node.start)
    publishing = asyncio.gather(*(site.publish(10) for site in sites))
    await asyncio.to_thread(node.wait)
    plan.unlink()
    await asyncio.to_thread(node.start)
    await publishing


@pytest.mark.soak
@pytest.mark.parametrize("order", ["hybrid", "logical", "sequencer", "real-time"])
def test_kills_at_commits_and_an_outage_leave_one_transcript(
    segment: Segment, folder: Path, order: str
) -> None:
    hosts = segment.hosts
    nodes = [make_site(hosts, number, folder, order) for number in range(len(NAMES))]

    async def work() -> None:
        await wait_until_connected(nodes)
        async with open_sites(nodes) as sites:
            expected = 0
            for number, node in enumerate(nodes, 2):
                for when in ("before", "after"):
                    await publish_through_a_kill(node, sites, f"{when} {number}")
                    expected += 30
            segment.isolate(hosts[2])
            await asyncio.gather(*(site.publish(10) for site in sites))
            for other in hosts[:2]:
                segment.heal(hosts[2], other)
            expected += 30
            for site in sites:
                await site.wait_for(expected)
            found = [
                sorted((entry.site, entry.incarnation, entry.number) for entry in site.entries)
                for site in sites
            ]
            assert len(found[0]) == len(set(found[0])) == expected
            assert found[1] == found[0] and found[2] == found[0]
            if order != "sequencer":
                # With a sequencer places may move, which entries do not show.
                stamps = [{each.id: each.stamp for each in site.entries} for site in sites]
                assert stamps[1] == stamps[0] and stamps[2] == stamps[0]

    with run_nodes(nodes, MESH):
        run_within(work(), 10 * PATIENCE)
