"""Free ports of this machine, for nodes that a test or a benchmark starts and restarts.

A port of the system's ephemeral range is unsuitable: the system gives it to another connection
while its node is down. These ports lie below that range.
"""

from __future__ import annotations

import contextlib
import errno
import random
import socket
from typing import Final

#: Linux begins its ephemeral range at 32768, other systems higher.
CANDIDATES: Final = range(20_000, 32_768)
# Tests may seed `random`: parallel processes would then choose the same ports.
_RANDOM: Final = random.SystemRandom()


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Return a port of the loopback interface that no socket of this kind uses now."""
    return free_ports(1, kind)[0]


def free_ports(count: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Return different free ports; OSError (EADDRINUSE) if there are not enough."""
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        for port in _RANDOM.sample(CANDIDATES, len(CANDIDATES)):
            probe = stack.enter_context(socket.socket(type=kind))
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            found.append(port)
            if len(found) == count:
                return found
    raise OSError(errno.EADDRINUSE, f"only {len(found)} of {count} ports are free")
