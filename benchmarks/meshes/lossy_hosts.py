"""Three hosts in a row, in network namespaces whose kernel loses packets. They need root."""

from __future__ import annotations

import os
import shutil
import subprocess
from types import TracebackType
from typing import Final, Self

import attrs

from benchmarks.harness.failure import BenchmarkFailed

_NAMES: Final = ("server", "relay", "client")


@attrs.frozen
class LossyHost:
    namespace: str
    address: str
    """That of the cable towards the server, or of its only one."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """The begin of a command that runs at this host."""
        return ("ip", "netns", "exec", self.namespace)


class LossyHosts:
    """A server, a relay, and a client: two cables that lose a share of the packets, both ways."""

    def __init__(self, share: float) -> None:
        tag = f"xm{os.getpid()}"
        self._share = share
        self.server, self.relay, self.client = (
            LossyHost(f"{tag}-{name}", f"10.79.{number}.2") for number, name in enumerate(_NAMES)
        )

    def __enter__(self) -> Self:
        """Raises `BenchmarkFailed`."""
        try:
            self._make()
        except (subprocess.CalledProcessError, OSError) as error:
            self._remove()
            reason = getattr(error, "stderr", "") or str(error)
            raise BenchmarkFailed(f"no network namespaces: {reason.strip()}") from None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _make(self) -> None:
        hosts = (self.server, self.relay, self.client)
        for host in hosts:
            _run("ip", "netns", "add", host.namespace)
            _run(*host.prefix, "ip", "link", "set", "lo", "up")
        for number in (1, 2):
            one, other = hosts[number - 1 : number + 1]
            ends = (f"{one.namespace}r"[-15:], f"{other.namespace}l"[-15:])
            cable = ("ip", "link", "add", ends[0], "netns", one.namespace, "type", "veth")
            _run(*cable, "peer", "name", ends[1], "netns", other.namespace)
            for host, end, last in ((one, ends[0], 1), (other, ends[1], 2)):
                address = f"10.79.{number}.{last}/24"
                _run(*host.prefix, "ip", "address", "add", address, "dev", end)
                _run(*host.prefix, "ip", "link", "set", end, "up")
        for host in hosts:
            self._lose(host)

    def _lose(self, host: LossyHost) -> None:
        """Drop incoming TCP packets; a loss of outgoing ones would be seen by the sender."""
        if not self._share:
            return
        nft = (*host.prefix, "nft")
        _run(*nft, "add", "table", "inet", "lossy")
        hook = "{ type filter hook input priority 0 ; }"
        _run(*nft, "add", "chain", "inet", "lossy", "input", hook)
        chance = ("numgen", "random", "mod", "1000", "<", str(round(1000 * self._share)))
        _run(
            *nft, "add", "rule", "inet", "lossy", "input", "meta", "l4proto", "tcp", *chance, "drop"
        )

    def _remove(self) -> None:
        for host in (self.server, self.relay, self.client):
            subprocess.run(["ip", "netns", "delete", host.namespace], capture_output=True)


def find_obstacle() -> str:
    """Return the reason why there can be no such hosts; empty: they are possible."""
    if os.geteuid() != 0:
        return "this user is not root"
    missing = [each for each in ("ip", "nft") if shutil.which(each) is None]
    return f"there is no command {missing[0]}" if missing else ""


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True)
