"""Hosts in network namespaces on a bridge, with loss, cuts, delays and rates."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping

from tests.system.namespaces import ROOT, Host, Hosts, run

_TABLE = ("inet", "segment")


class Segment(Hosts):
    def __init__(self, count: int, delays: Mapping[int, float] | None = None) -> None:
        """The first host has the address 10.78.0.1. `delays` has the seconds, one way, of the
        cables of some hosts, by their numbers from 1 on."""
        self._delays = delays or {}
        self._relays: list[subprocess.Popen[str]] = []
        tag = f"xs{os.getpid()}"
        self._bridge = f"{tag}-b"
        self.hosts = tuple(
            Host(f"{tag}-{host}", f"{tag}h{host}"[:15], f"10.78.0.{host}", f"fd78::{host}")
            for host in range(1, count + 1)
        )

    # ------------------------------------------------------------------ faults

    def lose_datagrams(self, percent: int) -> None:
        """Loss on output would be an error."""
        for host in self.hosts:
            if shutil.which("nft"):
                _rule(host, "meta", "l4proto", "udp", *_chance(percent), "drop")
            else:
                host.run(
                    *("iptables", "-A", "INPUT", "-p", "udp", "-m", "statistic"),
                    *("--mode", "random", "--probability", str(percent / 100), "-j", "DROP"),
                )

    def limit_rate(self, megabits: int) -> None:
        """Limit the rate at which each host sends, in Mbit/s."""
        for host in self.hosts:
            host.run(
                *("tc", "qdisc", "add", "dev", host.interface, "root", "tbf"),
                *("rate", f"{megabits}mbit", "burst", "32kb", "latency", "200ms"),
            )

    def cut(self, one: Host, other: Host) -> None:
        for host, sender in ((one, other), (other, one)):
            if shutil.which("nft"):
                host.run("nft", "add", "element", *_TABLE, "cut", f"{{ {sender.address} }}")
            else:
                host.run("iptables", "-I", "INPUT", "-s", sender.address, "-j", "DROP")

    def heal(self, one: Host, other: Host) -> None:
        for host, sender in ((one, other), (other, one)):
            if shutil.which("nft"):
                host.run("nft", "delete", "element", *_TABLE, "cut", f"{{ {sender.address} }}")
            else:
                host.run("iptables", "-D", "INPUT", "-s", sender.address, "-j", "DROP")

    def isolate(self, host: Host) -> None:
        for other in self.hosts:
            if other is not host:
                self.cut(host, other)

    # ------------------------------------------------------------------ setup

    def _make(self) -> None:
        run("ip", "netns", "add", self._bridge)
        bridge_link = ("ip", "-n", self._bridge, "link")
        # Without snooping, multicast goes to all ports, as on a simple switch.
        run(*bridge_link, "add", "segment", "type", "bridge", "mcast_snooping", "0")
        run(*bridge_link, "set", "segment", "up")
        for number, host in enumerate(self.hosts, 1):
            run("ip", "netns", "add", host.namespace)
            peer = f"{host.interface}p"[-15:]
            if number in self._delays:
                self._start_relay(host, peer, self._delays[number])
            else:
                cable = ("ip", "link", "add", host.interface, "netns", host.namespace)
                run(*cable, "type", "veth", "peer", "name", peer, "netns", self._bridge)
            run(*bridge_link, "set", peer, "master", "segment", "up")
            host.run("ip", "link", "set", "lo", "up")
            host.run("ip", "address", "add", f"{host.address}/24", "dev", host.interface)
            host.run("ip", "link", "set", host.interface, "up")
            if shutil.which("nft"):
                host.run("nft", "add", "table", *_TABLE)
                host.run("nft", "add", "set", *_TABLE, "cut", "{ type ipv4_addr; }")
                host.run(
                    *("nft", "add", "chain", *_TABLE, "input"),
                    "{ type filter hook input priority 0 ; }",
                )
                _rule(host, "ip", "saddr", "@cut", "drop")

    def _start_relay(self, host: Host, peer: str, seconds: float) -> None:
        """Connect a host to the bridge by a cable with a delay."""
        ends = f"{host.namespace}:{host.interface}", f"{self._bridge}:{peer}"
        command = [sys.executable, "-m", "tests.system.delay_relay", str(seconds), *ends]
        relay = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        self._relays.append(relay)
        assert relay.stdout is not None
        if not relay.stdout.readline():
            raise subprocess.CalledProcessError(relay.wait(), command, stderr="the relay ended")

    def _remove(self) -> None:
        for relay in self._relays:
            relay.kill()
            relay.communicate()
        super()._remove()

    def _namespaces(self) -> list[str]:
        return [self._bridge, *super()._namespaces()]


def _rule(host: Host, *words: str) -> None:
    host.run("nft", "add", "rule", *_TABLE, "input", *words)


def _chance(percent: int) -> tuple[str, ...]:
    return ("numgen", "random", "mod", "100", "<", str(percent))
