"""Outcomes of events: a closed set, so that the counts add up (T40, A22)."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import attrs


@attrs.define
class PublishOutcomes:
    """`received` is the sum of the others."""

    received: int = 0
    accepted: int = 0
    duplicate: int = 0
    not_taken: int = 0
    """The log could not be written; the publisher sends them again."""
    refused: Counter[str] = attrs.field(factory=Counter)
    """By error code."""


@attrs.define
class DeliveryOutcomes:
    """`seen` is the sum of the others and of the queued events."""

    seen: int = 0
    delivered: int = 0
    filtered: int = 0
    denied: int = 0
    """Its security level is above the client's clearance, whatever the query (X12)."""
    dropped: int = 0
    """It matched, but the transient subscriber's queue was full, or the subscription ended."""
    gone: int = 0
    """Places that retention removed before they were read; not in `seen`."""
    elsewhere: int = 0
    """Places of other origins that this node's log does not have; not in `seen`. Their events were
    filtered, denied between nodes or rejected before, or have another place."""

    def add(self, other: DeliveryOutcomes) -> None:
        for field in attrs.fields(DeliveryOutcomes):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))


#: Figures that count other events than those that the subscription's client may read.
_OPERATORS_FIGURES: Final = ("seen", "filtered", "denied", "gone", "elsewhere")


def drop_operators_figures(row: dict[str, Any]) -> None:
    """Remove the figures of a subscription that only those who administer the node may see.

    The log of a node in a network has the events that any query needs, so their number depends on
    the content of events that the client may not read.
    """
    for figure in _OPERATORS_FIGURES:
        row.pop(figure, None)
