"""Strangers at the port of the metrics."""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator

import pytest

from broker.node.descriptors import METRICS_CONNECTIONS
from broker.node.metrics_site import MOST_OF_ADDRESS
from examples.free_ports import free_port
from tests.security.account_settings import BASE, BYSTANDER
from tests.security.attacker import Connection, more_files, open_many
from tests.security.bystander import measured_bystander
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

#: Of the node, less than the connections of the flood.
DESCRIPTORS = 512
FEW_DESCRIPTORS = (
    f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({DESCRIPTORS}, {DESCRIPTORS})); "
)
PAGE = b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"
CONTENT = 1_000_000


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def node(port: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    configuration = BASE + f'[metrics]\nendpoint = "tcp:port={port}:interface=127.0.0.1"\n'
    folder = tmp_path_factory.mktemp("measured")
    with NodeProcess(folder, configuration, prelude=FEW_DESCRIPTORS) as one:
        yield one
        assert "Traceback" not in one.log()


def read_page(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as page:
        return str(page.read().decode())


@pytest.mark.parametrize("addresses", [1, 100])
@pytest.mark.limit("connections to `metrics.endpoint`", "node")
@pytest.mark.limit("connections to `metrics.endpoint`", "address")
def test_silent_connections_take_no_descriptors(
    addresses: int, node: NodeProcess, port: int
) -> None:
    async def work() -> None:
        hosts = [f"127.0.1.{number}" for number in range(1, addresses + 1)]
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            # The address of the bystander's page has a share.
            assert "xmlbroker_limit_reached" in await asyncio.to_thread(read_page, port)
            async with open_many(port, 2 * DESCRIPTORS, hosts=hosts) as flood:
                await bystander.measure()
                page = await asyncio.to_thread(read_page, port)
                assert sum(not each.is_closed for each in flood) <= METRICS_CONNECTIONS
        name = "address-metrics-connections" if addresses == 1 else "metrics-connections"
        sample = f'reached_total{{limit="{name}"'
        (reached,) = [line for line in page.splitlines() if sample in line]
        assert float(reached.split()[-1]) >= 2 * DESCRIPTORS - METRICS_CONNECTIONS - MOST_OF_ADDRESS

    with more_files(4 * DESCRIPTORS):
        run_within(work())


def test_requests_leave_the_node_time_for_others(node: NodeProcess, port: int) -> None:
    async def work() -> None:
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:

            async def request_again() -> None:
                while True:
                    async with open_many(port, MOST_OF_ADDRESS, 200 * PAGE) as connections:
                        for each in connections:
                            assert (await each.read_to_end()).count(b"HTTP/1.1 ") == 1

            attack = asyncio.ensure_future(request_again())
            await bystander.measure(tries=3)
            attack.cancel()
            with pytest.raises(asyncio.CancelledError):
                await attack

    run_within(work())


@pytest.mark.limit("content of requests there", "connection")
@pytest.mark.parametrize("header", [f"Content-Length: {CONTENT}", "Transfer-Encoding: chunked"])
def test_content_of_requests_is_refused(header: str, node: NodeProcess, port: int) -> None:
    async def work() -> None:
        head = f"POST /metrics HTTP/1.1\r\nHost: a\r\n{header}\r\n\r\n".encode()
        async with measured_bystander(node.endpoint, **BYSTANDER) as bystander:
            connection = await Connection.open(port, head)
            assert b" 413 " in await connection.read_to_end()
            await bystander.measure()

    run_within(work())
