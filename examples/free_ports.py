"""Free ports of this machine, for nodes that a test or a benchmark restarts.

The system gives an ephemeral port to another connection while its node is down, so these ports are
lower. A port stays reserved until the process that asked for it ends.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import random
import socket
from pathlib import Path
from typing import Final

#: Linux begins its ephemeral range at 32768, other systems higher.
CANDIDATES: Final = range(20_000, 32_768)
# Tests may seed `random`: parallel processes would then choose the same ports.
_RANDOM: Final = random.SystemRandom()


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """Reserve a loopback port that no socket of this kind uses now."""
    return free_ports(1, kind)[0]


def free_ports(count: int, kind: socket.SocketKind = socket.SOCK_STREAM) -> list[int]:
    """Raises OSError (EADDRINUSE) if there are not enough."""
    found: list[int] = []
    for port in _RANDOM.sample(CANDIDATES, len(CANDIDATES)):
        if _is_free(port, kind) and _RESERVED.reserve(port):
            found.append(port)
            if len(found) == count:
                return found
    _RESERVED.release(found)
    raise OSError(errno.EADDRINUSE, f"only {len(found)} of {count} ports are free")


def _is_free(port: int, kind: socket.SocketKind) -> bool:
    with socket.socket(type=kind) as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


class _Reservations:
    """The ports of this user's processes, as locks of bytes of one common file.

    The system releases a process's locks when it ends, however it ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        # A process can lock a byte that it holds again.
        self._own: set[int] = set()

    def reserve(self, port: int) -> bool:
        """Return False if this or another process holds the port."""
        if port in self._own:
            return False
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
        except (BlockingIOError, PermissionError):
            return False
        self._own.add(port)
        return True

    def release(self, ports: list[int]) -> None:
        for port in ports:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, port)
            self._own.discard(port)

    @functools.cached_property
    def _file(self) -> int:
        # Closing the file would release the locks.
        return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


# Not in TMPDIR: processes with different ones reserve the same ports.
_RESERVED: Final = _Reservations(Path(f"/var/tmp/xmlbroker-reserved-ports-{os.getuid()}"))
