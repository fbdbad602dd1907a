"""Stream transports that report the marks behind which a new subscription gets all events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from twisted.internet.defer import Deferred

from broker.event.place import Mark
from broker.streams.contract import CarriedInterest, IStreamTransport

#: Marks by flow, behind which the events of an interest come.
Marks: TypeAlias = Mapping[str, Mark]


class IInterestTransport(IStreamTransport):
    """A transport whose nodes learn of new interest one after another, without a pause.

    A subscription begins behind the marks that `announce` returns, and is active only then. So
    batches that were selected without it stay valid for all other subscriptions.
    """

    def announce(  # type: ignore[override]
        key: str, interest: CarriedInterest
    ) -> Deferred[Marks]:
        """Announce interest as `IStreamTransport.announce`.

        Fires with the marks of flows behind which a batch for `receive` has all events that match
        it. It must fire in seconds, also when no other node can be reached.
        """
