"""Look-ups that failed a short while ago, so that they are not repeated for every event (T25)."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.dtd.reference import DtdReference
from broker.errors import BrokerError


@attrs.frozen
class _Refusal:
    error: BrokerError
    until: float


class Refusals:
    """A negative cache, bounded in number and time. The oldest refusal goes first."""

    def __init__(self, max_refusals: int, seconds: float) -> None:
        self._max_refusals = max_refusals
        self._seconds = seconds
        self._refusals: OrderedDict[tuple[DtdReference, str], _Refusal] = OrderedDict()

    def __len__(self) -> int:
        return len(self._refusals)

    def get(self, reference: DtdReference, pointer: str, now: float) -> BrokerError | None:
        """A fresh copy of the error that a look-up with this pointer met, if it still holds."""
        refusal = self._refusals.get((reference, pointer))
        if refusal is None:
            return None
        if refusal.until <= now:
            del self._refusals[reference, pointer]
            return None
        return type(refusal.error)(
            refusal.error.text, line=refusal.error.line, column=refusal.error.column
        )

    def add(self, reference: DtdReference, pointer: str, error: BrokerError, now: float) -> None:
        """Remember a failure from now on."""
        self._refusals.pop((reference, pointer), None)
        self._refusals[reference, pointer] = _Refusal(error, now + self._seconds)
        if len(self._refusals) > self._max_refusals:
            self._refusals.popitem(last=False)

    def forget(self, reference: DtdReference) -> None:
        """Drop the refusals of a reference, with whatever pointer."""
        for key in [key for key in self._refusals if key[0] == reference]:
            del self._refusals[key]
