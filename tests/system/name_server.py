"""A server of the DNS for tests: Twisted's own, with a zone that is written for it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

_RUN = "from twisted.scripts.twistd import run; run()"


class NameServer:
    """A context: it answers on a port of the loopback interface."""

    def __init__(self, folder: Path, records: Iterable[str]) -> None:
        """Records are expressions such as `A("nodes.example.test", "127.0.0.1")`."""
        self.port = _free_port()
        (folder / "zone").write_text(
            'zone = [SOA("example.test", mname="example.test", rname="root.example.test"), '
            f"{', '.join(records)}]\n"
        )
        self._folder = folder

    @property
    def prelude(self) -> str:
        """Python that makes a process ask it."""
        return (
            "from twisted.names import client\n"
            f'client.theResolver = client.Resolver(servers=[("127.0.0.1", {self.port})])'
        )

    def __enter__(self) -> NameServer:
        where = ("--interface", "127.0.0.1", "--port", str(self.port), "--pyzone", "zone")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUN, "-n", "--pidfile=", "dns", *where],
            cwd=self._folder,
            env=dict(os.environ),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if "DNSDatagramProtocol starting" in line:
                return self
        raise AssertionError("the server of the DNS has ended")

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()


def _free_port() -> int:
    with socket.socket(type=socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
