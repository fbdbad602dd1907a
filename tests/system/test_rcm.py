"""Nodes in processes, as the sites of a group whose events have one order."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.errors import NotInGroup
from broker.event.order_entry import OrderEntry
from examples.free_ports import free_port
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.test_cli import run_command
from tests.system.traffic import FLIGHT, POLL_SECONDS, Inbox, ask_status, flight, run_within

pytestmark = pytest.mark.system

NAMES = ("a", "b", "c")
MESH = [(1, 0), (2, 0), (2, 1)]
STREAM = "ops.zbw"
#: A busy machine may delay an event by more than the default, and so make it late.
PATIENT = 'delta = "5s"\n'


def make_addresses(host: str = "127.0.0.1") -> dict[str, str]:
    return {name: f"tcp:host={host}:port={free_port()}" for name in NAMES}


def make_sites(
    folder: Path,
    order: str = "hybrid",
    options: Callable[[str], str] = lambda name: "",
    addresses: Mapping[str, str] | None = None,
    sites_of: Callable[[str], Iterable[str]] = lambda name: NAMES,
    network: str = "",
) -> list[NodeProcess]:
    """`options` returns further TOML of the stack at a site, `sites_of` its configured sites: a
    node without any is outside of the group. `network` is further TOML of the section."""
    ports = [free_port() for _ in NAMES]
    addresses = addresses or make_addresses()
    nodes = []
    for number, name in enumerate(NAMES):
        seeds = [f"127.0.0.1:{port}" for port in ports[:number]]
        sites = ", ".join(f'{each} = "{addresses[each]}"' for each in sites_of(name))
        configuration = (
            f'[network]\ncluster = "alps"\n'
            f'listen = ["tcp:port={ports[number]}:interface=127.0.0.1"]\njoin = {seeds}\n{network}'
        )
        if sites:
            configuration += (
                '[streams."ops.>"]\nstack = "ops-order"\n'
                f'[stacks.ops-order]\nuse = "rcm"\norder = "{order}"\nsites = {{ {sites} }}\n'
                + PATIENT
                + options(name)
            )
        nodes.append(NodeProcess(folder / name, configuration, name=name))
    return nodes


class Site:
    """A client that publishes at a site, and reads all events there."""

    def __init__(self, client: AsyncioClient, inbox: Inbox) -> None:
        self.client = client
        self.inbox = inbox

    @property
    def entries(self) -> list[OrderEntry]:
        found = [event.order for event in self.inbox.events]
        assert None not in found
        return [entry for entry in found if entry is not None]

    async def publish(self, count: int) -> None:
        for number in range(count):
            await self.client.publish(STREAM, flight(number), FLIGHT)

    async def wait_for(self, count: int) -> None:
        await self.inbox.wait_until(lambda: len(self.inbox.events) >= count)


@asynccontextmanager
async def open_sites(nodes: Sequence[NodeProcess]) -> AsyncIterator[list[Site]]:
    async with AsyncExitStack() as stack:
        sites = []
        for node in nodes:
            client = await stack.enter_async_context(
                connect(node.endpoint, client_id=f"client-{node.name}")
            )
            await client.when_connected(PATIENCE)
            inbox = Inbox(await client.subscribe("true()", "ops.>", durable="all"))
            stack.push_async_callback(inbox.close)
            sites.append(Site(client, inbox))
        yield sites


async def find_stack(node: NodeProcess) -> dict[str, Any]:
    stacks = (await ask_status(node.endpoint))["stacks"]
    (found,) = [each for each in stacks if each["name"] == "ops-order"]
    assert found["error"] == ""
    return dict(found)


async def statuses(node: NodeProcess) -> dict[str, str]:
    found = await find_stack(node)
    return {each["site"]: each["status"] for each in found["peers"]}


async def wait_until_connected(nodes: Sequence[NodeProcess]) -> None:
    async with asyncio.timeout(PATIENCE):
        for node in nodes:
            others = {each.name for each in nodes} - {node.name}
            while (await statuses(node)) != dict.fromkeys(others, "connected"):
                await asyncio.sleep(POLL_SECONDS)


async def compare(node: NodeProcess) -> dict[str, Any]:
    """Return the output of `xmlbroker order compare`."""
    output, _ = await asyncio.to_thread(run_command, node, "order", "compare")
    found: dict[str, Any] = json.loads(output)
    return found


@pytest.mark.parametrize(
    "order",
    [
        "hybrid",
        "sequencer",
        pytest.param("logical", marks=pytest.mark.soak),
        pytest.param("real-time", marks=pytest.mark.soak),
    ],
)
def test_all_sites_see_one_order(tmp_path: Path, order: str) -> None:
    variants = ("logical", "sequencer", "real-time", "hybrid")
    nodes = make_sites(tmp_path, order, lambda _: f"compare = {list(variants)}\n")

    async def work() -> None:
        await wait_until_connected(nodes)
        async with open_sites(nodes) as sites:
            await asyncio.gather(*(site.publish(30) for site in sites))
            for site in sites:
                await site.wait_for(90)
            first = sites[0].entries
            assert len({entry.id for entry in first}) == 90
            for site in sites:
                assert [entry.id for entry in site.entries] == [entry.id for entry in first]
                assert not any(entry.is_late for entry in site.entries)
        found = await compare(nodes[0])
        counts = {each["variant"]: each["messages"] for each in found["variants"]}
        assert counts.keys() == set(variants) and counts[order] == 90
        assert all(each["kept"] for each in found["variants"]), found

    with run_nodes(nodes, MESH):
        run_within(work(), 3 * PATIENCE)


def test_all_sites_see_one_order_over_a_multicast_group(tmp_path: Path) -> None:
    group = f"239.255.77.9:{free_port(socket.SOCK_DGRAM)}"
    fan_out = f'fan_out = "group"\ngroup = "{group}"\ngroup_interface = "127.0.0.1"\n'
    nodes = make_sites(tmp_path, options=lambda name: fan_out)

    async def work() -> None:
        await wait_until_connected(nodes)
        async with open_sites(nodes) as sites:
            await asyncio.gather(*(site.publish(30) for site in sites))
            for site in sites:
                await site.wait_for(90)
            first = sites[0].entries
            for site in sites:
                assert [entry.id for entry in site.entries] == [entry.id for entry in first]
        for node in nodes:
            (links,) = (await find_stack(node))["links"]
            assert links["references"] >= 30
            # A busy machine may read a datagram later than its reference.
            assert links["repairs"] < links["references"] / 2
            assert links["rejected_datagrams"] < 10

    with run_nodes(nodes, MESH):
        run_within(work(), 3 * PATIENCE)


def test_a_killed_site_gets_the_same_transcript(tmp_path: Path) -> None:
    nodes = make_sites(tmp_path)

    async def work() -> None:
        await wait_until_connected(nodes)
        async with open_sites(nodes) as sites:
            await asyncio.gather(*(site.publish(10) for site in sites))
            nodes[2].kill()
            await asyncio.gather(*(site.publish(10) for site in sites[:2]))
            nodes[2].start()
            await asyncio.gather(*(site.publish(10) for site in sites))
            for site in sites:
                await site.wait_for(80)
            transcripts = [
                sorted((entry.stamp, entry.site, entry.number) for entry in site.entries)
                for site in sites
            ]
            assert len(set(transcripts[0])) == 80
            assert transcripts[1] == transcripts[0] and transcripts[2] == transcripts[0]
            for site in sites:
                _check_late(site.entries)

    with run_nodes(nodes, MESH):
        run_within(work(), 4 * PATIENCE)


@pytest.mark.soak
def test_a_node_outside_refuses_the_streams_of_a_group_and_names_its_sites(tmp_path: Path) -> None:
    nodes = make_sites(tmp_path, sites_of=lambda name: () if name == "c" else ("a", "b"))

    async def work() -> None:
        await wait_until_connected(nodes[:2])
        async with connect(nodes[2].endpoint, client_id="outside") as client:
            await client.when_connected(PATIENCE)

            async def check_refusals() -> None:
                with pytest.raises(NotInGroup, match="a, b"):
                    await client.publish(STREAM, flight(1), FLIGHT)
                with pytest.raises(NotInGroup, match="a, b"):
                    await client.subscribe("true()", "ops.>")

            # The node learns of the group.
            with pytest.raises(NotInGroup):
                while True:
                    await client.publish(STREAM, flight(0), FLIGHT)
                    await asyncio.sleep(POLL_SECONDS)
            await check_refusals()
            await client.publish("other", flight(0), FLIGHT)
            for site in nodes[:2]:
                site.kill()
                await check_refusals()

    with run_nodes(nodes, MESH):
        run_within(work(), 2 * PATIENCE)


def change_sites(node: NodeProcess, *arguments: str) -> dict[str, str]:
    """Run `xmlbroker order admit` or `remove`, and return the sites."""
    sites: dict[str, str] = json.loads(run_command(node, "order", *arguments)[0])["sites"]
    return sites


def test_a_site_is_admitted_and_removed_by_an_operator(tmp_path: Path) -> None:
    addresses = make_addresses("localhost")
    nodes = make_sites(
        tmp_path,
        addresses=addresses,
        sites_of=lambda name: ("a", "c") if name == "c" else ("a", "b"),
    )

    async def work() -> None:
        await wait_until_connected(nodes[:2])
        async with AsyncExitStack() as stack:
            sites = await stack.enter_async_context(open_sites(nodes[:2]))
            await asyncio.gather(*(site.publish(5) for site in sites))
            async with asyncio.timeout(PATIENCE):
                while "refusal" not in await find_stack(nodes[2]):
                    await asyncio.sleep(POLL_SECONDS)
            with pytest.raises(NotInGroup, match="is not admitted .*; its sites: a, b"):
                await stack.enter_async_context(open_sites(nodes[2:]))
            found = await asyncio.to_thread(
                change_sites, nodes[1], "admit", "ops-order", "c", addresses["c"]
            )
            assert found == addresses
            await wait_until_connected(nodes)
            sites += await stack.enter_async_context(open_sites(nodes[2:]))
            await asyncio.gather(*(site.publish(5) for site in sites))
            for site in sites[:2]:
                await site.wait_for(25)
            transcripts = [sorted(entry.id for entry in site.entries) for site in sites]
            assert transcripts[0] == transcripts[1]
            # Its history may have come before its subscription.
            await sites[2].wait_for(15)
            ids = [entry.id for entry in sites[2].entries]
            assert len({*ids}) == len(ids) and {*ids} <= {*transcripts[0]}

            found = await asyncio.to_thread(change_sites, nodes[0], "remove", "ops-order", "c")
            assert found.keys() == {"a", "b"}
            await wait_until_connected(nodes[:2])
            with pytest.raises(NotInGroup, match="was removed from the group ops-order"):
                async with asyncio.timeout(PATIENCE):
                    while True:
                        await sites[2].publish(1)
                        await asyncio.sleep(POLL_SECONDS)
            await sites[0].publish(5)
            await sites[1].wait_for(30)
            # An admission alone brings it back.
            await asyncio.to_thread(
                change_sites, nodes[0], "admit", "ops-order", "c", addresses["c"]
            )
            await wait_until_connected(nodes)
            await sites[2].publish(1)

    with run_nodes(nodes, MESH):
        run_within(work(), 4 * PATIENCE)


def _check_late(entries: Sequence[OrderEntry]) -> None:
    """Check that exactly the events behind a higher stamp are late."""
    highest = (0, "", 0)
    for entry in entries:
        assert entry.stamp is not None
        place = entry.stamp, entry.site, entry.number
        assert entry.is_late == (place < highest), entry
        highest = max(highest, place)
