"""Nodes find a cluster by DNS and by multicast, and join it (G3, Q15)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from examples.free_ports import free_port
from tests.system.name_server import NameServer
from tests.system.namespaces import need_namespaces
from tests.system.network_nodes import make_node, run_nodes
from tests.system.node_process import NodeProcess
from tests.system.segment import Segment

pytestmark = pytest.mark.system

GROUPS = ["239.255.78.2:7301", "[ff02::7a]:7301"]


def node(
    folder: Path, name: str, network: str, port: int, host: str, prelude: str = ""
) -> NodeProcess:
    return NodeProcess(
        folder / name,
        f'[network]\nlisten = ["tcp:port={port}:interface={host}"]\n{network}\n',
        name=name,
        prelude=prelude,
    )


def check_discovery(nodes: Sequence[NodeProcess]) -> None:
    links = [(i, k) for i in range(len(nodes)) for k in range(len(nodes)) if i != k]
    with run_nodes(nodes, links):
        for each in nodes:
            each.await_log(rf"alps/{each.name} is a member of its cluster")


def test_discovery_by_a_dns_service(tmp_path: Path) -> None:
    ports = [free_port() for _ in range(3)]
    # Nothing listens at the first target.
    targets = [free_port(), *ports[:2]]
    records = [
        f'SRV("_xmlbroker._tcp.example.test", {place}, 0, {port}, "localhost")'
        for place, port in enumerate(targets)
    ]
    with NameServer(tmp_path, records) as server:
        discover = 'discover = "_xmlbroker._tcp.example.test"'
        check_discovery(
            [
                node(tmp_path, "n1", 'cluster = "alps"', ports[0], "127.0.0.1"),
                node(tmp_path, "n2", discover, ports[1], "127.0.0.1", server.prelude),
                node(tmp_path, "n3", discover, ports[2], "127.0.0.1", server.prelude),
            ]
        )


def test_discovery_by_a_name_with_several_addresses(tmp_path: Path) -> None:
    port = free_port()
    hosts = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
    records = [f'A("nodes.example.test", "{host}")' for host in hosts]
    with NameServer(tmp_path, records) as server:
        discover = f'discover = "nodes.example.test:{port}"'
        check_discovery(
            [
                node(
                    tmp_path, "n1", f'cluster = "alps"\n{discover}', port, hosts[0], server.prelude
                ),
                node(tmp_path, "n2", discover, port, hosts[1], server.prelude),
                node(tmp_path, "n3", discover, port, hosts[2], server.prelude),
            ]
        )


@pytest.mark.parametrize("group", GROUPS, ids=["IPv4", "IPv6"])
def test_discovery_by_a_multicast_group(
    tmp_path_factory: pytest.TempPathFactory, group: str
) -> None:
    need_namespaces()
    folder = tmp_path_factory.mktemp("found")
    with Segment(3) as segment:
        nodes = [
            make_node(
                *(host, f"n{number}", folder),
                f'discover = "{group}"\ngroup_interface = "{host.interface}"\n'
                + ('cluster = "alps"\n' if number == 1 else ""),
            )
            for number, host in enumerate(segment.hosts, 1)
        ]
        check_discovery(nodes)


def test_discovery_on_one_host(tmp_path: Path) -> None:
    network = f'discover = "{GROUPS[0]}"\ngroup_interface = "lo"\n'
    check_discovery(
        [
            node(tmp_path, "n1", f'{network}cluster = "alps"', free_port(), "127.0.0.1"),
            node(tmp_path, "n2", network, free_port(), "127.0.0.1"),
        ]
    )


def test_udp_links_to_host_names(tmp_path: Path) -> None:
    ports, places = [free_port() for _ in range(3)], [free_port() for _ in range(3)]
    records = [f'SRV("_xmlbroker._udp.example.test", 0, 0, {places[0]}, "localhost")']
    with NameServer(tmp_path, records) as server:
        udp = [f'udp = "127.0.0.1:{place}"\ntransport = "udp"\n' for place in places]
        check_discovery(
            [
                node(tmp_path, "n1", f'{udp[0]}cluster = "alps"', ports[0], "127.0.0.1"),
                node(
                    tmp_path,
                    "n2",
                    f'{udp[1]}join = ["localhost:{places[0]}"]',
                    ports[1],
                    "127.0.0.1",
                ),
                node(
                    *(tmp_path, "n3", f'{udp[2]}discover = "_xmlbroker._udp.example.test"'),
                    *(ports[2], "127.0.0.1", server.prelude),
                ),
            ]
        )
