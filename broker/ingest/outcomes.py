"""What can become of an event: one closed set, so that the numbers add up (T40, A22)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs


@attrs.define
class PublishOutcomes:
    """Of all events that publishers sent: `received` is the sum of the others."""

    received: int = 0
    accepted: int = 0
    duplicate: int = 0
    not_taken: int = 0
    """Sent back because the log could not be written; the publisher sends them again."""
    refused: Counter[str] = attrs.field(factory=Counter)
    """By error code."""


@attrs.define
class DeliveryOutcomes:
    """Of all events that a subscription's query was asked about.

    `seen` is the sum of the others and of what waits in the queue.
    """

    seen: int = 0
    delivered: int = 0
    filtered: int = 0
    """The pattern or the query did not match."""
    denied: int = 0
    """It matched, but the client is not cleared for the event's security level (X12)."""
    dropped: int = 0
    """It matched, but the subscriber was slow, transient, and its queue full, or it had gone."""
    gone: int = 0
    """Places that retention took before they could be looked at: not among `seen`."""
    elsewhere: int = 0
    """Places of other nodes' events that did not come into this node's log, not among `seen`: they
    were filtered, denied on a link, or turned away before, or the event has another place."""

    def add(self, other: DeliveryOutcomes) -> None:
        """Sum up, where a subscription has ended and only the total is kept."""
        for field in attrs.fields(DeliveryOutcomes):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


def count_denied_as_filtered(row: dict[str, Any]) -> None:
    """Count the denied events of a subscription as filtered, for its own account.

    A query may ask for a value. So how many events matched that the account may not read would
    tell it that value.
    """
    if "denied" in row:
        row["filtered"] = row.get("filtered", 0) + row["denied"]
        row["denied"] = 0
