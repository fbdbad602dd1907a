"""Reload of a node over real sockets: accounts, certificates, log levels."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import ssl
from pathlib import Path
from typing import Any

import attrs
import pytest
from click.testing import CliRunner

from broker.cli import main
from broker.client.asyncio_face import connect
from broker.errors import AuthenticationFailed
from broker.event.envelope import SecurityLevel
from tests.system.certificates import make_certificate
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import FLIGHT, flight, run_within

EVENTS = 300
FILLING = "x" * 30_000
CONFIGURATION = """
[identity]
accounts_file = "accounts.toml"

[audit]
file = "audit.jsonl"
"""


def account(folder: Path, *arguments: str, secret: str = "") -> str:
    """Run `xmlbroker account`."""
    command = ["account", arguments[0], *arguments[1:], "--config", str(folder / "node.toml")]
    result = CliRunner().invoke(main, command, input=f"{secret}\n")
    assert result.exit_code == 0, result.output
    return result.stdout


def start(folder: Path, *, more: str = "", **options: Any) -> NodeProcess:
    node = NodeProcess(folder, CONFIGURATION + more, **options)
    account(folder, "add", "admin", "--administer", secret="admin's secret")
    account(folder, "add", "feed", "--publish", ">", secret="feed's secret")
    node.start()
    return node


def reload_by_signal(node: NodeProcess, result: str = "the configuration is reloaded") -> str:
    seen = len(node.log().splitlines())
    node.process.send_signal(signal.SIGHUP)
    return node.await_log(result, seen)


def test_a_revoked_account_is_out_at_once_and_a_new_one_in(tmp_path: Path) -> None:
    async def work(node: NodeProcess) -> None:
        async with connect(node.endpoint, account="feed", secret="feed's secret") as feed:
            await feed.when_connected(PATIENCE)
            account(tmp_path, "add", "third", secret="third's secret")
            await asyncio.to_thread(reload_by_signal, node)
            async with connect(node.endpoint, account="third", secret="third's secret") as third:
                await third.when_connected(PATIENCE)
            await asyncio.to_thread(
                account,
                *(tmp_path, "revoke", "feed", "--reload", "--node", node.endpoint),
                *("--account", "admin", "--secret-file", str(tmp_path / "secret")),
            )
            with pytest.raises(AuthenticationFailed, match="revoked"):
                async with asyncio.timeout(PATIENCE):
                    while True:
                        await feed.ask("durable-positions")

    (tmp_path / "secret").write_text("admin's secret\n")
    node = start(tmp_path)
    try:
        run_within(work(node))
        node.stop()
        assert "Traceback" not in node.log()
    finally:
        node.kill()
    records = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    found = [(each["action"], each.get("account"), each["result"]) for each in records]
    assert ("reload", None, "ok") in found
    assert ("session-revoked", "feed", "authentication-failed") in found
    assert ("reload", "admin", "ok") in found


def test_no_queued_event_above_a_lower_clearance_is_delivered(tmp_path: Path) -> None:
    secret = "open sesame"
    high = attrs.evolve(FLIGHT, security_level=SecurityLevel.HIGH)

    async def work(node: NodeProcess) -> None:
        async with (
            connect(node.endpoint, account="admin", secret="admin's secret") as admin,
            connect(node.endpoint, account="loud", secret=secret) as publisher,
            connect(node.endpoint, account="reader", secret=secret) as reader,
        ):
            subscription = await reader.subscribe("true()", "s")
            # More than the client takes without a reader.
            published = [
                publisher.publish("s", flight(n, filling=FILLING), high if n % 2 else FLIGHT)
                for n in range(EVENTS)
            ]
            receipts = await asyncio.gather(*published)
            (session,) = (
                each
                for each in (await admin.ask("status"))["sessions"]
                if each["client"] == "reader"
            )
            (queue,) = session["subscriptions"]
            sent = queue["delivered"]
            assert 0 < sent < EVENTS - 2
            accounts = tmp_path / "accounts.toml"
            before, _, of_reader = accounts.read_text().partition("[accounts.reader]")
            of_reader = of_reader.replace('clearance = "high"', 'clearance = "med"', 1)
            accounts.write_text(f"{before}[accounts.reader]{of_reader}")
            await asyncio.to_thread(reload_by_signal, node)
            expected = [each.event_id for n, each in enumerate(receipts) if n < sent or n % 2 == 0]
            found = []
            async with asyncio.timeout(PATIENCE):
                async for event in subscription:
                    found.append(event.event_id)
                    if event.event_id == expected[-1]:
                        break
            assert found == expected

    node = start(tmp_path)
    try:
        for name, right in (("loud", "--publish"), ("reader", "--subscribe")):
            account(tmp_path, "add", name, right, ">", "--clearance", "high", secret=secret)
        reload_by_signal(node)
        run_within(work(node))
    finally:
        node.kill()


def test_a_broken_file_changes_nothing_and_is_reported(tmp_path: Path) -> None:
    node = start(tmp_path)
    try:
        settings = node.settings.read_text()
        node.settings.write_text(settings + "[limits]\nmax_sesions = 3\n")
        line = reload_by_signal(node, "not reloaded")
        assert "did you mean limits.max_sessions" in line and "line" in line
        node.settings.write_text(settings + "[limits]\nmax_depth = 3\nmax_sessions = 3\n")
        line = reload_by_signal(node)
        assert "limits.max_sessions applied" in line
        assert "limits.max_depth only after a restart" in line
        node.stop()
        assert "Traceback" not in node.log()
    finally:
        node.kill()


#: Raises the signal after the configuration is read, and before the node is ready.
SIGNAL_AT_START = (
    "import signal; from broker.node import service; "
    "set_time = service.use_monotonic_time; "
    "service.use_monotonic_time = "
    "lambda reactor: (signal.raise_signal(signal.SIGHUP), set_time(reactor)); "
)


def test_a_signal_during_the_start_reloads_afterwards(tmp_path: Path) -> None:
    node = start(tmp_path, prelude=SIGNAL_AT_START)
    try:
        node.await_log("the configuration is reloaded", 0)
        node.stop()
        assert "Traceback" not in node.log()
    finally:
        node.kill()


def test_log_levels_change(tmp_path: Path) -> None:
    node = start(tmp_path)

    async def reload() -> Any:
        async with connect(node.endpoint, account="admin", secret="admin's secret") as admin:
            return await admin.ask("reload")

    async def work() -> None:
        settings = node.settings.read_text()
        node.settings.write_text(settings + '[logging]\nlevel = "error"\n')
        assert (await reload())["applied"] == ["logging.level"]
        node.settings.write_text(settings + "[limits]\nmax_sesions = 3\n")
        await asyncio.to_thread(reload_by_signal, node, "not reloaded")
        # The line about a reload has the level info.
        assert "the configuration is reloaded" not in node.log()
        node.settings.write_text(settings)
        assert "logging.level" in await asyncio.to_thread(reload_by_signal, node)

    try:
        run_within(work())
    finally:
        node.kill()


def test_new_certificates_serve_later_connections(tmp_path: Path) -> None:
    old, new = make_certificate(tmp_path, "node"), make_certificate(tmp_path, "new")
    endpoint = f"ssl:port={{port}}:interface=127.0.0.1:privateKey={old.key}:certKey="
    node = start(tmp_path, endpoint=endpoint + str(old.certificate))

    def presented() -> str:
        return ssl.get_server_certificate(("127.0.0.1", node.port))

    async def work() -> None:
        arguments: dict[str, Any] = {"account": "feed", "secret": "feed's secret"}
        trusted = tmp_path / "trusted.pem"
        shutil.copy(old.certificate, trusted)
        async with connect(f"tls:localhost:{node.port}", trust=trusted, **arguments) as client:
            await client.when_connected(PATIENCE)
            first = await asyncio.to_thread(presented)
            old.key.write_text("this is no key")
            line = await asyncio.to_thread(reload_by_signal, node, "not reloaded")
            assert "endpoint" in line
            assert await asyncio.to_thread(presented) == first
            shutil.copy(new.key, old.key)
            shutil.copy(new.certificate, old.certificate)
            assert "certificates" in await asyncio.to_thread(reload_by_signal, node)
            second = await asyncio.to_thread(presented)
            assert second.split() == new.certificate.read_text().split() != first.split()
            # The established connection goes on.
            await client.ask("durable-positions")

    try:
        run_within(work())
        node.stop()
        assert "Traceback" not in node.log()
    finally:
        node.kill()
