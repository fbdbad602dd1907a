"""Two hosts in network namespaces with a veth pair and packet loss by the kernel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import attrs

from tests.capability import need, skip

ROOT = Path(__file__).resolve().parents[2]
#: Last part of the hosts' addresses.
_HOSTS = (1, 2)


@attrs.frozen
class Host:
    namespace: str
    interface: str
    address: str
    address6: str

    def run(self, *command: str) -> None:
        """Raises CalledProcessError."""
        run("ip", "netns", "exec", self.namespace, *command)

    def start(self, module: str, *arguments: str) -> subprocess.Popen[str]:
        command = ["ip", "netns", "exec", self.namespace, sys.executable, "-m", module]
        return subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )


class Hosts:
    hosts: tuple[Host, ...]

    def __enter__(self) -> Self:
        try:
            self._make()
        except subprocess.CalledProcessError as error:
            self._remove()
            skip("namespaces", error.stderr.strip())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _make(self) -> None:
        raise NotImplementedError

    def _namespaces(self) -> list[str]:
        return [host.namespace for host in self.hosts]

    def _remove(self) -> None:
        for namespace in self._namespaces():
            subprocess.run(["ip", "netns", "delete", namespace], capture_output=True)


class TwoHosts(Hosts):
    def __init__(self) -> None:
        tag = f"xb{os.getpid()}"
        self.hosts = tuple(
            Host(f"{tag}-{host}", f"{tag}{host}"[:15], f"10.77.0.{host}", f"fd77::{host}")
            for host in _HOSTS
        )

    def lose(self, percent: int) -> None:
        """Loss on output would be an error."""
        for host in self.hosts:
            if shutil.which("nft"):
                host.run("nft", "add", "table", "inet", "lossy")
                host.run(
                    *("nft", "add", "chain", "inet", "lossy", "input"),
                    "{ type filter hook input priority 0 ; }",
                )
                host.run(
                    *("nft", "add", "rule", "inet", "lossy", "input", "meta", "l4proto", "udp"),
                    *("numgen", "random", "mod", "100", "<", str(percent), "drop"),
                )
                continue
            for tables in ("iptables", "ip6tables"):
                host.run(
                    *(tables, "-A", "INPUT", "-p", "udp", "-m", "statistic", "--mode", "random"),
                    *("--probability", str(percent / 100), "-j", "DROP"),
                )

    def _make(self) -> None:
        one, other = self.hosts
        for host in self.hosts:
            run("ip", "netns", "add", host.namespace)
        cable = ("ip", "link", "add", one.interface, "netns", one.namespace, "type", "veth")
        run(*cable, "peer", "name", other.interface, "netns", other.namespace)
        for host in self.hosts:
            host.run("ip", "link", "set", "lo", "up")
            host.run("ip", "address", "add", f"{host.address}/24", "dev", host.interface)
            host.run(
                "ip", "-6", "address", "add", f"{host.address6}/64", "dev", host.interface, "nodad"
            )
            host.run("ip", "link", "set", host.interface, "up")


def need_namespaces() -> None:
    need("namespaces", "packet-filter")


def run(*command: str) -> None:
    """Raises CalledProcessError."""
    subprocess.run(command, check=True, capture_output=True, text=True)
