"""Which events of a log a subscription wants: the matcher, with the DTDs it turns out to need."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from broker.content.contract import DtdNeeded, IMatcher
from broker.dtd.hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError
from broker.event.envelope import Liveness
from broker.router.turns import SECONDS_A_TURN

#: Types that are remembered as being without a DTD.
_REMEMBERED = 1_000


class Selection:
    """Asks the matcher about logged events, and fetches a DTD that is not loaded any more.

    A logged event was valid once. If its DTD can not be had again, the query is asked without the
    defaults that it would add: better than to keep back an event that was acknowledged.
    """

    def __init__(self, matcher: IMatcher, dtds: IDtdCache) -> None:
        self._matcher = matcher
        self._dtds = dtds
        self._undescribed: OrderedDict[DtdReference, None] = OrderedDict()

    async def select(
        self, number: int, documents: Sequence[bytes], liveness: Liveness
    ) -> list[bool]:
        """Of the first of the documents, which it wants: of as many as there is time for in a turn.

        Raises `UnknownSubscription` and `InvalidEvent` as `IMatcher.select` does.
        """
        while True:
            try:
                selected: list[bool] = self._matcher.select(
                    number, documents, liveness, self._undescribed.keys(), SECONDS_A_TURN
                )
                return selected
            except DtdNeeded as needed:
                await self._fetch(needed)

    async def _fetch(self, needed: DtdNeeded) -> None:
        missing = needed.missing
        try:
            await self._dtds.lookup(missing.reference, FetchHint(missing.system_id))
        except BrokerError:
            self._undescribed[missing.reference] = None
            if len(self._undescribed) > _REMEMBERED:
                self._undescribed.popitem(last=False)
