"""A client without the client library, to send any message and read at any time."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Sequence

from msgspec.structs import replace

from broker.errors import BrokerError, from_wire
from broker.scram import ClientExchange, ClientKeys
from broker.scram.mechanism import SCRAM, format_credential
from broker.transport.p2p import wire
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import (
    MAGIC,
    PROTOCOL_VERSIONS,
    Challenge,
    Flowing,
    Hello,
    Refuse,
    Response,
    Subscribe,
    Welcome,
)

WINDOW = 4 << 20


def frame(packet: bytes) -> bytes:
    return struct.pack(">I", len(packet)) + packet


def hello(client_id: str, incarnation: int = 0, token: bytes = b"", secret: str = "") -> Hello:
    return Hello(
        magic=MAGIC,
        versions=PROTOCOL_VERSIONS,
        client_id=client_id,
        incarnation=incarnation or time.time_ns() // 1000,
        token=token or os.urandom(16),
        account=client_id if secret else "",
        credential=secret,
    )


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """Raises `IncompleteReadError` at the end of the stream."""
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    return await reader.readexactly(length)


class RawSession:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sent = 0
        self._received = 0
        self._limit = WINDOW
        self.incarnation = 0

    @classmethod
    async def open(
        cls, port: int, client_id: str, secret: str = "", account: str = ""
    ) -> RawSession:
        """Raises the node's refusal. With a secret the account is the ClientId by default."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        message = hello(client_id, secret=secret)
        account = account or message.account
        message = replace(message, account=account)
        exchange = ClientExchange(account)
        if secret:
            message = replace(message, credential=format_credential(SCRAM, exchange.first))
        writer.write(frame(messages.encode(message)))
        welcome = messages.decode(await read_frame(reader))
        if isinstance(welcome, Challenge):
            derivation = exchange.read_challenge(welcome.data)
            keys = ClientKeys.from_salted(derivation.derive(secret.encode()))
            writer.write(frame(messages.encode(Response(exchange.respond(keys)))))
            welcome = messages.decode(await read_frame(reader))
        if isinstance(welcome, Refuse):
            writer.transport.abort()
            raise from_wire(welcome.error)
        assert isinstance(welcome, Welcome), welcome
        session = cls(reader, writer)
        session.incarnation = message.incarnation
        node_resume = wire.decode_resume(wire.decode_packet(await read_frame(reader))[1])
        assert node_resume.known == 0
        writer.write(
            frame(
                wire.encode_resume(
                    wire.Resume(message.incarnation, node_resume.incarnation, 0, WINDOW, WINDOW)
                )
            )
        )
        return session

    def close(self) -> None:
        self._writer.transport.abort()

    async def send(self, message: bytes) -> None:
        """Credit is ignored."""
        self._sent += 1
        (packet,) = wire.encode_data(self._sent, self._received, self._limit, [message])
        await self.send_packet(packet)

    async def send_packet(self, packet: bytes) -> None:
        self._writer.write(frame(packet))
        await self._writer.drain()

    async def subscribe(self, number: int, pattern: str) -> None:
        await self.send(messages.encode(Subscribe(number, pattern, "true()", {}, "", "new", (), 0)))
        while not isinstance(await self.receive(), Flowing):
            pass

    async def receive(self) -> Message | bytes:
        """Messages are decoded; a delivery is not."""
        while True:
            packet = await read_frame(self._reader)
            kind, fields, message = wire.decode_packet(packet)
            if kind == wire.DATA:
                self._received = fields[0]
                return message if message[0] == messages.DELIVER else messages.decode(message)

    async def read_refusal(self) -> BrokerError:
        while True:
            message = await self.receive()
            if isinstance(message, Refuse):
                return from_wire(message.error)


async def connect_and_read_refusal(port: int, packets: Sequence[bytes]) -> BrokerError:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"".join(frame(packet) for packet in packets))
        answer = messages.decode(await read_frame(reader))
        assert isinstance(answer, Refuse), answer
        return from_wire(answer.error)
    finally:
        writer.transport.abort()


async def send_and_read_all(port: int, data: bytes) -> bytes:
    """Return everything that the node sends until it closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()
