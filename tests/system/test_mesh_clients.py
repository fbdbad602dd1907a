"""Clients in a mesh of nodes in processes, over UDP."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from broker.client import twisted_face
from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.subscription import Subscription
from broker.errors import NoMesh
from examples.free_ports import free_port
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.test_cli import run_command, start_command
from tests.system.traffic import FLIGHT, Inbox, flight, run_within
from tests.system.waiting_test_case import reactor

pytestmark = pytest.mark.system

STREAM, OTHER = "radar.zbw", "other.zbw"


def make_nodes(folder: Path) -> list[NodeProcess]:
    """Two roots, and a router with the session of the client."""
    links = [free_port() for _ in range(3)]
    mesh = [f"127.0.0.1:{free_port(socket.SOCK_DGRAM)}" for _ in range(3)]
    nodes = []
    for number, name in enumerate(("root1", "root2", "router")):
        configuration = (
            f'[network]\ncluster = "alps"\n'
            f'listen = ["tcp:port={links[number]}:interface=127.0.0.1"]\n'
            f"join = {[f'127.0.0.1:{port}' for port in links[:number]]}\n"
            '[streams."radar.>"]\nstack = "mesh"\n'
            '[stacks.mesh]\nuse = "dcp"\nfeed = "mspaces"\n'
            f'udp = "{mesh[number]}"\nroots = {mesh[:2]}\n'
        )
        nodes.append(NodeProcess(folder / name, configuration, name=name))
    return nodes


@contextmanager
def running(nodes: Sequence[NodeProcess]) -> Iterator[None]:
    """Start one after the other, and print the logs on failure."""
    try:
        for node in nodes:
            node.start()
        yield
    except BaseException:
        for node in nodes:
            print(f"--- {node.name}\n{node.log()}")
        raise
    finally:
        for node in nodes:
            node.kill()


async def wait_until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.05)


async def publish(client: AsyncioClient, inbox: Inbox, first: int, last: int) -> None:
    receipts = [
        await client.publish(stream, flight(number), FLIGHT)
        for number in range(first, last)
        for stream in (STREAM, OTHER)
    ]
    await inbox.wait_for_receipts(receipts)
    assert max(inbox.counts().values()) == 1


@asynccontextmanager
async def clients(
    publisher: NodeProcess, subscriber: NodeProcess
) -> AsyncIterator[tuple[AsyncioClient, Inbox, Subscription]]:
    async with (
        connect(publisher.endpoint, client_id="publisher") as at_publisher,
        connect(subscriber.endpoint, client_id="subscriber", longest_wait=0.5) as at_subscriber,
    ):
        await at_publisher.when_connected(PATIENCE)
        subscription = await at_subscriber.subscribe_in_mesh("true()", ">", parents=2)
        inbox = Inbox(subscription)
        yield at_publisher, inbox, subscription
        await inbox.close()


def test_each_event_comes_once_while_a_parent_and_the_session_end(tmp_path: Path) -> None:
    nodes = root1, root2, router = make_nodes(tmp_path)

    async def work() -> None:
        async with clients(root1, router) as (publisher, inbox, subscription):
            mesh = subscription.mesh
            assert mesh is not None
            await wait_until(lambda: mesh.is_alone and len(mesh.parents) == 2)
            await publish(publisher, inbox, 0, 10)
            assert mesh.events >= 10
            root2.kill()
            await publish(publisher, inbox, 10, 20)
            router.kill()
            # Without a session, the mesh goes on.
            receipt = await publisher.publish(STREAM, flight(20), FLIGHT)
            await inbox.wait_for_receipts([receipt])
            router.start()
            root2.start()
            await publish(publisher, inbox, 21, 40)
            await wait_until(lambda: mesh.is_alone and len(mesh.parents) == 2)
            await publish(publisher, inbox, 40, 50)

    with running(nodes):
        run_within(work(), 3 * PATIENCE)


def test_the_command_ends_cleanly(tmp_path: Path) -> None:
    nodes = root1, *_ = make_nodes(tmp_path)

    async def work() -> None:
        query = "/flight[flightleg/altitude > 300]"
        arguments = ["sub", query, "--streams", "radar.>", "--mesh", "--parents", "2", "--json"]
        command = await asyncio.to_thread(start_command, root1, *arguments)
        assert command.stdout is not None
        async with connect(root1.endpoint, client_id="publisher") as publisher:
            line = asyncio.create_task(asyncio.to_thread(command.stdout.readline))
            number = 0
            async with asyncio.timeout(PATIENCE):
                # The command is silent until an event comes.
                while not line.done():
                    altitude = 200 + 200 * (number % 2)
                    await publisher.publish(STREAM, flight(number, altitude), FLIGHT)
                    await asyncio.wait([line], timeout=0.1)
                    number += 1
            assert json.loads(await line)["stream"] == STREAM
        command.send_signal(signal.SIGINT)
        _, err = await asyncio.to_thread(command.communicate, timeout=PATIENCE)
        assert command.returncode == 0, err
        assert "came first through the mesh" in err

    with running(nodes):
        run_within(work(), 2 * PATIENCE)


class TestUnderTwisted(TestCase):
    timeout = int(3 * PATIENCE)

    def test_a_client_gets_events_through_a_mesh(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._receive())

    async def _receive(self) -> None:
        node, *_ = make_nodes(Path(self.mktemp()).absolute())
        self.addCleanup(node.kill)
        node.start()
        client = twisted_face.connect(node.endpoint, client_id="desk")
        subscription = await client.subscribe_in_mesh(streams="radar.>", parents=1)
        mesh = subscription.mesh
        assert mesh is not None
        while not mesh.is_alone:
            await deferLater(reactor, 0.05)
        numbers = [
            (await client.publish(STREAM, flight(number), FLIGHT)).event_id for number in range(5)
        ]
        self.assertEqual([(await anext(subscription)).event_id for _ in numbers], numbers)
        self.assertEqual((mesh.events, list(mesh.parents)), (5, ["root1"]))
        await client.close()


def test_a_node_without_a_mesh_says_so(tmp_path: Path) -> None:
    with NodeProcess(tmp_path) as node:

        async def work() -> None:
            async with connect(node.endpoint) as client:
                with pytest.raises(NoMesh, match="no mesh carries streams radar.zbw at this node"):
                    await client.subscribe_in_mesh(streams=STREAM)

        run_within(work())
        _, err = run_command(node, "sub", "--mesh", status=1)
        assert "no mesh carries streams > at this node" in err
