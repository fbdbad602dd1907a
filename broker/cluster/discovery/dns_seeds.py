"""Seeds from DNS: services (SRV records), or all addresses of a name (A and AAAA records)."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

from twisted.internet.defer import Deferred, gatherResults
from twisted.names import dns
from twisted.names.error import DNSNameError
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.seed_source import MOST_SEEDS, ISeedSource

#: Answers, authority, additional.
_Answer: TypeAlias = tuple[Sequence[dns.RRHeader], Sequence[dns.RRHeader], Sequence[dns.RRHeader]]
#: Seconds, for the attempts of one query.
TIMEOUTS = (1, 2, 4)
_R = TypeVar("_R", dns.Record_A, dns.Record_AAAA, dns.Record_SRV)


@implementer(ISeedSource)
class SrvSeeds:
    """The targets of a service such as `_xmlbroker._tcp.example.org` (SRV records).

    Order by RFC 2782: by priority, then at random by weight. `resolver` is one of `twisted.names`.
    """

    def __init__(self, resolver: Any, service: str, rng: random.Random) -> None:
        self._resolver = resolver
        self._service = service
        self._rng = rng

    def find_seeds(self) -> Deferred[Sequence[Endpoint]]:
        answer: Deferred[_Answer] = self._resolver.lookupService(self._service, TIMEOUTS)
        return answer.addErrback(_no_such_name).addCallback(self._endpoints)

    def _endpoints(self, answer: _Answer) -> Sequence[Endpoint]:
        records = _records(answer, dns.Record_SRV)
        # The target `.` means that there is no such service.
        records = [each for each in records if each.target.name.strip(b".") and each.port]
        ordered = sorted(records, key=lambda each: (each.priority, self._random_order(each.weight)))
        found = (Endpoint(each.target.name.decode("ascii"), each.port) for each in ordered)
        return tuple(found)[:MOST_SEEDS]

    def _random_order(self, weight: int) -> float:
        # Of exponential times with these rates, each is the smallest in proportion to its weight.
        return self._rng.expovariate(weight) if weight else float("inf")


@implementer(ISeedSource)
class HostSeeds:
    """All addresses of one name (A and AAAA records), with a configured port."""

    def __init__(self, resolver: Any, name: str, port: int) -> None:
        self._resolver = resolver
        self._name = name
        self._port = port

    def find_seeds(self) -> Deferred[Sequence[Endpoint]]:
        lookups = (self._resolver.lookupAddress, self._resolver.lookupIPV6Address)
        answer = [ask(self._name, TIMEOUTS).addErrback(_no_such_name) for ask in lookups]
        found: Deferred[list[_Answer]] = gatherResults(answer, consumeErrors=True)
        return found.addCallback(self._endpoints)

    def _endpoints(self, answers: Iterable[_Answer]) -> Sequence[Endpoint]:
        hosts = [
            host
            for answer in answers
            for host in (
                *(record.dottedQuad() for record in _records(answer, dns.Record_A)),
                *(_ipv6(record) for record in _records(answer, dns.Record_AAAA)),
            )
        ]
        return tuple(Endpoint(host, self._port) for host in hosts)[:MOST_SEEDS]


def _records(answer: _Answer, cls: type[_R]) -> list[_R]:
    return [record for each in answer[0] if isinstance(record := cast(object, each.payload), cls)]


def _ipv6(record: dns.Record_AAAA) -> str:
    return str(ipaddress.IPv6Address(record.address))


def _no_such_name(failure: Failure) -> _Answer:
    failure.trap(DNSNameError)
    return (), (), ()
