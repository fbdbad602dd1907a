"""Verdicts on received events that a transport has matched for its links already (DCP D20)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from broker.event.place import Mark
from broker.matching.contract import Accepted, Verdict
from broker.streams.contract import CarriedEvent


@attrs.frozen
class KnownVerdicts:
    """They hold for the subscriptions that the matcher had then, and for these documents."""

    last_number: int
    """`IMatcher.last_number` of that pass."""
    flow: str
    verdicts: Mapping[Mark, tuple[CarriedEvent, Accepted]]

    @classmethod
    def of_pass(
        cls,
        last_number: int,
        flow: str,
        events: Sequence[CarriedEvent],
        verdicts: Sequence[Verdict],
    ) -> KnownVerdicts:
        """Keep the verdicts on valid events. Others wait for a type, or are refused when they are
        matched again."""
        pairs = zip(events, verdicts, strict=True)
        known = {e.mark: (e, verdict) for e, verdict in pairs if isinstance(verdict, Accepted)}
        return cls(last_number, flow, known)

    def find(self, last_number: int, events: Sequence[CarriedEvent]) -> list[Verdict] | None:
        """Return the verdicts on events; None if one is unknown, or there is a newer subscription.

        A removed subscription may still be in them, as in those of events that are committed.
        """
        if last_number != self.last_number:
            return None
        found: list[Verdict] = []
        for event in events:
            known = self.verdicts.get(event.mark)
            if known is None or known[0].document != event.document:
                return None
            found.append(known[1])
        return found
