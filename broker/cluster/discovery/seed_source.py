"""Interface of sources of seeds."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from zope.interface import Interface

from broker.cluster.descriptor import Endpoint

#: Further seeds of one poll are dropped.
MOST_SEEDS = 64


class ISeedSource(Interface):
    """A source of endpoints where nodes of the network may listen."""

    def find_seeds() -> Deferred[Sequence[Endpoint]]:
        """Return at most `MOST_SEEDS` endpoints, the best first. May be called again.

        Fails if the source can not be queried.
        """
