"""The addresses of a DNS name that stand for the roots of a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from twisted.internet.defer import Deferred, fail, succeed
from twisted.internet.task import Clock

from broker.cluster.discovery.seed_poller import PERIOD, SHORTEST_PERIOD
from broker.errors import NotConnected
from broker.streams.contract import ITransportContext
from plugins.dcp.options import DcpOptions
from plugins.dcp.root_lookup import RootLookup


class Dns:
    """A context with answers of DNS; None: it does not answer."""

    def __init__(self, *answers: Sequence[str] | None) -> None:
        self.clock = Clock()
        self.answers = list(answers)
        self.asked: list[tuple[str, int]] = []
        self.found: list[Sequence[str]] = []

    def find_addresses(self, name: str, port: int) -> Deferred[Sequence[tuple[str, int]]]:
        self.asked.append((name, port))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is None:
            return fail(NotConnected("no answer"))
        return succeed([(host, port) for host in answer])

    def look_up(self, udp: str, **options: Any) -> RootLookup:
        context = SimpleNamespace(
            instance="mesh", clock=self.clock, find_addresses=self.find_addresses
        )
        settings = DcpOptions(udp=udp, root_name="asdi.example", **options)
        lookup = RootLookup(cast(ITransportContext, context), settings, self.found.append)
        lookup.start()
        return lookup


def test_addresses_of_the_own_family_have_the_port_of_the_node_or_another_one() -> None:
    both = ("10.0.0.2", "10.0.0.1", "fd00::1")
    old, new, other = Dns(both), Dns(both), Dns(both)
    old.look_up("10.0.0.7:8770")
    new.look_up("[fd00::7]:8770")
    other.look_up("10.0.0.7:8770", root_port=9)
    assert old.found == [("10.0.0.1:8770", "10.0.0.2:8770")]
    assert new.found == [("[fd00::1]:8770",)]
    assert other.found == [("10.0.0.1:9", "10.0.0.2:9")]


def test_the_last_answer_counts_while_dns_fails_or_names_nothing() -> None:
    one, two = ("10.0.0.1",), ("10.0.0.1", "10.0.0.2")
    dns = Dns(None, (), one, None, (), one, two)
    dns.look_up("10.0.0.7:8770")
    dns.clock.pump([1.0] * int(6 * PERIOD))
    assert dns.found == [("10.0.0.1:8770",), ("10.0.0.1:8770", "10.0.0.2:8770")]
    assert len(dns.asked) < 3 * PERIOD


def test_a_name_is_looked_up_sooner_when_no_root_answers() -> None:
    dns = Dns(("10.0.0.1",))
    lookup = dns.look_up("10.0.0.7:8770")
    dns.clock.advance(1.0)
    for _ in range(3):
        lookup.hasten()
    dns.clock.advance(SHORTEST_PERIOD - 1.1)
    assert len(dns.asked) == 1
    dns.clock.advance(0.2)
    assert len(dns.asked) == 2
    lookup.stop()
    lookup.hasten()
    assert dns.clock.getDelayedCalls() == []
