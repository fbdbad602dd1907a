"""Twisted's DNS server with a zone of the test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

# UDP only, on a free port: `twistd dns` needs the same port for TCP, which may be in use.
_RUN = """
import sys
from twisted.internet import reactor
from twisted.names import authority, dns, server

zone = authority.PySourceAuthority(sys.argv[1])
protocol = dns.DNSDatagramProtocol(server.DNSServerFactory(authorities=[zone]))
port = reactor.listenUDP(0, protocol, interface="127.0.0.1")
print(port.getHost().port, flush=True)
reactor.run()
"""


class NameServer:
    def __init__(self, folder: Path, records: Iterable[str]) -> None:
        """`records` are expressions such as `A("nodes.example.test", "127.0.0.1")`."""
        self._zone = folder / "zone"
        self._zone.write_text(
            'zone = [SOA("example.test", mname="example.test", rname="root.example.test"), '
            f"{', '.join(records)}]\n"
        )

    @property
    def prelude(self) -> str:
        """Python code that makes a process use this server."""
        return (
            "from twisted.names import client\n"
            f'client.theResolver = client.Resolver(servers=[("127.0.0.1", {self.port})])'
        )

    def __enter__(self) -> NameServer:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(self._zone)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._kill()
            raise AssertionError("the server of the DNS has ended")
        self.port = int(line)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kill()

    def _kill(self) -> None:
        self._process.kill()
        self._process.communicate()
