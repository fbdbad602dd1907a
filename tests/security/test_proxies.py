"""Clients behind a proxy that sends headers of the PROXY protocol."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from broker.errors import FrameTooLarge, ProtocolError, TooManySessions
from broker.transport.socket.proxy_header import MAX_WAITING
from broker.wire import messages
from broker.wire.messages import Welcome
from tests.capability import need
from tests.security.attacker import ATTACKER, Connection, more_files, open_many
from tests.security.bystander import measured_bystander
from tests.system.certificates import make_certificate
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.raw_session import frame, hello, read_frame
from tests.system.traffic import ask_status, run_within
from tests.transport.socket.test_proxy_header import header

pytestmark = pytest.mark.system

PROXY = "127.0.0.9"
CONFIGURATION = """[log]
sync = false
[limits]
max_handshakes_per_address = 5
handshake_timeout = 60
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    with proxied_node(tmp_path_factory.mktemp("proxied")) as one:
        yield one
        assert "Traceback" not in one.log()


def proxied_node(
    folder: Path, endpoint: str = "tcp:port={port}:interface=127.0.0.1"
) -> NodeProcess:
    one = NodeProcess(folder, CONFIGURATION, endpoint=endpoint)
    text = one.settings.read_text()
    one.settings.write_text(text.replace("[listen]\n", f'[listen]\nproxies = ["{PROXY}/32"]\n'))
    return one


@asynccontextmanager
async def log_in(
    port: int, client_id: str, source: str, trust: Path | None = None
) -> AsyncIterator[None]:
    """A session by way of the proxy."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(PROXY, 0))
    try:
        writer.write(header(source))
        if trust is not None:
            await writer.start_tls(
                ssl.create_default_context(cafile=trust), server_hostname="localhost"
            )
        writer.write(frame(messages.encode(hello(client_id))))
        async with asyncio.timeout(PATIENCE):
            assert isinstance(messages.decode(await read_frame(reader)), Welcome)
        yield
    finally:
        writer.transport.abort()


def test_limits_and_status_have_the_address_behind_the_proxy(node: NodeProcess) -> None:
    async def work() -> None:
        async with measured_bystander(node.endpoint) as bystander:
            data = header("2001:db8::66")
            async with open_many(node.port, 10, data, hosts=(PROXY,)) as flood:
                await bystander.measure()
                refused = [each for each in flood if each.is_closed]
                assert len(refused) >= 5
                assert TooManySessions.code.encode() in await refused[0].read_to_end()
                async with log_in(node.port, "behind", "192.0.2.7"):
                    status = await ask_status(node.endpoint)
                    peers = {each["client"]: each["peer"] for each in status["sessions"]}
                    assert peers["behind"] == "192.0.2.7:50000"
        node.await_log(r"connection from 2001:db8::66:50000 refused: too many")

    run_within(work())


@pytest.mark.limit("PROXY headers that are not complete", "node")
def test_connections_without_a_whole_header_shut_nobody_out(tmp_path: Path) -> None:
    need("many-files")

    async def work(node: NodeProcess) -> None:
        async with measured_bystander(node.endpoint) as bystander:
            begun = header()[:10]
            async with open_many(node.port, MAX_WAITING, begun, hosts=(PROXY,)) as waiting:
                async with log_in(node.port, "behind", "192.0.2.7"):
                    await closed_of(waiting, 1)
                # The first login has its header, and left a place.
                async with open_many(node.port, 10, begun, hosts=(PROXY,)):
                    await bystander.measure()
                    await closed_of(waiting, 10)

    async def closed_of(connections: list[Connection], count: int) -> None:
        """Exactly so many are closed by the node."""
        await Connection.await_closed(connections, count)
        assert sum(each.is_closed for each in connections) == count

    with more_files(2 * MAX_WAITING), proxied_node(tmp_path) as node:
        run_within(work(node))


def test_header_precedes_tls(tmp_path: Path) -> None:
    own = make_certificate(tmp_path, "node")
    tls = f"ssl:port={{port}}:interface=127.0.0.1:privateKey={own.key}:certKey={own.certificate}"

    async def work(node: NodeProcess) -> None:
        async with log_in(node.port, "behind", "192.0.2.7", own.certificate):
            # A late Hello of the same address is logged under it.
            flood = open_many(node.port, 6, header("192.0.2.66"), hosts=(PROXY,))
            async with flood as connections:
                await asyncio.wait(
                    [asyncio.create_task(each.read_to_end()) for each in connections],
                    return_when=asyncio.FIRST_COMPLETED,
                )
        node.await_log(r"connection from 192\.0\.2\.66:50000 refused: too many")

    with proxied_node(tmp_path / "node", tls) as node:
        run_within(work(node))


@pytest.mark.parametrize(
    ("host", "data", "code", "peer"),
    [
        (PROXY, b"PROXY TCP4 192.0.2.7 192.0.2.8 1 2\r\n", ProtocolError.code, "proxy "),
        (PROXY, frame(messages.encode(hello("direct"))), ProtocolError.code, "proxy "),
        (ATTACKER, header(), FrameTooLarge.code, ""),
    ],
    ids=["version-1", "no-header", "header-of-a-stranger"],
)
def test_only_listed_proxies_send_headers(
    host: str, data: bytes, code: str, peer: str, node: NodeProcess
) -> None:
    async def work() -> None:
        async with measured_bystander(node.endpoint) as bystander:
            before = (await ask_status(node.endpoint))["refused_connections"].get(code, 0)
            connection = await Connection.open(node.port, data, host)
            await connection.read_to_end()
            await bystander.measure()
            after = (await ask_status(node.endpoint))["refused_connections"]
            assert after[code] == before + 1
        node.await_log(rf"connection from {peer}{host}:\d+ refused")

    run_within(work())
