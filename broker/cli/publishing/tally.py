"""What became of everything that was to be published."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final

import attrs

from broker.cli.publishing.publication import Origin, Publication, Refusal
from broker.client.received import Receipt
from broker.errors import (
    BadName,
    BrokerError,
    ClearanceTooLow,
    InvalidEvent,
    NotAllowed,
    TooLarge,
)

#: So many refusals are told one by one; the rest are counted only.
MOST_TOLD: Final = 100
#: The node, or the client library, says that this event will never be taken.
REFUSALS: Final = (BadName, ClearanceTooLow, InvalidEvent, NotAllowed, TooLarge)
#: The envelope has so many lines before the one on which the payload begins.
_ENVELOPE_LINES: Final = 2


@attrs.define
class Tally:
    """Counts. `found` is the sum of `refused_here` and `sent`; `sent` that of the others."""

    tell: Callable[[str], None]
    """Told each refusal as a line of text, a bounded number of them."""
    found: int = 0
    refused_here: int = 0
    sent: int = 0
    durable: int = 0
    duplicates: int = 0
    refused_by_node: int = 0
    unconfirmed: int = 0
    """Sent, but the end came before the receipt: they may be durable or not."""
    _told: int = 0

    @property
    def refused(self) -> int:
        """By us or by the node."""
        return self.refused_here + self.refused_by_node

    @property
    def outstanding(self) -> int:
        """Sent and not answered yet."""
        settled = self.durable + self.duplicates + self.refused_by_node + self.unconfirmed
        return self.sent - settled

    def refuse(self, refusal: Refusal) -> None:
        """A document can not be published."""
        self.found += 1
        self.refused_here += 1
        self._tell(str(refusal))

    def send(self) -> None:
        """An event is on its way."""
        self.found += 1
        self.sent += 1

    def settle(self, publication: Publication, result: Receipt | BaseException) -> None:
        """The node has answered, or the session is over."""
        if isinstance(result, Receipt):
            self.duplicates += result.duplicate
            self.durable += not result.duplicate
        elif isinstance(result, REFUSALS):
            self.refused_by_node += 1
            self._tell(f"{_place(publication, result)}: refused by the node: {result.text}")
        else:
            self.unconfirmed += 1

    def summary(self, seconds: float) -> str:
        """One line of JSON."""
        counts = {
            "found": self.found,
            "sent": self.sent,
            "durable": self.durable,
            "duplicates": self.duplicates,
            "refused": self.refused,
            "unconfirmed": self.unconfirmed + self.outstanding,
            "seconds": round(seconds, 3),
            "events_per_second": round(self.durable / seconds, 1) if seconds > 0 else 0.0,
        }
        return json.dumps(counts)

    def _tell(self, text: str) -> None:
        self._told += 1
        if self._told <= MOST_TOLD:
            self.tell(text)
        if self._told == MOST_TOLD:
            self.tell("further refusals are counted, not told")


def _place(publication: Publication, error: BrokerError) -> Origin:
    """The line of the source where the node found the error, as far as that can be said."""
    line = error.line - 1 - _ENVELOPE_LINES
    return publication.origin.further(line if publication.as_found and line > 0 else 0)
