"""Seeds by configuration, and several sources as one."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred, gatherResults, succeed
from twisted.logger import Logger
from twisted.python.failure import Failure
from zope.interface import implementer

from broker.cluster.descriptor import Endpoint
from broker.cluster.discovery.contract import MOST_SEEDS, ISeedSource


@implementer(ISeedSource)
class StaticSeeds:
    """Those that the configuration names."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = tuple(endpoints)[:MOST_SEEDS]

    def seeds(self) -> Deferred[Sequence[Endpoint]]:
        return succeed(self._endpoints)


@implementer(ISeedSource)
class AllSeeds:
    """What all of some sources find, each endpoint once, those of the first source first.

    A source that fails is logged and counts as one that found nothing.
    """

    log = Logger()

    def __init__(self, sources: Sequence[ISeedSource]) -> None:
        self._sources = tuple(sources)

    def seeds(self) -> Deferred[Sequence[Endpoint]]:
        asked = [source.seeds().addErrback(self._nothing) for source in self._sources]
        return gatherResults(asked).addCallback(_merged)

    def _nothing(self, failure: Failure) -> Sequence[Endpoint]:
        self.log.warn("No seeds from one source: {why}", why=failure.getErrorMessage())
        return ()


def _merged(found: Sequence[Sequence[Endpoint]]) -> Sequence[Endpoint]:
    return tuple(dict.fromkeys(each for one in found for each in one))[:MOST_SEEDS]
