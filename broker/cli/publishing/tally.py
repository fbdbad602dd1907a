"""Counts of the documents of one `pub` run."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import attrs

from broker.cli.publishing.publication import Publication, Refusal, SourceLocation
from broker.client.received import Receipt
from broker.errors import (
    BadName,
    BrokerError,
    ClearanceTooLow,
    InvalidEvent,
    NotAllowed,
    NotInGroup,
    TooLarge,
)

#: Further refusals are only counted.
MAX_REPORTED: Final = 100
#: Errors by which an event is refused for good.
REFUSALS: Final = (BadName, ClearanceTooLow, InvalidEvent, NotAllowed, NotInGroup, TooLarge)
_ENVELOPE_LINES: Final = 2


@attrs.define
class Tally:
    """`found` is the sum of `refused_locally`, `known` and `sent`; `sent` is that of the others."""

    report: Callable[[str], None]
    """Called with each refusal as a line of text, up to a bound."""
    found: int = 0
    refused_locally: int = 0
    known: int = 0
    """Published before, so not sent."""
    sent: int = 0
    durable: int = 0
    duplicates: int = 0
    refused_by_node: int = 0
    unconfirmed: int = 0
    """Sent without a receipt before the end: they may be durable or not."""
    _reported: int = 0

    @property
    def refused(self) -> int:
        return self.refused_locally + self.refused_by_node

    @property
    def outstanding(self) -> int:
        settled = self.durable + self.duplicates + self.refused_by_node + self.unconfirmed
        return self.sent - settled

    def count_refused(self, refusal: Refusal) -> None:
        self.found += 1
        self.refused_locally += 1
        self._report_refusal(str(refusal))

    def count_known(self) -> None:
        self.found += 1
        self.known += 1

    def begin_portion(self) -> None:
        """Report refusals again: the next ones are of another file or fetch."""
        self._reported = 0

    def count_sent(self) -> None:
        self.found += 1
        self.sent += 1

    def count_result(self, publication: Publication, result: Receipt | BaseException) -> None:
        if isinstance(result, Receipt):
            self.duplicates += result.duplicate
            self.durable += not result.duplicate
        elif isinstance(result, REFUSALS):
            self.refused_by_node += 1
            self._report_refusal(
                f"{_source_location(publication, result)}: refused by the node: {result.text}"
            )
        else:
            self.unconfirmed += 1

    def summary(self, seconds: float) -> str:
        """Return one line of JSON."""
        counts = {
            "found": self.found,
            "known": self.known,
            "sent": self.sent,
            "durable": self.durable,
            "duplicates": self.duplicates,
            "refused": self.refused,
            "unconfirmed": self.unconfirmed + self.outstanding,
            "seconds": round(seconds, 3),
            "events_per_second": round(self.durable / seconds, 1) if seconds > 0 else 0.0,
        }
        return json.dumps(counts)

    def _report_refusal(self, text: str) -> None:
        self._reported += 1
        if self._reported <= MAX_REPORTED:
            self.report(text)
        if self._reported == MAX_REPORTED:
            self.report("further refusals are only counted")


def _source_location(publication: Publication, error: BrokerError) -> SourceLocation:
    """Return the source line, as far as it is known."""
    line = error.line - 1 - _ENVELOPE_LINES
    return publication.location.plus_lines(line if publication.is_unchanged and line > 0 else 0)
