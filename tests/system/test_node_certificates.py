"""Nodes with certificates: admission and secure links (X12)."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from broker.client.asyncio_face import connect
from broker.event.envelope import SecurityLevel
from examples.free_ports import free_port
from tests.system.certificates import Certificate, make_certificate
from tests.system.network_nodes import run_nodes
from tests.system.node_process import NodeProcess
from tests.system.test_start_errors import start_error
from tests.system.traffic import FLIGHT, ask_status, flight, run_within

SECRET = attrs.evolve(FLIGHT, security_level=SecurityLevel.HIGH)

pytestmark = pytest.mark.system


def node(
    folder: Path, name: str, network: str, shown: Certificate | None, authority: Certificate
) -> NodeProcess:
    """TLS needs a certificate."""
    certified = ""
    if shown is not None:
        certified = (
            f'certificate = "{shown.write_combined()}"\nauthority = "{authority.certificate}"\n'
        )
    return NodeProcess(folder / name, f"[network]\n{network}\n{certified}", name=name)


def listen_setting(port: int) -> str:
    return f'listen = ["tcp:port={port}:interface=127.0.0.1"]'


def test_high_events_pass_between_nodes_with_certificates(tmp_path: Path) -> None:
    authority = make_certificate(tmp_path, "authority")
    ports = [free_port() for _ in range(3)]
    places = [
        ("n1", f'cluster = "alps"\n{listen_setting(ports[0])}'),
        ("n2", f'join = ["127.0.0.1:{ports[0]}"]\n{listen_setting(ports[1])}'),
        (
            "n3",
            f'cluster = "sea"\ngateways = ["tcp:127.0.0.1:{ports[1]}"]\n{listen_setting(ports[2])}',
        ),
    ]
    nodes = [
        node(tmp_path, name, network, make_certificate(tmp_path, name, authority), authority)
        for name, network in places
    ]

    async def work() -> None:
        async with (
            connect(nodes[0].endpoint, client_id="p") as publisher,
            connect(nodes[2].endpoint, client_id="s") as subscriber,
        ):
            subscription = await subscriber.subscribe()
            await publisher.publish("a", flight(1), SECRET)
            event = await anext(aiter(subscription))
            assert event.header.security_level.value == "high"
        links = (await ask_status(nodes[1].endpoint))["network"]["links"]
        assert {link["node"] for link in links} == {"n1", "n3"}
        assert all(link["secure"] and link["trusted"] for link in links)

    with run_nodes(nodes, [(0, 1), (1, 0), (1, 2), (2, 1)]):
        run_within(work(), 60.0)


@pytest.mark.parametrize("shows", ["of another authority", "of another node", "nothing"])
def test_node_with_a_wrong_certificate_stays_outside(tmp_path: Path, shows: str) -> None:
    authority = make_certificate(tmp_path, "authority")
    port = free_port()
    inside = node(
        *(tmp_path, "n1", f'cluster = "alps"\n{listen_setting(port)}'),
        *(make_certificate(tmp_path, "n1", authority), authority),
    )
    own = {
        "of another authority": lambda: make_certificate(
            tmp_path, "n2", make_certificate(tmp_path, "stranger")
        ),
        "of another node": lambda: make_certificate(tmp_path, "n9", authority),
        "nothing": lambda: None,
    }[shows]()
    outside = node(
        tmp_path,
        "n2",
        f'join = ["127.0.0.1:{port}"]\n{listen_setting(free_port())}',
        own,
        authority,
    )
    if shows == "of another node":
        assert "is for 'n9', but node.name is 'n2'" in start_error(outside)
        return
    inside.start()
    try:
        with run_nodes([outside], []):
            line = outside.await_log("in no cluster yet")
            assert "TLS" in line or shows == "nothing", line
        assert "linked" not in inside.log()
    finally:
        inside.kill()


@pytest.mark.parametrize(
    ("certificate", "authority", "expected"),
    [
        (
            "nowhere.pem",
            "authority.pem",
            "network.certificate {folder}/nowhere.pem can not be read",
        ),
        ("both.pem", "nowhere.pem", "network.authority {folder}/nowhere.pem can not be read"),
        (
            "authority.pem",
            "authority.pem",
            "network.certificate {folder}/authority.pem lacks the required PEM",
        ),
        ("both.pem", "empty.pem", "network.authority {folder}/empty.pem lacks the required PEM"),
        (
            "mixed.pem",
            "authority.pem",
            "mixed.pem: the private key does not belong to the certificate",
        ),
    ],
)
def test_unusable_certificate_file_is_reported(
    tmp_path: Path, certificate: str, authority: str, expected: str
) -> None:
    issuer = make_certificate(tmp_path, "authority")
    both = make_certificate(tmp_path, "n1", issuer).write_combined()
    both.rename(tmp_path / "both.pem")
    (tmp_path / "empty.pem").write_text("")
    keys = issuer.key.read_bytes(), (tmp_path / "n1.pem").read_bytes()
    (tmp_path / "mixed.pem").write_bytes(b"".join(keys))
    network = (
        f'[network]\ncluster = "alps"\n{listen_setting(free_port())}\n'
        f'certificate = "{tmp_path / certificate}"\nauthority = "{tmp_path / authority}"\n'
    )
    line = start_error(NodeProcess(tmp_path / "n1", network, name="n1"))
    assert expected.format(folder=tmp_path) in line
