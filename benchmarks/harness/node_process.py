"""A node as a child process, run by `twistd xmlbroker`."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness.actor import ROOT
from benchmarks.harness.children import Children
from benchmarks.harness.failure import BenchmarkFailed
from examples.free_ports import free_port

_START: Final = "from twisted.scripts.twistd import run; run()"
_STARTUP: Final = 30.0
_NOTHING: Final[Mapping[str, str]] = {}
_GLANCE: Final = 0.002


class NodeProcess:
    """A node on a free loopback port, listening when the constructor returns.

    `configuration` is TOML besides `[node]` and `[listen]`. `folder` must be empty.
    """

    def __init__(
        self,
        children: Children,
        folder: Path,
        configuration: str = "",
        name: str = "bench",
        *,
        command: Sequence[str] = ("-c", _START),
        environment: Mapping[str, str] = _NOTHING,
    ) -> None:
        """`command` are Python's arguments before twistd's."""
        self.folder = folder
        self.port = free_port()
        self.endpoint = f"tcp:127.0.0.1:{self.port}"
        settings = folder / "node.toml"
        settings.write_text(
            f'[node]\nname = "{name}"\ndata = "data"\n'
            f'[listen]\nendpoints = ["tcp:port={self.port}:interface=127.0.0.1"]\n'
            f"{configuration}"
        )
        self._children = children
        self._log = folder / "node.log"
        with open(self._log, "wb") as log:
            began = time.monotonic()
            self._process = children.start(
                [
                    *(sys.executable, *command),
                    *("-n", "--pidfile=", "xmlbroker", "--config", str(settings)),
                ],
                folder=folder,
                environment={"PYTHONPATH": str(ROOT), **environment},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._await_listening(began + _STARTUP)
        #: From exec until a connection was accepted.
        self.startup = time.monotonic() - began

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Raise `BenchmarkFailed` if it has ended."""
        if self._children.has_ended(self._process):
            raise BenchmarkFailed(f"the node has ended: {self._last_log_line()}")

    def stop(self) -> None:
        """Raises `BenchmarkFailed` for a failed exit."""
        status = self._children.stop(self._process)
        # twistd exits by the signal that stopped it, after closing.
        if status not in (0, -signal.SIGTERM):
            raise BenchmarkFailed(f"the node ended with status {status}: {self._last_log_line()}")

    def _await_listening(self, deadline: float) -> None:
        while not is_listening(self.port):
            if self._children.has_ended(self._process):
                raise BenchmarkFailed(f"the node did not start: {self._last_log_line()}")
            if time.monotonic() > deadline:
                raise BenchmarkFailed(f"the node did not listen in {_STARTUP:g} s")
            time.sleep(_GLANCE)

    def _last_log_line(self) -> str:
        return self._log.read_text(errors="replace").strip().rpartition("\n")[2][:500]


def is_listening(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
