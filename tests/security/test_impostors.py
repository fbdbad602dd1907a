"""False nodes, earlier versions, and strangers who probe logins, over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker.client import asyncio_face
from broker.errors import (
    AuthenticationFailed,
    BrokerError,
    NotAllowed,
    VersionMismatch,
    from_wire,
)
from broker.identity.secret import hash_secret
from broker.scram import ClientExchange
from broker.scram.mechanism import SCRAM, format_credential
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import Challenge, Hello, Refuse, Welcome
from tests.security.login_refusal import SECRET, expect
from tests.system.node_process import NodeProcess
from tests.system.raw_session import frame, hello, read_frame
from tests.system.traffic import run_within

pytestmark = pytest.mark.system

# ----------------------------------------------------------------------------- impostors


async def check_impostor(answers: list[bytes], error: type[BrokerError]) -> tuple[str, bytes]:
    """Return the client's error, and all bytes that it sent to a false node."""
    seen = bytearray()
    served = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            packet = await read_frame(reader)
            seen.extend(packet)
            message = messages.decode(packet)
            if isinstance(message, Hello) and answer.startswith(b"NONCE"):
                nonce = message.credential.rpartition("r=")[2].encode() + b"x" * 20
                answer = messages.encode(Challenge(b"r=" + nonce + answer[5:]))
            writer.write(frame(answer))
        await reader.read()
        writer.close()
        served.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = asyncio_face.connect(
        f"tcp:127.0.0.1:{server.sockets[0].getsockname()[1]}", account="alice", secret=SECRET
    )
    text = await expect(error, client)
    await served.wait()
    server.close()
    return text, bytes(seen)


WELCOME = messages.encode(Welcome(7, "false", "origin", 1 << 20, 16 << 20, "false"))
GOOD = b"NONCE,s=c2FsdHNhbHRzYWx0c2FsdA==,i=100000"
#: Takes 13 s and 256 MiB.
EXPENSIVE = b"NONCE,s=c2FsdHNhbHRzYWx0c2FsdA==,i=1,k=scrypt:262144:8:16"


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([WELCOME], "did not prove"),
        ([GOOD, WELCOME], "did not prove"),
        ([b"NONCE,s=c2FsdHNhbHRzYWx0c2FsdA==,i=1000"], "weak hash"),
        ([b"NONCE,s=,i=100000"], "weak hash"),
        ([EXPENSIVE], "outside the range"),
    ],
    ids=["no-challenge", "no-proof", "few-iterations", "no-salt", "many-seconds"],
)
def test_an_impostor_gets_neither_a_session_nor_the_secret(
    answers: list[bytes], reason: str
) -> None:
    async def work() -> None:
        text, seen = await check_impostor(answers, AuthenticationFailed)
        assert reason in text
        assert SECRET.encode() not in seen

    run_within(work())


def test_an_impostor_begins_no_line_of_its_own_in_an_error() -> None:
    refusal = NotAllowed("no\r\nxmlbroker: all\u2028is\x85well")

    async def work() -> None:
        text, _ = await check_impostor([messages.encode(Refuse(refusal.to_wire()))], NotAllowed)
        assert text == "no xmlbroker: all is well"

    run_within(work())


def test_a_node_of_an_earlier_version_gets_no_secret_and_a_clear_error() -> None:
    refusal = VersionMismatch("this node speaks versions [1, 2, 3, 4, 5, 6], the client [7]")

    async def work() -> None:
        text, seen = await check_impostor(
            [messages.encode(Refuse(refusal.to_wire()))], VersionMismatch
        )
        assert "the node is too old for a login that keeps the secret here" in text
        assert SECRET.encode() not in seen
        # Its seven fields are those that earlier versions read.
        assert seen[:2] == b"\x01\x97"

    run_within(work())


# ----------------------------------------------------------------------------- strangers


async def exchange(port: int, *packets: bytes) -> list[Message]:
    """Return the answers to packets, one each."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    answers = []
    for packet in packets:
        writer.write(frame(packet))
        answers.append(messages.decode(await read_frame(reader)))
    writer.close()
    await writer.wait_closed()
    return answers


def ask(port: int, *packets: bytes) -> list[Message]:
    answers: list[Message] = []

    async def work() -> None:
        answers.extend(await exchange(port, *packets))

    run_within(work())
    return answers


def greet(account: str, credential: str, versions: tuple[int, ...] = (7,)) -> bytes:
    greeting = hello(account, secret="x")
    return messages.encode(
        Hello(
            *(greeting.magic, versions, account, greeting.incarnation, greeting.token),
            *(account, credential),
        )
    )


def challenge_to(port: int, account: str) -> dict[str, str]:
    """Return the attributes of a challenge without the nonce."""
    first = format_credential(SCRAM, ClientExchange(account).first)
    (challenge,) = ask(port, greet(account, first))
    assert isinstance(challenge, Challenge)
    attributes = dict(each.split("=", 1) for each in challenge.data.decode().split(","))
    return {name: value for name, value in attributes.items() if name != "r"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    configuration = f"""
[accounts.alice]
secret = "{hash_secret(SECRET)}"
client_ids = ["alice*"]
publish = [">"]
subscribe = [">"]
administer = true
"""
    with NodeProcess(tmp_path_factory.mktemp("guarded"), configuration) as node:
        yield node
        assert "Traceback" not in node.log()
        assert SECRET not in node.log()


def test_an_unknown_account_looks_like_a_known_one_also_after_a_restart(
    guarded: NodeProcess,
) -> None:
    known, unknown = challenge_to(guarded.port, "alice"), challenge_to(guarded.port, "bob")
    assert known.keys() == unknown.keys() and known["i"] == unknown["i"]
    assert len(known["s"]) == len(unknown["s"]) and known["s"] != unknown["s"]
    guarded.stop()
    guarded.start()
    assert challenge_to(guarded.port, "bob") == unknown
    assert challenge_to(guarded.port, "alice") == known


def test_a_client_that_sends_its_secret_is_refused_with_the_reason(guarded: NodeProcess) -> None:
    packet = greet("alice", SECRET, (1, 2, 3, 4, 5, 6))
    (answer,) = ask(guarded.port, packet)
    assert isinstance(answer, Refuse)
    error = from_wire(answer.error)
    assert isinstance(error, VersionMismatch) and "must speak version 7" in error.text


def test_a_client_that_sends_its_secret_is_accepted_by_the_setting(tmp_path: Path) -> None:
    configuration = "[identity]\naccept_sent_secrets = true\n"
    configuration += f'[accounts.alice]\nsecret = "{hash_secret(SECRET)}"'
    with NodeProcess(tmp_path, configuration) as node:
        packet = greet("alice", SECRET, (1, 2, 3, 4, 5, 6))
        (answer,) = ask(node.port, packet)
        assert isinstance(answer, Welcome) and answer.version == 6


@pytest.mark.parametrize(
    "packets",
    [
        [greet("alice", "scram-sha-256")],
        [greet("alice", "scram-sha-256 n,,n=bob,r=" + "x" * 20)],
        [greet("alice", "scram-sha-256 y,,n=alice,r=" + "x" * 20)],
        [greet("alice", "scram-sha-256 p=tls-exporter,,n=alice,r=" + "x" * 20)],
        [
            greet("alice", "scram-sha-256 n,,n=alice,r=" + "x" * 20),
            messages.encode(messages.Goodbye()),
        ],
        [greet("alice", "scram-sha-256 n,,n=alice,r=" + "x" * 20), b"\x06\x91\xc4\x02\xff\xff"],
        [greet("alice", "token " + "x" * 5000)],
        [greet("alice", "certificate ")],
        [greet("alice", "plain " + SECRET)],
    ],
)
def test_a_malformed_login_is_refused_with_the_reason(
    packets: list[bytes], guarded: NodeProcess
) -> None:
    async def work() -> None:
        *_, answer = await exchange(guarded.port, *packets)
        assert isinstance(answer, Refuse)
        assert answer.error[0] in (AuthenticationFailed.code, "protocol")

    run_within(work())
