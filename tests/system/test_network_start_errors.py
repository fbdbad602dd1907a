"""Invalid network settings: one line names the setting, with exit status 1."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.free_ports import free_port
from tests.system.namespaces import need_namespaces
from tests.system.network_nodes import make_members
from tests.system.node_process import ROOT, NodeProcess
from tests.system.segment import Segment
from tests.system.test_start_errors import start_error
from tests.system.traffic import ask_status

pytestmark = pytest.mark.system

#: Of this machine, and without an interface.
GROUP, NOWHERE = "239.255.78.9:7309", "192.0.2.7"


@pytest.fixture
def used_port() -> Iterator[int]:
    """Port in use for TCP and UDP."""
    with socket.socket() as stream, socket.socket(type=socket.SOCK_DGRAM) as datagrams:
        stream.bind(("127.0.0.1", 0))
        stream.listen()
        port = stream.getsockname()[1]
        datagrams.bind(("127.0.0.1", port))
        yield port


def line_of(folder: Path, settings: str) -> str:
    folder.mkdir()
    key = folder / "key"
    key.write_text("a key of all the nodes")
    listen = f'listen = ["tcp:port={free_port()}:interface=127.0.0.1"]\n'
    if "listen =" in settings:
        listen = ""
    network = f'[network]\ncluster = "alps"\nkey_file = "{key}"\n{listen}{settings}\n'
    return start_error(NodeProcess(folder, network))


def test_port_in_use_is_reported_with_the_setting(tmp_path: Path, used_port: int) -> None:
    line = line_of(tmp_path / "udp", f'udp = "127.0.0.1:{used_port}"')
    assert f"network.udp 127.0.0.1:{used_port}: Address already in use" in line
    endpoint = f"tcp:port={used_port}:interface=127.0.0.1"
    line = line_of(tmp_path / "tcp", f'listen = ["{endpoint}"]')
    assert f'network.listen "{endpoint}": Address already in use' in line


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            f'group = "{GROUP}"\ngroup_interface = "nosuch0"',
            "network.group_interface nosuch0: there is no interface nosuch0",
        ),
        (
            f'group = "{GROUP}"\ngroup_interface = "{NOWHERE}"',
            f"network.group_interface {NOWHERE}: No such device",
        ),
        (
            'group = "[ff15::7709]:7309"\ngroup_interface = "nosuch0"',
            "network.group_interface nosuch0: there is no interface nosuch0",
        ),
        (
            'group = "10.1.1.1:7309"\ngroup_interface = "lo"',
            "10.1.1.1 is not a multicast address",
        ),
        (f'udp = "{NOWHERE}:7209"', f"network.udp {NOWHERE}:7209: Cannot assign"),
        ('udp = "localhost:7209"', "network.udp localhost:7209: localhost is not an IP address"),
        ('udp = "0.0.0.0:7209"', "network.udp is on all interfaces"),
        ('listen = ["tcp:port=0"]', "name the address of one interface, or set network.advertise"),
    ],
)
def test_invalid_listening_address_is_reported_with_the_setting(
    tmp_path: Path, settings: str, expected: str
) -> None:
    assert expected in line_of(tmp_path / "node", settings)


def test_unreachable_group_is_reported(tmp_path: Path) -> None:
    need_namespaces()
    with Segment(1) as segment:
        (host,) = segment.hosts
        (node,) = make_members(segment.hosts, tmp_path, with_group=True)
        host.run("ip", "link", "set", host.interface, "down")
        with node:
            line = node.await_log("nothing can be sent to the group")
    assert host.interface in line
    assert "unreachable" in line


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (
            'name = "ours"\nkey_file = "{other}"',
            "the nodes have different keys in network.key_file",
        ),
        ('name = "ours"', "but this node has no network.key_file"),
        ('name = "theirs"\nkey_file = "{key}"', "the nodes have different network.name settings"),
        ('name = "ours"\nkey_file = "{key}"', "another node has the node.name first"),
    ],
)
def test_refused_node_reports_the_setting(tmp_path: Path, settings: str, expected: str) -> None:
    keys = {name: tmp_path / name for name in ("key", "other")}
    for name, path in keys.items():
        path.write_text(f"the {name} of some nodes")
    port = free_port()
    founder = (
        f'[network]\nname = "ours"\ncluster = "alps"\nkey_file = "{keys["key"]}"\n'
        f'listen = ["tcp:port={port}:interface=127.0.0.1"]\n'
    )
    joiner = f'[network]\njoin = ["127.0.0.1:{port}"]\n{settings.format(**keys)}\n'
    with NodeProcess(tmp_path / "first", founder, name="first") as first:
        name = "first" if "node.name" in expected else "second"
        with NodeProcess(tmp_path / "second", joiner, name=name) as second:
            assert "in no cluster yet" in second.await_log(rf"yet.*{expected}")
            first.await_log(expected)


def test_unreachable_nodes_are_reported_once_with_address_and_cause(
    tmp_path: Path,
) -> None:
    nobody, elsewhere = free_port(), free_port()
    with NodeProcess(tmp_path / "clients", name="clients") as clients:
        gateways = [f"tcp:host=127.0.0.1:port={port}" for port in (nobody, clients.port)]
        network = (
            f'[network]\ncluster = "alps"\nlisten = ["tcp:port={elsewhere}:interface=127.0.0.1"]\n'
            f'join = ["localhost:{nobody}"]\ngateways = {gateways}\n'
        )
        with NodeProcess(tmp_path / "node", network, name="node") as node:
            node.await_log(f"listening on 127.0.0.1:{node.port} for clients")
            node.await_log(f"listening on 127.0.0.1:{elsewhere} for other nodes")
            line = node.await_log(f'to network.gateways "{gateways[0]}"')
            assert "no process listens there (connection refused)" in line
            line = node.await_log(f'to network.gateways "{gateways[1]}"')
            assert "that port is for clients: other nodes use the port of the node's" in line
            node.await_log(f"to the seed localhost:{nobody}, retrying: no process listens there")
            assert "a node greets where clients connect" in clients.await_log("refused")
            client = [sys.executable, "-m", "broker.cli", "status", "--timeout", "2"]
            asked = subprocess.run(
                [*client, "--node", f"tcp:127.0.0.1:{elsewhere}"],
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
            )
            assert "other nodes connect there: clients take one of" in asked.stderr
            # In two seconds of attempts.
            assert node.log().count("no link to") == 3


def test_invalid_connections_are_logged_with_their_number_and_closed(tmp_path: Path) -> None:
    port = free_port()
    network = f'[network]\ncluster = "alps"\nlisten = ["tcp:port={port}:interface=127.0.0.1"]\n'
    garbage = (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x02\xffx",
        b"\0\0",
        b"\xff" * 99,
        b"\0\0\0\0",
        b"",
    )
    with NodeProcess(tmp_path, network) as node:
        descriptors = Path(f"/proc/{node.process.pid}/fd")
        before = len(list(descriptors.iterdir()))
        for data in garbage * 4:
            for port_used in (port, node.port):
                with socket.create_connection(("127.0.0.1", port_used)) as stranger:
                    # The node may have closed the connection already.
                    with contextlib.suppress(OSError):
                        stranger.sendall(data)
                        stranger.shutdown(socket.SHUT_WR)
                        while stranger.recv(1000):
                            pass
        # The node handles connections in order.
        asyncio.run(ask_status(node.endpoint))
        # Starting threads open some descriptors.
        assert len(list(descriptors.iterdir())) <= before + 10
        node.stop()
        assert "Traceback" not in node.log()
        for expected in ("no link with 127.0.0.1", "connection from 127.0.0.1"):
            lines = [line for line in node.log().splitlines() if expected in line]
            assert 1 < len(lines) <= 4, lines
        assert node.log().count("this is HTTP") == 2


def test_node_stopped_while_joining_logs_no_warning(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        network = (
            f'[network]\nlisten = ["tcp:port={free_port()}:interface=127.0.0.1"]\n'
            f'join = ["127.0.0.1:{silent.getsockname()[1]}"]\n'
        )
        with NodeProcess(tmp_path, network) as node:
            asking, _ = silent.accept()
            with asking:
                node.stop()
        assert "has stopped in good order" in node.log()
        assert "in no cluster yet" not in node.log()
