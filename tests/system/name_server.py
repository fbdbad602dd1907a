"""A server of the DNS for tests: Twisted's own, with a zone that is written for it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

# On UDP alone, at a port that the system gives: `twistd dns` wants the same number for TCP,
# where anybody's connection may have it.
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
    """A context: it answers on a port of the loopback interface."""

    def __init__(self, folder: Path, records: Iterable[str]) -> None:
        """Records are expressions such as `A("nodes.example.test", "127.0.0.1")`."""
        self._zone = folder / "zone"
        self._zone.write_text(
            'zone = [SOA("example.test", mname="example.test", rname="root.example.test"), '
            f"{', '.join(records)}]\n"
        )

    @property
    def prelude(self) -> str:
        """Python that makes a process ask it."""
        return (
            "from twisted.names import client\n"
            f'client.theResolver = client.Resolver(servers=[("127.0.0.1", {self.port})])'
        )

    def __enter__(self) -> NameServer:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(self._zone)], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        told = self._process.stdout.readline()
        if not told:
            self._end()
            raise AssertionError("the server of the DNS has ended")
        self.port = int(told)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.communicate()
