"""What every source of seeds is."""

from __future__ import annotations

from collections.abc import Sequence

from twisted.internet.defer import Deferred
from zope.interface import Interface

from broker.cluster.descriptor import Endpoint

#: More seeds nobody asks in one round; what is beyond is left out.
MOST_SEEDS = 64


class ISeedSource(Interface):
    """Knows nodes of the network, or where they may be."""

    def find_seeds() -> Deferred[Sequence[Endpoint]]:
        """At most `MOST_SEEDS`, the best first; none if it finds none. Can be asked again.

        Fails with what went wrong where the source can not be asked.
        """
