"""A real child process with the test in the place of its node."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
from typing import Generic, Self

from broker.transport.socket.framing import encode_frames
from broker.wire.codec import Codec, M

SECONDS = 60.0


class StartedChild(Generic[M]):
    def __init__(self, codec: Codec[M], *command: str) -> None:
        self._codec = codec
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(SECONDS)
        self._file = self.socket.makefile("rb")
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *command],
                stdin=theirs.fileno(),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self.socket.close()
        self.process.wait(SECONDS)

    def send(self, *messages: M) -> None:
        self.socket.sendall(b"".join(encode_frames([*map(self._codec.encode, messages)])))

    def receive(self) -> M:
        (length,) = struct.unpack(">I", self._file.read(4))
        return self._codec.decode(self._file.read(length))

    def is_closed(self) -> bool:
        """Wait for the end of the connection; False if a message comes."""
        return self._file.read(1) == b""
