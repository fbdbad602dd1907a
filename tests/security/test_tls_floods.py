"""Strangers that begin TLS handshakes without end, at the ports for clients and for nodes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from examples.free_ports import free_port
from tests.security.attacker import Connection, more_files, open_many
from tests.security.bystander import measured_bystander
from tests.system.certificates import Certificate, make_certificate
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import ask_status, run_within

pytestmark = pytest.mark.system

#: The key of an answer to a ClientHello; one of this length costs 1.5 ms or more.
RSA_BITS = 4096
CONNECTIONS = 300
HOSTS = [f"127.0.{number}.66" for number in range(40)]


def make_client_hello() -> bytes:
    context = ssl.create_default_context()
    outgoing = ssl.MemoryBIO()
    half = context.wrap_bio(ssl.MemoryBIO(), outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        half.do_handshake()
    return outgoing.read()


def make_rsa_certificate(folder: Path) -> Certificate:
    """For `localhost`, signed by itself."""
    made = Certificate(folder / "rsa-key.pem", folder / "rsa.pem")
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-newkey", f"rsa:{RSA_BITS}", "-days", "2"]
        + ["-subj", "/CN=localhost", "-addext", names]
        + ["-keyout", str(made.key), "-out", str(made.certificate)],
        check=True,
        capture_output=True,
    )
    return made


async def send_hellos(port: int, hello: bytes) -> None:
    """Open connections, let all send a ClientHello at once, and repeat this when all have an answer
    or are closed."""
    while True:
        async with open_many(port, CONNECTIONS, hosts=HOSTS) as flood:
            for each in flood:
                each.send(hello)
            # Others are closed without an answer.
            await asyncio.gather(*map(await_answer, flood))


async def await_answer(connection: Connection) -> None:
    answered = asyncio.ensure_future(connection.await_bytes())
    closed = asyncio.ensure_future(connection.read_to_end())
    try:
        await asyncio.wait((answered, closed), return_when=asyncio.FIRST_COMPLETED)
    finally:
        answered.cancel()
        closed.cancel()


@contextlib.asynccontextmanager
async def flooded(port: int, flood: Callable[[int, bytes], Any]) -> AsyncIterator[None]:
    task = asyncio.ensure_future(flood(port, make_client_hello()))
    try:
        yield
        assert not task.done(), "the flood has ended"
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@pytest.mark.limit("work on TLS handshakes", "port")
def test_tls_handshakes_that_nobody_finishes_delay_no_other(tmp_path: Path) -> None:
    own = make_rsa_certificate(tmp_path)
    tls = f"ssl:port={{port}}:interface=127.0.0.1:privateKey={own.key}:certKey={own.certificate}"

    async def work(node: NodeProcess) -> None:
        endpoint = f"tls:localhost:{node.port}"
        async with measured_bystander(endpoint, trust=own.certificate) as bystander:
            async with flooded(node.port, send_hellos):
                await bystander.measure(3)
                async with connect(endpoint, trust=own.certificate) as client:
                    await client.when_connected(PATIENCE)
                await bystander.measure(3)

    with more_files(4000), NodeProcess(tmp_path, "[log]\nsync = false\n", endpoint=tls) as node:
        run_within(work(node))
        assert "Traceback" not in node.log()


def test_tls_handshakes_of_strangers_keep_no_node_out(tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority")
    ports = free_port(), free_port()

    def make_node(name: str, port: int, more: str) -> NodeProcess:
        own = make_certificate(tmp_path, name, authority)
        return NodeProcess(
            tmp_path / name,
            "[log]\nsync = false\n[network]\n"
            f'cluster = "alps"\nlisten = ["tcp:port={port}:interface=127.0.0.1:backlog=1024"]\n'
            f'certificate = "{own.write_combined()}"\n'
            f'authority = "{authority.certificate}"\n{more}',
            name=name,
        )

    one = make_node("n1", ports[0], "")
    other = make_node("n2", ports[1], f'join = ["127.0.0.1:{ports[0]}"]\n')

    async def work() -> None:
        async with measured_bystander(one.endpoint) as bystander, flooded(ports[0], send_hellos):
            await bystander.measure(3)
            await asyncio.to_thread(other.start)
            await asyncio.to_thread(one.await_log, r"linked to \w+/n2")
            await bystander.measure(3)
        status = await ask_status(one.endpoint)
        (limit,) = (each for each in status["limits"] if each["name"] == "node-handshakes")
        assert limit["reached"] > 0

    with more_files(4000), one:
        try:
            run_within(work())
        finally:
            other.kill()
        assert "Traceback" not in one.log()
