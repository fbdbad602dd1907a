"""Types of published events whose look-up has failed, so that their events need no DTD."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from broker.dtd.interfaces import IDtdCache
from broker.dtd.reference import DtdReference
from broker.ingest.event_source import EventSource
from broker.ingest.validation_policy import ValidationPolicy
from broker.matching.contract import NO_VARIANTS, Variants
from broker.matching.undescribed import without_dtds

#: Milliseconds until the look-up of a type is repeated.
LOOKUP_INTERVAL: Final = 10_000
#: Beyond it the oldest type is looked up again with its next event.
MOST_TYPES: Final = 1_000


class UndescribedTypes:
    def __init__(self, dtds: IDtdCache, policy: ValidationPolicy) -> None:
        self._dtds = dtds
        self._policy = policy
        self._valid_until: OrderedDict[DtdReference, int] = OrderedDict()
        self._variants: Variants = NO_VARIANTS

    def find_variants(self, source: EventSource, now: int) -> Variants:
        """Return the variants for events of a source at the time `now`, ms since 1970.

        A type that is looked up again is removed from `source.missing_types`.
        """
        known = self._valid_until
        if not known and not source.missing_types:
            return NO_VARIANTS
        expired = [
            each
            for each, until in known.items()
            if until <= now or self._dtds.get(each) is not None
        ]
        for each in expired:
            del known[each]
            source.missing_types.pop(each, None)
        added = [
            each
            for each in source.skippable_types
            if each not in known and self._policy.may_accept_undescribed(each.type)
        ]
        for each in added:
            known[each] = now + LOOKUP_INTERVAL
            if len(known) > MOST_TYPES:
                known.popitem(last=False)
        if added or expired:
            self._variants = without_dtds(known)
        return self._variants
