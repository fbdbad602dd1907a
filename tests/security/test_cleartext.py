"""Over real sockets: secrets and events of the level `high` do not cross clear text."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Final

import attrs
import pytest

from broker.client.asyncio_face import connect
from broker.errors import ClearanceTooLow, CleartextForbidden
from broker.event.envelope import SecurityLevel
from broker.identity.secret import hash_secret
from broker.transport.socket import asyncio_tcp
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

pytestmark = pytest.mark.system

HIGH: Final = attrs.evolve(FLIGHT, security_level=SecurityLevel.HIGH)
#: For the node, connections from loopback addresses come from other machines.
REMOTE: Final = "from broker.transport.socket import tcp; tcp.is_loopback_host = lambda _: False; "


def account() -> str:
    return (
        f'[accounts.all]\nsecret = "{hash_secret("right")}"\nclient_ids = ["*"]\n'
        'publish = [">"]\nsubscribe = [">"]\nclearance = "high"\n'
    )


def test_node_lets_no_high_event_in_or_out_over_clear_text(tmp_path: Path) -> None:
    socket = tmp_path / "socket"
    endpoint = f'tcp:port={{port}}:interface=127.0.0.1", "unix:{socket}'
    with NodeProcess(tmp_path, account(), prelude=REMOTE, endpoint=endpoint) as node:

        async def attack() -> None:
            # The client takes the connection for one within its machine.
            async with connect(
                node.endpoint, client_id="attacker", account="all", secret="right"
            ) as attacker:
                await attacker.when_connected(PATIENCE)
                with pytest.raises(ClearanceTooLow, match="without encryption"):
                    await attacker.publish("a", flight(1), HIGH)
                subscription = await attacker.subscribe()
                async with connect(
                    f"unix:{socket}", client_id="local", account="all", secret="right"
                ) as local:
                    await local.publish("a", flight(1), HIGH)
                    await local.publish("a", flight(2), FLIGHT)
                event = await anext(aiter(subscription))
                assert event.header.security_level is SecurityLevel.MED

        run_within(attack(), PATIENCE)
        assert "Traceback" not in node.log()


def test_client_sends_an_eavesdropper_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asyncio_tcp, "is_loopback_host", lambda _: False)
    seen = bytearray()

    async def eavesdrop() -> None:
        ended = asyncio.Event()

        async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError):
                seen.extend(await reader.read())
            writer.close()
            ended.set()

        server = await asyncio.start_server(record, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with connect(f"tcp:127.0.0.1:{port}", account="all", secret="right") as client:
            with pytest.raises(CleartextForbidden, match="not encrypted"):
                await client.when_connected(PATIENCE)
        await ended.wait()
        server.close()
        await server.wait_closed()

    run_within(eavesdrop(), PATIENCE)
    assert not seen
