"""Connections that do not log in: silent, of many addresses, within TLS, beyond the descriptors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.client.asyncio_face import connect
from broker.errors import AuthenticationFailed, Overloaded, PeerSilent, TooManySessions
from broker.identity import hash_secret
from tests.security.attacker import ATTACKER, more_files, open_many
from tests.security.bystander import measured_bystander
from tests.system.certificates import make_certificate
from tests.system.node_process import PATIENCE, NodeProcess
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

MOST, OF_ADDRESS = 40, 20
ALICE: dict[str, Any] = {"account": "alice", "secret": "open sesame", "client_id": "alice"}
#: Bytes that begin a TLS handshake, and stop within its first record.
PART_OF_TLS = bytes.fromhex("160301020001000200") + bytes(40)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    secret = hash_secret("open sesame")
    rights = 'publish = [">"]\nsubscribe = [">"]\nadminister = true\n'
    configuration = (
        "[log]\nsync = false\n"
        f"[limits]\nmax_handshakes = {MOST}\nmax_handshakes_per_address = {OF_ADDRESS}\n"
        f'[accounts.alice]\nsecret = "{secret}"\nclient_ids = ["alice", "alice-*"]\n{rights}'
        f'[accounts.bob]\nsecret = "{secret}"\n'
    )
    with NodeProcess(tmp_path_factory.mktemp("flooded"), configuration) as one:
        yield one
        assert "Traceback" not in one.log()


async def log_in(node: NodeProcess, client_id: str) -> None:
    async with connect(node.endpoint, **ALICE | {"client_id": client_id}) as client:
        await client.when_connected(PATIENCE)


@pytest.mark.parametrize("host", [ATTACKER, "127.0.0.1"], ids=["elsewhere", "behind-one-proxy"])
@pytest.mark.limit("connections before login", "address, IPv6: /64")
def test_silent_connections_of_an_address_shut_nobody_out(host: str, node: NodeProcess) -> None:
    async def work() -> None:
        async with measured_bystander(node.endpoint, **ALICE) as bystander:
            async with open_many(node.port, 2 * MOST, hosts=(host,)) as flood:
                await bystander.measure()
                await log_in(node, "alice-2")
                ended = sum(each.is_closed for each in flood)
                assert 2 * MOST - OF_ADDRESS - 1 <= ended <= 2 * MOST - OF_ADDRESS + 1
                refusal = await next(each for each in flood if each.is_closed).read_to_end()
                assert TooManySessions.code.encode() in refusal
                status = await ask(node)
                (limit,) = (x for x in status["limits"] if x["name"] == "address-handshakes")
                assert limit["used"] >= OF_ADDRESS - 1
                assert limit["reached"] >= MOST

    run_within(work())


@pytest.mark.limit("connections before login", "node")
@pytest.mark.limit("accepted connections", "port")
def test_silent_connections_of_many_addresses_leave_room_for_earlier_clients(
    node: NodeProcess,
) -> None:
    async def work() -> None:
        async with measured_bystander(node.endpoint, **ALICE) as bystander:
            hosts = [f"127.0.{number}.77" for number in range(2 * MOST)]
            async with open_many(node.port, 2 * MOST, hosts=hosts) as flood:
                await log_in(node, "alice-2")
                await bystander.measure()
                assert sum(each.is_closed for each in flood) >= MOST

    run_within(work())


def test_earlier_clients_are_known_after_a_restart(node: NodeProcess) -> None:
    async def work() -> None:
        hosts = [f"127.0.{number}.77" for number in range(2 * MOST)]
        async with (
            open_many(node.port, 1, hosts=("127.0.0.1",)) as known,
            open_many(node.port, 2 * MOST, hosts=hosts) as flood,
        ):
            await log_in(node, "alice-2")
            assert sum(each.is_closed for each in flood) >= MOST
            assert not known[0].is_closed

    run_within(log_in(node, "alice-2"))
    node.stop()
    node.start()
    run_within(work())


async def ask(node: NodeProcess) -> dict[str, Any]:
    async with connect(node.endpoint, **ALICE | {"client_id": "alice-status"}) as client:
        await client.when_connected(PATIENCE)
        answer: dict[str, Any] = await client.ask("status")
        return answer


@pytest.mark.limit("failed logins", "address and account")
def test_failed_logins_slow_down_one_account_at_one_address(node: NodeProcess) -> None:
    async def fail(account: str) -> None:
        client = connect(node.endpoint, client_id=account, account=account, secret="guess")
        with pytest.raises(AuthenticationFailed):
            await client.when_connected(PATIENCE)
        await client.close()

    async def work() -> None:
        async with measured_bystander(node.endpoint, **ALICE) as bystander:
            await fail("nobody")
            # The fifth and sixth connect again when the delays of 1 s and 2 s are over.
            for _ in range(6):
                await fail("bob")
            refused = (await ask(node))["refused_connections"]
            assert refused[Overloaded.code] >= 1
            assert refused[AuthenticationFailed.code] == 7
            await bystander.measure()
            await log_in(node, "alice-2")
        address = r"connection from 127\.0\.0\.1:\d+"
        node.await_log(address + " of account 'nobody' refused: .*wrong")
        node.await_log(address + " of account 'bob' refused: too many failed logins")

    run_within(work())


@pytest.mark.limit("time of a handshake, with TLS", "connection")
def test_unfinished_tls_handshakes_end_at_the_time_out(tmp_path: Path) -> None:
    own = make_certificate(tmp_path, "node")
    tls = f"ssl:port={{port}}:interface=127.0.0.1:privateKey={own.key}:certKey={own.certificate}"
    limits = "[log]\nsync = false\n[limits]\nhandshake_timeout = 3.0\n"

    async def work(node: NodeProcess) -> None:
        endpoint = f"tls:localhost:{node.port}"
        async with (
            measured_bystander(endpoint, trust=own.certificate) as bystander,
            connect(endpoint, trust=own.certificate) as client,
        ):
            await client.when_connected(PATIENCE)
            before = count_files(node)
            async with (
                open_many(node.port, 20) as silent,
                open_many(node.port, 20, PART_OF_TLS) as partial,
            ):
                await bystander.measure()
                for each in (*silent, *partial):
                    await each.read_to_end()
                refused = (await client.ask("status"))["refused_connections"]
                assert refused == {PeerSilent.code: 40}
            assert count_files(node) == before

    with NodeProcess(tmp_path / "node", limits, endpoint=tls) as node:
        run_within(work(node))
        assert "Traceback" not in node.log()


def count_files(node: NodeProcess) -> int:
    return len(os.listdir(f"/proc/{node.process.pid}/fd"))


@pytest.mark.limit("descriptors", "node")
def test_node_without_free_descriptors_serves_its_clients_and_recovers(tmp_path: Path) -> None:
    files = 200
    prelude = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))"

    async def work(node: NodeProcess) -> None:
        async with measured_bystander(node.endpoint) as bystander:
            async with open_many(node.port, 2 * files, hosts=("127.0.0.1",)):
                await bystander.measure()
                async with connect(node.endpoint) as client:
                    await client.when_connected(PATIENCE)
                assert count_files(node) < files - 50
            async with connect(node.endpoint) as client:
                await client.when_connected(PATIENCE)

    with (
        more_files(1000),
        NodeProcess(tmp_path, "[log]\nsync = false\n", prelude=prelude) as node,
    ):
        node.await_log("may open too few files")
        run_within(work(node))
        assert "Traceback" not in node.log()
        assert "EMFILE" not in node.log()
