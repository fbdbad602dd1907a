"""Messages between a process and the child process that validates by schemas."""

from __future__ import annotations

import socket
import struct
from typing import Final

import msgspec

_LENGTH: Final = struct.Struct(">I")
#: Documents are far smaller.
_MAX_FRAME: Final = 64 << 20


class Request(msgspec.Struct, array_like=True):
    """Compile a schema if `packed` is given, and validate a document if `document` is given."""

    schema: str
    """The hash of the schema."""
    packed: bytes | None = None
    document: bytes | None = None


class Reply(msgspec.Struct, array_like=True):
    """`error` is None if the schema, or the document, is valid."""

    error: str | None = None
    line: int = 0
    """For a schema: the line in its file."""
    file: str = ""
    element: int = 0
    """For a document: the number of the element, in document order from 1; 0: unknown."""
    is_unknown: bool = False
    """The schema is not compiled (any more)."""
    seconds: float = 0.0
    """Processor time of the answer."""
    is_undecided: bool = False
    """The schema can not be used now: the document may be valid."""


def send_frame(connection: socket.socket, message: Request | Reply) -> None:
    data = msgspec.msgpack.encode(message)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive_frame(connection: socket.socket) -> bytes | None:
    """Return the next frame; None at the end of the connection. Raises `OSError`."""
    head = _receive(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > _MAX_FRAME:
        return None
    return _receive(connection, length)


def _receive(connection: socket.socket, length: int) -> bytes | None:
    parts = []
    while length:
        part = connection.recv(min(length, 1 << 16))
        if not part:
            return None
        parts.append(part)
        length -= len(part)
    return b"".join(parts)
