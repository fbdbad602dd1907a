from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pytest
from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from broker.client import asyncio_face, twisted_face
from broker.client.client import Client
from broker.errors import ConfigurationError, GaveUp, NotConnected
from tests.system.certificates import Certificate, make_certificate
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.raw_session import send_and_read_all
from tests.system.test_connections import Connect, run_with_asyncio, take_events
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system


@attrs.frozen
class TlsNode:
    node: NodeProcess
    own: Certificate
    other: Certificate

    @property
    def endpoint(self) -> str:
        return f"tls:localhost:{self.node.port}"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNode]:
    folder = tmp_path_factory.mktemp("secured")
    own, other = make_certificate(folder, "node"), make_certificate(folder, "other")
    endpoint = f"ssl:port={{port}}:interface=127.0.0.1:privateKey={own.key}:certKey="
    with NodeProcess(folder / "node", endpoint=endpoint + str(own.certificate)) as node:
        yield TlsNode(node, own, other)
        assert "Traceback" not in node.log()
        node.stop()
        assert "has stopped in good order" in node.log()


async def exchange(connect: Connect, endpoint: str, trust: Path) -> None:
    client = connect(endpoint, trust=trust)
    await client.when_connected(PATIENCE)
    subscription = await client.subscribe("true()", "secured.>")
    waiting = [
        client.publish("secured.a", flight(n, filling="x" * n * 500), FLIGHT) for n in range(100)
    ]
    receipts = [await one for one in waiting]
    events = await take_events(subscription, 100)
    assert [event.event_id for event in events] == [receipt.event_id for receipt in receipts]
    await client.close()


async def check_not_trusted(connect: Connect, endpoint: str, trust: Path | None) -> None:
    client = connect(endpoint, trust=trust)
    with pytest.raises(GaveUp, match="certificate"):
        await client.when_connected(1.0)
    assert isinstance(client.last_error, NotConnected)
    await client.close()


async def check_certificate_errors(connect: Connect, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="absent.pem"):
        connect("tls:localhost:1", trust=folder / "absent.pem")
    (folder / "empty.pem").write_text("no certificate")
    with pytest.raises(ConfigurationError, match="no certificate in PEM form"):
        connect("tls:localhost:1", trust=folder / "empty.pem")
    (folder / "broken.pem").write_text(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    )
    with pytest.raises(ConfigurationError, match="broken.pem"):
        connect("tls:localhost:1", trust=folder / "broken.pem")


def test_events_travel_over_tls(secured: TlsNode) -> None:
    run_with_asyncio(exchange, secured.endpoint, secured.own.certificate)


def test_address_is_a_valid_certificate_name(secured: TlsNode) -> None:
    run_with_asyncio(exchange, f"tls:127.0.0.1:{secured.node.port}", secured.own.certificate)


def test_untrusted_certificate_is_reported(secured: TlsNode) -> None:
    run_with_asyncio(check_not_trusted, secured.endpoint, None)
    run_with_asyncio(check_not_trusted, secured.endpoint, secured.other.certificate)


def test_unusable_certificates_are_reported_at_once(tmp_path: Path) -> None:
    run_with_asyncio(check_certificate_errors, tmp_path)


def test_client_without_tls_does_no_harm(secured: TlsNode) -> None:
    async def plain() -> None:
        await send_and_read_all(secured.node.port, b"\x00\x00\x00\x10no TLS at all, but a frame")
        client = asyncio_face.connect(f"tcp:127.0.0.1:{secured.node.port}")
        with pytest.raises(GaveUp):
            await client.when_connected(0.5)
        await client.close()

    run_within(plain())
    run_with_asyncio(exchange, secured.endpoint, secured.own.certificate)


def test_tls_to_a_node_without_tls_is_reported(shared_node: NodeProcess, secured: TlsNode) -> None:
    async def mistaken() -> None:
        client = asyncio_face.connect(
            f"tls:localhost:{shared_node.port}", trust=secured.own.certificate
        )
        with pytest.raises(GaveUp):
            await client.when_connected(0.5)
        assert isinstance(client.last_error, NotConnected)
        await client.close()

    run_within(mistaken())


class TwistedFaceTests(TestCase):
    timeout = 60

    @pytest.fixture(autouse=True)
    def _use_node(self, secured: TlsNode, tmp_path: Path) -> None:
        self.secured = secured
        self.folder = tmp_path

    def connect(self, *endpoints: str, **arguments: Any) -> Client:
        return twisted_face.connect(*endpoints, reactor=reactor, **arguments)

    async def test_events_travel_over_tls(self) -> None:
        await exchange(self.connect, self.secured.endpoint, self.secured.own.certificate)

    async def test_untrusted_certificate_is_reported(self) -> None:
        await check_not_trusted(self.connect, self.secured.endpoint, self.secured.other.certificate)

    async def test_unusable_certificates_are_reported_at_once(self) -> None:
        await check_certificate_errors(self.connect, self.folder)
