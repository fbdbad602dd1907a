from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from twisted.internet.defer import Deferred, fail, succeed
from twisted.names import dns
from twisted.names.error import DNSNameError, DNSServerError
from twisted.trial.unittest import SynchronousTestCase
from zope.interface.verify import verifyObject

from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.dns_seeds import HostSeeds, SrvSeeds
from broker.cluster.discovery.seed_source import ISeedSource


class Resolver:
    """Returns given answers, and records queries."""

    def __init__(self, **answers: Sequence[Any] | Exception) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        answer = self.answers[name]

        def lookup(asked: str, timeout: Sequence[int]) -> Deferred[Any]:
            self.asked.append(asked)
            if isinstance(answer, Exception):
                return fail(answer)
            return succeed(
                ([dns.RRHeader(type=each.TYPE, payload=each) for each in answer], [], [])
            )

        return lookup


class SourcesTest(SynchronousTestCase):
    def test_each_source_implements_the_interface(self) -> None:
        resolver = Resolver(lookupService=())
        verifyObject(ISeedSource, SrvSeeds(resolver, "s", random.Random(1)))
        verifyObject(ISeedSource, HostSeeds(resolver, "n", 1))


class DnsTest(SynchronousTestCase):
    def test_srv_records_are_ordered_by_priority(self) -> None:
        records = [
            dns.Record_SRV(20, 0, 4001, "late.example.org"),
            dns.Record_SRV(10, 0, 4000, "soon.example.org"),
            dns.Record_A("192.0.2.1"),
            dns.Record_SRV(1, 0, 4000, b"."),
            dns.Record_SRV(1, 0, 0, "no-port.example.org"),
        ]
        resolver = Resolver(lookupService=records)
        source = SrvSeeds(resolver, "_xmlbroker._tcp.example.org", random.Random(1))
        found = self.successResultOf(source.find_seeds())
        self.assertEqual(
            found, (Endpoint("soon.example.org", 4000), Endpoint("late.example.org", 4001))
        )
        self.assertEqual(resolver.asked, ["_xmlbroker._tcp.example.org"])

    def test_equal_priorities_share_by_weight(self) -> None:
        records = [dns.Record_SRV(1, 3, 1, "heavy"), dns.Record_SRV(1, 1, 1, "light")]
        source = SrvSeeds(Resolver(lookupService=records), "s", random.Random(7))
        first = Counter(self.successResultOf(source.find_seeds())[0].host for _each in range(1000))
        self.assertTrue(700 < first["heavy"] < 800, first)

    def test_a_host_name_yields_all_its_addresses(self) -> None:
        resolver = Resolver(
            lookupAddress=[dns.Record_CNAME("x"), dns.Record_A("192.0.2.1")],
            lookupIPV6Address=[dns.Record_AAAA("2001:db8::1")],
        )
        found = self.successResultOf(HostSeeds(resolver, "nodes.example.org", 4000).find_seeds())
        self.assertEqual(found, (Endpoint("192.0.2.1", 4000), Endpoint("2001:db8::1", 4000)))

    def test_a_missing_name_yields_no_seeds(self) -> None:
        resolver = Resolver(
            lookupAddress=[dns.Record_A("192.0.2.1")],
            lookupIPV6Address=DNSNameError("no such name"),
            lookupService=DNSNameError("no such name"),
        )
        found = self.successResultOf(HostSeeds(resolver, "n", 1).find_seeds())
        self.assertEqual(found, (Endpoint("192.0.2.1", 1),))
        source = SrvSeeds(resolver, "s", random.Random(1))
        self.assertEqual(self.successResultOf(source.find_seeds()), ())

    def test_a_dns_error_fails_the_poll(self) -> None:
        broken = DNSServerError("broken")
        resolver = Resolver(lookupService=broken, lookupAddress=broken, lookupIPV6Address=())
        self.failureResultOf(SrvSeeds(resolver, "s", random.Random(1)).find_seeds(), DNSServerError)
        self.failureResultOf(HostSeeds(resolver, "n", 1).find_seeds())
