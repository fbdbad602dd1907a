"""Bytes of packets that begin with a mark, beside those of the order (`plugins.rcm.observer`)."""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

from broker.errors import ProtocolError

PacketT = TypeVar("PacketT")


class MarkedCodec(Generic[PacketT]):
    def __init__(self, mark: bytes, packet: Any, name: str, longest: int) -> None:
        """`packet` is the msgspec type of all packets, `name` stands in errors, `longest` is in
        bytes."""
        self._mark = mark
        self._name = name
        self._longest = longest
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(packet).decode

    def encode(self, packet: PacketT) -> bytes:
        return self._mark + self._encode(packet)

    def decode(self, data: bytes) -> PacketT:
        """Raises `ProtocolError`."""
        if not data.startswith(self._mark) or len(data) > self._longest:
            raise ProtocolError(f"no packet {self._name}: {len(data)} bytes")
        try:
            packet: PacketT = self._decode(memoryview(data)[len(self._mark) :])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise ProtocolError(f"malformed packet {self._name}: {error}") from None
        return packet
