"""Selection of logged events for a subscription, with fetching of missing DTDs."""

from __future__ import annotations

from collections import OrderedDict
from functools import partial

from broker.dtd.fetch_hint import FetchHint
from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.errors import BrokerError
from broker.event.envelope import Liveness
from broker.ingest.late_validation import EventRun
from broker.ingest.validation_policy import ValidationPolicy
from broker.matching.contract import DtdNeeded, IMatcher
from broker.matching.undescribed import without_dtds
from broker.sessions.fair_slices import FAIR_SLICE_SECONDS, FairSlices
from broker.transport.clock import IClock

#: Types cached as having no DTD.
_MAX_CACHED_TYPES = 1_000


class Selection:
    """Matches logged events, and fetches missing DTDs.

    Where the policy accepts events without a DTD, those of earlier versions count so if no source
    has it: their headers do not tell.
    """

    def __init__(
        self,
        matcher: IMatcher,
        dtds: IDtdCache,
        clock: IClock,
        policy: ValidationPolicy,
    ) -> None:
        self._matcher = matcher
        self._dtds = dtds
        self._policy = policy
        self._undescribed: OrderedDict[DtdReference, None] = OrderedDict()
        self._slices = FairSlices(clock)

    async def select(
        self,
        holder: str,
        number: int,
        run: EventRun,
        liveness: Liveness,
    ) -> list[bool]:
        """Return which of the first documents match, as many as fit into a time slice.

        The holders (`Identity.holder`) have their turns. So many recoveries of one account delay
        neither live events nor other accounts.

        Raises `UnknownSubscription` and `InvalidEvent` as `IMatcher.select`, and `DtdNeeded`.
        """
        while True:
            try:
                return await self._slices.run(
                    holder,
                    partial(self._run_matcher, number, run, liveness),
                )
            except DtdNeeded as needed:
                if not await self._fetch_dtd(needed):
                    raise

    def _run_matcher(
        self,
        number: int,
        run: EventRun,
        liveness: Liveness,
    ) -> list[bool]:
        selected: list[bool] = self._matcher.select(
            *(number, [event.document for event in run.events], liveness, FAIR_SLICE_SECONDS),
            without_dtds(self._undescribed, run.variants) if self._undescribed else run.variants,
            marked=run.marked,
        )
        return selected

    async def _fetch_dtd(self, needed: DtdNeeded) -> bool:
        """Return whether the selection can be repeated."""
        missing = needed.missing
        looked_up = self._dtds.lookup(missing.reference, FetchHint(missing.system_id))
        if not self._policy.may_accept_undescribed(missing.reference.type):
            # The reader of the log waits for the DTD.
            here: list[object] = []
            looked_up.addCallbacks(here.append, lambda _: None)
            return bool(here)
        try:
            await looked_up
        except BrokerError:
            self._undescribed[missing.reference] = None
            if len(self._undescribed) > _MAX_CACHED_TYPES:
                self._undescribed.popitem(last=False)
        return True
