"""A network that loses a fifth of all datagrams, with cut links and killed nodes (issue 4)."""

from __future__ import annotations

import asyncio
import itertools
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from tests.capability import SHARED_DATA
from tests.seeds import further_cases
from tests.system.mixed_traffic import HIGH, LongestPause, Publisher, check_received, wait_for_all
from tests.system.namespaces import need_namespaces
from tests.system.network_nodes import LogTail, address_setting, make_members, make_node, run_nodes
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.segment import Segment
from tests.system.traffic import POLL_SECONDS, Inbox, ask_status, run_within

pytestmark = pytest.mark.system

LOSS_PERCENT = 20
#: Of each publisher.
EVENTS = 1000
SECONDS = 4 * PATIENCE


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a Unix socket has at most 100 bytes."""
    return tmp_path_factory.mktemp("net")


@pytest.fixture(scope="module")
def alerts() -> list[bytes]:
    """None without the data."""
    archives = sorted((SHARED_DATA / "voevent").glob("2021*.tar.bz2"))
    found = []
    for archive in archives:
        with tarfile.open(archive) as tar:
            for entry in itertools.islice(tar, EVENTS):
                file = tar.extractfile(entry)
                packet = b"" if file is None else file.read()
                if b'version="2.0"' in packet[:1500]:
                    found.append(packet)
    return found


async def network_status(nodes: Sequence[NodeProcess]) -> list[dict[str, Any]]:
    return [(await ask_status(node.endpoint))["network"] for node in nodes]


def count_repeated(networks: Sequence[dict[str, Any]]) -> int:
    return sum(link["corrections"]["repeated"] for each in networks for link in each["links"])


@pytest.fixture
def segment(request: pytest.FixtureRequest) -> Iterator[Segment]:
    need_namespaces()
    with Segment(request.param) as segment:
        yield segment


@pytest.mark.parametrize("segment", [3], indirect=True)
@pytest.mark.parametrize("with_group", [False, *further_cases(True)])
def test_members_lose_no_event_with_a_fifth_of_datagrams_lost(
    segment: Segment, folder: Path, alerts: list[bytes], with_group: bool
) -> None:
    segment.lose_datagrams(LOSS_PERCENT)
    nodes = make_members(segment.hosts, folder, with_group)
    one, two, three = nodes

    async def work() -> None:
        async with (
            connect(one.endpoint, client_id="p1") as p1,
            connect(two.endpoint, client_id="p2") as p2,
            connect(three.endpoint, client_id="p3") as p3,
        ):
            publishers = [Publisher(p1, alerts), Publisher(p2, alerts)]
            inboxes = [Inbox(await client.subscribe()) for client in (p1, p2, p3)]
            high = Inbox(await p1.subscribe(HIGH))
            async with connect(three.endpoint, client_id="roamer") as roamer:
                first = Inbox(await roamer.subscribe(durable="all"))
                publishing = asyncio.gather(*(each.publish(EVENTS // 2) for each in publishers))
                await first.wait_until(lambda: len(first.events) >= EVENTS // 4)
                await first.close()
            await publishing
            async with connect(three.endpoint, client_id="roamer") as roamer:
                second = Inbox(await roamer.subscribe(durable="all"))
                # A repeated event would arrive before the last three.
                for count in (EVENTS // 2, 3):
                    await asyncio.gather(*(each.publish(count) for each in publishers))
                    await wait_for_all([second], publishers, before=len(first.events))
                    await wait_for_all(inboxes, publishers)
                    await wait_for_all([high], publishers, high=True)
            for inbox in inboxes:
                check_received(inbox.events, publishers)
            check_received(high.events, publishers, high=True)
            check_received([*first.events, *second.events], publishers)
            for inbox in (*inboxes, high, second):
                assert not inbox.subscription.gaps
            networks = await network_status(nodes)
            print(f"{count_repeated(networks)} datagrams sent again over links")
            assert count_repeated(networks) > 0
            # A node that dials a seed and a member may get two connections to one node, and closes
            # one later.
            assert not any("was silent" in node.log() for node in nodes)
            for network in networks:
                print(network["group"], network["arrivals"])
                assert (network["group"] is not None) == with_group
            if with_group:
                assert sum(network["group"]["repaired"] for network in networks) > 0

    with run_nodes(nodes, itertools.permutations(range(3), 2)):
        run_within(work(), SECONDS)


@pytest.mark.parametrize("segment", [3], indirect=True)
@pytest.mark.parametrize("with_group", [True, *further_cases(False)])
def test_killed_member_and_cut_link_lose_no_event(
    segment: Segment, folder: Path, alerts: list[bytes], with_group: bool
) -> None:
    segment.lose_datagrams(LOSS_PERCENT)
    nodes = make_members(segment.hosts, folder, with_group)
    one, two, three = nodes
    part = EVENTS // 5

    async def work() -> None:
        async with (
            connect(one.endpoint, client_id="p1") as p1,
            connect(two.endpoint, client_id="p2") as p2,
            connect(three.endpoint, client_id="p3") as p3,
        ):
            publishers = [Publisher(p1, alerts), Publisher(p2, alerts)]
            inboxes = [Inbox(await client.subscribe()) for client in (p1, p2, p3)]
            durable = Inbox(await p2.subscribe(durable="all"))
            high = Inbox(await p2.subscribe(HIGH))

            killed = asyncio.gather(*(each.publish(part) for each in publishers))
            await inboxes[2].wait_until(lambda: len(inboxes[2].events) >= part // 2)
            log = LogTail(one)
            two.kill()
            await publishers[0].publish(part)
            await log.wait_for("the link to alps/n2 is down")
            await asyncio.to_thread(two.start)
            await killed
            await log.wait_for("linked to alps/n2")

            log = LogTail(one)
            segment.cut(*segment.hosts[:2])
            await asyncio.gather(*(each.publish(part) for each in publishers))
            await log.wait_for("the link to alps/n2 is down")
            await wait_for_all(inboxes, publishers)
            await asyncio.gather(*(each.publish(part) for each in publishers))
            await wait_for_all(inboxes, publishers)
            segment.heal(*segment.hosts[:2])
            await log.wait_for("linked to alps/n2")

            for count in (part, 3):
                await asyncio.gather(*(each.publish(count) for each in publishers))
                await wait_for_all([*inboxes, durable], publishers)
                await wait_for_all([high], publishers, high=True)
            for inbox in (*inboxes, durable):
                check_received(inbox.events, publishers)
            check_received(high.events, publishers, high=True)
            # The killed node lost its transient subscriptions.
            for inbox in (inboxes[0], inboxes[2], durable):
                assert not inbox.subscription.gaps
            networks = await network_status(nodes)
            print(f"{count_repeated(networks)} datagrams sent again over links")
            for network in networks:
                print(network["group"], network["arrivals"])
            assert sum(network["arrivals"]["asked"] for network in networks) > 0

    with run_nodes(nodes, itertools.permutations(range(3), 2)):
        run_within(work(), SECONDS)


@pytest.mark.parametrize("segment", [4], indirect=True)
def test_events_take_another_route_when_a_gateway_dies_silently(
    segment: Segment, folder: Path, alerts: list[bytes]
) -> None:
    a1, a2, c1, c2 = hosts = segment.hosts
    nodes = [
        make_node(host, name, folder, f'cluster = "{cluster}"\n{seeds}{gateways}')
        for host, name, cluster, seeds, gateways in (
            (a1, "a1", "alps", "", ""),
            (a2, "a2", "alps", address_setting("join", a1), ""),
            (c1, "c1", "coast", "", address_setting("gateways", a1)),
            (c2, "c2", "coast", address_setting("join", c1), address_setting("gateways", a2)),
        )
    ]

    async def work() -> None:
        async with (
            connect(nodes[0].endpoint, client_id="alps") as alps,
            connect(nodes[3].endpoint, client_id="coast") as coast,
        ):
            publishers = [Publisher(alps, alerts), Publisher(coast, alerts)]
            inboxes = [Inbox(await client.subscribe()) for client in (alps, coast)]
            pauses = LongestPause(inboxes[1], "alps")
            await asyncio.gather(*(each.publish(EVENTS // 4) for each in publishers))
            await wait_for_all(inboxes, publishers)
            passed = (await network_status(nodes[2:3]))[0]["frames"]
            assert passed["transit"] > 0
            log = LogTail(nodes[0])
            publishing = asyncio.gather(*(each.publish(EVENTS // 4) for each in publishers))
            segment.isolate(hosts[2])
            await publishing
            link_down = asyncio.create_task(log.wait_for("the link to coast/c1 is down"))
            while not link_down.done():
                await asyncio.gather(*(each.publish(1) for each in publishers))
                await asyncio.sleep(POLL_SECONDS)
            for count in (EVENTS // 4, 3):
                await asyncio.gather(*(each.publish(count) for each in publishers))
                await wait_for_all(inboxes, publishers)
            for inbox in inboxes:
                check_received(inbox.events, publishers)
                assert not inbox.subscription.gaps
            longest = await pauses.stop()
            print(f"{longest:.1f} s without an event; before, the gateway had {passed}")

    with run_nodes(nodes, [(1, 0), (2, 0), (3, 1), (3, 2)]):
        run_within(work(), SECONDS)
