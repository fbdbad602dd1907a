"""Check of consecutive blocks of an order: no event of a range is left out."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from broker.order_certificates.leaf import Leaf
from broker.order_certificates.proof import Outcome, SiteOutcome, verify_block
from broker.order_certificates.signing_key import PinnedKeys


@attrs.frozen
class CheckedBlock:
    block: int
    leaves: list[Leaf]
    outcomes: list[SiteOutcome]


class RangeCheck:
    """Takes blocks from the lowest to the highest.

    Each certificate names the block before. So a site proves a block only if it has signed that no
    other block is between.
    """

    def __init__(self, group: str, keys: PinnedKeys, first: int) -> None:
        """`first` is the lowest block of the range, which may have no events."""
        self._group = group
        self._keys = keys
        self._first = first
        self._last: int | None = None

    def add_block(
        self, block: int, leaves: Sequence[bytes], certificates: Sequence[bytes]
    ) -> CheckedBlock:
        """Raises `ProtocolError` for a malformed block."""
        found, outcomes = verify_block(block, leaves, certificates, self._group, self._keys)
        last, self._last = self._last, block
        return CheckedBlock(block, found, [self._check_previous(each, last) for each in outcomes])

    def _check_previous(self, outcome: SiteOutcome, last: int | None) -> SiteOutcome:
        if outcome.outcome is not Outcome.PROVED:
            return outcome
        previous = outcome.certificate.previous
        if last is None:
            if previous is None:
                return attrs.evolve(outcome, reason="it has not signed that no block is before")
            is_next = previous < self._first
        else:
            is_next = previous == last
        if is_next:
            return outcome
        reason = f"it signed that block {previous} is before"
        return attrs.evolve(outcome, outcome=Outcome.DIFFERENT, reason=reason)
