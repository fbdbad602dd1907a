"""Strangers at a node's address for other nodes."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker.cluster.acceptor import MOST_HANDSHAKES, MOST_HANDSHAKES_PER_HOST
from broker.transport.pending_connections import KNOWN_SHARE
from examples.free_ports import free_port
from tests.security.attacker import open_many
from tests.security.bystander import measured_bystander
from tests.system.node_process import NodeProcess
from tests.system.traffic import ask_status, run_within

pytestmark = pytest.mark.system


def make_node(folder: Path, name: str, port: int, seed: int | None = None) -> NodeProcess:
    join = "" if seed is None else f'join = ["127.0.0.1:{seed}"]\n'
    return NodeProcess(
        folder / name,
        f'[log]\nsync = false\n[network]\ncluster = "alps"\n'
        f'listen = ["tcp:port={port}:interface=127.0.0.1:backlog=1024"]\n{join}',
        name=name,
    )


@pytest.mark.limit("handshakes of nodes", "node")
@pytest.mark.limit("handshakes of nodes", "address")
def test_silent_strangers_keep_no_node_out(tmp_path: Path) -> None:
    ports = free_port(), free_port()
    one, other = make_node(tmp_path, "n1", ports[0]), make_node(tmp_path, "n2", ports[1], ports[0])
    hosts = [f"127.0.{number}.66" for number in range(100)]

    async def work() -> None:
        async with (
            measured_bystander(one.endpoint) as bystander,
            open_many(ports[0], 40) as of_one_address,
            open_many(ports[0], 100, hosts=hosts) as of_many,
        ):
            await asyncio.to_thread(other.start)
            await asyncio.to_thread(one.await_log, r"linked to \w+/n2")
            await bystander.measure()
            held = [sum(not each.is_closed for each in part) for part in (of_one_address, of_many)]
            assert held[0] <= MOST_HANDSHAKES_PER_HOST
            assert sum(held) <= MOST_HANDSHAKES - MOST_HANDSHAKES // KNOWN_SHARE
            status = await ask_status(one.endpoint)
            (limit,) = (each for each in status["limits"] if each["name"] == "node-handshakes")
            assert limit["reached"] >= 140 - MOST_HANDSHAKES
            assert 0 < limit["used"] <= MOST_HANDSHAKES

    with one:
        try:
            run_within(work())
        finally:
            other.kill()
        assert "Traceback" not in one.log()
