"""Nodes on a network that loses a fifth of all datagrams, cuts links, and kills nodes (issue 4)."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import attrs
import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import ReceivedEvent
from broker.event.envelope import EventType
from broker.event.identity import EventId
from tests.conftest import SHARED_DATA
from tests.system.namespaces import Host, need_namespaces
from tests.system.node_process import NodeProcess
from tests.system.segment import Segment
from tests.system.traffic import FLIGHT, Inbox, ask_status, flight, within

pytestmark = pytest.mark.system

LOSS_PERCENT = 20
#: Of one publisher, and how many of them may be unacknowledged.
EVENTS = 1000
UNDER_WAY = 100
#: Bytes by which flight records are made longer: up to more than a hundred datagrams.
FILLINGS = (0, 0, 0, 700, 1100, 3000, 0, 20_000, 100, 0)
LONGEST_FILLING = 199_000
#: Each so manieth event is that long, is a real alert, flies high.
LONGEST_EVERY, REAL_EVERY, HIGH_EVERY = 100, 3, 4
HIGH = "/flight[flightleg/altitude > 300]"
#: Seconds for one whole test, with a machine in mind that is busy with others.
LIMIT = 120.0

MEMBERS, GATEWAYS, UDP, GROUP = 7100, 7101, 7200, "239.255.78.1:7300"


# ---------------------------------------------------------------------------- nodes


def node_on(
    host: Host, name: str, folder: Path, network: str, *, key: str = "a key of all the nodes"
) -> NodeProcess:
    """A node on a host, whose clients come by a socket in the file system; not started."""
    place = folder / name
    place.mkdir()
    (place / "key").write_text(key)
    return NodeProcess(
        place,
        f'[network]\nname = "lossy"\nkey_file = "{place / "key"}"\n'
        f'listen = ["tcp:port={MEMBERS}:interface={host.address}"]\n{network}',
        endpoint=f"unix:{place / 'clients'}",
        name=name,
        inside=("ip", "netns", "exec", host.namespace),
    )


def members(hosts: Sequence[Host], folder: Path, with_group: bool) -> list[NodeProcess]:
    """One cluster whose links are by UDP; the nodes are called n1, n2, ..."""
    nodes = []
    for number, host in enumerate(hosts, 1):
        seeds = [f"{other.address}:{UDP}" for other in hosts if other is not host]
        network = (
            f'cluster = "alps"\nudp = "{host.address}:{UDP}"\ntransport = "udp"\njoin = {seeds}\n'
        )
        if with_group:
            network += f'group = "{GROUP}"\ngroup_interface = "{host.interface}"\n'
        nodes.append(node_on(host, f"n{number}", folder, network))
    return nodes


@contextlib.contextmanager
def running(nodes: Sequence[NodeProcess], links: Iterable[tuple[int, int]]) -> Iterator[None]:
    """Start all, and wait until there are these links; the nodes' logs are shown on failure."""
    try:
        for node in nodes:
            node.launch()
        for one, other in links:
            nodes[one].await_log(rf"linked to \w+/{nodes[other].name}")
        yield
    except BaseException:
        for node in nodes:
            print(f"--- {node.name}\n{node.log()}")
        raise
    finally:
        for node in nodes:
            node.kill()


class LogFrom:
    """What a node logs from now on."""

    def __init__(self, node: NodeProcess) -> None:
        self._node = node
        self._seen = len(node.log().splitlines())

    async def until(self, pattern: str) -> str:
        """The first line that has the pattern."""
        return await asyncio.to_thread(self._node.await_log, pattern, self._seen)


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a short name: that of a socket in it has 100 bytes at most."""
    return tmp_path_factory.mktemp("net")


@pytest.fixture(scope="module")
def alerts() -> list[bytes]:
    """Real VOEvents of version 2.0; none where they are not beside the checkout."""
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


# ---------------------------------------------------------------------------- traffic


@attrs.frozen
class Published:
    event_id: EventId
    high: bool


class Publisher:
    """Publishes flights and real alerts, some at once; `published` is what its node has logged."""

    def __init__(self, client: AsyncioClient, alerts: Sequence[bytes]) -> None:
        self._client = client
        self._alerts = alerts
        self._noise = Random(len(alerts))
        self._room = asyncio.Semaphore(UNDER_WAY)
        self.published: list[Published] = []

    async def publish(self, count: int) -> None:
        """Publish so many more; returns when all of them are durable."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                await self._room.acquire()
                tasks.create_task(self._one(number))

    async def _one(self, number: int) -> None:
        high = False
        if self._alerts and number % REAL_EVERY == 0:
            alert = self._alerts[number % len(self._alerts)]
            receipt = await self._client.publish("lossy", alert, EventType("VOEvent", "2.0"))
        else:
            high = number % HIGH_EVERY == 1
            filling = FILLINGS[number % len(FILLINGS)]
            if number % LONGEST_EVERY == LONGEST_EVERY - 1:
                filling = LONGEST_FILLING
            # What can not be made much shorter by compressing it.
            noise = self._noise.randbytes(filling // 2).hex()
            record = flight(number, 400 if high else 200, noise)
            receipt = await self._client.publish("lossy", record, FLIGHT)
        self.published.append(Published(receipt.event_id, high))
        self._room.release()

    def due(self, *, high: bool) -> list[EventId]:
        """The events in its order, all or those that fly high."""
        found = [each.event_id for each in self.published if each.high or not high]
        return sorted(found, key=lambda event_id: event_id.sequence_number)


def check(
    received: Sequence[ReceivedEvent], publishers: Sequence[Publisher], *, high: bool = False
) -> None:
    """All that a subscriber was owed came once and in each publisher's order, and no more."""
    ids = [event.event_id for event in received]
    for publisher in publishers:
        due = publisher.due(high=high)
        client = due[0].client_id
        assert [each for each in ids if each.client_id == client] == due
    assert len(ids) == sum(len(each.due(high=high)) for each in publishers)


async def until_all(
    inboxes: Iterable[Inbox],
    publishers: Sequence[Publisher],
    *,
    before: int = 0,
    high: bool = False,
) -> None:
    """Wait until so many have come as are due; `before` have come to an earlier inbox."""
    due = sum(len(publisher.due(high=high)) for publisher in publishers) - before
    for inbox in inboxes:
        await inbox.until(lambda inbox=inbox: len(inbox.events) >= due)  # type: ignore[misc]


async def figures(nodes: Sequence[NodeProcess]) -> list[dict[str, Any]]:
    """What the nodes say of their network."""
    return [(await ask_status(node.endpoint))["network"] for node in nodes]


def repeated(networks: Sequence[dict[str, Any]]) -> int:
    """Datagrams that were sent again over links."""
    return sum(link["corrections"]["repeated"] for each in networks for link in each["links"])


def reconnections(networks: Sequence[dict[str, Any]]) -> list[int]:
    """How often the connection of each link was replaced."""
    return [link["reconnections"] for each in networks for link in each["links"]]


# ---------------------------------------------------------------------------- tests


@pytest.fixture
def segment(request: pytest.FixtureRequest) -> Iterator[Segment]:
    need_namespaces()
    with Segment(request.param) as segment:
        yield segment


@pytest.mark.parametrize("segment", [3], indirect=True)
@pytest.mark.parametrize("with_group", [False, True], ids=["links", "group"])
def test_members_lose_a_fifth_of_all_datagrams_and_no_event(
    segment: Segment, folder: Path, alerts: list[bytes], with_group: bool
) -> None:
    segment.lose_datagrams(LOSS_PERCENT)
    nodes = members(segment.hosts, folder, with_group)
    one, two, three = nodes

    async def work() -> None:
        async with (
            connect(one.endpoint, client_id="p1") as p1,
            connect(two.endpoint, client_id="p2") as p2,
            connect(three.endpoint, client_id="p3") as p3,
        ):
            publishers = [Publisher(p1, alerts), Publisher(p2, alerts)]
            whole = [Inbox(await client.subscribe()) for client in (p1, p2, p3)]
            high = Inbox(await p1.subscribe(HIGH))
            async with connect(three.endpoint, client_id="roamer") as roamer:
                first = Inbox(await roamer.subscribe(durable="all"))
                publishing = asyncio.gather(*(each.publish(EVENTS // 2) for each in publishers))
                await first.until(lambda: len(first.events) >= EVENTS // 4)
                await first.close()
            await publishing
            # When they began, both of two nodes may have dialled at the same time.
            began = reconnections(await figures(nodes))
            async with connect(three.endpoint, client_id="roamer") as roamer:
                second = Inbox(await roamer.subscribe(durable="all"))
                # What came twice would come before the last three.
                for count in (EVENTS // 2, 3):
                    await asyncio.gather(*(each.publish(count) for each in publishers))
                    await until_all([second], publishers, before=len(first.events))
                    await until_all(whole, publishers)
                    await until_all([high], publishers, high=True)
            for inbox in whole:
                check(inbox.events, publishers)
            check(high.events, publishers, high=True)
            check([*first.events, *second.events], publishers)
            for inbox in (*whole, high, second):
                assert not inbox.subscription.gaps
            networks = await figures(nodes)
            print(f"{repeated(networks)} datagrams sent again over links")
            assert repeated(networks) > 0
            assert reconnections(networks) == began
            for network in networks:
                print(network["group"], network["arrivals"])
                assert (network["group"] is not None) == with_group
            if with_group:
                assert sum(network["group"]["repaired"] for network in networks) > 0

    with running(nodes, itertools.permutations(range(3), 2)):
        within(work(), LIMIT)


@pytest.mark.parametrize("segment", [3], indirect=True)
@pytest.mark.parametrize("with_group", [False, True], ids=["links", "group"])
def test_a_killed_member_and_a_cut_link_lose_no_event(
    segment: Segment, folder: Path, alerts: list[bytes], with_group: bool
) -> None:
    segment.lose_datagrams(LOSS_PERCENT)
    nodes = members(segment.hosts, folder, with_group)
    one, two, three = nodes
    part = EVENTS // 5

    async def work() -> None:
        async with (
            connect(one.endpoint, client_id="p1") as p1,
            connect(two.endpoint, client_id="p2") as p2,
            connect(three.endpoint, client_id="p3") as p3,
        ):
            publishers = [Publisher(p1, alerts), Publisher(p2, alerts)]
            whole = [Inbox(await client.subscribe()) for client in (p1, p2, p3)]
            durable = Inbox(await p2.subscribe(durable="all"))
            high = Inbox(await p2.subscribe(HIGH))

            killed = asyncio.gather(*(each.publish(part) for each in publishers))
            await whole[2].until(lambda: len(whole[2].events) >= part // 2)
            log = LogFrom(one)
            two.kill()
            await publishers[0].publish(part)
            await log.until("the link to alps/n2 is down")
            await asyncio.to_thread(two.start)
            await killed
            await log.until("linked to alps/n2")

            log = LogFrom(one)
            segment.cut(*segment.hosts[:2])
            await asyncio.gather(*(each.publish(part) for each in publishers))
            await log.until("the link to alps/n2 is down")
            # The other way round there is a way, over the third.
            await until_all(whole, publishers)
            await asyncio.gather(*(each.publish(part) for each in publishers))
            await until_all(whole, publishers)
            segment.heal(*segment.hosts[:2])
            await log.until("linked to alps/n2")

            for count in (part, 3):
                await asyncio.gather(*(each.publish(count) for each in publishers))
                await until_all([*whole, durable], publishers)
                await until_all([high], publishers, high=True)
            for inbox in (*whole, durable):
                check(inbox.events, publishers)
            check(high.events, publishers, high=True)
            # The killed node had forgotten what its transient subscriptions wanted: that something
            # may be missing is said there, and only there.
            for inbox in (whole[0], whole[2], durable):
                assert not inbox.subscription.gaps
            networks = await figures(nodes)
            print(f"{repeated(networks)} datagrams sent again over links")
            for network in networks:
                print(network["group"], network["arrivals"])

    with running(nodes, itertools.permutations(range(3), 2)):
        within(work(), LIMIT)


@pytest.mark.parametrize("segment", [4], indirect=True)
def test_events_go_another_way_when_a_gateway_dies_in_silence(
    segment: Segment, folder: Path, alerts: list[bytes]
) -> None:
    a1, a2, c1, c2 = hosts = segment.hosts
    nodes = [
        node_on(host, name, folder, f'cluster = "{cluster}"\n{seeds}{gateways}')
        for host, name, cluster, seeds, gateways in (
            (a1, "a1", "alps", "", ""),
            (a2, "a2", "alps", place_of("join", a1), ""),
            (c1, "c1", "coast", "", place_of("gateways", a1)),
            (c2, "c2", "coast", place_of("join", c1), place_of("gateways", a2)),
        )
    ]

    async def work() -> None:
        async with (
            connect(nodes[0].endpoint, client_id="alps") as alps,
            connect(nodes[3].endpoint, client_id="coast") as coast,
        ):
            publishers = [Publisher(alps, alerts), Publisher(coast, alerts)]
            whole = [Inbox(await client.subscribe()) for client in (alps, coast)]
            pauses = Pauses(whole[1])
            await asyncio.gather(*(each.publish(EVENTS // 4) for each in publishers))
            await until_all(whole, publishers)
            passed = (await figures(nodes[2:3]))[0]["frames"]
            log = LogFrom(nodes[0])
            # Some are under way.
            publishing = asyncio.gather(*(each.publish(EVENTS // 4) for each in publishers))
            segment.silence(hosts[2])
            await publishing
            noticed = asyncio.create_task(log.until("the link to coast/c1 is down"))
            while not noticed.done():
                await asyncio.gather(*(each.publish(1) for each in publishers))
            for count in (EVENTS // 4, 3):
                await asyncio.gather(*(each.publish(count) for each in publishers))
                await until_all(whole, publishers)
            for inbox in whole:
                check(inbox.events, publishers)
                assert not inbox.subscription.gaps
            longest = await pauses.longest()
            print(f"{longest:.1f} s without an event; before, the gateway had {passed}")

    with running(nodes, [(1, 0), (2, 0), (3, 1), (3, 2)]):
        within(work(), LIMIT)


def place_of(key: str, host: Host) -> str:
    """A line of the settings that names where a node on that host listens for others."""
    if key == "gateways":
        return f'gateways = ["tcp:host={host.address}:port={MEMBERS}"]\n'
    return f'{key} = ["{host.address}:{MEMBERS}"]\n'


class Pauses:
    """How long nothing of the first publisher came to an inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._longest = 0.0
        self._task = asyncio.create_task(self._watch())

    async def longest(self) -> float:
        """Seconds. Ends it."""
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task
        return self._longest

    async def _watch(self) -> None:
        def others() -> int:
            return sum(each.client_id == "alps" for each in self._inbox.ids)

        loop = asyncio.get_running_loop()
        count = 0
        while True:
            since = loop.time()
            await self._inbox.until(lambda count=count: others() > count)  # type: ignore[misc]
            if count:
                self._longest = max(self._longest, loop.time() - since)
            count = others()
