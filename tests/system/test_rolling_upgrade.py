"""Nodes of the previous and of this version in one network, each with its own data (Q24)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path

import lmdb
import pytest

from broker.client.asyncio_face import AsyncioClient, connect
from broker.client.received import Receipt
from broker.cluster.handshake_messages import PROTOCOL_VERSIONS
from broker.event.origin import origin_start_ms
from broker.log.checked_table import CheckedTable
from broker.log.tables import FORMAT_NAME
from examples.free_ports import free_port
from tests.capability import PREVIOUS, VERSION_1
from tests.seeds import further_cases
from tests.system.archived_nodes import ids_of, resume, wait_for_all
from tests.system.network_nodes import run_nodes
from tests.system.node_process import PATIENCE, ROOT, NodeProcess
from tests.system.previous_client import PreviousClient
from tests.system.previous_version import log_format, previous_tree
from tests.system.traffic import publish, run_within

pytestmark = [pytest.mark.system, pytest.mark.slow]

#: Without the time.
OLD_ORIGIN = "0123456789abcdef"
LINKS = [(1, 0), (2, 1)]


@pytest.fixture(scope="module")
def first_version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Node protocol 1 and log format 3."""
    return previous_tree(tmp_path_factory.mktemp("first"), VERSION_1)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return previous_tree(tmp_path_factory.mktemp("release"), PREVIOUS)


def line_of_nodes(folder: Path, trees: Sequence[Path]) -> list[NodeProcess]:
    """Return nodes in a line, not started. The first is a cluster of its own and a gateway."""
    ports = [free_port() for _ in trees]
    nodes = []
    for number, tree in enumerate(trees):
        place = f'cluster = "c{min(number, 1)}"\n'
        if number == 1:
            place += f'gateways = ["tcp:host=127.0.0.1:port={ports[0]}"]\n'
        elif number:
            place = f'join = ["127.0.0.1:{ports[number - 1]}"]\n'
        nodes.append(
            NodeProcess(
                folder / f"n{number}",
                f'[network]\nname = "mixed"\n{place}'
                f'listen = ["tcp:port={ports[number]}:interface=127.0.0.1"]\n'
                '[streams."roaming.>"]\nacknowledge = "neighbour"\n',
                name=f"n{number}",
                code=tree,
            )
        )
    return nodes


def upgrade(node: NodeProcess, tree: Path) -> None:
    node.stop()
    seen = len(node.log().splitlines())
    node.code = tree
    node.launch()
    node.await_log(r"linked to ", seen)


class ClientsOfBothVersions:
    def __init__(self, clients: list[AsyncioClient], previous: list[PreviousClient]) -> None:
        self._clients = clients
        self._previous = previous
        self._count = 0
        self._published: list[str] = []

    async def start(self) -> None:
        self._inboxes = [await resume(client) for client in self._clients]

    async def exchange(self) -> None:
        receipts: list[Receipt] = []
        for client in self._clients:
            await client.when_connected(PATIENCE)
            receipts += await publish(client, *self._numbers())
        for each in self._previous:
            await each.publish(*self._numbers())
        self._published += [str(event_id) for event_id in ids_of(receipts)]
        expected = {*self._published, *self._by_previous()}
        for inbox in self._inboxes:
            await inbox.wait_for_ids(expected)
        for each in self._previous:
            await each.until_received(expected)

    def _numbers(self) -> tuple[int, int]:
        self._count += 10
        return self._count - 10, self._count

    def _by_previous(self) -> list[str]:
        return [text for each in self._previous for text in each.ids("published")]

    async def close(self) -> None:
        """Nothing repeated and no gap was reported."""
        all_ids = sorted([*self._published, *self._by_previous()])
        for inbox in self._inboxes:
            assert sorted(map(str, inbox.ids)) == all_ids
            assert not inbox.subscription.gaps
            await inbox.close()
        for each in self._previous:
            assert sorted(each.ids("received")) == all_ids
            assert not each.ids("gap")
            await each.close()


@pytest.mark.parametrize(("version", "order"), [(2, (0, 2, 1)), *further_cases((1, (1, 2, 0)))])
def test_network_is_upgraded_node_by_node(
    tmp_path: Path, request: pytest.FixtureRequest, version: int, order: Sequence[int]
) -> None:
    """Between upgrades, nodes and clients of both versions get all events of all others."""
    previous = request.getfixturevalue("first_version" if version == 1 else "release")
    nodes = line_of_nodes(tmp_path, [previous, previous, previous])

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(connect(node.endpoint, client_id=f"c-{node.name}"))
                for node in nodes
            ]
            old = [
                await PreviousClient.start(node.endpoint, f"p-{node.name}", previous)
                for node in nodes
            ]
            all_clients = ClientsOfBothVersions(clients, old)
            await all_clients.start()
            await all_clients.exchange()
            for number in order:
                await asyncio.to_thread(upgrade, nodes[number], ROOT)
                await all_clients.exchange()
                if nodes[1].code == ROOT:
                    newest = PROTOCOL_VERSIONS[-1]
                    expected = sorted(newest if nodes[n].code == ROOT else version for n in (0, 2))
                    links = await links_of(clients[1])
                    assert sorted(int(str(link["version"])) for link in links) == expected
            await all_clients.close()

    with run_nodes(nodes, LINKS):
        run_within(work(), 8 * PATIENCE)
        for node in nodes:
            assert "Traceback" not in node.log()


async def links_of(client: AsyncioClient) -> list[dict[str, object]]:
    status = await client.ask("status")
    links: list[dict[str, object]] = status["network"]["links"]
    return links


def test_log_with_an_old_origin_name_continues_after_the_upgrade(
    tmp_path: Path, first_version: Path
) -> None:
    nodes = first, second = line_of_nodes(tmp_path, [first_version, first_version])
    first.start()
    first.stop()
    rename_log(first.data, OLD_ORIGIN)

    async def work() -> None:
        async with (
            connect(first.endpoint, client_id="at-first") as at_first,
            connect(second.endpoint, client_id="at-second") as at_second,
        ):
            await at_first.when_connected(PATIENCE)
            inbox = await resume(at_second)
            published = await publish(at_first, 0, 20)
            await wait_for_all(inbox, published)
            await asyncio.to_thread(upgrade, first, ROOT)
            await at_first.when_connected(PATIENCE)
            published += await publish(at_first, 20, 40)
            await asyncio.to_thread(upgrade, second, ROOT)
            await at_first.when_connected(PATIENCE)
            published += await publish(at_first, 40, 60)
            await wait_for_all(inbox, published)
            places = [receipt.place for receipt in published]
            assert {place.origin for place in places if place} == {OLD_ORIGIN}
            assert not origin_start_ms(OLD_ORIGIN)
            assert inbox.ids == ids_of(published)
            assert not inbox.subscription.gaps
            await inbox.close()

    with run_nodes(nodes, LINKS[:1]):
        run_within(work(), 6 * PATIENCE)


def rename_log(data: Path, name: str) -> None:
    for folder in [path.parent for path in data.rglob("data.mdb")]:
        with lmdb.open(str(folder), max_dbs=16) as env:
            meta = env.open_db(b"meta", create=False)
            copies = env.open_db(b"copies")
            with env.begin(write=True) as txn:
                if txn.get(b"format", db=meta) == FORMAT_NAME:
                    CheckedTable(b"m", meta, copies).put(txn, b"origin", name.encode())
                    return
                if txn.get(b"origin", db=meta):
                    txn.put(b"origin", name.encode(), db=meta)
                    return
    raise AssertionError(f"no log in {data}")


def test_previous_version_refuses_a_later_log_format(tmp_path: Path, first_version: Path) -> None:
    old, new = log_format(first_version), log_format(ROOT)
    assert old != new
    (node,) = line_of_nodes(tmp_path, [first_version])
    node.start()
    node.stop()
    node.code = ROOT
    node.start()
    node.stop()
    node.code = first_version
    node.launch()
    assert node.wait() != 0
    refusal = [text for text in node.log().splitlines() if new in text]
    assert refusal and old in refusal[-1]
    node.code = ROOT
    node.start()
    node.stop()
