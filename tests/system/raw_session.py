"""A client without the client library: it says what it likes and reads when it likes."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Sequence

from broker.errors import BrokerError, from_wire
from broker.transport.p2p import wire
from broker.wire import messages
from broker.wire.codec import Message
from broker.wire.messages import (
    MAGIC,
    PROTOCOL_VERSIONS,
    Flowing,
    Hello,
    Refuse,
    Subscribe,
    Welcome,
)

WINDOW = 4 << 20


def frame(packet: bytes) -> bytes:
    """A packet as it lies on the wire."""
    return struct.pack(">I", len(packet)) + packet


def hello(client_id: str, incarnation: int = 0, token: bytes = b"", secret: str = "") -> Hello:
    """A greeting; by default of a new process."""
    return Hello(
        magic=MAGIC,
        versions=PROTOCOL_VERSIONS,
        client_id=client_id,
        incarnation=incarnation or time.time_ns() // 1000,
        token=token or os.urandom(16),
        account=client_id if secret else "",
        secret=secret,
    )


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """The next packet; `IncompleteReadError` at the end of the stream."""
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    return await reader.readexactly(length)


class RawSession:
    """A session whose messages are sent and read one by one."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._sent = 0
        self._received = 0
        self._limit = WINDOW

    @classmethod
    async def open(cls, port: int, client_id: str) -> RawSession:
        """Connect, greet, begin the stack."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        said = hello(client_id)
        writer.write(frame(messages.encode(said)))
        welcome = messages.decode(await read_frame(reader))
        assert isinstance(welcome, Welcome), welcome
        session = cls(reader, writer)
        theirs = wire.resume_of(wire.read(await read_frame(reader))[1])
        assert theirs.known == 0
        writer.write(
            frame(wire.resume(wire.Resume(said.incarnation, theirs.incarnation, 0, WINDOW, WINDOW)))
        )
        return session

    def close(self) -> None:
        """Drop the connection."""
        self._writer.transport.abort()

    async def send(self, message: bytes) -> None:
        """Send one message, whatever the credit."""
        self._sent += 1
        (packet,) = wire.data(self._sent, self._received, self._limit, [message])
        await self.send_packet(packet)

    async def send_packet(self, packet: bytes) -> None:
        """Send one packet of the stack."""
        self._writer.write(frame(packet))
        await self._writer.drain()

    async def subscribe(self, number: int, pattern: str) -> None:
        """Subscribe to everything on the pattern's streams, and wait until it flows."""
        await self.send(messages.encode(Subscribe(number, pattern, "true()", {}, "", "new", (), 0)))
        while not isinstance(await self.receive(), Flowing):
            pass

    async def receive(self) -> Message | bytes:
        """The next message: decoded, or the bytes of a delivery."""
        while True:
            packet = await read_frame(self._reader)
            kind, fields, message = wire.read(packet)
            if kind == wire.DATA:
                self._received = fields[0]
                return message if message[0] == messages.DELIVER else messages.decode(message)

    async def refusal(self) -> BrokerError:
        """Read on until the node says that the session is over, and why."""
        while True:
            message = await self.receive()
            if isinstance(message, Refuse):
                return from_wire(message.error)


async def refusal_of(port: int, packets: Sequence[bytes]) -> BrokerError:
    """What the node answers to a connection that begins so."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(b"".join(frame(packet) for packet in packets))
        answer = messages.decode(await read_frame(reader))
        assert isinstance(answer, Refuse), answer
        return from_wire(answer.error)
    finally:
        writer.transport.abort()


async def how_it_ends(port: int, data: bytes) -> bytes:
    """Send bytes that are no frames, and read until the node closes; what it said."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read()
    except ConnectionError:
        return b""
    finally:
        writer.transport.abort()
