"""Failed look-ups of DTDs, so that they are not repeated for each event (T25)."""

from __future__ import annotations

from collections import OrderedDict

import attrs

from broker.dtd.reference import DtdReference
from broker.errors import BrokerError


@attrs.frozen
class _Failure:
    error: BrokerError
    until: float


class NegativeCache:
    """Failed look-ups, bounded in number and time; the oldest goes first (T25)."""

    def __init__(self, max_refusals: int, seconds: float) -> None:
        self._max_failures = max_refusals
        self._seconds = seconds
        self._failures: OrderedDict[tuple[DtdReference, str], _Failure] = OrderedDict()

    def __len__(self) -> int:
        return len(self._failures)

    def get(self, reference: DtdReference, pointer: str, now: float) -> BrokerError | None:
        """Return a new copy, until the failure expires."""
        refusal = self._failures.get((reference, pointer))
        if refusal is None:
            return None
        if refusal.until <= now:
            del self._failures[reference, pointer]
            return None
        return type(refusal.error)(
            refusal.error.text, line=refusal.error.line, column=refusal.error.column
        )

    def add(self, reference: DtdReference, pointer: str, error: BrokerError, now: float) -> None:
        self._failures.pop((reference, pointer), None)
        self._failures[reference, pointer] = _Failure(error, now + self._seconds)
        if len(self._failures) > self._max_failures:
            self._failures.popitem(last=False)

    def remove(self, reference: DtdReference) -> None:
        for key in [key for key in self._failures if key[0] == reference]:
            del self._failures[key]
