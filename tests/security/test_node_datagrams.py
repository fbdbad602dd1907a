"""Datagrams of strangers without end, at a node with a link over UDP."""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, cast

import pytest

from broker.client.asyncio_face import connect
from broker.transport.arq.wire import DATA, FEEDBACK, HELLO, OPEN
from examples.free_ports import free_port
from tests.security.attacker import ATTACKER
from tests.security.bystander import measured_bystander
from tests.system.network_nodes import run_nodes
from tests.system.node_process import NodeProcess
from tests.system.traffic import STREAM, Inbox, ask_status, publish, run_within

pytestmark = pytest.mark.system

#: In a hundredth of a second.
BURST: Final = 100
MOST_GROWTH: Final = 64 << 20


def make_datagrams() -> Sequence[bytes]:
    """Return random bytes, and datagrams with a valid head and a wrong tag."""
    random = [os.urandom(size) for size in range(1, 1400, 14)]
    kinds = (HELLO, OPEN, DATA, FEEDBACK)
    heads = [bytes([kind]) + os.urandom(8) for kind in kinds]
    sizes = (62, 94, 500, 47)
    false = [head + os.urandom(size - 9) for head, size in zip(heads, sizes, strict=True)]
    return [*random, *false * 25]


class Stranger(asyncio.DatagramProtocol):
    """Sends a burst each hundredth of a second."""

    @classmethod
    async def start(cls, port: int) -> Stranger:
        _, stranger = await asyncio.get_running_loop().create_datagram_endpoint(
            cls, local_addr=(ATTACKER, 0), remote_addr=("127.0.0.1", port)
        )
        return stranger

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)
        self._datagrams = itertools.cycle(make_datagrams())
        self._send()

    def stop(self) -> None:
        self._timer.cancel()
        self._transport.close()

    def _send(self) -> None:
        for each in itertools.islice(self._datagrams, BURST):
            self._transport.sendto(each)
        self._timer = asyncio.get_running_loop().call_later(0.01, self._send)


def memory_of(node: NodeProcess) -> int:
    pages = Path(f"/proc/{node.process.pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def test_datagrams_of_strangers_delay_no_event_and_end_no_link(tmp_path: Path) -> None:
    secret = tmp_path / "key"
    secret.write_text("a key of all the nodes")
    ports = [free_port() for _ in range(2)]
    nodes = [
        NodeProcess(
            tmp_path / f"n{number}",
            '[log]\nsync = false\n[network]\ncluster = "alps"\ntransport = "udp"\n'
            f'key_file = "{secret}"\nudp = "127.0.0.1:{port}"\n'
            f"join = {[f'127.0.0.1:{other}' for other in ports if other != port]}\n",
            name=f"n{number}",
        )
        for number, port in enumerate(ports, 1)
    ]
    attacked, other = nodes

    async def work() -> None:
        async with (
            measured_bystander(attacked.endpoint) as bystander,
            connect(other.endpoint, client_id="publisher") as publisher,
            connect(attacked.endpoint, client_id="reader") as reader,
        ):
            inbox = Inbox(await reader.subscribe("true()", STREAM))
            await inbox.wait_for_receipts(await publish(publisher, 0, 10))
            before = memory_of(attacked)
            (link,) = (await ask_status(attacked.endpoint))["network"]["links"]
            stranger = await Stranger.start(ports[0])
            await bystander.measure(3)
            await inbox.wait_for_receipts(await publish(publisher, 10, 500))
            await bystander.measure(3)
            stranger.stop()
            assert memory_of(attacked) < before + MOST_GROWTH
            network = (await ask_status(attacked.endpoint))["network"]
            (after,) = network["links"]
            for key in ("up", "transport", "reconnections"):
                assert after[key] == link[key]
            assert after["up"] and after["transport"] == "udp"
            counts = network["udp"]
            assert counts["malformed"] > BURST and counts["unknown_connection"] > BURST
            assert not inbox.subscription.gaps
            await inbox.close()

    with run_nodes(nodes, [(0, 1), (1, 0)]):
        run_within(work())
        assert "Traceback" not in attacked.log()
