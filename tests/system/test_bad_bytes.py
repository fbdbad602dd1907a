"""Bytes that violate the protocol are refused, and other clients go on."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Coroutine
from typing import Any

import pytest

from broker.errors import FrameTooLarge, PeerSilent, ProtocolError, VersionMismatch
from broker.transport.p2p import wire
from broker.wire import messages
from broker.wire.event_batch import encode_batch
from broker.wire.messages import Answer, Goodbye, Hello, Published
from tests.system.conftest import HANDSHAKE
from tests.system.node_process import NodeProcess
from tests.system.raw_session import (
    RawSession,
    connect_and_read_refusal,
    frame,
    hello,
    send_and_read_all,
)
from tests.system.traffic import ask_status, checked_bystander, run_within

pytestmark = pytest.mark.system

TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(190))


def run_beside_bystander(
    node: NodeProcess, attack: Coroutine[Any, Any, None], refused: str, times: int = 1
) -> None:
    """Run the attack beside other clients; `refused` must be counted `times` more."""

    async def work() -> None:
        before = (await ask_status(node.endpoint))["refused_connections"].get(refused, 0)
        async with checked_bystander(node.endpoint) as other:
            attacking = asyncio.create_task(attack)
            await other.check_traffic()
            await attacking
        after = (await ask_status(node.endpoint))["refused_connections"].get(refused, 0)
        assert after == before + times

    run_within(work())


@pytest.mark.parametrize(
    ("garbage", "refused"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", FrameTooLarge),
        (TLS_HELLO, FrameTooLarge),
        (b"\xff" * 64, FrameTooLarge),
        (struct.pack(">I", 0xFFFFFFFF), FrameTooLarge),
        (struct.pack(">I", 0), ProtocolError),
        (frame(b"\x00" * 100), ProtocolError),
        (frame(os.urandom(100)), ProtocolError),
        (frame(messages.encode(Goodbye())), ProtocolError),
    ],
    ids=["http", "tls", "ones", "4-gib", "empty-frame", "zeros", "random", "wrong-message"],
)
def test_garbage_before_the_handshake_is_refused_and_counted(
    garbage: bytes, refused: type[ProtocolError], shared_node: NodeProcess
) -> None:
    async def attack() -> None:
        await send_and_read_all(shared_node.port, garbage)

    run_beside_bystander(shared_node, attack(), refused.code)


def test_hello_of_another_protocol_is_refused(shared_node: NodeProcess) -> None:
    async def attack() -> None:
        good = hello("stranger")
        other = Hello("carrier-pigeon", (1,), "stranger", 1, bytes(16), "", "")
        error = await connect_and_read_refusal(shared_node.port, [messages.encode(other)])
        assert isinstance(error, ProtocolError)
        newer = Hello(good.magic, (77, 78), "stranger", 1, bytes(16), "", "")
        error = await connect_and_read_refusal(shared_node.port, [messages.encode(newer)])
        assert isinstance(error, VersionMismatch)
        assert "77" in str(error)
        for token, incarnation in ((b"short", 1), (bytes(16), 0), (bytes(16), 1 << 63)):
            forged = Hello(good.magic, (1,), "stranger", incarnation, token, "", "")
            error = await connect_and_read_refusal(shared_node.port, [messages.encode(forged)])
            assert isinstance(error, ProtocolError)

    run_beside_bystander(shared_node, attack(), ProtocolError.code, 4)


def test_second_hello_before_the_welcome_is_refused(shared_node: NodeProcess) -> None:
    async def attack() -> None:
        greeting = messages.encode(hello("eager"))
        error = await connect_and_read_refusal(shared_node.port, [greeting, greeting])
        assert isinstance(error, ProtocolError)

    run_beside_bystander(shared_node, attack(), ProtocolError.code)


def test_half_a_frame_and_end_of_stream_is_refused(shared_node: NodeProcess) -> None:
    async def attack() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", shared_node.port)
        writer.write(frame(messages.encode(hello("half")))[:-5])
        writer.write_eof()
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    run_beside_bystander(shared_node, attack(), ProtocolError.code)


@pytest.mark.parametrize(
    "sent", [b"", frame(messages.encode(hello("mute")))[:-5]], ids=["silence", "half-a-frame"]
)
def test_silence_before_or_during_the_handshake_times_out(
    sent: bytes, shared_node: NodeProcess
) -> None:
    async def attack() -> None:
        began = time.monotonic()
        answer = await send_and_read_all(shared_node.port, sent)
        assert HANDSHAKE - 0.5 < time.monotonic() - began < HANDSHAKE + 5
        assert b"peer-silent" in answer

    run_beside_bystander(shared_node, attack(), PeerSilent.code)


def test_invalid_packet_cuts_the_connection(shared_node: NodeProcess) -> None:
    async def cut_off(packet: bytes) -> None:
        session = await RawSession.open(shared_node.port, "rude")
        await session.send_packet(packet)
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            while True:
                await session.receive()
        session.close()

    async def broken() -> int:
        status = await ask_status(shared_node.endpoint)
        return int(status["broken_connections"].get(ProtocolError.code, 0))

    async def work() -> None:
        before = await broken()
        async with checked_bystander(shared_node.endpoint):
            await cut_off(b"\x02garbage")
            await cut_off(wire.encode_data(7, 0, 1, [b"out of order"])[0])
            await cut_off(wire.encode_ack(1_000_000, 1))
            await cut_off(wire.encode_ping(5))
        assert await broken() == before + 4

    run_within(work())


@pytest.mark.parametrize(
    "message",
    [
        b"\x00",
        b"\xff garbage",
        messages.encode(Answer(1, ("", "", 0, 0), None)),
        messages.encode(Published(1, (), 0, (), ())),
        b"\x20\xc1",
        b"\x10\xff\xff\xff\xff",
        encode_batch(1, [b"<event/>"])[:-2],
        b"\x20" + b"\x91" * 5000,
    ],
    ids=["empty", "kind", "answer", "published", "msgpack", "batch", "short-batch", "nested"],
)
def test_invalid_message_ends_the_session_with_an_error(
    message: bytes, shared_node: NodeProcess
) -> None:
    async def work() -> None:
        before = await ask_status(shared_node.endpoint)
        async with checked_bystander(shared_node.endpoint):
            session = await RawSession.open(shared_node.port, "rude")
            await session.send(message)
            assert isinstance(await session.read_refusal(), ProtocolError)
            session.close()
        after = await ask_status(shared_node.endpoint)
        assert "rude" not in {each["client"] for each in after["sessions"]}
        code = ProtocolError.code
        assert after["ended_sessions"][code] == before["ended_sessions"].get(code, 0) + 1

    run_within(work())


def test_too_large_frame_ends_the_connection_without_buffering(
    shared_node: NodeProcess,
) -> None:
    async def work() -> None:
        async with checked_bystander(shared_node.endpoint):
            status = await ask_status(shared_node.endpoint)
            before = status["memory"]["private_bytes"]
            broken = status["broken_connections"].get(FrameTooLarge.code, 0)
            session = await RawSession.open(shared_node.port, "huge")
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await session.send(b"\x10" + bytes(100 << 20))
                while True:
                    await session.receive()
            session.close()
            status = await ask_status(shared_node.endpoint)
            assert status["memory"]["private_bytes"] - before < 32 << 20
            assert status["broken_connections"][FrameTooLarge.code] == broken + 1

    run_within(work())
